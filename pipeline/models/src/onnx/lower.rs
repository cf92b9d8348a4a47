//! Each operator in ONNX's words.

use schema::graph::{Approximation, Border, Interpolation, Node, Op};

use super::{
    Writer,
    proto::{DataType, NodeProto},
    quantised, recurrent,
};

/// Most elements of a mask that is written out.
const LARGEST_MASK: u64 = 1 << 28;

/// Appends what `node` is in ONNX, or says why it is nothing there.
pub(super) fn node<'a>(writer: &mut Writer<'a>, node: &'a Node) -> Result<(), String> {
    let (Some(first), [output]) = (node.inputs.first(), node.outputs.as_slice()) else {
        return Err("reads or makes nothing".to_owned());
    };
    check_element(writer, &node.op)?;
    if let Op::Dropout { .. } = node.op {
        writer.alias(output, first);
        return Ok(());
    }
    if let Some(operands) = quantised::dynamic_operands(writer, node) {
        return quantised::dynamic_product(writer, node, operands, output);
    }
    match &node.op {
        Op::Gelu { approximate } if writer.opset < 20 => {
            return match approximate {
                Approximation::None => gelu(writer, node, first, output),
                Approximation::Tanh => gelu_by_tanh(writer, node, first, output),
            };
        }
        Op::Silu => return silu(writer, node, first, output),
        Op::Linear | Op::Gemm if writer.shape(first).len() != 2 => {
            return linear(writer, node, output);
        }
        &Op::Attention { heads, causal } if writer.extensions.multi_head_attention => {
            let inputs = inputs(writer, node);
            let op = "MultiHeadAttention";
            let fused = NodeProto::new(op, node.name.clone(), inputs, output.clone())
                .int("num_heads", heads as i64)
                .int("unidirectional", i64::from(causal));
            writer.push(fused.extension());
            return Ok(());
        }
        &Op::Attention { heads, causal } => {
            return Attention::new(writer, node, heads, causal)?.write(writer, node, output);
        }
        Op::Lstm { .. } | Op::Gru { .. } => return recurrent::write(writer, node, output),
        &Op::QuantizeDequantize {
            axis,
            zero_point,
            element,
        } => return quantised::round(writer, node, (axis, zero_point, element), output),
        Op::DynamicQuantizeDequantize => return quantised::round_in_steps(writer, node, output),
        _ => {}
    }
    let inputs = inputs(writer, node);
    let made = |op: &str| NodeProto::new(op, node.name.clone(), inputs, output.clone());
    let lowered = plain(writer, node, made, first, output);
    writer.push(lowered);
    Ok(())
}

