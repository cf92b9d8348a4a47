//! From ranges to grids of integers.

use schema::graph::GridElement;

/// The numbers between which the values of a tensor lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

/// `scale · (integer − zero_point)` for the integers of `element`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    pub(super) scale: f32,
    pub(super) zero_point: i64,
    pub(super) element: GridElement,
}

/// The largest integer of a symmetric grid of 8 bits; −128 is not used.
pub(super) const LARGEST: f64 = 127.0;

/// Biases stay below this share of what 32 bits hold: sums of products are added to them.
const LARGEST_BIAS: f64 = (1_u64 << 30) as f64;

impl Grid {
    /// The grid of 0 to 255 that holds a range and 0. Zero is a number of every grid: padding is
    /// made of it.
    pub(super) fn asymmetric(range: Range) -> Result<Self, String> {
        let Range { low, high } = checked(range)?;
        let scale = scale_of((high - low) / 255.0)?;
        let zero_point = (-low / f64::from(scale)).round_ties_even();
        Ok(Self {
            scale,
            zero_point: zero_point.clamp(0.0, 255.0) as i64,
            element: GridElement::Uint8,
        })
    }

    /// The grid of −127 to 127 around 0 that holds a range.
    pub(super) fn symmetric(range: Range) -> Result<Self, String> {
        let Range { low, high } = checked(range)?;
        Ok(Self {
            scale: scale_of(high.max(-low) / LARGEST)?,
            zero_point: 0,
            element: GridElement::Int8,
        })
    }
}

/// The range with 0 in it.
fn checked(Range { low, high }: Range) -> Result<Range, String> {
    if !(low.is_finite() && high.is_finite()) || low > high {
        return Err(format!("from {low} to {high} is no range to quantise"));
    }
    Ok(Range {
        low: low.min(0.0),
        high: high.max(0.0),
    })
}

/// A step as a scale: normal and positive. Where all numbers are zero any will do.
fn scale_of(step: f64) -> Result<f32, String> {
    if step == 0.0 {
        return Ok(1.0);
    }
    let scale = (step as f32).max(f32::MIN_POSITIVE);
    if scale.is_finite() {
        Ok(scale)
    } else {
        Err(format!("steps of {step:e} are too large for binary32"))
    }
}

/// The bias that sums of products start from: its numbers, and the scale of their other operand.
pub(super) struct Bias<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) operand_scale: f32,
}

/// Scales of a weight, one for each place of `axis`; all integers lie in −`most` to `most`. A scale is
/// raised where the bias on that place's grid would not fit 32 bits: the weights of such a channel
/// are nothing beside its bias.
pub(super) fn weight_scales(
    weights: &[f32],
    shape: &[u64],
    axis: usize,
    most: f64,
    bias: Option<&Bias<'_>>,
) -> Result<Vec<f32>, String> {
    let size = |sizes: &[u64]| sizes.iter().product::<u64>() as usize;
    let places = shape.get(axis).copied().unwrap_or(1) as usize;
    let inner = size(shape.get(axis + 1..).unwrap_or_default()).max(1);
    let mut largest = vec![0.0_f32; places];
    for (run, numbers) in weights.chunks(inner).enumerate() {
        for number in numbers {
            if !number.is_finite() {
                return Err(format!("a weight is {number}, which no grid holds"));
            }
            if let Some(largest) = largest.get_mut(run % places.max(1)) {
                *largest = largest.max(number.abs());
            }
        }
    }
    let scale = |(place, largest): (usize, f32)| {
        let scale = scale_of(f64::from(largest) / most)?;
        let Some(bias) = bias else { return Ok(scale) };
        let number = bias.numbers.get(place).copied().unwrap_or(0.0);
        if !number.is_finite() {
            return Err(format!("a bias is {number}, which no grid holds"));
        }
        let least = f64::from(number.abs()) / (LARGEST_BIAS * f64::from(bias.operand_scale));
        Ok(scale.max(least as f32).min(f32::MAX))
    };
    largest.into_iter().enumerate().map(scale).collect()
}

