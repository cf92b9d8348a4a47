//! Weights and inputs as tensors on the device.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use models::{Numbers, fill};
use schema::{
    Outcome, OutcomeKind,
    graph::{ElementType, Input, Parameter},
};
use tch::{Kind, TchError, Tensor};

use crate::{device::Place, failure::Fault};

/// Where tensors go and in which form; keeps the time that each phase takes.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    /// Device.
    pub(crate) place: Place,
    /// Element type of floating-point values.
    pub(crate) kind: Kind,
    /// Whether images and filters lie in memory with channels last.
    pub(crate) channels_last: bool,
    /// The numbers of parameters.
    numbers: Rc<Numbers>,
    /// Time spent making numbers.
    pub(crate) filling: Duration,
    /// Time spent making tensors of them.
    pub(crate) placing: Duration,
}

/// Numbers on the host.
enum Values {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

impl Maker {
    /// Makes tensors on `place`.
    pub(crate) const fn new(
        place: Place,
        kind: Kind,
        channels_last: bool,
        numbers: Rc<Numbers>,
    ) -> Self {
        Self {
            place,
            kind,
            channels_last,
            numbers,
            filling: Duration::ZERO,
            placing: Duration::ZERO,
        }
    }

    /// The initial value of a parameter.
    pub(crate) fn parameter(&mut self, parameter: &Parameter) -> Result<Tensor, Outcome> {
        let stored = Rc::clone(&self.numbers);
        self.make(&parameter.name, &parameter.shape, |_| {
            let made = if fill::makes_integers(&parameter.fill) {
                stored.integers(parameter).map(Values::Integers)
            } else {
                stored.floats(parameter).map(Values::Floats)
            };
            made.map_err(|error| Outcome::new(OutcomeKind::Crashed, error.to_string()))
        })
    }

    /// The standard input of this name.
    pub(crate) fn input(&mut self, input: &Input) -> Result<Tensor, Outcome> {
        let Input {
            name,
            element,
            shape,
            fill,
        } = input;
        self.make(name, shape, |count| match element {
            ElementType::Float => Ok(Values::Floats(fill::floats(name, fill, count))),
            ElementType::Int64 => Ok(Values::Integers(fill::integers(name, fill, shape))),
        })
    }

    fn make(
        &mut self,
        name: &str,
        shape: &[u64],
        numbers: impl FnOnce(usize) -> Result<Values, Outcome>,
    ) -> Result<Tensor, Outcome> {
        let (count, sizes) = measured(name, shape)?;
        let start = Instant::now();
        let numbers = numbers(count)?;
        let filled = Instant::now();
        self.filling += filled - start;
        let tensor = self
            .place(&numbers, &sizes)
            .map_err(|error| Fault::from(error).at(name))?;
        self.placing += filled.elapsed();
        Ok(tensor)
    }

    fn place(&self, numbers: &Values, sizes: &[i64]) -> Result<Tensor, TchError> {
        let device = self.place.tch();
        match numbers {
            Values::Integers(numbers) => Tensor::f_from_slice(numbers)?
                .f_reshape(sizes)?
                .f_to_device(device),
            Values::Floats(numbers) => {
                let tensor = Tensor::f_from_slice(numbers)?
                    .f_reshape(sizes)?
                    .f_to_dtype(self.kind, false, false)?
                    .f_to_device(device)?;
                if self.channels_last && sizes.len() == 4 {
                    // `tch` has no memory formats: turn the axes, lay out, turn back.
                    tensor
                        .f_permute([0, 2, 3, 1])?
                        .f_contiguous()?
                        .f_permute([0, 3, 1, 2])
                } else {
                    Ok(tensor)
                }
            }
        }
    }
}

/// The number of elements and the sizes of a shape, if its numbers can be had in memory.
fn measured(name: &str, shape: &[u64]) -> Result<(usize, Vec<i64>), Outcome> {
    let too_large = || {
        Outcome::new(
            OutcomeKind::OutOfMemory,
            format!("{name}: {shape:?} does not fit in memory"),
        )
    };
    let count = shape
        .iter()
        .try_fold(1_u64, |count, &size| count.checked_mul(size))
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(too_large)?;
    // Asked for and given back: an allocation that fails later ends the process.
    Vec::<i64>::new()
        .try_reserve_exact(count)
        .map_err(|_| too_large())?;
    let sizes = shape
        .iter()
        .map(|&size| i64::try_from(size))
        .collect::<Result<_, _>>();
    Ok((count, sizes.map_err(|_| too_large())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_fit_is_out_of_memory() {
        for shape in [&[u64::MAX, 2][..], &[1 << 60], &[u64::MAX]] {
            let outcome = measured("w", shape).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{outcome:?}");
        }
        assert_eq!(measured("w", &[]).unwrap(), (1, vec![]));
        assert_eq!(measured("w", &[2, 0]).unwrap(), (0, vec![2, 0]));
    }
}
