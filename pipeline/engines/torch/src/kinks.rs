//! Derivatives on the other side of a kink.
//!
//! Where a ReLU bends, its derivative jumps: two right computations whose activation lies at the bend,
//! one by rounding to the left of it and one to the right, have the same outputs and other gradients.
//! How far that goes is found by letting all that comes near to a kink take the other side.

use schema::Precision;
use tch::{Kind, Tensor};

use crate::{
    failure::Fault,
    kernel::{Kernel, Operands, Pass},
};

/// What is so near to a kink is within reach, in root mean squares of what rounding moves the tensor
/// by: as much as parity allows a cell to be further off than PyTorch eager.
const REACH: f64 = 10.0;

/// Where an operator's derivative jumps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kinks {
    /// At these numbers of its operand.
    At(Vec<f64>),
    /// Where another number of a window becomes the largest.
    Largest,
}

impl Kinks {
    /// Those of an operator of one operand; `None` where its derivative is continuous. Networks that are
    /// trained here have no kink in an operator of two.
    pub(crate) fn of(kernel: &Kernel) -> Option<Self> {
        match kernel {
            Kernel::Relu | Kernel::Abs => Some(Self::At(vec![0.0])),
            Kernel::LeakyRelu { slope: bent } | Kernel::Elu { alpha: bent } if *bent != 1.0 => {
                Some(Self::At(vec![0.0]))
            }
            Kernel::Clip { min, max } => Some(Self::At(vec![*min, *max])),
            Kernel::HardSigmoid | Kernel::HardSwish => Some(Self::At(vec![-3.0, 3.0])),
            Kernel::MaxPool { .. } => Some(Self::Largest),
            _ => None,
        }
    }

    /// What the operator makes of `x`, which rounding in `precision` makes `rounded`. What is within
    /// reach of a kink has the derivative of its other side.
    pub(crate) fn across(
        &self,
        kernel: &Kernel,
        x: &Tensor,
        rounded: &Tensor,
        precision: Precision,
    ) -> Result<Tensor, Fault> {
        let given = x.f_detach()?;
        let moved = rms(&rounded.f_to_kind(given.f_kind()?)?.f_sub(&given)?)?;
        let reach = REACH * moved.max(precision.unit_roundoff() * rms(&given)?);
        let plain = apply(kernel, x)?;
        let across = apply(kernel, &x.f_add(&self.way(kernel, &given, reach)?)?)?;
        let back = plain.f_sub(&across)?.f_detach()?;
        Ok(across.f_add(&back)?)
    }

    /// By how much `x` is to be moved to get to the other side; nothing where no kink is in reach.
    fn way(&self, kernel: &Kernel, x: &Tensor, reach: f64) -> Result<Tensor, Fault> {
        match self {
            Self::At(kinks) => {
                let mut way = x.f_zeros_like()?;
                for &kink in kinks {
                    // To its mirror image.
                    let there = x.f_neg()?.f_add_scalar(kink)?.f_mul_scalar(2.0)?;
                    let is_near = there.f_abs()?.f_le(2.0 * reach)?;
                    way = there.f_where_self(&is_near, &way)?;
                }
                Ok(way)
            }
            // The largest go down by the reach. Where two windows that overlap have each one of the
            // same two, both stay what they are.
            Self::Largest => {
                let chosen = chosen(kernel, x)?.f_to_kind(x.f_kind()?)?;
                Ok(chosen.f_mul_scalar(-reach)?)
            }
        }
    }
}

/// The values of a step as they are in `precision`. Integers stay.
pub(crate) fn rounded(
    values: &[Option<Tensor>],
    precision: Precision,
) -> Result<Vec<Option<Tensor>>, Fault> {
    let kind = match precision {
        Precision::Bf16 => Kind::BFloat16,
        Precision::Fp16 => Kind::Half,
        Precision::Fp64 => Kind::Double,
        Precision::Fp32 | Precision::Tf32 | Precision::Int8Dynamic | Precision::Int8Static => {
            Kind::Float
        }
    };
    let values = values.iter().map(|value| {
        let Some(value) = value else { return Ok(None) };
        let value = value.f_detach()?;
        Ok(Some(match value.f_kind()? {
            Kind::Double => value.f_to_dtype(kind, false, true)?,
            _ => value,
        }))
    });
    values.collect()
}

/// The root mean square.
fn rms(x: &Tensor) -> Result<f64, Fault> {
    let square = x.f_square()?.f_mean(x.f_kind()?)?;
    Ok(square.f_double_value(&[])?.sqrt())
}