/// Operators that are one of ONNX's. Constant operands are appended to the inputs.
fn plain<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    made: impl FnOnce(&str) -> NodeProto,
    first: &str,
    output: &str,
) -> NodeProto {
    let name = node.op.name();
    match &node.op {
        Op::Conv {
            strides,
            pads,
            dilations,
            group,
        } => {
            let weight = node
                .inputs
                .get(1)
                .map_or(&[][..], |weight| writer.shape(weight));
            made(name)
                .ints("kernel_shape", weight.get(2..).unwrap_or_default())
                .ints("strides", strides)
                .ints("pads", pads)
                .ints("dilations", dilations)
                .int("group", *group as i64)
        }
        Op::ConvTranspose {
            strides,
            pads,
            output_padding,
            dilations,
            group,
        } => {
            let weight = node
                .inputs
                .get(1)
                .map_or(&[][..], |weight| writer.shape(weight));
            made(name)
                .ints("kernel_shape", weight.get(2..).unwrap_or_default())
                .ints("strides", strides)
                .ints("pads", pads)
                .ints("output_padding", output_padding)
                .ints("dilations", dilations)
                .int("group", *group as i64)
        }
        // ONNX's momentum is the weight of the old statistics.
        &Op::BatchNormalization { epsilon, momentum } => made(name)
            .float("epsilon", epsilon)
            .float("momentum", 1.0 - momentum),
        &Op::LayerNormalization { epsilon } => made(name).int("axis", -1).float("epsilon", epsilon),
        &Op::InstanceNormalization { epsilon } => made(name).float("epsilon", epsilon),
        &Op::LeakyRelu { alpha } | &Op::Elu { alpha } => made(name).float("alpha", alpha),
        &Op::Clip { min, max } => {
            let bounds = [("min", min), ("max", max)].map(|(part, bound)| {
                let name = writer.fresh(node, part);
                writer.weights.floats(name.clone(), &[], &[bound]);
                name
            });
            with_operands(made(name), bounds)
        }
        Op::HardSigmoid => made(name).float("alpha", 1.0 / 6.0).float("beta", 0.5),
        &Op::Softmax { axis } | &Op::LogSoftmax { axis } => made(name).int("axis", axis),
        &Op::Gelu { approximate } => match approximate {
            Approximation::None => made(name),
            Approximation::Tanh => made(name).string("approximate", "tanh"),
        },
        // What is left of linear maps, `Op::Gemm` included, are those of matrices.
        Op::Linear => made("Gemm").int("transB", 1),
        &Op::MaxPool {
            kernel,
            strides,
            pads,
            ceil_mode,
        } => {
            let pads = if ceil_mode {
                whole_windows(
                    writer.shape(first),
                    writer.shape(output),
                    kernel,
                    strides,
                    pads,
                )
            } else {
                pads
            };
            made(name)
                .ints("kernel_shape", &kernel)
                .ints("strides", &strides)
                .ints("pads", &pads)
        }
        &Op::AveragePool {
            kernel,
            strides,
            pads,
            count_include_pad,
        } => made(name)
            .ints("kernel_shape", &kernel)
            .ints("strides", &strides)
            .ints("pads", &pads)
            .int("count_include_pad", i64::from(count_include_pad)),
        &Op::Resize { interpolation, .. } => {
            let (mode, transformation) = match interpolation {
                Interpolation::Nearest => ("nearest", "asymmetric"),
                Interpolation::Linear => ("linear", "half_pixel"),
                Interpolation::LinearCorners => ("linear", "align_corners"),
            };
            let shape = writer.shape(output);
            let sizes = integers(writer, node, "sizes", shape);
            // Neither a region nor scales.
            let operands = [String::new(), String::new(), sizes];
            let made = with_operands(made(name), operands)
                .string("mode", mode)
                .string("coordinate_transformation_mode", transformation);
            match interpolation {
                Interpolation::Nearest => made.string("nearest_mode", "floor"),
                _ => made,
            }
        }
        // ONNX's Flatten always makes a matrix, ours merges the axes from one on.
        Op::Flatten { axis: 1 } => made(name).int("axis", 1),
        Op::Flatten { .. } => {
            let shape = writer.shape(output);
            let shape = integers(writer, node, "shape", shape);
            with_operands(made("Reshape"), [shape])
        }
        Op::Reshape { shape } => {
            with_operands(made(name), [integers(writer, node, "shape", shape)])
        }
        Op::Transpose { perm } => made(name).ints("perm", perm),
        Op::Expand { shape } => with_operands(made(name), [integers(writer, node, "shape", shape)]),
        Op::Pad {
            begins,
            ends,
            border,
        } => {
            let sides = [begins.as_slice(), ends].concat();
            let made = with_operands(made(name), [integers(writer, node, "pads", &sides)]);
            match border {
                Border::Constant { value } => {
                    let number = scalar(writer, node, "border", *value);
                    with_operands(made, [number])
                }
                Border::Reflect => made.string("mode", "reflect"),
            }
        }
        Op::Concat { axis } => made(name).int("axis", *axis as i64),
        Op::Slice { axis, start, end } => {
            let operands = [
                integers(writer, node, "starts", &[*start]),
                integers(writer, node, "ends", &[*end]),
                integers(writer, node, "axes", &[*axis]),
            ];
            with_operands(made(name), operands)
        }
        Op::Squeeze { axis } => {
            with_operands(made(name), [integers(writer, node, "axes", &[*axis])])
        }
        Op::Gather => made(name).int("axis", 0),
        _ => made(name),
    }
}

