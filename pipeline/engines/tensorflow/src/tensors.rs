//! Weights and inputs as TensorFlow's tensors, and back.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use models::{ModelError, Numbers, fill};
use schema::{
    Outcome, OutcomeKind,
    graph::{ElementType, Input, Parameter},
    protocol::Quantity,
};
use tensorflow::{
    DataType, FetchToken, Operation, OperationDescription, SessionRunArgs, Status, Tensor,
};
use worker::Tensor as Output;

use crate::{
    exchange::Plain,
    failure::{failed, too_large},
    form::Form,
};

/// Element type of floating-point values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Float {
    /// TensorFlow's name of it.
    pub(crate) const fn data_type(self) -> DataType {
        match self {
            Self::F32 => DataType::Float,
            Self::F64 => DataType::Double,
        }
    }

    /// Bytes of one element.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// A tensor on the host.
#[derive(Debug)]
pub(crate) enum Host {
    F32(Tensor<f32>),
    F64(Tensor<f64>),
    I64(Tensor<i64>),
}

impl Host {
    /// Feeds it to a placeholder; TensorFlow shares the memory.
    pub(crate) fn feed<'a>(&'a self, args: &mut SessionRunArgs<'a>, placeholder: &Operation) {
        match self {
            Self::F32(tensor) => args.add_feed(placeholder, 0, tensor),
            Self::F64(tensor) => args.add_feed(placeholder, 0, tensor),
            Self::I64(tensor) => args.add_feed(placeholder, 0, tensor),
        }
    }

    /// Its element type.
    pub(crate) const fn data_type(&self) -> DataType {
        match self {
            Self::F32(_) => DataType::Float,
            Self::F64(_) => DataType::Double,
            Self::I64(_) => DataType::Int64,
        }
    }

    /// Makes it the value of a constant.
    pub(crate) fn hold(self, constant: &mut OperationDescription<'_>) -> Result<(), Status> {
        constant.set_attr_type("dtype", self.data_type())?;
        match self {
            Self::F32(tensor) => constant.set_attr_tensor("value", tensor),
            Self::F64(tensor) => constant.set_attr_tensor("value", tensor),
            Self::I64(tensor) => constant.set_attr_tensor("value", tensor),
        }
    }
}

/// Makes tensors; keeps the time that their numbers take.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    /// Where numbers come from that no recipe makes.
    numbers: Rc<Numbers>,
    /// Element type of floating-point values.
    pub(crate) float: Float,
    /// Time spent making numbers.
    pub(crate) filling: Duration,
}

impl Maker {
    /// Makes tensors of this element type.
    pub(crate) const fn new(float: Float, numbers: Rc<Numbers>) -> Self {
        Self {
            numbers,
            float,
            filling: Duration::ZERO,
        }
    }

    /// The initial value of a parameter.
    pub(crate) fn parameter(
        &mut self,
        parameter: &Parameter,
        form: &Form,
    ) -> Result<Host, Outcome> {
        let Parameter {
            name, shape, fill, ..
        } = parameter;
        let count = count(name, shape)?;
        let start = Instant::now();
        if fill::makes_integers(fill) {
            let numbers = self
                .numbers
                .integers(parameter)
                .map_err(|error| lost(&error))?;
            self.filling += start.elapsed();
            return integers(name, form, numbers);
        }
        let numbers = self.initial(parameter)?;
        self.filling += start.elapsed();
        debug_assert_eq!(numbers.len(), count);
        self.floats(name, form, numbers)
    }

    /// What a parameter holds before any step, row-major in the graph's order of axes.
    pub(crate) fn initial(&self, parameter: &Parameter) -> Result<Vec<f32>, Outcome> {
        let numbers = self.numbers.floats(parameter);
        numbers.map_err(|error| lost(&error))
    }

