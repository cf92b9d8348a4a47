//! Values on grids of integers, in ONNX's words: QuantizeLinear and DequantizeLinear around what is
//! computed, weights as the integers themselves, and products of activations whose grid is found in
//! every step as products of integers, the way ONNX Runtime's dynamic quantiser writes them.

use schema::graph::{GridElement, Node, Op, Parameter};

use super::{
    Writer,
    proto::{DataType, NodeProto},
};
use crate::quantise::integers;

/// A value on a grid that is written when it is read, in the form in which it is.
#[derive(Clone)]
pub(super) enum OnGrid<'a> {
    /// A parameter: its integers are.
    Weight(Weight<'a>),
    /// What DynamicQuantizeLinear made: names of integers, scale and zero point.
    Dynamic([String; 3]),
}

/// A parameter on a grid.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    numbers: &'a Parameter,
    scale: &'a Parameter,
    axis: Option<u64>,
    zero_point: i64,
    element: GridElement,
}

/// Appends the rounding of a value, or remembers that of a weight.
pub(super) fn round<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    (axis, zero_point, element): (Option<u64>, i64, GridElement),
    output: &'a str,
) -> Result<(), String> {
    let [x, scale] = node.inputs.as_slice() else {
        return Err("reads two values".to_owned());
    };
    let weights = &writer.weights;
    if let (Some(numbers), Some(scale)) = (weights.parameter(x), weights.parameter(scale)) {
        let weight = Weight {
            numbers,
            scale,
            axis,
            zero_point,
            element,
        };
        writer.on_grid.insert(output, OnGrid::Weight(weight));
        return Ok(());
    }
    let places = match axis {
        None => Vec::new(),
        Some(_) => writer.shape(scale).to_vec(),
    };
    let (x, scale) = (writer.read(x), writer.read(scale));
    let zero = zero(writer, node, &places, zero_point, element);
    let integers = writer.fresh(node, "integers");
    let operands = |value: &str| vec![value.to_owned(), scale.clone(), zero.clone()];
    let along = |node: NodeProto| match axis {
        None => node,
        Some(axis) => node.int("axis", axis as i64),
    };
    let op = "QuantizeLinear";
    let quantise = NodeProto::new(op, integers.clone(), operands(&x), integers.clone());
    writer.push(along(quantise));
    let op = "DequantizeLinear";
    let name = node.name.clone();
    let dequantise = NodeProto::new(op, name, operands(&integers), output.to_owned());
    writer.push(along(dequantise));
    Ok(())
}

/// Appends the search for a grid; what it makes is read by products of integers.
pub(super) fn round_in_steps<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    output: &'a str,
) -> Result<(), String> {
    let [x] = node.inputs.as_slice() else {
        return Err("reads one value".to_owned());
    };
    if writer.element != DataType::Float {
        return Err("ONNX finds grids for fp32 alone".to_owned());
    }
    let x = writer.read(x);
    let parts = ["integers", "scale", "zero_point"].map(|part| writer.fresh(node, part));
    let op = "DynamicQuantizeLinear";
    let mut find = NodeProto::new(op, node.name.clone(), vec![x], String::new());
    find.output = parts.to_vec();
    writer.push(find);
    writer.on_grid.insert(output, OnGrid::Dynamic(parts));
    Ok(())
}

/// The name of a value on a grid as floats, written at the first reading; `None` where it is no such
/// value or another node has written it.
pub(super) fn floats<'a>(writer: &mut Writer<'a>, name: &'a str) -> Option<String> {
    match writer.on_grid.get(name)?.clone() {
        OnGrid::Weight(weight) => Some(weight_floats(writer, name, weight, false)),
        OnGrid::Dynamic(parts) => {
            let key = (name, false);
            let name = name.to_owned();
            if writer.dequantised.insert(key, name.clone()).is_none() {
                let node = writer.weights.fresh(&format!("{name}.floats"));
                let op = "DequantizeLinear";
                writer.push(NodeProto::new(op, node, parts.to_vec(), name.clone()));
            }
            Some(name)
        }
    }
}

