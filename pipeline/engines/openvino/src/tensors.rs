//! Numbers in and out of OpenVINO's tensors.

use half::{bf16, f16};
use models::fill;
use openvino::{ElementType as Element, InferenceError, Shape, Tensor};
use schema::{
    Outcome,
    graph::{ElementType, Input},
    protocol::Quantity,
};
use worker::Values;

use crate::failure::{failed, unsupported};

/// A shape in OpenVINO's numbers.
pub(crate) fn sizes(name: &str, shape: &[u64]) -> Result<Vec<i64>, Outcome> {
    shape
        .iter()
        .map(|&size| i64::try_from(size))
        .collect::<Result<_, _>>()
        .map_err(|_| unsupported(format!("{name}: {shape:?} is too large")))
}

/// The standard input, as a compiled model takes it: a user's own file may have integers, truth values
/// and floats where the graph has 64 bits and the cell's precision.
pub(crate) fn input(input: &Input, element: Element) -> Result<Tensor, Outcome> {
    let name = &input.name;
    if input.shape.is_empty() {
        let reason = "is a scalar, and OpenVINO's C interface makes no tensor without axes";
        return Err(unsupported(format!("the input `{name}` {reason}")));
    }
    let sizes = sizes(name, &input.shape)?;
    let shape = Shape::new(&sizes).map_err(|error| failed(name, &error))?;
    match (input.element, element) {
        (ElementType::Int64, Element::I64) => integers::<i64>(input, element, &shape),
        (ElementType::Int64, Element::I32) => integers::<i32>(input, element, &shape),
        (ElementType::Int64, Element::I16) => integers::<i16>(input, element, &shape),
        (ElementType::Int64, Element::I8) => integers::<i8>(input, element, &shape),
        (ElementType::Int64, Element::U64) => integers::<u64>(input, element, &shape),
        (ElementType::Int64, Element::U32) => integers::<u32>(input, element, &shape),
        (ElementType::Int64, Element::U16) => integers::<u16>(input, element, &shape),
        (ElementType::Int64, Element::U8) => integers::<u8>(input, element, &shape),
        (ElementType::Int64, Element::Boolean) => truths(input, &shape),
        (ElementType::Float, Element::F64) => floats(input, element, &shape, f64::from),
        (ElementType::Float, Element::F32) => floats(input, element, &shape, |number| number),
        (ElementType::Float, Element::F16) => floats(input, element, &shape, f16::from_f32),
        (ElementType::Float, Element::Bf16) => floats(input, element, &shape, bf16::from_f32),
        (_, other) => {
            let reason = format!("{name}: the model takes {other}, which is not fed");
            Err(unsupported(reason))
        }
    }
}

fn integers<T: Copy + TryFrom<i64>>(
    input: &Input,
    element: Element,
    shape: &Shape,
) -> Result<Tensor, Outcome> {
    let numbers = fill::integers(&input.name, &input.fill, &input.shape);
    let fitting = numbers.into_iter().map(|number| {
        T::try_from(number).map_err(|_| {
            let reason = format!("{}: {number} is too large for the file's input", input.name);
            unsupported(reason)
        })
    });
    let numbers: Vec<T> = fitting.collect::<Result<_, _>>()?;
    let make = || -> Result<Tensor, InferenceError> {
        let mut tensor = Tensor::new(element, shape)?;
        let room = numbers_mut::<T>(&mut tensor)?;
        room.copy_from_slice(&numbers);
        Ok(tensor)
    };
    make().map_err(|error| failed(&input.name, &error))
}

/// Bytes of 0 or 1.
fn truths(input: &Input, shape: &Shape) -> Result<Tensor, Outcome> {
    let make = || -> Result<Tensor, InferenceError> {
        let mut tensor = Tensor::new(Element::Boolean, shape)?;
        let room = bytes_mut(&mut tensor)?;
        let numbers = fill::integers(&input.name, &input.fill, &input.shape);
        for (slot, number) in room.iter_mut().zip(numbers) {
            *slot = u8::from(number != 0);
        }
        Ok(tensor)
    };
    make().map_err(|error| failed(&input.name, &error))
}

