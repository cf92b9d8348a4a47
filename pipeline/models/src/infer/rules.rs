//! The type of each operator's output from the types of its inputs.

use schema::graph::{Border, ElementType, Op};

use super::{
    ValueType, moves,
    window::{check_pool_pads, slide, spread},
};

type Shape = Vec<u64>;

/// Most values that an operator other than a concatenation reads.
const MOST_INPUTS: usize = 9;

/// The type that `op` makes of `inputs`, or what is wrong with them.
pub(super) fn output(op: &Op, inputs: &[&ValueType]) -> Result<ValueType, String> {
    check_attributes(op)?;
    check_arity(op, inputs.len())?;
    check_elements(op, inputs)?;
    let element = match op {
        Op::Gather => ElementType::Float,
        _ => inputs
            .first()
            .map_or(ElementType::Float, |first| first.element),
    };
    // Only a concatenation reads more: the others need no memory for it.
    let mut few: [&[u64]; MOST_INPUTS] = [&[]; MOST_INPUTS];
    let shape = match few.get_mut(..inputs.len()) {
        Some(shapes) => {
            for (shape, input) in shapes.iter_mut().zip(inputs) {
                *shape = &input.shape;
            }
            shape(op, shapes)?
        }
        None => {
            let shapes: Vec<&[u64]> = inputs.iter().map(|input| &*input.shape).collect();
            shape(op, &shapes)?
        }
    };
    Ok(ValueType { element, shape })
}

/// How many inputs: smallest and largest number.
const fn arity(op: &Op) -> (usize, usize) {
    match op {
        Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Linear | Op::Gemm => (2, 3),
        Op::BatchNormalization { .. } => (5, 5),
        Op::LayerNormalization { .. } | Op::InstanceNormalization { .. } | Op::Attention { .. } => {
            (3, 3)
        }
        &Op::Lstm { bidirectional } | &Op::Gru { bidirectional } => {
            let inputs = if bidirectional { 9 } else { 5 };
            (inputs, inputs)
        }
        Op::Add
        | Op::Mul
        | Op::Div
        | Op::Max
        | Op::Min
        | Op::PRelu
        | Op::MatMul
        | Op::Gather
        | Op::QuantizeDequantize { .. } => (2, 2),
        Op::Concat { .. } => (1, usize::MAX),
        Op::Relu
        | Op::LeakyRelu { .. }
        | Op::Elu { .. }
        | Op::Softplus
        | Op::Clip { .. }
        | Op::Sigmoid
        | Op::HardSigmoid
        | Op::HardSwish
        | Op::Silu
        | Op::Tanh
        | Op::Sqrt
        | Op::Exp
        | Op::Log
        | Op::Abs
        | Op::Sin
        | Op::Cos
        | Op::Gelu { .. }
        | Op::Softmax { .. }
        | Op::LogSoftmax { .. }
        | Op::MaxPool { .. }
        | Op::AveragePool { .. }
        | Op::GlobalAveragePool
        | Op::Resize { .. }
        | Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Squeeze { .. }
        | Op::Expand { .. }
        | Op::Pad { .. }
        | Op::DynamicQuantizeDequantize
        | Op::Dropout { .. } => (1, 1),
    }
}

fn check_arity(op: &Op, count: usize) -> Result<(), String> {
    let (least, most) = arity(op);
    if (least..=most).contains(&count) {
        Ok(())
    } else if least == most {
        Err(format!("reads {least} values, {count} are named"))
    } else {
        Err(format!("reads {least} to {most} values, {count} are named"))
    }
}

fn check_elements(op: &Op, inputs: &[&ValueType]) -> Result<(), String> {
    let moves_only = moves(op) || matches!(op, Op::Concat { .. });
    for (index, input) in inputs.iter().enumerate() {
        let wanted = match op {
            Op::Gather if index == 1 => ElementType::Int64,
            _ if moves_only => inputs.first().map_or(input.element, |first| first.element),
            _ => ElementType::Float,
        };
        if input.element != wanted {
            return Err(format!(
                "input {index} holds {:?}, {wanted:?} is needed",
                input.element
            ));
        }
    }
    Ok(())
}