/// The transpose of a weight on a grid, as floats; `None` where it is none.
pub(super) fn transposed<'a>(writer: &mut Writer<'a>, name: &'a str) -> Option<String> {
    match writer.on_grid.get(name)?.clone() {
        OnGrid::Weight(weight) if weight.numbers.shape.len() == 2 => {
            Some(weight_floats(writer, name, weight, true))
        }
        _ => None,
    }
}

fn weight_floats<'a>(
    writer: &mut Writer<'a>,
    name: &'a str,
    weight: Weight<'a>,
    turned: bool,
) -> String {
    if let Some(written) = writer.dequantised.get(&(name, turned)) {
        return written.clone();
    }
    let own = if turned {
        writer.weights.fresh(&format!("{name}.transposed"))
    } else {
        name.to_owned()
    };
    writer.dequantised.insert((name, turned), own.clone());
    let integers = weight_integers(writer, &own, weight, turned, 0);
    let scale = writer.read(&weight.scale.name);
    let zero_point = writer.weights.fresh(&format!("{own}.zero_point"));
    let places = &weight.scale.shape;
    let zeros = vec![weight.zero_point; places.iter().product::<u64>() as usize];
    let name = zero_point.clone();
    writer.weights.grid(name, places, weight.element, &zeros);
    let op = "DequantizeLinear";
    let operands = vec![integers, scale, zero_point];
    let dequantise = NodeProto::new(op, own.clone(), operands, own.clone());
    writer.push(match weight.axis {
        None => dequantise,
        Some(axis) => dequantise.int("axis", turned_axis(axis, turned) as i64),
    });
    own
}

/// Along a matrix's other axis where it is turned.
const fn turned_axis(axis: u64, turned: bool) -> u64 {
    if turned { 1 - axis } else { axis }
}

/// Writes the integers of a weight, each with `shift` added.
fn weight_integers<'a>(
    writer: &mut Writer<'a>,
    own: &str,
    weight: Weight<'a>,
    turned: bool,
    shift: i64,
) -> String {
    let numbers = writer.weights.numbers_of(weight.numbers);
    let scales = writer.weights.numbers_of(weight.scale);
    let shape = &weight.numbers.shape;
    let Weight {
        axis,
        zero_point,
        element,
        ..
    } = weight;
    let mut integers = integers(&numbers, &scales, shape, axis, zero_point, element);
    drop(numbers);
    let mut shape = shape.clone();
    if let (true, [_, columns]) = (turned, shape.as_slice()) {
        let width = *columns as usize;
        let column = |column: usize| integers.iter().skip(column).step_by(width.max(1)).copied();
        integers = (0..width).flat_map(column).collect();
        shape.reverse();
    }
    let element = if shift == 0 {
        element
    } else {
        GridElement::Uint8
    };
    for integer in &mut integers {
        *integer += shift;
    }
    let name = writer.weights.fresh(&format!("{own}.integers"));
    writer
        .weights
        .grid(name.clone(), &shape, element, &integers);
    name
}

fn zero(
    writer: &mut Writer<'_>,
    node: &Node,
    places: &[u64],
    zero_point: i64,
    element: GridElement,
) -> String {
    let name = writer.fresh(node, "zero_point");
    let zeros = vec![zero_point; places.iter().product::<u64>() as usize];
    writer.weights.grid(name.clone(), places, element, &zeros);
    name
}

/// The operands of a product of an activation whose grid is found in every step with a weight of 8
/// bits; `None` where the node is no such product.
pub(super) fn dynamic_operands<'a>(
    writer: &Writer<'a>,
    node: &'a Node,
) -> Option<([String; 3], Weight<'a>)> {
    let [x, weight, ..] = node.inputs.as_slice() else {
        return None;
    };
    let (OnGrid::Dynamic(x), OnGrid::Weight(weight)) = (
        writer.on_grid.get(x.as_str())?,
        writer.on_grid.get(weight.as_str())?,
    ) else {
        return None;
    };
    let outputs = match node.op {
        Op::Conv { .. } | Op::Linear => 0,
        Op::Gemm | Op::MatMul if weight.numbers.shape.len() == 2 => 1,
        _ => return None,
    };
    let is_plain = weight.axis == Some(outputs)
        && weight.element == GridElement::Int8
        && weight.zero_point == 0;
    is_plain.then(|| (x.clone(), *weight))
}

