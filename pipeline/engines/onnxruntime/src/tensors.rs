//! Numbers in and out of ONNX Runtime's tensors.

use std::fmt;

use half::{bf16, f16};
use models::fill;
use ort::value::{
    DynTensor, DynTensorValueType, DynValue, Outlet, PrimitiveTensorElementType, Tensor,
    TensorElementType, ValueRef,
};
use schema::{
    Graph, Outcome,
    graph::{ElementType, Input},
    protocol::Quantity,
};
use worker::Values;

use crate::failure::{failed, unsupported};

/// A shape in ONNX Runtime's numbers.
pub(crate) fn sizes(name: &str, shape: &[u64]) -> Result<Vec<i64>, Outcome> {
    shape
        .iter()
        .map(|&size| i64::try_from(size))
        .collect::<Result<_, _>>()
        .map_err(|_| unsupported(format!("{name}: {shape:?} is too large")))
}

/// The element type of an input or an output of a session. A user's own file may have integers, truth
/// values and floats where the graph has 64 bits and the cell's precision.
pub(crate) fn element(outlets: &[Outlet], name: &str) -> Result<TensorElementType, Outcome> {
    let outlet = outlets.iter().find(|outlet| outlet.name() == name);
    let outlet = outlet.ok_or_else(|| unsupported(format!("the session knows no `{name}`")))?;
    let element = outlet.dtype().tensor_type();
    element.ok_or_else(|| unsupported(format!("{name}: {} is no tensor", outlet.dtype())))
}

/// The standard inputs, on the host, in the graph's order. Only the session knows what a user's own
/// file takes.
pub(crate) fn inputs(
    graph: &Graph,
    session: &ort::session::Session,
) -> Result<Vec<DynValue>, Outcome> {
    let inputs = graph.inputs.iter().map(|given| {
        let element = element(session.inputs(), &given.name)?;
        input(given, element)
    });
    inputs.collect()
}

/// The standard input, on the host, as a session takes it.
pub(crate) fn input(input: &Input, element: TensorElementType) -> Result<DynValue, Outcome> {
    let name = &input.name;
    let sizes = sizes(name, &input.shape)?;
    let tensor = match (input.element, element) {
        (ElementType::Int64, TensorElementType::Bool) => {
            let numbers = fill::integers(name, &input.fill, &input.shape);
            let truths: Vec<bool> = numbers.into_iter().map(|number| number != 0).collect();
            made(sizes, truths)
        }
        (ElementType::Int64, TensorElementType::Int64) => integers::<i64>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Int32) => integers::<i32>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Int16) => integers::<i16>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Int8) => integers::<i8>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Uint64) => integers::<u64>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Uint32) => integers::<u32>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Uint16) => integers::<u16>(input, sizes)?,
        (ElementType::Int64, TensorElementType::Uint8) => integers::<u8>(input, sizes)?,
        (ElementType::Float, TensorElementType::Float32) => floats(input, sizes, |number| number)?,
        (ElementType::Float, TensorElementType::Float64) => floats(input, sizes, f64::from)?,
        (ElementType::Float, TensorElementType::Float16) => floats(input, sizes, f16::from_f32)?,
        (ElementType::Float, TensorElementType::Bfloat16) => floats(input, sizes, bf16::from_f32)?,
        (_, other) => {
            let reason = format!("{name}: the session takes {other}, which is not fed");
            return Err(unsupported(reason));
        }
    };
    tensor.map_err(|error| failed(name, &error))
}

fn made<T>(sizes: Vec<i64>, numbers: Vec<T>) -> ort::Result<DynValue>
where
    T: PrimitiveTensorElementType + fmt::Debug + Clone + 'static,
{
    Tensor::from_array((sizes, numbers)).map(Tensor::into_dyn)
}

fn integers<T>(input: &Input, sizes: Vec<i64>) -> Result<ort::Result<DynValue>, Outcome>
where
    T: PrimitiveTensorElementType + fmt::Debug + Clone + TryFrom<i64> + 'static,
{
    let numbers = fill::integers(&input.name, &input.fill, &input.shape);
    let numbers = numbers.into_iter().map(|number| {
        T::try_from(number).map_err(|_| {
            let reason = format!("{}: {number} is too large for the file's input", input.name);
            unsupported(reason)
        })
    });
    let numbers = numbers.collect::<Result<_, _>>()?;
    Ok(made::<T>(sizes, numbers))
}

fn floats<T>(
    input: &Input,
    sizes: Vec<i64>,
    as_there: fn(f32) -> T,
) -> Result<ort::Result<DynValue>, Outcome>
where
    T: PrimitiveTensorElementType + fmt::Debug + Clone + 'static,
{
    let Input {
        name, shape, fill, ..
    } = input;
    let count = shape
        .iter()
        .try_fold(1_u64, |count, &size| count.checked_mul(size))
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(|| unsupported(format!("{name}: {shape:?} is too large")))?;
    let numbers = fill::floats(name, fill, count);
    Ok(made(sizes, numbers.into_iter().map(as_there).collect()))
}