fn check_attributes(op: &Op) -> Result<(), String> {
    let positive = |value: f32| value.is_finite() && value > 0.0;
    match *op {
        Op::BatchNormalization { epsilon, .. }
        | Op::LayerNormalization { epsilon }
        | Op::InstanceNormalization { epsilon }
            if !positive(epsilon) =>
        {
            Err(format!("epsilon {epsilon} must be positive"))
        }
        Op::BatchNormalization { momentum, .. } if !(0.0..=1.0).contains(&momentum) => {
            Err(format!("momentum {momentum} must lie in 0 to 1"))
        }
        Op::Clip { min, max } if !(min.is_finite() && max.is_finite() && min <= max) => {
            Err(format!("clip from {min} to {max} is no range"))
        }
        Op::LeakyRelu { alpha } | Op::Elu { alpha } if !alpha.is_finite() => {
            Err(format!("slope {alpha} is no number"))
        }
        Op::Pad {
            border: Border::Constant { value },
            ..
        } if !value.is_finite() => Err(format!("a border of {value} is no number")),
        Op::Dropout { ratio } if !(0.0..1.0).contains(&ratio) => {
            Err(format!("ratio {ratio} must be at least 0 and below 1"))
        }
        Op::QuantizeDequantize {
            zero_point,
            element,
            ..
        } => {
            let (least, most) = element.bounds();
            if (least..=most).contains(&zero_point) {
                Ok(())
            } else {
                Err(format!(
                    "the zero point {zero_point} is none of the integers {least} to {most}"
                ))
            }
        }
        _ => Ok(()),
    }
}