fn with_operands<const N: usize>(mut node: NodeProto, operands: [String; N]) -> NodeProto {
    node.input.extend(operands);
    node
}

/// A constant operand of integers. Equal ones are written once: a sequence that is spelt out
/// slices the same gates at every position.
pub(super) fn integers(writer: &mut Writer<'_>, node: &Node, part: &str, values: &[u64]) -> String {
    if let Some(name) = writer.integers.get(values) {
        return name.clone();
    }
    let name = writer.fresh(node, part);
    writer.integers.insert(values.to_vec(), name.clone());
    let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
    writer
        .weights
        .integers(name.clone(), &[values.len() as u64], &values);
    name
}

fn inputs<'a>(writer: &mut Writer<'a>, node: &'a Node) -> Vec<String> {
    node.inputs.iter().map(|name| writer.read(name)).collect()
}

/// Whether the opset has the operator for the model's element type.
fn check_element(writer: &Writer<'_>, op: &Op) -> Result<(), String> {
    let late = matches!(
        op,
        Op::Conv { .. }
            | Op::ConvTranspose { .. }
            | Op::InstanceNormalization { .. }
            | Op::Elu { .. }
            | Op::Softplus
            | Op::Sin
            | Op::Cos
            | Op::MaxPool { .. }
            | Op::AveragePool { .. }
            | Op::GlobalAveragePool
            | Op::Lstm { .. }
            | Op::Gru { .. }
    );
    if late && writer.element == DataType::BFloat16 && writer.opset < 22 {
        return Err(format!(
            "ONNX has it for bf16 from opset 22 on, this is opset {}; take opset 22 or fp16",
            writer.opset
        ));
    }
    Ok(())
}

/// Padding that turns the last partial windows into whole ones. Opsets before 22 count such
/// windows in another way; padding of a maximum is never the maximum.
fn whole_windows(
    input: &[u64],
    output: &[u64],
    kernel: [u64; 2],
    strides: [u64; 2],
    pads: [u64; 4],
) -> [u64; 4] {
    let [top, left, bottom, right] = pads;
    let end = |axis: usize, kernel: u64, stride: u64, begin: u64, end: u64| {
        let size = |shape: &[u64]| shape.get(axis).copied().unwrap_or(1);
        let last_start = size(output).saturating_sub(1).saturating_mul(stride);
        let reach = last_start.saturating_add(kernel);
        end.max(reach.saturating_sub(size(input).saturating_add(begin)))
    };
    let bottom = end(2, kernel[0], strides[0], top, bottom);
    let right = end(3, kernel[1], strides[1], left, right);
    [top, left, bottom, right]
}

/// `x · sigmoid(x)`.
fn silu<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    input: &'a str,
    output: &str,
) -> Result<(), String> {
    let x = writer.read(input);
    let gate = writer.fresh(node, "sigmoid");
    writer.push(NodeProto::new(
        "Sigmoid",
        gate.clone(),
        vec![x.clone()],
        gate.clone(),
    ));
    writer.push(NodeProto::new(
        "Mul",
        node.name.clone(),
        vec![x, gate],
        output.to_owned(),
    ));
    Ok(())
}

/// `½ · (x · (1 + erf(x / √2)))`, in the order that optimisers recognise.
fn gelu<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    input: &'a str,
    output: &str,
) -> Result<(), String> {
    let x = writer.read(input);
    let root = scalar(writer, node, "root_two", std::f32::consts::SQRT_2);
    let one = scalar(writer, node, "one", 1.0);
    let half = scalar(writer, node, "half", 0.5);
    let scaled = step(writer, node, "Div", "scaled", vec![x.clone(), root]);
    let erf = step(writer, node, "Erf", "erf", vec![scaled]);
    let sum = step(writer, node, "Add", "sum", vec![erf, one]);
    let product = step(writer, node, "Mul", "product", vec![x, sum]);
    last(writer, node, vec![product, half], output);
    Ok(())
}