/// The integers of a grid for numbers, one scale for each place of `axis` or one for all, as
/// [`schema::graph::Op::QuantizeDequantize`] rounds.
pub(crate) fn integers(
    numbers: &[f32],
    scales: &[f32],
    shape: &[u64],
    axis: Option<u64>,
    zero_point: i64,
    element: GridElement,
) -> Vec<i64> {
    let (least, most) = element.bounds();
    let inner = axis.map_or(numbers.len(), |axis| {
        let after = shape.iter().skip(axis as usize + 1);
        after.product::<u64>() as usize
    });
    let mut integers = Vec::with_capacity(numbers.len());
    for (run, numbers) in numbers.chunks(inner.max(1)).enumerate() {
        let scale = scales.get(run % scales.len().max(1)).copied();
        let scale = f64::from(scale.unwrap_or(1.0));
        integers.extend(numbers.iter().map(|&number| {
            let steps = (f64::from(number) / scale).round_ties_even() as i64;
            steps.saturating_add(zero_point).clamp(least, most)
        }));
    }
    integers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn on(grid: Grid, number: f64) -> f64 {
        let integer = integers(
            &[number as f32],
            &[grid.scale],
            &[1],
            None,
            grid.zero_point,
            grid.element,
        );
        f64::from(grid.scale) * (integer[0] - grid.zero_point) as f64
    }

    proptest! {
        #[test]
        fn grids_hold_their_range_and_zero(a in -1e6_f32..1e6, b in -1e6_f32..1e6, share in 0.0..1.0) {
            let (low, high) = (f64::from(a.min(b)), f64::from(a.max(b)));
            let range = Range { low, high };
            for grid in [Grid::asymmetric(range).unwrap(), Grid::symmetric(range).unwrap()] {
                prop_assert!(grid.scale > 0.0);
                prop_assert_eq!(on(grid, 0.0), 0.0);
                let (least, most) = grid.element.bounds();
                prop_assert!((least..=most).contains(&grid.zero_point));
                // Rounding the zero point may push one end out by half a step.
                let number = low + (high - low) * share;
                let off = (on(grid, number) - number).abs();
                prop_assert!(off <= f64::from(grid.scale) * 1.001, "{} {} {:?}", number, off, grid);
            }
        }

        #[test]
        fn weights_are_off_by_half_a_step(numbers in prop::collection::vec(-3.0_f32..3.0, 12), axis in 0_usize..2, most in prop::sample::select(vec![63_u8, 127])) {
            let shape = [3, 4];
            let most = f64::from(most);
            let scales = weight_scales(&numbers, &shape, axis, most, None).unwrap();
            prop_assert_eq!(scales.len() as u64, shape[axis]);
            let axis = axis as u64;
            let integers = integers(&numbers, &scales, &shape, Some(axis), 0, GridElement::Int8);
            for (place, (number, integer)) in numbers.iter().zip(&integers).enumerate() {
                let scale = scales[if axis == 0 { place / 4 } else { place % 4 }];
                prop_assert!((integer.abs() as f64) <= most);
                prop_assert!((number - scale * *integer as f32).abs() <= scale * 0.5001);
            }
        }
    }

    #[test]
    fn what_never_differs_from_zero_has_a_grid() {
        let zero = Range {
            low: 0.0,
            high: 0.0,
        };
        for grid in [Grid::asymmetric(zero), Grid::symmetric(zero)] {
            let grid = grid.unwrap();
            assert_eq!((grid.scale, grid.zero_point), (1.0, 0));
        }
        let constant = |value| Range {
            low: value,
            high: value,
        };
        let grid = Grid::asymmetric(constant(3.0)).unwrap();
        assert_eq!(grid.zero_point, 0);
        assert!((on(grid, 3.0) - 3.0).abs() < 1e-6);
        let grid = Grid::asymmetric(constant(-3.0)).unwrap();
        assert_eq!(grid.zero_point, 255);
        assert!((on(grid, -3.0) + 3.0).abs() < 1e-6);
        assert_eq!(
            weight_scales(&[0.0; 4], &[2, 2], 0, LARGEST, None).unwrap(),
            [1.0; 2]
        );
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (low, high) in [
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
            (2.0, 1.0),
            (-1e300, 1e300),
        ] {
            let range = Range { low, high };
            assert!(Grid::asymmetric(range).is_err(), "{range:?}");
            assert!(Grid::symmetric(range).is_err(), "{range:?}");
        }
        assert!(weight_scales(&[f32::NAN], &[1, 1], 0, LARGEST, None).is_err());
        // Beside such small numbers nothing is lost.
        let tiny = Grid::asymmetric(Range {
            low: 0.0,
            high: 1e-44,
        });
        assert_eq!(tiny.unwrap().scale, f32::MIN_POSITIVE);
    }

    #[test]
    fn a_bias_always_fits_its_integers() {
        let bias = Bias {
            numbers: &[5.0, 5.0],
            operand_scale: 1e-3,
        };
        let scales = weight_scales(&[1e-12, 1.0], &[2, 1], 0, LARGEST, Some(&bias)).unwrap();
        let sums: Vec<f64> = scales
            .iter()
            .map(|&scale| 5.0 / (f64::from(scale) * 1e-3))
            .collect();
        assert!(
            sums.iter().all(|&sum| sum < f64::from(i32::MAX)),
            "{sums:?}"
        );
        assert!((scales[1] - 1.0 / 127.0).abs() < 1e-9);
    }
}