fn shape(op: &Op, inputs: &[&[u64]]) -> Result<Shape, String> {
    match (op, inputs) {
        (
            &Op::Conv {
                strides,
                pads,
                dilations,
                group,
            },
            [x, weight, bias @ ..],
        ) => {
            let ([n, c, h, w], [out, _, kh, kw]) = (four(x)?, four(weight)?);
            check_conv_channels(out, weight, bias, group, [out, c])?;
            let [h, w] = slide([h, w], [kh, kw], strides, dilations, pads, false)?;
            Ok(vec![n, out, h, w])
        }
        (
            &Op::ConvTranspose {
                strides,
                pads,
                output_padding,
                dilations,
                group,
            },
            [x, weight, bias @ ..],
        ) => {
            let ([n, c, h, w], [_, per_group, kh, kw]) = (four(x)?, four(weight)?);
            let out = per_group
                .checked_mul(group)
                .ok_or("has too many channels")?;
            check_conv_channels(out, weight, bias, group, [c, out])?;
            let [h, w] = spread([h, w], [kh, kw], strides, dilations, pads, output_padding)?;
            Ok(vec![n, out, h, w])
        }
        (Op::BatchNormalization { .. }, [x, parameters @ ..]) => per_channel(x, parameters),
        (Op::InstanceNormalization { .. }, [x, parameters @ ..]) if x.len() > 2 => {
            per_channel(x, parameters)
        }
        (Op::InstanceNormalization { .. }, [x, ..]) => {
            Err(format!("input shape {x:?} has nothing behind the channels"))
        }
        (Op::PRelu, [x, slope]) => {
            let channels = x.get(1).copied().unwrap_or(1);
            let is_single = slope.iter().all(|&size| size == 1) && slope.len() <= x.len();
            let is_per_channel = slope.len() + 1 == x.len()
                && slope.first() == Some(&channels)
                && slope.iter().skip(1).all(|&size| size == 1);
            if is_single || is_per_channel {
                Ok(x.to_vec())
            } else {
                Err(format!(
                    "slope {slope:?} is neither one number nor one for each channel of {x:?}"
                ))
            }
        }
        (Op::LayerNormalization { .. }, [x, scale, bias]) => {
            let last = x.last().copied().ok_or("a scalar has no last axis")?;
            if **scale == [last] && **bias == [last] {
                Ok(x.to_vec())
            } else {
                Err(format!(
                    "scale {scale:?} and bias {bias:?} must have shape [{last}]"
                ))
            }
        }
        (Op::Add | Op::Mul | Op::Div | Op::Max | Op::Min, [a, b]) => broadcast(a, b),
        (&Op::QuantizeDequantize { axis, .. }, [x, scale]) => {
            let wanted = match axis {
                None => Vec::new(),
                Some(axis) => {
                    let size = usize::try_from(axis).ok().and_then(|axis| x.get(axis));
                    vec![
                        *size
                            .ok_or_else(|| format!("axis {axis} does not exist in shape {x:?}"))?,
                    ]
                }
            };
            if **scale == wanted {
                Ok(x.to_vec())
            } else {
                Err(format!("scale {scale:?} must have shape {wanted:?}"))
            }
        }
        (Op::MatMul, [a, b]) => matmul(a, b),
        (Op::Linear, [x, weight, bias @ ..]) => {
            let [out, width] = two(weight)?;
            linear(x, weight, [width, out], bias)
        }
        (Op::Gemm, [x, weight, bias @ ..]) => linear(x, weight, two(weight)?, bias),
        (&Op::Attention { heads, causal }, [q, k, v]) => attention(q, k, v, heads, causal),
        (Op::Lstm { .. }, [x, parameters @ ..]) => recurrent(x, parameters, 4),
        (Op::Gru { .. }, [x, parameters @ ..]) => recurrent(x, parameters, 3),
        (
            &Op::MaxPool {
                kernel,
                strides,
                pads,
                ceil_mode,
            },
            [x],
        ) => {
            check_pool_pads(kernel, pads)?;
            let [n, c, h, w] = four(x)?;
            let [h, w] = slide([h, w], kernel, strides, [1, 1], pads, ceil_mode)?;
            Ok(vec![n, c, h, w])
        }
        (
            &Op::AveragePool {
                kernel,
                strides,
                pads,
                ..
            },
            [x],
        ) => {
            check_pool_pads(kernel, pads)?;
            let [n, c, h, w] = four(x)?;
            let [h, w] = slide([h, w], kernel, strides, [1, 1], pads, false)?;
            Ok(vec![n, c, h, w])
        }
        (Op::GlobalAveragePool, [x]) => {
            let [n, c, ..] = four(x)?;
            Ok(vec![n, c, 1, 1])
        }
        (Op::Gather, [table, indices]) => {
            let [_, width] = **table else {
                return Err(format!("table shape {table:?} must have two axes"));
            };
            Ok([*indices, &[width]].concat())
        }
        (&Op::Resize { sizes, .. }, [x]) => {
            let [n, c, ..] = four(x)?;
            let [h, w] = sizes;
            Ok(vec![n, c, h, w])
        }
        (&Op::Softmax { axis } | &Op::LogSoftmax { axis }, [x]) => {
            let rank = x.len() as i64;
            if (-rank..rank).contains(&axis) {
                Ok(x.to_vec())
            } else {
                Err(format!("axis {axis} does not exist in shape {x:?}"))
            }
        }
        (Op::Flatten { .. } | Op::Reshape { .. } | Op::Transpose { .. }, [x])
        | (Op::Slice { .. } | Op::Squeeze { .. }, [x]) => rearrange(op, x),
        (Op::Expand { shape }, [x]) => broadcast(x, shape),
        (
            Op::Pad {
                begins,
                ends,
                border,
            },
            [x],
        ) => padded(x, begins, ends, *border),
        (&Op::Concat { axis }, [first, rest @ ..]) => concat(first, rest, axis),
        // Elementwise operators of one input. Arity was checked.
        (_, [x, ..]) => Ok(x.to_vec()),
        (_, []) => Err("reads nothing".to_owned()),
    }
}

fn four(shape: &[u64]) -> Result<[u64; 4], String> {
    <[u64; 4]>::try_from(shape).map_err(|_| format!("shape {shape:?} must have four axes"))
}

fn two(weight: &[u64]) -> Result<[u64; 2], String> {
    <[u64; 2]>::try_from(weight).map_err(|_| format!("weight shape {weight:?} must have two axes"))
}

/// A value whose second axis each parameter has a number for.
fn per_channel(x: &[u64], parameters: &[&[u64]]) -> Result<Shape, String> {
    let [_, channels, ..] = *x else {
        return Err(format!("input shape {x:?} has no channels"));
    };
    match parameters.iter().find(|shape| ***shape != [channels]) {
        Some(shape) => Err(format!("a parameter has shape {shape:?}, not [{channels}]")),
        None => Ok(x.to_vec()),
    }
}

