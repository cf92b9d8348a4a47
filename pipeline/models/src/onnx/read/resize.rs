//! Images in another size.

use schema::graph::{Interpolation, Op};

use super::{
    attributes::Attributes,
    import::{Here, Import, Value, Work, first},
    shapes,
    tensor::{Constant, Data},
};

/// How far the scale that a file names may be from that of whole sizes, as a share of it.
const NEAR: f64 = 1e-6;

/// Most pixels along an axis.
const MOST_PIXELS: u64 = 1 << 20;

/// Another height and width; of one axis, which becomes the second of two, another length.
pub(super) fn resize(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let x = first(inputs)?;
    let from = import.shape_of(x)?;
    let to = wanted(import, here, inputs, &from)?;
    if let Value::Known(fixed) = x
        && here.attributes.text("mode", "nearest") == "cubic"
    {
        let made = cubic(import, here.attributes, fixed, &to)?;
        return import.give(here, 0, Value::Known(made));
    }
    let (image, from, to) = match (from.as_slice(), to.as_slice()) {
        (&[n, c, height, width], &[m, d, new_height, new_width]) if (n, c) == (m, d) => {
            (x.clone(), [height, width], [new_height, new_width])
        }
        (&[n, c, length], &[m, d, new_length]) if (n, c) == (m, d) => {
            let shape = vec![n, c, 1, length];
            let work = Work::Op(Op::Reshape { shape });
            let image = import.between(here, "as_image", work, &[Some(x.clone())])?;
            (image, [1, length], [1, new_length])
        }
        _ => {
            return Err(format!(
                "makes {to:?} of {from:?}: one or two axes behind the channels are read"
            ));
        }
    };
    // Of nearest pixels each is looked at.
    import
        .budget
        .take(to[0].saturating_add(to[1]).min(2 * MOST_PIXELS))?;
    let interpolation = interpolation(here.attributes, from, to)?;
    let op = Op::Resize {
        sizes: to,
        interpolation,
    };
    if import.shape_of(x)?.len() == 4 {
        return import.op(here, op, &[Some(image)]);
    }
    let made = import.between(here, "image", Work::Op(op), &[Some(image)])?;
    let [n, c, _, length] = <[u64; 4]>::try_from(import.shape_of(&made)?)
        .map_err(|shape| format!("makes {shape:?}"))?;
    let shape = vec![n, c, length];
    import.op(here, Op::Reshape { shape }, &[Some(made)])
}

/// A fixed image in another size by cubic convolution (Keys 1981), axis by axis: transformers of images
/// stretch their table of places to the image. What is computed has no such operator in a graph.
fn cubic(
    import: &mut Import<'_>,
    attributes: Attributes<'_>,
    image: &Constant,
    to: &[u64],
) -> Result<Constant, String> {
    if attributes.int("antialias", 0) != 0 || attributes.int("exclude_outside", 0) != 0 {
        return Err(
            "interpolates by `cubic` otherwise than over the border's own pixels".to_owned(),
        );
    }
    let way = attributes.text("coordinate_transformation_mode", "half_pixel");
    let a = f64::from(attributes.float("cubic_coeff_a", -0.75));
    let mut shape = image.shape.clone();
    if image.elements() == 0 {
        return Err("interpolates nothing".to_owned());
    }
    let Data::Floats(mut numbers) = import.budget.data(image)? else {
        return Err("interpolates integers".to_owned());
    };
    for (axis, &wanted) in to.iter().enumerate() {
        let size = shape.get(axis).copied().unwrap_or(1);
        if size == wanted {
            continue;
        }
        let step = (shapes::strides(&shape).get(axis).copied().unwrap_or(1)) as usize;
        if let Some(slot) = shape.get_mut(axis) {
            *slot = wanted;
        }
        let count = import.budget.count(&shape)?;
        import.budget.take(count)?;
        let taps = (0..wanted).map(|place| taps(place, size, wanted, way, a));
        let taps: Vec<[(u64, f64); 4]> = taps.collect::<Result<_, _>>()?;
        let (size, wanted) = (size as usize, wanted as usize);
        let made = (0..count as usize).map(|at| {
            let (within, rest) = (at % step, at / step);
            let start = rest / wanted * size * step + within;
            let mixed = taps
                .get(rest % wanted)
                .into_iter()
                .flatten()
                .map(|&(from, share)| {
                    let number = numbers.get(start + from as usize * step);
                    share * number.copied().map_or(f64::NAN, f64::from)
                });
            mixed.sum::<f64>() as f32
        });
        numbers = made.collect();
    }
    Ok(image.like(shape, Data::Floats(numbers)))
}