/// What a session's file declares of an output's shape: of an open size a negative number, and nothing of a number or
/// where nothing is declared.
pub(crate) fn declared(name: &str, session: &ort::session::Session) -> Vec<i64> {
    let mut outlets = session.outputs().iter();
    let outlet = outlets.find(|outlet| outlet.name() == name);
    let shape = outlet.and_then(|outlet| outlet.dtype().tensor_shape());
    shape.map(|shape| shape.to_vec()).unwrap_or_default()
}

/// Whether a shape may be one that is declared so.
pub(crate) fn fits(declared: &[i64], sizes: &[i64]) -> bool {
    let mut pairs = declared.iter().zip(sizes);
    declared.is_empty()
        || declared.len() == sizes.len()
            && pairs.all(|(&declared, &size)| declared < 0 || declared == size)
}

/// Room for an output, on the host.
pub(crate) fn room(
    name: &str,
    sizes: Vec<i64>,
    session: &ort::session::Session,
) -> Result<DynTensor, Outcome> {
    let element = element(session.outputs(), name)?;
    DynTensor::new(session.allocator(), element, sizes).map_err(|error| failed(name, &error))
}

/// An output as a tensor; a user's own file may have a sequence or a map there, which nothing reads.
pub(crate) fn tensor<'a>(
    name: &str,
    value: &'a DynValue,
) -> Result<ValueRef<'a, DynTensorValueType>, Outcome> {
    let tensor = value.view().downcast::<DynTensorValueType>();
    tensor.map_err(|_| {
        unsupported(format!(
            "the output `{name}` is {}, no tensor",
            value.dtype()
        ))
    })
}

/// Reads a tensor on the host: fp64 as it is, narrower floats widened to binary32, integers and truth
/// values to binary64.
pub(crate) fn read(name: &str, tensor: &DynTensor) -> Result<worker::Tensor, Outcome> {
    let read = || -> ort::Result<_> {
        Ok(Ok(match *tensor.data_type() {
            TensorElementType::Float64 => {
                let (shape, numbers) = tensor.try_extract_tensor::<f64>()?;
                (shape.to_vec(), Values::F64(numbers.to_vec()))
            }
            TensorElementType::Float32 => {
                let (shape, numbers) = tensor.try_extract_tensor::<f32>()?;
                (shape.to_vec(), Values::F32(numbers.to_vec()))
            }
            TensorElementType::Float16 => {
                let (shape, numbers) = tensor.try_extract_tensor::<f16>()?;
                let numbers = numbers.iter().map(|number| number.to_f32());
                (shape.to_vec(), Values::F32(numbers.collect()))
            }
            TensorElementType::Bfloat16 => {
                let (shape, numbers) = tensor.try_extract_tensor::<bf16>()?;
                let numbers = numbers.iter().map(|number| number.to_f32());
                (shape.to_vec(), Values::F32(numbers.collect()))
            }
            TensorElementType::Int64 => widened::<i64>(tensor, |number| number as f64)?,
            TensorElementType::Int32 => widened::<i32>(tensor, f64::from)?,
            TensorElementType::Int16 => widened::<i16>(tensor, f64::from)?,
            TensorElementType::Int8 => widened::<i8>(tensor, f64::from)?,
            TensorElementType::Uint64 => widened::<u64>(tensor, |number| number as f64)?,
            TensorElementType::Uint32 => widened::<u32>(tensor, f64::from)?,
            TensorElementType::Uint16 => widened::<u16>(tensor, f64::from)?,
            TensorElementType::Uint8 => widened::<u8>(tensor, f64::from)?,
            TensorElementType::Bool => widened::<bool>(tensor, |truth| f64::from(u8::from(truth)))?,
            other => return Ok(Err(other)),
        }))
    };
    let (shape, values) = read()
        .map_err(|error| failed(name, &error))?
        .map_err(|element| {
            unsupported(format!("{name}: outputs of type {element} are not read"))
        })?;
    let shape = shape
        .iter()
        .map(|&size| u64::try_from(size).unwrap_or(0))
        .collect();
    Ok(worker::Tensor {
        quantity: Quantity::Output,
        name: name.to_owned(),
        shape,
        values,
    })
}

/// The shape and the numbers of a tensor.
fn widened<T: PrimitiveTensorElementType + Copy>(
    tensor: &DynTensor,
    wide: impl Fn(T) -> f64,
) -> ort::Result<(Vec<i64>, Values)> {
    let (shape, numbers) = tensor.try_extract_tensor::<T>()?;
    let numbers = numbers.iter().map(|&number| wide(number)).collect();
    Ok((shape.to_vec(), Values::F64(numbers)))
}