/// A weight holds, for each of `first` channels, those of one group of `second`: a convolution's for
/// each that it makes, a transposed one's for each that it reads. There is a bias for each of `out`.
fn check_conv_channels(
    out: u64,
    weight: &[u64],
    bias: &[&[u64]],
    group: u64,
    [first, second]: [u64; 2],
) -> Result<(), String> {
    let [rows, per_group, ..] = *weight else {
        return Err(format!("weight shape {weight:?} must have four axes"));
    };
    if group == 0 || !first.is_multiple_of(group) || !second.is_multiple_of(group) {
        return Err(format!(
            "{group} groups do not divide {first} and {second} channels"
        ));
    }
    if rows != first {
        return Err(format!(
            "weight {weight:?} has rows for {rows} channels, there are {first}"
        ));
    }
    if second / group != per_group {
        return Err(format!(
            "weight {weight:?} has {per_group} channels a group, there are {}",
            second / group
        ));
    }
    match bias.first() {
        Some(bias) if **bias != [out] => Err(format!("bias {bias:?} must have shape [{out}]")),
        _ => Ok(()),
    }
}

/// The shape with a border, of at most so many elements as there are to reflect.
fn padded(x: &[u64], begins: &[u64], ends: &[u64], border: Border) -> Result<Shape, String> {
    if [begins, ends].iter().any(|sides| sides.len() != x.len()) {
        return Err(format!("borders {begins:?} and {ends:?} are none of {x:?}"));
    }
    let sides = x.iter().zip(begins.iter().zip(ends));
    let size = |(&size, (&begin, &end)): (&u64, (&u64, &u64))| {
        if border == Border::Reflect && begin.max(end) >= size {
            return Err(format!(
                "{begin} and {end} elements are not there to reflect in {size}"
            ));
        }
        let size = size.checked_add(begin).and_then(|sum| sum.checked_add(end));
        size.ok_or_else(|| "its border is too wide".to_owned())
    };
    sides.map(size).collect()
}

/// A map of the last axis by a weight that makes `out` numbers of `width`.
fn linear(
    x: &[u64],
    weight: &[u64],
    [width, out]: [u64; 2],
    bias: &[&[u64]],
) -> Result<Shape, String> {
    let (&last, leading) = x.split_last().ok_or("a scalar has no last axis")?;
    if last != width {
        return Err(format!(
            "input {x:?} ends in {last}, weight {weight:?} wants {width}"
        ));
    }
    if bias.first().is_some_and(|bias| **bias != [out]) {
        return Err(format!("bias {bias:?} must have shape [{out}]"));
    }
    Ok([leading, &[out]].concat())
}

fn matmul(a: &[u64], b: &[u64]) -> Result<Shape, String> {
    let ([a_leading @ .., rows, inner], [b_leading @ .., b_inner, columns]) = (a, b) else {
        return Err(format!(
            "shapes {a:?} and {b:?} must have two axes at least"
        ));
    };
    if inner != b_inner {
        return Err(format!(
            "shapes {a:?} and {b:?} do not fit: {inner} and {b_inner} differ"
        ));
    }
    let mut shape = broadcast(a_leading, b_leading)?;
    shape.extend([*rows, *columns]);
    Ok(shape)
}

fn attention(q: &[u64], k: &[u64], v: &[u64], heads: u64, causal: bool) -> Result<Shape, String> {
    let ([batch, queries, width], [k_batch, keys, k_width]) = (q, k) else {
        return Err(format!(
            "shapes {q:?} and {k:?} must be [batch, position, heads·size]"
        ));
    };
    if k != v || batch != k_batch || width != k_width {
        return Err(format!("query {q:?}, key {k:?} and value {v:?} do not fit"));
    }
    if heads == 0 || width % heads != 0 {
        return Err(format!("{heads} heads do not divide a width of {width}"));
    }
    if causal && queries != keys {
        return Err(format!(
            "causal attention of {queries} queries over {keys} keys"
        ));
    }
    Ok(q.to_vec())
}