/// Where the largest numbers of the windows are.
fn chosen(kernel: &Kernel, x: &Tensor) -> Result<Tensor, Fault> {
    let x = x.f_detach()?.f_set_requires_grad(true)?;
    let sum = apply(kernel, &x)?.f_sum(x.f_kind()?)?;
    let gradients = Tensor::f_run_backward(&[sum], &[&x], false, false)?;
    let gradient = gradients.first().ok_or(Fault::Missing)?;
    Ok(gradient.f_gt(0.0)?)
}

/// What an operator of one operand makes of `x`.
fn apply(kernel: &Kernel, x: &Tensor) -> Result<Tensor, Fault> {
    let operands = Operands {
        values: &[Some(x.shallow_clone())],
        indices: &[0],
    };
    kernel.apply(operands, Pass::Deterministic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Padding;

    /// What `kernel` makes of `x` and the gradient of its sum, plain and across kinks where rounding
    /// moves each number by `moved`.
    fn both(kernel: &Kernel, x: &[f64], shape: &[i64], moved: f64) -> [(Vec<f64>, Vec<f64>); 2] {
        let numbers = |x: &Tensor| Vec::<f64>::try_from(x.reshape([-1])).unwrap();
        let leaf = || {
            let x = Tensor::from_slice(x).reshape(shape);
            x.set_requires_grad(true)
        };
        let told = |x: &Tensor, y: Tensor| {
            y.sum(Kind::Double).backward();
            (numbers(&y.detach()), numbers(&x.grad()))
        };
        let (plain, across) = (leaf(), leaf());
        let rounded = across.detach() + moved;
        let kinks = Kinks::of(kernel).unwrap();
        [
            told(&plain, apply(kernel, &plain).unwrap()),
            told(
                &across,
                kinks
                    .across(kernel, &across, &rounded, Precision::Fp64)
                    .unwrap(),
            ),
        ]
    }

    #[test]
    fn what_is_next_to_a_kink_has_the_derivative_of_its_other_side() {
        let near = 1e-6;
        let relu = [-1.0, -near, near, 1.0];
        let clip = [-near, near, 0.5, 6.0 - near, 6.0 + near, 9.0];
        let hard = [-3.0 - near, -3.0 + near, 3.0 - near, 3.0 + near, 5.0];
        let swish = |x: f64| (2.0 * x + 3.0) / 6.0;
        let (left, right) = (swish(-3.0 + near), swish(3.0 - near));
        for (kernel, x, gradient) in [
            (Kernel::Relu, &relu[..], vec![0.0, 1.0, 0.0, 1.0]),
            (Kernel::Abs, &relu[..], vec![-1.0, 1.0, -1.0, 1.0]),
            (
                Kernel::LeakyRelu { slope: 0.25 },
                &relu[..],
                vec![0.25, 1.0, 0.25, 1.0],
            ),
            (
                Kernel::Clip { min: 0.0, max: 6.0 },
                &clip[..],
                vec![1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
            ),
            (
                Kernel::HardSwish,
                &hard[..],
                vec![left, 0.0, 1.0, right, 1.0],
            ),
            (
                Kernel::HardSigmoid,
                &hard[..],
                vec![1.0 / 6.0, 0.0, 0.0, 1.0 / 6.0, 0.0],
            ),
        ] {
            let shape = [x.len() as i64];
            let [plain, across] = both(&kernel, x, &shape, near);
            for (plain, across) in plain.0.iter().zip(&across.0) {
                assert!((plain - across).abs() < 1e-15, "{kernel:?}");
            }
            assert_ne!(plain.1, across.1, "{kernel:?}");
            for (is, should) in across.1.iter().zip(&gradient) {
                // PyTorch's HardSigmoid has its sixth in single precision, whatever its operand is.
                assert!((is - should).abs() < 1e-8, "{kernel:?}: {:?}", across.1);
            }
            // Ten times of what rounding moves by is within reach, and no more.
            let [plain, across] = both(&kernel, x, &shape, near / 20.0);
            assert_eq!(plain, across, "{kernel:?}");
        }
    }

    #[test]
    fn the_second_largest_of_a_window_takes_the_gradient_where_it_is_near() {
        let pool = Kernel::MaxPool {
            window: [1, 2],
            strides: [1, 2],
            padding: Padding {
                symmetric: [0, 0],
                border: None,
            },
            ceil: false,
        };
        let x = [1.0, 1.0 - 1e-6, 2.0, 1.0];
        let [plain, across] = both(&pool, &x, &[1, 1, 1, 4], 1e-6);
        assert_eq!(plain.0, across.0);
        assert_eq!(plain.1, [1.0, 0.0, 1.0, 0.0]);
        assert_eq!(across.1, [0.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn smooth_operators_have_no_kinks() {
        for kernel in [Kernel::Sigmoid, Kernel::Silu, Kernel::Tanh, Kernel::Add] {
            assert_eq!(Kinks::of(&kernel), None);
        }
    }
}