/// The four pixels of `from` that pixel `place` of `to` is made of, and their shares; beyond the border is
/// the border's own.
fn taps(place: u64, from: u64, to: u64, way: &str, a: f64) -> Result<[(u64, f64); 4], String> {
    let (place, size, wanted) = (place as f64, from as f64, to as f64);
    let at = match way {
        "half_pixel" => (place + 0.5) * size / wanted - 0.5,
        "pytorch_half_pixel" if to == 1 => 0.0,
        "pytorch_half_pixel" => (place + 0.5) * size / wanted - 0.5,
        "align_corners" if to == 1 => 0.0,
        "align_corners" => place * (size - 1.0) / (wanted - 1.0),
        "asymmetric" => place * size / wanted,
        _ => return Err(format!("interpolates by `cubic` and `{way}`")),
    };
    let below = at.floor();
    let near = |t: f64| ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a;
    let t = at - below;
    let shares = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
    let mut offset = -1.0;
    Ok(shares.map(|share| {
        let pixel = (below + offset).clamp(0.0, size - 1.0) as u64;
        offset += 1.0;
        (pixel, share)
    }))
}

/// The shape that is asked for, by sizes or by scales.
fn wanted(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
    from: &[u64],
) -> Result<Vec<u64>, String> {
    let fixed = |at: usize| match inputs.get(at) {
        Some(Some(Value::Known(constant))) if constant.elements() > 0 => Ok(Some(constant)),
        Some(Some(Value::Made(_))) => Err(format!("its input {at} is computed")),
        _ => Ok(None),
    };
    let rank = from.len();
    let axes: Vec<usize> = match here.attributes.ints("axes") {
        Some(axes) => axes
            .iter()
            .map(|&axis| shapes::axis(axis, rank))
            .collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let (scales, sizes) = (fixed(2)?, fixed(3)?);
    let mut to = from.to_vec();
    let mut set = |numbers: Vec<u64>| {
        if numbers.len() != axes.len() {
            return Err(format!(
                "has {} sizes for {} axes",
                numbers.len(),
                axes.len()
            ));
        }
        for (axis, number) in axes.iter().zip(numbers) {
            if let Some(size) = to.get_mut(*axis) {
                *size = number;
            }
        }
        Ok(())
    };
    match (scales, sizes) {
        (_, Some(sizes)) => {
            if here.attributes.text("keep_aspect_ratio_policy", "stretch") != "stretch" {
                return Err("keeps the aspect of an image".to_owned());
            }
            set(shapes::sizes_of(&import.budget.list(sizes)?)?)?;
        }
        (Some(scales), None) => {
            let Data::Floats(scales) = import.budget.data(scales)? else {
                return Err("scales by integers".to_owned());
            };
            let sizes = axes.iter().zip(scales).map(|(axis, scale)| {
                let size = from.get(*axis).copied().unwrap_or(1);
                scaled(size, scale)
            });
            set(sizes.collect::<Result<_, _>>()?)?;
        }
        (None, None) => return Err("has neither scales nor sizes".to_owned()),
    }
    Ok(to)
}

/// The size of an axis by a scale. ONNX's coordinates are those of the scale as it is given, ours of
/// both sizes, which is the same where the product is whole. ONNX cuts off what is beyond the whole,
/// of a product that ONNX Runtime takes in binary32.
fn scaled(size: u64, scale: f32) -> Result<u64, String> {
    let exact = size as f64 * f64::from(scale);
    let whole = exact.round();
    let cut = f64::from((size as f32 * scale).floor());
    if whole >= 1.0 && cut == whole && (exact - whole).abs() <= NEAR * whole {
        Ok(whole as u64)
    } else {
        Err(format!(
            "scales {size} elements by {scale}, which makes no whole number"
        ))
    }
}

/// How pixels are made.
fn interpolation(
    attributes: Attributes<'_>,
    from: [u64; 2],
    to: [u64; 2],
) -> Result<Interpolation, String> {
    if attributes.int("antialias", 0) != 0 {
        return Err("smooths what it makes smaller".to_owned());
    }
    let mode = attributes.text("mode", "nearest");
    let transformation = attributes.text("coordinate_transformation_mode", "half_pixel");
    let nearest = attributes.text("nearest_mode", "round_prefer_floor");
    let is_multiple = from
        .iter()
        .zip(&to)
        .all(|(from, to)| to.is_multiple_of(*from));
    let made_single = from.iter().zip(&to).any(|(&from, &to)| to == 1 && from > 1);
    if mode == "nearest" && !from.iter().zip(&to).all(|(&from, &to)| is_sharp(from, to)) {
        return Err(format!(
            "makes {to:?} pixels of {from:?}, and which is nearest is decided by rounding"
        ));
    }
    match (mode, transformation, nearest) {
        ("nearest", "asymmetric", "floor") => Ok(Interpolation::Nearest),
        // Of a whole multiple, the nearest middle is that of the pixel it was cut from.
        (
            "nearest",
            "half_pixel" | "half_pixel_symmetric" | "pytorch_half_pixel",
            "round_prefer_floor" | "round_prefer_ceil",
        ) if is_multiple => Ok(Interpolation::Nearest),
        ("linear", "half_pixel" | "half_pixel_symmetric", _) => Ok(Interpolation::Linear),
        // Differs where one pixel is made, which is the first and not the middle.
        ("linear", "pytorch_half_pixel", _) if !made_single => Ok(Interpolation::Linear),
        ("linear", "align_corners", _) => Ok(Interpolation::LinearCorners),
        ("nearest", ..) => Err(format!(
            "takes the nearest pixel by `{transformation}` and `{nearest}`"
        )),
        _ => Err(format!("interpolates by `{mode}` and `{transformation}`")),
    }
}

/// Whether every pixel is made of the same one by exact arithmetic and by either way that engines
/// compute it in binary32: the place times `from / to`, and the place over `to / from`.
fn is_sharp(from: u64, to: u64) -> bool {
    if from == to || to > MOST_PIXELS {
        return from == to;
    }
    let (down, up) = (from as f32 / to as f32, to as f32 / from as f32);
    (0..to).all(|place| {
        let exact = (place * from / to) as f32;
        [place as f32 * down, place as f32 / up].map(f32::floor) == [exact, exact]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_that_rounding_decides_are_told() {
        for factor in 1..=8 {
            assert!(is_sharp(56, 56 * factor), "{factor}");
        }
        // 41 · (1 / 41) is below 1 in binary32.
        assert!(!is_sharp(2, 82));
        assert!(!is_sharp(1, u64::MAX));
        assert!(is_sharp(u64::MAX, u64::MAX));
    }

    #[test]
    fn scales_make_whole_sizes() {
        assert_eq!(scaled(7, 2.0), Ok(14));
        assert_eq!(scaled(3, 7.0_f32 / 3.0), Ok(7));
        assert_eq!(scaled(8, 0.5), Ok(4));
        for scale in [0.3, 0.0, -1.0, f32::NAN, f32::INFINITY, 0.333_333_3] {
            assert!(scaled(9, scale).is_err(), "{scale}");
        }
    }
}