/// `½ · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`, in the order that optimisers recognise.
fn gelu_by_tanh<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    input: &'a str,
    output: &str,
) -> Result<(), String> {
    let x = writer.read(input);
    let three = scalar(writer, node, "three", 3.0);
    let share = scalar(writer, node, "share", 0.044_715);
    let slope = std::f64::consts::FRAC_2_PI.sqrt() as f32;
    let slope = scalar(writer, node, "slope", slope);
    let one = scalar(writer, node, "one", 1.0);
    let half = scalar(writer, node, "half", 0.5);
    let cube = step(writer, node, "Pow", "cube", vec![x.clone(), three]);
    let bend = step(writer, node, "Mul", "bend", vec![cube, share]);
    let bent = step(writer, node, "Add", "bent", vec![x.clone(), bend]);
    let scaled = step(writer, node, "Mul", "scaled", vec![bent, slope]);
    let tanh = step(writer, node, "Tanh", "tanh", vec![scaled]);
    let sum = step(writer, node, "Add", "sum", vec![tanh, one]);
    let halved = step(writer, node, "Mul", "halved", vec![x, half]);
    last(writer, node, vec![halved, sum], output);
    Ok(())
}

/// The product that ends a composed operator and bears its name.
fn last(writer: &mut Writer<'_>, node: &Node, factors: Vec<String>, output: &str) {
    let product = NodeProto::new("Mul", node.name.clone(), factors, output.to_owned());
    writer.push(product);
}

/// `x · weightᵀ + bias`, or `x · weight + bias`, for any number of leading axes.
fn linear<'a>(writer: &mut Writer<'a>, node: &'a Node, output: &str) -> Result<(), String> {
    let [x, weight, bias @ ..] = node.inputs.as_slice() else {
        return Err("reads fewer than two values".to_owned());
    };
    let x = writer.read(x);
    let ready = match node.op {
        Op::Gemm => Some(writer.read(weight)),
        _ => quantised::transposed(writer, weight).or_else(|| writer.weights.transposed(weight)),
    };
    let turned = match ready {
        Some(turned) => turned,
        None => {
            let weight = writer.read(weight);
            let name = writer.fresh(node, "weight_transposed");
            let turn = NodeProto::new("Transpose", name.clone(), vec![weight], name.clone());
            writer.push(turn.ints("perm", &[1, 0]));
            name
        }
    };
    match bias.first() {
        None => {
            let product = NodeProto::new(
                "MatMul",
                node.name.clone(),
                vec![x, turned],
                output.to_owned(),
            );
            writer.push(product);
        }
        Some(bias) => {
            let product = step(writer, node, "MatMul", "product", vec![x, turned]);
            let bias = writer.read(bias);
            let sum = NodeProto::new(
                "Add",
                node.name.clone(),
                vec![product, bias],
                output.to_owned(),
            );
            writer.push(sum);
        }
    }
    Ok(())
}

/// Attention in elementary operators: `softmax(q·kᵀ/√size)·v` for each head. The query is scaled,
/// since it has fewer elements than the scores.
struct Attention {
    query: String,
    key: String,
    value: String,
    /// `[batch, position, heads, size]` of queries and of keys.
    split: [[u64; 4]; 2],
    causal: bool,
}