/// Numbers of an element type that are `T` in memory.
fn floats<T: Copy>(
    input: &Input,
    element: Element,
    shape: &Shape,
    as_there: fn(f32) -> T,
) -> Result<Tensor, Outcome> {
    let make = || -> Result<Tensor, InferenceError> {
        let mut tensor = Tensor::new(element, shape)?;
        let room = numbers_mut::<T>(&mut tensor)?;
        let numbers = fill::floats(&input.name, &input.fill, room.len());
        for (slot, number) in room.iter_mut().zip(numbers) {
            *slot = as_there(number);
        }
        Ok(tensor)
    };
    make().map_err(|error| failed(&input.name, &error))
}

/// Reads an output; integers and truth values are widened to binary64.
pub(crate) fn output(name: &str, tensor: &Tensor) -> Result<worker::Tensor, Outcome> {
    let read = || -> Result<_, InferenceError> {
        let shape: Vec<i64> = match tensor.get_shape() {
            Ok(shape) => shape.get_dimensions().to_vec(),
            // OpenVINO's C interface has no shape for what has no axes.
            Err(_) if tensor.get_size()? == 1 => Vec::new(),
            Err(error) => return Err(error),
        };
        let element = tensor.get_element_type()?;
        let values = match element {
            Element::F32 => Some(Values::F32(numbers::<f32>(tensor)?.to_vec())),
            Element::F16 => {
                let numbers = numbers::<f16>(tensor)?;
                Some(Values::F32(numbers.iter().map(|n| n.to_f32()).collect()))
            }
            Element::Bf16 => {
                let numbers = numbers::<bf16>(tensor)?;
                Some(Values::F32(numbers.iter().map(|n| n.to_f32()).collect()))
            }
            Element::F64 => Some(Values::F64(numbers::<f64>(tensor)?.to_vec())),
            Element::I64 => Some(widened::<i64>(tensor, |number| number as f64)?),
            Element::I32 => Some(widened::<i32>(tensor, f64::from)?),
            Element::I16 => Some(widened::<i16>(tensor, f64::from)?),
            Element::I8 => Some(widened::<i8>(tensor, f64::from)?),
            Element::U64 => Some(widened::<u64>(tensor, |number| number as f64)?),
            Element::U32 => Some(widened::<u32>(tensor, f64::from)?),
            Element::U16 => Some(widened::<u16>(tensor, f64::from)?),
            // Truth values are bytes of 0 or 1.
            Element::U8 | Element::Boolean => Some(widened::<u8>(tensor, f64::from)?),
            _ => None,
        };
        Ok((shape, element, values))
    };
    let (shape, element, values) = read().map_err(|error| failed(name, &error))?;
    let values = values
        .ok_or_else(|| unsupported(format!("{name}: outputs of type {element} are not read")))?;
    Ok(worker::Tensor {
        quantity: Quantity::Output,
        name: name.to_owned(),
        shape: shape
            .iter()
            .map(|&size| u64::try_from(size).unwrap_or(0))
            .collect(),
        values,
    })
}

/// The bytes of a tensor. For one that holds nothing OpenVINO gives no address, of which the `openvino`
/// crate would make a slice all the same.
pub(crate) fn bytes(tensor: &Tensor) -> Result<&[u8], InferenceError> {
    match tensor.get_byte_size()? {
        0 => Ok(&[]),
        _ => tensor.get_raw_data(),
    }
}

/// [`bytes`], to be written.
pub(crate) fn bytes_mut(tensor: &mut Tensor) -> Result<&mut [u8], InferenceError> {
    match tensor.get_byte_size()? {
        0 => Ok(&mut []),
        _ => tensor.get_raw_data_mut(),
    }
}

/// The numbers of a tensor, which are `T` in memory; see [`bytes`].
fn numbers<T>(tensor: &Tensor) -> Result<&[T], InferenceError> {
    match tensor.get_byte_size()? {
        0 => Ok(&[]),
        _ => tensor.get_data(),
    }
}

/// [`numbers`], to be written.
fn numbers_mut<T>(tensor: &mut Tensor) -> Result<&mut [T], InferenceError> {
    match tensor.get_byte_size()? {
        0 => Ok(&mut []),
        _ => tensor.get_data_mut(),
    }
}

/// The numbers of a tensor, which are `T` in memory, in binary64.
fn widened<T: Copy>(tensor: &Tensor, wide: impl Fn(T) -> f64) -> Result<Values, InferenceError> {
    let numbers = numbers::<T>(tensor)?.iter();
    Ok(Values::F64(numbers.map(|&number| wide(number)).collect()))
}
