//! Numbers in and out of OpenVINO's tensors.

use half::{bf16, f16};
use models::fill;
use openvino::{ElementType as Element, InferenceError, Shape, Tensor};
use schema::{
    Outcome, Precision,
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

/// The standard input, floats in a precision.
pub(crate) fn input(input: &Input, precision: Precision) -> Result<Tensor, Outcome> {
    let Input {
        name,
        element,
        shape,
        fill,
    } = input;
    let sizes = sizes(name, shape)?;
    let make = || -> Result<Tensor, InferenceError> {
        let shape_there = Shape::new(&sizes)?;
        match element {
            ElementType::Int64 => {
                let mut tensor = Tensor::new(Element::I64, &shape_there)?;
                let room = tensor.get_data_mut::<i64>()?;
                room.copy_from_slice(&fill::integers(name, fill, shape));
                Ok(tensor)
            }
            ElementType::Float => match precision {
                Precision::Fp16 => floats(Element::F16, &shape_there, input, f16::from_f32),
                Precision::Bf16 => floats(Element::Bf16, &shape_there, input, bf16::from_f32),
                _ => floats(Element::F32, &shape_there, input, |number| number),
            },
        }
    };
    make().map_err(|error| failed(name, &error))
}

/// Numbers of an element type that are `T` in memory.
fn floats<T: Copy>(
    element: Element,
    shape: &Shape,
    input: &Input,
    as_there: fn(f32) -> T,
) -> Result<Tensor, InferenceError> {
    let mut tensor = Tensor::new(element, shape)?;
    let room = tensor.get_data_mut::<T>()?;
    let numbers = fill::floats(&input.name, &input.fill, room.len());
    for (slot, number) in room.iter_mut().zip(numbers) {
        *slot = as_there(number);
    }
    Ok(tensor)
}

/// Reads an output; integers and truth values are widened to binary64.
pub(crate) fn output(name: &str, tensor: &Tensor) -> Result<worker::Tensor, Outcome> {
    let read = || -> Result<_, InferenceError> {
        let shape = tensor.get_shape()?;
        let element = tensor.get_element_type()?;
        let values = match element {
            Element::F32 => Some(Values::F32(tensor.get_data::<f32>()?.to_vec())),
            Element::F16 => {
                let numbers = tensor.get_data::<f16>()?;
                Some(Values::F32(numbers.iter().map(|n| n.to_f32()).collect()))
            }
            Element::Bf16 => {
                let numbers = tensor.get_data::<bf16>()?;
                Some(Values::F32(numbers.iter().map(|n| n.to_f32()).collect()))
            }
            Element::I64 => {
                let numbers = tensor.get_data::<i64>()?;
                Some(Values::F64(numbers.iter().map(|&n| n as f64).collect()))
            }
            Element::I32 => {
                let numbers = tensor.get_data::<i32>()?;
                Some(Values::F64(numbers.iter().map(|&n| f64::from(n)).collect()))
            }
            Element::F64 => Some(Values::F64(tensor.get_data::<f64>()?.to_vec())),
            Element::I8 => {
                let numbers = tensor.get_data::<i8>()?;
                Some(Values::F64(numbers.iter().map(|&n| f64::from(n)).collect()))
            }
            // Truth values are bytes of 0 or 1.
            Element::U8 | Element::Boolean => {
                let numbers = tensor.get_raw_data()?;
                Some(Values::F64(numbers.iter().map(|&n| f64::from(n)).collect()))
            }
            _ => None,
        };
        Ok((shape, element, values))
    };
    let (shape, element, values) = read().map_err(|error| failed(name, &error))?;
    let values = values
        .ok_or_else(|| unsupported(format!("{name}: outputs of type {element} are not read")))?;
    let shape = shape.get_dimensions().iter();
    Ok(worker::Tensor {
        quantity: Quantity::Output,
        name: name.to_owned(),
        shape: shape
            .map(|&size| u64::try_from(size).unwrap_or(0))
            .collect(),
        values,
    })
}