impl Attention {
    fn new<'a>(
        writer: &mut Writer<'a>,
        node: &'a Node,
        heads: u64,
        causal: bool,
    ) -> Result<Self, String> {
        let [query, key, value] = node.inputs.as_slice() else {
            return Err("reads three values".to_owned());
        };
        let split = [query, key].map(|name| match *writer.shape(name) {
            [batch, positions, width] if heads > 0 => [batch, positions, heads, width / heads],
            _ => [1; 4],
        });
        Ok(Self {
            query: writer.read(query),
            key: writer.read(key),
            value: writer.read(value),
            split,
            causal,
        })
    }

    fn write(self, writer: &mut Writer<'_>, node: &Node, output: &str) -> Result<(), String> {
        let [queries, keys] = self.split;
        let [batch, positions, heads, size] = queries;
        let query_shape = integers(writer, node, "query_shape", &queries);
        let key_shape = integers(writer, node, "key_shape", &keys);
        let merged_shape = integers(
            writer,
            node,
            "merged_shape",
            &[batch, positions, heads * size],
        );

        let scale = scalar(writer, node, "scale", (1.0 / (size as f64).sqrt()) as f32);
        let q = step(writer, node, "Mul", "query_scaled", vec![self.query, scale]);
        let q = step(writer, node, "Reshape", "query_split", vec![q, query_shape]);
        let q = transpose(writer, node, "query_heads", q, &[0, 2, 1, 3]);
        let k = step(
            writer,
            node,
            "Reshape",
            "key_split",
            vec![self.key, key_shape.clone()],
        );
        let k = transpose(writer, node, "key_heads", k, &[0, 2, 3, 1]);
        let v = step(
            writer,
            node,
            "Reshape",
            "value_split",
            vec![self.value, key_shape],
        );
        let v = transpose(writer, node, "value_heads", v, &[0, 2, 1, 3]);

        let mut scores = step(writer, node, "MatMul", "scores", vec![q, k]);
        if self.causal {
            let mask = causal_mask(writer, node, positions)?;
            scores = step(writer, node, "Add", "masked", vec![scores, mask]);
        }
        let name = writer.fresh(node, "probabilities");
        let softmax = NodeProto::new("Softmax", name.clone(), vec![scores], name.clone());
        writer.push(softmax.int("axis", -1));
        let mixed = step(writer, node, "MatMul", "mixed", vec![name, v]);
        let mixed = transpose(writer, node, "mixed_positions", mixed, &[0, 2, 1, 3]);
        let inputs = vec![mixed, merged_shape];
        writer.push(NodeProto::new(
            "Reshape",
            node.name.clone(),
            inputs,
            output.to_owned(),
        ));
        Ok(())
    }
}

/// 0 where a position may look, −∞ where it may not.
fn causal_mask(writer: &mut Writer<'_>, node: &Node, positions: u64) -> Result<String, String> {
    if positions
        .checked_mul(positions)
        .is_none_or(|elements| elements > LARGEST_MASK)
    {
        return Err(format!(
            "a causal mask over {positions} positions is too large to write"
        ));
    }
    if let Some(mask) = writer.masks.get(&positions) {
        return Ok(mask.clone());
    }
    let name = writer.fresh(node, "mask");
    let row =
        |query| (0..positions).map(move |key| if key <= query { 0.0 } else { f32::NEG_INFINITY });
    let mask: Vec<f32> = (0..positions).flat_map(row).collect();
    writer
        .weights
        .floats(name.clone(), &[positions, positions], &mask);
    writer.masks.insert(positions, name.clone());
    Ok(name)
}

/// An operator between, whose value is called after the node and `part`.
fn step(writer: &mut Writer<'_>, node: &Node, op: &str, part: &str, inputs: Vec<String>) -> String {
    let name = writer.fresh(node, part);
    writer.push(NodeProto::new(op, name.clone(), inputs, name.clone()));
    name
}

/// Another order of axes, between.
pub(super) fn transpose(
    writer: &mut Writer<'_>,
    node: &Node,
    part: &str,
    input: String,
    perm: &[u64],
) -> String {
    let name = writer.fresh(node, part);
    writer.push(
        NodeProto::new("Transpose", name.clone(), vec![input], name.clone()).ints("perm", perm),
    );
    name
}

fn scalar(writer: &mut Writer<'_>, node: &Node, part: &str, value: f32) -> String {
    let name = writer.fresh(node, part);
    writer.weights.floats(name.clone(), &[], &[value]);
    name
}