/// A recurrent layer: four parameters a direction, whose rows are those of the gates.
fn recurrent(x: &[u64], parameters: &[&[u64]], gates: u64) -> Result<Shape, String> {
    let [batch, positions, features] = *x else {
        return Err(format!("shape {x:?} must be [batch, position, feature]"));
    };
    let hidden = parameters.get(1).ok_or("reads no parameters")?;
    let [_, size] = two(hidden)?;
    let rows = gates
        .checked_mul(size)
        .ok_or_else(|| format!("{size} units are too many"))?;
    let wanted: [&[u64]; 4] = [&[rows, features], &[rows, size], &[rows], &[rows]];
    let mut directions = 0;
    for direction in parameters.chunks(wanted.len()) {
        for (shape, wanted) in direction.iter().zip(wanted) {
            if *shape != wanted {
                return Err(format!(
                    "a parameter has shape {shape:?}; {features} features and {size} units want {wanted:?}"
                ));
            }
        }
        directions += 1;
    }
    let width = size
        .checked_mul(directions)
        .ok_or_else(|| format!("{size} units are too many"))?;
    Ok(vec![batch, positions, width])
}

/// Numpy's broadcasting, as ONNX has it: axes align at the end; sizes are equal or 1.
pub(crate) fn broadcast(a: &[u64], b: &[u64]) -> Result<Shape, String> {
    let rank = a.len().max(b.len());
    let size = |shape: &[u64], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .and_then(|axis| shape.get(axis))
            .copied()
            .unwrap_or(1)
    };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(format!("shapes {a:?} and {b:?} do not broadcast")),
        })
        .collect()
}

fn rearrange(op: &Op, x: &[u64]) -> Result<Shape, String> {
    let index = |axis: u64| {
        usize::try_from(axis)
            .ok()
            .filter(|&axis| axis < x.len())
            .ok_or_else(|| format!("axis {axis} does not exist in shape {x:?}"))
    };
    let count = |sizes: &[u64]| {
        sizes
            .iter()
            .try_fold(1_u64, |product, &size| product.checked_mul(size))
            .ok_or_else(|| format!("{sizes:?} has too many elements"))
    };
    match op {
        Op::Flatten { axis } => {
            let (kept, merged) = x.split_at(index(*axis)?);
            Ok([kept, &[count(merged)?]].concat())
        }
        Op::Reshape { shape } if count(shape)? == count(x)? => Ok(shape.clone()),
        Op::Reshape { shape } => Err(format!("{x:?} and {shape:?} differ in their elements")),
        Op::Transpose { perm } => {
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..x.len() as u64) {
                return Err(format!("{perm:?} is no order of the axes of {x:?}"));
            }
            perm.iter()
                .map(|&axis| index(axis).map(|axis| x[axis]))
                .collect()
        }
        Op::Slice { axis, start, end } => {
            let axis = index(*axis)?;
            if start >= end || *end > x[axis] {
                return Err(format!("{start}..{end} is no part of axis {axis} of {x:?}"));
            }
            let mut shape = x.to_vec();
            shape[axis] = end - start;
            Ok(shape)
        }
        Op::Squeeze { axis } => {
            let axis = index(*axis)?;
            if x[axis] != 1 {
                return Err(format!("axis {axis} of {x:?} is not of size 1"));
            }
            let mut shape = x.to_vec();
            shape.remove(axis);
            Ok(shape)
        }
        _ => Err("is no rearrangement".to_owned()),
    }
}

fn concat(first: &[u64], rest: &[&[u64]], axis: u64) -> Result<Shape, String> {
    let axis = usize::try_from(axis)
        .ok()
        .filter(|&axis| axis < first.len())
        .ok_or_else(|| format!("axis {axis} does not exist in shape {first:?}"))?;
    let mut shape = first.to_vec();
    for other in rest {
        let fits = other.len() == first.len()
            && other
                .iter()
                .zip(first)
                .enumerate()
                .all(|(i, (a, b))| i == axis || a == b);
        if !fits {
            return Err(format!(
                "shapes {first:?} and {other:?} do not join along axis {axis}"
            ));
        }
        shape[axis] = shape[axis]
            .checked_add(other[axis])
            .ok_or_else(|| format!("axis {axis} grows too large"))?;
    }
    Ok(shape)
}
