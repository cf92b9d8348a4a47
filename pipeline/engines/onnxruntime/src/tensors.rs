//! Numbers in and out of ONNX Runtime's tensors.

use half::{bf16, f16};
use models::{fill, infer::ValueType};
use ort::value::{
    DynTensor, DynTensorValueType, DynValue, PrimitiveTensorElementType, Tensor, TensorElementType,
};
use schema::{
    Outcome, Precision,
    graph::{ElementType, Input},
    protocol::Quantity,
};
use worker::Values;

use crate::failure::{failed, unsupported};

/// ONNX Runtime's name of an element type.
pub(crate) const fn element(element: ElementType, precision: Precision) -> TensorElementType {
    match (element, precision) {
        (ElementType::Int64, _) => TensorElementType::Int64,
        (ElementType::Float, Precision::Fp64) => TensorElementType::Float64,
        // Integers are between inputs and outputs alone.
        (
            ElementType::Float,
            Precision::Fp32 | Precision::Tf32 | Precision::Int8Dynamic | Precision::Int8Static,
        ) => TensorElementType::Float32,
        (ElementType::Float, Precision::Fp16) => TensorElementType::Float16,
        (ElementType::Float, Precision::Bf16) => TensorElementType::Bfloat16,
    }
}

/// A shape in ONNX Runtime's numbers.
pub(crate) fn sizes(name: &str, shape: &[u64]) -> Result<Vec<i64>, Outcome> {
    shape
        .iter()
        .map(|&size| i64::try_from(size))
        .collect::<Result<_, _>>()
        .map_err(|_| unsupported(format!("{name}: {shape:?} is too large")))
}

/// The standard input, on the host.
pub(crate) fn input(input: &Input, precision: Precision) -> Result<DynValue, Outcome> {
    let Input {
        name,
        element,
        shape,
        fill,
    } = input;
    let sizes = sizes(name, shape)?;
    let count = shape
        .iter()
        .try_fold(1_u64, |count, &size| count.checked_mul(size))
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(|| unsupported(format!("{name}: {shape:?} is too large")))?;
    let tensor = match element {
        ElementType::Int64 => {
            Tensor::from_array((sizes, fill::integers(name, fill, shape))).map(Tensor::into_dyn)
        }
        ElementType::Float => floats(sizes, fill::floats(name, fill, count), precision),
    };
    tensor.map_err(|error| failed(name, &error))
}

fn floats(sizes: Vec<i64>, numbers: Vec<f32>, precision: Precision) -> ort::Result<DynValue> {
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::Int8Dynamic | Precision::Int8Static => {
            Tensor::from_array((sizes, numbers)).map(Tensor::into_dyn)
        }
        Precision::Fp64 => {
            let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
            Tensor::from_array((sizes, numbers)).map(Tensor::into_dyn)
        }
        Precision::Fp16 => {
            let numbers: Vec<f16> = numbers.into_iter().map(f16::from_f32).collect();
            Tensor::from_array((sizes, numbers)).map(Tensor::into_dyn)
        }
        Precision::Bf16 => {
            let numbers: Vec<bf16> = numbers.into_iter().map(bf16::from_f32).collect();
            Tensor::from_array((sizes, numbers)).map(Tensor::into_dyn)
        }
    }
}

/// Room for an output, on the host.
pub(crate) fn room(
    name: &str,
    value: &ValueType,
    precision: Precision,
    session: &ort::session::Session,
) -> Result<DynTensor, Outcome> {
    let sizes = sizes(name, &value.shape)?;
    DynTensor::new(
        session.allocator(),
        element(value.element, precision),
        sizes,
    )
    .map_err(|error| failed(name, &error))
}

/// Reads a tensor on the host: fp64 as it is, narrower floats widened to binary32, integers and truth
/// values to binary64.
pub(crate) fn output(name: &str, value: &DynValue) -> Result<worker::Tensor, Outcome> {
    let read = || -> ort::Result<_> {
        let tensor = value.view().downcast::<DynTensorValueType>()?;
        let tensor = &*tensor;
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
            TensorElementType::Int8 => widened::<i8>(tensor, f64::from)?,
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