/// Appends such a product: sums of integers, as floats, times both scales, and the bias.
pub(super) fn dynamic_product<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    ([x, x_scale, x_zero], weight): ([String; 3], Weight<'a>),
    output: &str,
) -> Result<(), String> {
    let own = node.inputs.get(1).map_or("", String::as_str);
    let turned = matches!(node.op, Op::Linear);
    // ONNX Runtime's convolution of integers takes weights without a sign alone.
    let shift = match node.op {
        Op::Conv { .. } => 128,
        _ => 0,
    };
    let integers = match writer.integer_weights.get(&(own, turned)) {
        Some(name) => name.clone(),
        None => {
            let name = weight_integers(writer, own, weight, turned, shift);
            writer.integer_weights.insert((own, turned), name.clone());
            name
        }
    };
    let element = if shift == 0 {
        GridElement::Int8
    } else {
        GridElement::Uint8
    };
    let zero = zero(writer, node, &[], shift, element);
    let sums = writer.fresh(node, "sums");
    let operands = vec![x, integers, x_zero, zero];
    let product = match &node.op {
        Op::Conv {
            strides,
            pads,
            dilations,
            group,
        } => NodeProto::new("ConvInteger", sums.clone(), operands, sums.clone())
            .ints(
                "kernel_shape",
                weight.numbers.shape.get(2..).unwrap_or_default(),
            )
            .ints("strides", strides)
            .ints("pads", pads)
            .ints("dilations", dilations)
            .int("group", *group as i64),
        _ => NodeProto::new("MatMulInteger", sums.clone(), operands, sums.clone()),
    };
    writer.push(product);
    let float = writer.fresh(node, "sums_as_floats");
    let cast = NodeProto::new("Cast", float.clone(), vec![sums], float.clone());
    writer.push(cast.int("to", DataType::Float as i64));
    let weight_scale = per_output(writer, node, weight.scale);
    let scale = writer.fresh(node, "scale");
    let factors = vec![x_scale, weight_scale];
    writer.push(NodeProto::new("Mul", scale.clone(), factors, scale.clone()));
    let factors = vec![float, scale];
    let Some(bias) = node.inputs.get(2) else {
        let (name, output) = (node.name.clone(), output.to_owned());
        writer.push(NodeProto::new("Mul", name, factors, output));
        return Ok(());
    };
    let scaled = writer.fresh(node, "product");
    writer.push(NodeProto::new(
        "Mul",
        scaled.clone(),
        factors,
        scaled.clone(),
    ));
    let bias = match writer.weights.parameter(bias) {
        Some(bias) => per_output(writer, node, bias),
        None if matches!(node.op, Op::Conv { .. }) => {
            return Err("its bias is no parameter".to_owned());
        }
        None => writer.read(bias),
    };
    let (name, output) = (node.name.clone(), output.to_owned());
    writer.push(NodeProto::new("Add", name, vec![scaled, bias], output));
    Ok(())
}

/// One number for each output of a product, in a shape that broadcasts to what it makes.
fn per_output<'a>(writer: &mut Writer<'a>, node: &Node, parameter: &'a Parameter) -> String {
    if !matches!(node.op, Op::Conv { .. }) {
        return writer.read(&parameter.name);
    }
    let numbers = writer.weights.numbers_of(parameter);
    let name = writer
        .weights
        .fresh(&format!("{}.of_channels", parameter.name));
    let shape = [1, numbers.len() as u64, 1, 1];
    writer.weights.floats(name.clone(), &shape, &numbers);
    name
}
