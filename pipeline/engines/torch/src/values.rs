//! Weights and inputs as tensors on the device.

use std::{
    ops::Range,
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
    /// The rows of inputs.
    share: Share,
    /// Time spent making numbers.
    pub(crate) filling: Duration,
    /// Time spent making tensors of them.
    pub(crate) placing: Duration,
}

/// Which parts of a batch a process is fed, of how many that it falls into. Inputs are those of all parts in
/// one, part after part in the first dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    first: u32,
    parts: u32,
    of: u32,
}

impl Share {
    /// A batch that falls into no parts.
    pub(crate) const ALL: Self = Self::whole(1);

    /// All of so many parts.
    pub(crate) const fn whole(parts: u32) -> Self {
        Self {
            first: 0,
            parts,
            of: parts,
        }
    }

    /// So many for each of some workers: those of one.
    pub(crate) const fn of_worker(number: u32, workers: u32, parts: u32) -> Self {
        Self {
            first: number.saturating_mul(parts),
            parts,
            of: workers.saturating_mul(parts),
        }
    }

    /// The shape of so many parts.
    fn times(self, shape: &[u64], parts: u32) -> Vec<u64> {
        let mut shape = shape.to_vec();
        if let Some(rows) = shape.first_mut() {
            *rows = rows.saturating_mul(parts.into());
        }
        shape
    }
}

/// Those numbers of all.
fn only<T>(mut numbers: Vec<T>, rows: Range<usize>) -> Vec<T> {
    numbers.truncate(rows.end);
    numbers.drain(..rows.start.min(numbers.len()));
    numbers
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
            share: Share::ALL,
            filling: Duration::ZERO,
            placing: Duration::ZERO,
        }
    }

    /// The same for a network whose inputs are of one part of a batch.
    pub(crate) fn with_share(self, share: Share) -> Self {
        Self { share, ..self }
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

    /// The standard input of this name, as much of it as this process is fed.
    pub(crate) fn input(&mut self, input: &Input) -> Result<Tensor, Outcome> {
        let Input {
            name,
            element,
            shape,
            fill,
        } = input;
        let share = self.share;
        let whole = share.times(shape, share.of);
        self.make(name, &share.times(shape, share.parts), |count| {
            let each = count / share.parts.max(1) as usize;
            let rows = share.first as usize * each..share.first as usize * each + count;
            let all = each.saturating_mul(share.of as usize);
            match element {
                ElementType::Float => {
                    let numbers = fill::floats(name, fill, all);
                    Ok(Values::Floats(only(numbers, rows)))
                }
                ElementType::Int64 => {
                    let numbers = fill::integers(name, fill, &whole);
                    Ok(Values::Integers(only(numbers, rows)))
                }
            }
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
    fn parts_of_a_batch_are_those_of_the_whole() {
        let whole: Vec<u32> = (0..12).collect();
        let part = |number: usize| only(whole.clone(), 4 * number..4 * (number + 1));
        assert_eq!([part(0), part(1), part(2)].concat(), whole);
        assert_eq!(Share::ALL.times(&[2, 3], 1), [2, 3]);
        assert_eq!(Share::of_worker(1, 3, 1).times(&[2, 3], 3), [6, 3]);
        assert!(Share::whole(3).times(&[], 3).is_empty());
    }

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