    /// The standard input of this name.
    pub(crate) fn input(&mut self, input: &Input, form: &Form) -> Result<Host, Outcome> {
        let Input {
            name,
            element,
            shape,
            fill,
        } = input;
        let count = count(name, shape)?;
        let start = Instant::now();
        match element {
            ElementType::Float => {
                let numbers = fill::floats(name, fill, count);
                self.filling += start.elapsed();
                self.floats(name, form, numbers)
            }
            ElementType::Int64 => {
                let numbers = fill::integers(name, fill, shape);
                self.filling += start.elapsed();
                integers(name, form, numbers)
            }
        }
    }

    fn floats(&self, name: &str, form: &Form, numbers: Vec<f32>) -> Result<Host, Outcome> {
        let numbers = form.laid_out(name, numbers)?;
        match self.float {
            Float::F32 => tensor(name, form, &numbers).map(Host::F32),
            Float::F64 => {
                let wide: Vec<f64> = numbers.into_iter().map(f64::from).collect();
                tensor(name, form, &wide).map(Host::F64)
            }
        }
    }
}

fn lost(error: &ModelError) -> Outcome {
    Outcome::new(OutcomeKind::Crashed, error.to_string())
}

fn integers(name: &str, form: &Form, numbers: Vec<i64>) -> Result<Host, Outcome> {
    tensor(name, form, &form.laid_out(name, numbers)?).map(Host::I64)
}

fn tensor<T: tensorflow::TensorType + Copy>(
    name: &str,
    form: &Form,
    numbers: &[T],
) -> Result<Tensor<T>, Outcome> {
    let mut tensor = Tensor::new(&form.dims());
    if tensor.len() != numbers.len() {
        return Err(too_large(name, &form.shape));
    }
    tensor.copy_from_slice(numbers);
    Ok(tensor)
}

/// The number of elements, if that many can be had in memory: the C library's allocation is not
/// checked by the crate.
fn count(name: &str, shape: &[u64]) -> Result<usize, Outcome> {
    let count = shape
        .iter()
        .try_fold(1_u64, |count, &size| count.checked_mul(size))
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(|| too_large(name, shape))?;
    // Asked for and given back.
    Vec::<i64>::new()
        .try_reserve_exact(count)
        .map_err(|_| too_large(name, shape))?;
    Ok(count)
}

/// A fetched tensor in the graph's order; integers are widened.
pub(crate) fn fetched(
    args: &mut SessionRunArgs<'_>,
    token: FetchToken,
    quantity: Quantity,
    name: &str,
    form: &Form,
    element: DataType,
) -> Result<Output, Outcome> {
    Plain::fetched(args, token, name, element)?.told(quantity, name, form)
}

/// Whether no number of a fetched tensor is infinite or NaN.
pub(crate) fn is_finite(
    args: &mut SessionRunArgs<'_>,
    token: FetchToken,
    name: &str,
    float: Float,
) -> Result<bool, Outcome> {
    let refused = |status: Status| failed(name, &status);
    Ok(match float {
        Float::F32 => {
            let tensor = args.fetch::<f32>(token).map_err(refused)?;
            tensor.iter().all(|number| number.is_finite())
        }
        Float::F64 => {
            let tensor = args.fetch::<f64>(token).map_err(refused)?;
            tensor.iter().all(|number| number.is_finite())
        }
    })
}

/// A fetched number.
pub(crate) fn number(
    args: &mut SessionRunArgs<'_>,
    token: FetchToken,
    name: &str,
    float: Float,
) -> Result<f64, Outcome> {
    let refused = |status: Status| failed(name, &status);
    match float {
        Float::F32 => {
            let tensor = args.fetch::<f32>(token).map_err(refused)?;
            Ok(tensor.first().copied().map_or(f64::NAN, f64::from))
        }
        Float::F64 => {
            let tensor = args.fetch::<f64>(token).map_err(refused)?;
            Ok(tensor.first().copied().unwrap_or(f64::NAN))
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::OutcomeKind;

    use super::*;

    #[test]
    fn what_cannot_fit_is_out_of_memory() {
        for shape in [&[u64::MAX, 2][..], &[1 << 60], &[u64::MAX]] {
            let outcome = count("w", shape).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{outcome:?}");
        }
        assert_eq!(count("w", &[]).unwrap(), 1);
        assert_eq!(count("w", &[2, 3]).unwrap(), 6);
    }
}
