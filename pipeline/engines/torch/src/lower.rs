//! From a graph to a program: names become numbers, attributes become PyTorch's, and it is
//! decided what runs in place and when a value is let go.

use std::collections::{BTreeMap, BTreeSet};

use models::infer::ValueType;
use schema::{
    Graph, Mode, Outcome,
    graph::{Approximation, Border, GridElement, Loss, Node, Op, decimal},
};

use crate::{
    failure::unsupported,
    geometry::{Padding, pooled_size},
    kernel::{Attention, Kernel},
    overwrite::Overwrites,
    program::{Program, Step},
    recurrent::Recurrent,
};

/// A program and where its values are.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The steps.
    pub(crate) program: Program,
    /// The number of every value, by name.
    pub(crate) indices: BTreeMap<String, usize>,
}

/// Lowers `graph`. Values that a caller needs afterwards stay: the outputs, or the logits when
/// training.
pub(crate) fn lower(graph: &Graph, mode: Mode) -> Result<Lowered, Outcome> {
    let types = models::infer::shapes(graph).map_err(|error| unsupported(error.to_string()))?;
    let indices = number(graph, mode)?;
    let kept = kept(graph, mode);
    let overwrites = Overwrites::new(graph, kept.clone(), mode);
    let shape_of = |name: &str| types.get(name).map(|value| value.shape.as_slice());
    let mut expiries = expiries(graph, &kept);
    let mut steps = Vec::with_capacity(graph.nodes.len());
    for (position, node) in graph.nodes.iter().enumerate() {
        let index = |name: &String| {
            indices
                .get(name)
                .copied()
                .ok_or_else(|| refused(node, &format!("reads `{name}`, which nothing makes")))
        };
        let output = node
            .outputs
            .first()
            .ok_or_else(|| refused(node, "has no output"))?;
        let expired = expiries.remove(&position).unwrap_or_default();
        steps.push(Step {
            place: place(node),
            kernel: kernel(node, &types)?,
            inputs: node.inputs.iter().map(index).collect::<Result<_, _>>()?,
            output: index(output)?,
            in_place: overwrites.allow(node, shape_of),
            expired: expired.into_iter().map(index).collect::<Result<_, _>>()?,
        });
    }
    Ok(Lowered {
        program: Program { steps, casts: None },
        indices,
    })
}

/// Operator and node, as a reader of an error finds them.
fn place(node: &Node) -> String {
    format!("{} {}", node.op.name(), node.name)
}

fn refused(node: &Node, reason: &str) -> Outcome {
    unsupported(format!("{}: {reason}", place(node)))
}

/// Gives every value a number: what is fed, what is held, then what is made.
fn number(graph: &Graph, mode: Mode) -> Result<BTreeMap<String, usize>, Outcome> {
    let fed = graph.inputs.iter().map(|input| &input.name);
    let labels = match (&graph.loss, mode) {
        (Some(Loss::CrossEntropy { labels, .. }), Mode::Training) => Some(&labels.name),
        _ => None,
    };
    let held = graph.parameters.iter().map(|parameter| &parameter.name);
    let made = graph.nodes.iter().flat_map(|node| &node.outputs);
    let mut indices = BTreeMap::new();
    for (index, name) in fed.chain(labels).chain(held).chain(made).enumerate() {
        if indices.insert(name.clone(), index).is_some() {
            return Err(unsupported(format!("the graph makes `{name}` twice")));
        }
    }
    Ok(indices)
}

/// The values that must survive a run.
fn kept(graph: &Graph, mode: Mode) -> BTreeSet<&str> {
    match (mode, &graph.loss) {
        (Mode::Training, Some(Loss::CrossEntropy { logits, .. })) => {
            BTreeSet::from([logits.as_str()])
        }
        _ => graph.outputs.iter().map(String::as_str).collect(),
    }
}

/// For every node, by position, the made values that nothing reads after it.
fn expiries<'a>(graph: &'a Graph, kept: &BTreeSet<&str>) -> BTreeMap<usize, Vec<&'a String>> {
    let mut last_use = BTreeMap::new();
    for (position, node) in graph.nodes.iter().enumerate() {
        for output in &node.outputs {
            last_use.insert(output, position);
        }
        for input in &node.inputs {
            last_use.entry(input).and_modify(|last| *last = position);
        }
    }
    let mut expiries: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, position) in last_use {
        if !kept.contains(name.as_str()) {
            expiries.entry(position).or_default().push(name);
        }
    }
    expiries
}

/// The number of operands that an operator takes.
const fn arity(op: &Op) -> (usize, usize) {
    match op {
        Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Linear | Op::Gemm => (2, 3),
        Op::BatchNormalization { .. } => (5, 5),
        Op::LayerNormalization { .. } | Op::InstanceNormalization { .. } | Op::Attention { .. } => {
            (3, 3)
        }
        Op::Lstm { .. } | Op::Gru { .. } => (5, 9),
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
        _ => (1, 1),
    }
}

/// The node's operator in PyTorch's terms.
fn kernel(node: &Node, types: &BTreeMap<String, ValueType>) -> Result<Kernel, Outcome> {
    let (least, most) = arity(&node.op);
    if node.inputs.len() < least || node.inputs.len() > most || node.outputs.len() != 1 {
        let (inputs, outputs) = (node.inputs.len(), node.outputs.len());
        return Err(refused(
            node,
            &format!("has {inputs} inputs and {outputs} outputs"),
        ));
    }
    let wide = |number: &u64| {
        i64::try_from(*number).map_err(|_| refused(node, &format!("{number} is too large")))
    };
    let pair = |[a, b]: &[u64; 2]| Ok::<_, Outcome>([wide(a)?, wide(b)?]);
    let sides =
        |[a, b, c, d]: &[u64; 4]| Ok::<_, Outcome>([wide(a)?, wide(b)?, wide(c)?, wide(d)?]);
    let list = |numbers: &[u64]| numbers.iter().map(wide).collect::<Result<Box<[i64]>, _>>();
    let kernel = match &node.op {
        Op::Conv {
            strides,
            pads,
            dilations,
            group,
        } => Kernel::Conv {
            strides: pair(strides)?,
            padding: Padding::new(sides(pads)?),
            dilations: pair(dilations)?,
            groups: wide(group)?,
        },
        Op::ConvTranspose {
            strides,
            pads,
            output_padding,
            dilations,
            group,
        } => {
            let [top, left, bottom, right] = sides(pads)?;
            if [top, left] != [bottom, right] {
                return Err(refused(node, "PyTorch cuts off as much on both sides"));
            }
            Kernel::ConvTranspose {
                strides: pair(strides)?,
                padding: [top, left],
                more: pair(output_padding)?,
                dilations: pair(dilations)?,
                groups: wide(group)?,
            }
        }
        Op::BatchNormalization { epsilon, momentum } => Kernel::BatchNorm {
            epsilon: decimal(*epsilon),
            momentum: decimal(*momentum),
        },
        Op::LayerNormalization { epsilon } => {
            let x = shape(node, node.inputs.first(), types)?;
            let width = x.last().ok_or_else(|| refused(node, "has no last axis"))?;
            Kernel::LayerNorm {
                width: [wide(width)?],
                epsilon: decimal(*epsilon),
            }
        }
        Op::InstanceNormalization { epsilon } => Kernel::InstanceNorm {
            epsilon: decimal(*epsilon),
        },
        Op::Relu => Kernel::Relu,
        Op::LeakyRelu { alpha } => Kernel::LeakyRelu {
            slope: decimal(*alpha),
        },
        Op::PRelu => Kernel::PRelu,
        Op::Elu { alpha } => Kernel::Elu {
            alpha: decimal(*alpha),
        },
        Op::Softplus => Kernel::Softplus,
        Op::Clip { min, max } => Kernel::Clip {
            min: f64::from(*min),
            max: f64::from(*max),
        },
        Op::Sigmoid => Kernel::Sigmoid,
        Op::HardSigmoid => Kernel::HardSigmoid,
        Op::HardSwish => Kernel::HardSwish,
        Op::Silu => Kernel::Silu,
        Op::Tanh => Kernel::Tanh,
        Op::Gelu { approximate } => Kernel::Gelu {
            approximate: match approximate {
                Approximation::None => "none",
                Approximation::Tanh => "tanh",
            },
        },
        Op::Softmax { axis } => Kernel::Softmax { axis: *axis },
        Op::LogSoftmax { axis } => Kernel::LogSoftmax { axis: *axis },
        Op::Add => Kernel::Add,
        Op::Mul => Kernel::Mul,
        Op::Div => Kernel::Div,
        Op::Max => Kernel::Max,
        Op::Min => Kernel::Min,
        Op::Sqrt => Kernel::Sqrt,
        Op::Exp => Kernel::Exp,
        Op::Log => Kernel::Log,
        Op::Abs => Kernel::Abs,
        Op::Sin => Kernel::Sin,
        Op::Cos => Kernel::Cos,
        Op::MatMul => Kernel::MatMul,
        Op::Linear => Kernel::Linear,
        Op::Gemm => {
            let x = shape(node, node.inputs.first(), types)?;
            let width = x.last().ok_or_else(|| refused(node, "has no last axis"))?;
            Kernel::Gemm {
                rows: [-1, wide(width)?],
                output: list(shape(node, node.outputs.first(), types)?)?,
            }
        }
        Op::Attention { heads, causal } => attention(node, wide(heads)?, *causal, types)?,
        Op::Lstm { .. } | Op::Gru { .. } => Recurrent::of(node, types)
            .map(Kernel::Recurrent)
            .ok_or_else(|| refused(node, "has other shapes than a layer"))?,
        Op::MaxPool {
            kernel,
            strides,
            pads,
            ceil_mode,
        } => {
            let (window, strides, pads) = (pair(kernel)?, pair(strides)?, sides(pads)?);
            let padding = Padding::of_window(pads, window);
            agrees_on_size(node, types, window, strides, pads, padding, *ceil_mode)?;
            Kernel::MaxPool {
                window,
                strides,
                padding,
                ceil: *ceil_mode,
            }
        }
        Op::AveragePool {
            kernel,
            strides,
            pads,
            count_include_pad,
        } => {
            let (window, strides, pads) = (pair(kernel)?, pair(strides)?, sides(pads)?);
            let padding = Padding::of_window(pads, window);
            if padding.border.is_some() && !count_include_pad {
                let reason = "uneven padding that does not count in the mean has no operator";
                return Err(refused(node, reason));
            }
            agrees_on_size(node, types, window, strides, pads, padding, false)?;
            Kernel::AveragePool {
                window,
                strides,
                padding,
                count_padding: *count_include_pad,
            }
        }
        Op::GlobalAveragePool => Kernel::GlobalAveragePool,
        Op::Resize {
            sizes,
            interpolation,
        } => Kernel::Resize {
            sizes: pair(sizes)?,
            interpolation: *interpolation,
        },
        Op::Flatten { axis } => Kernel::Flatten { axis: wide(axis)? },
        Op::Reshape { shape } => Kernel::Reshape {
            shape: list(shape)?,
        },
        Op::Transpose { perm } => Kernel::Transpose { axes: list(perm)? },
        // The resolved shape: what both broadcast to.
        Op::Expand { .. } => Kernel::Expand {
            shape: list(shape(node, node.outputs.first(), types)?)?,
        },
        Op::Pad {
            begins,
            ends,
            border,
        } => {
            let bare = match border {
                Border::Constant { .. } => begins.len(),
                // PyTorch reflects the last axes of a value, all but the first one or two.
                Border::Reflect => 2,
            };
            let sides = from_the_last(begins, ends, bare);
            if *border == Border::Reflect && sides.len() / 2 >= begins.len() {
                return Err(refused(node, "PyTorch reflects no first axis"));
            }
            Kernel::Pad {
                sides: list(&sides)?,
                border: *border,
            }
        }
        Op::Concat { axis } => Kernel::Concat { axis: wide(axis)? },
        Op::Slice { axis, start, end } => Kernel::Slice {
            axis: wide(axis)?,
            start: wide(start)?,
            end: wide(end)?,
        },
        Op::Gather => Kernel::Gather,
        Op::Squeeze { axis } => Kernel::Squeeze { axis: wide(axis)? },
        &Op::QuantizeDequantize {
            axis,
            zero_point,
            element,
        } => Kernel::Round {
            scale: scale_shape(node, axis, types)?,
            zero_point: zero_point as f64,
            bounds: bounds(element),
        },
        Op::DynamicQuantizeDequantize => Kernel::RoundToOwnGrid,
        Op::Dropout { ratio } => Kernel::Dropout {
            ratio: decimal(*ratio),
        },
    };
    Ok(kernel)
}

/// A border as PyTorch writes it: before and behind for each axis from the last on, without at most so
/// many first ones that have none.
fn from_the_last(begins: &[u64], ends: &[u64], bare: usize) -> Vec<u64> {
    let axes = begins.iter().zip(ends);
    let without = axes.clone().take_while(|sides| *sides == (&0, &0));
    let bare = without.take(bare).count();
    let bordered = axes.skip(bare).rev();
    bordered.flat_map(|(&begin, &end)| [begin, end]).collect()
}

/// The smallest and the largest integer of a grid; PyTorch's numbers are floats.
const fn bounds(element: GridElement) -> [f64; 2] {
    let (least, most) = element.bounds();
    [least as f64, most as f64]
}

/// The shape in which scales along an axis broadcast to the value.
fn scale_shape(
    node: &Node,
    axis: Option<u64>,
    types: &BTreeMap<String, ValueType>,
) -> Result<Box<[i64]>, Outcome> {
    let Some(axis) = axis else {
        return Ok(Box::default());
    };
    let behind = shape(node, node.inputs.first(), types)?
        .iter()
        .skip(1 + axis as usize);
    Ok(std::iter::once(-1).chain(behind.map(|_| 1)).collect())
}

fn shape<'a>(
    node: &Node,
    name: Option<&String>,
    types: &'a BTreeMap<String, ValueType>,
) -> Result<&'a [u64], Outcome> {
    name.and_then(|name| types.get(name))
        .map(|value| value.shape.as_slice())
        .ok_or_else(|| refused(node, "reads a value of unknown shape"))
}

fn attention(
    node: &Node,
    heads: i64,
    causal: bool,
    types: &BTreeMap<String, ValueType>,
) -> Result<Kernel, Outcome> {
    let split = |position: usize| {
        let sizes = shape(node, node.inputs.get(position), types)?;
        let sizes: Vec<i64> = sizes
            .iter()
            .map(|&size| i64::try_from(size).unwrap_or(i64::MAX))
            .collect();
        match sizes[..] {
            [batch, positions, width] if heads > 0 && width % heads == 0 => {
                Ok([batch, positions, heads, width / heads])
            }
            _ => Err(refused(
                node,
                "an operand is not [batch, position, heads·size]",
            )),
        }
    };
    let (query, key, value) = (split(0)?, split(1)?, split(2)?);
    let [batch, positions, _, _] = query;
    let [_, _, _, size] = value;
    let width = heads
        .checked_mul(size)
        .ok_or_else(|| refused(node, "is too wide"))?;
    let output = [batch, positions, width];
    Ok(Kernel::Attention(Attention {
        query,
        key,
        value,
        output,
        causal,
    }))
}

/// Refuses a pool for which PyTorch would make another number of windows than ONNX.
fn agrees_on_size(
    node: &Node,
    types: &BTreeMap<String, ValueType>,
    window: [i64; 2],
    strides: [i64; 2],
    pads: [i64; 4],
    padding: Padding,
    ceil: bool,
) -> Result<(), Outcome> {
    let input = shape(node, node.inputs.first(), types)?;
    let output = shape(node, node.outputs.first(), types)?;
    let (&[_, _, height, width], &[_, _, out_height, out_width]) = (input, output) else {
        return Err(refused(node, "pools something that is not an image"));
    };
    let [top, left, bottom, right] = pads;
    let [vertical, horizontal] = padding.symmetric;
    let (rows, columns) = match padding.border {
        Some(_) => (top.saturating_add(bottom), left.saturating_add(right)),
        None => (0, 0),
    };
    let agrees = |size: u64, border: i64, window, stride, pad, expected: u64| {
        let size = i64::try_from(size).ok()?.checked_add(border)?;
        let made = pooled_size(size, window, stride, pad, ceil)?;
        (u64::try_from(made).ok()? == expected).then_some(())
    };
    let [window_height, window_width] = window;
    let [down, right] = strides;
    agrees(height, rows, window_height, down, vertical, out_height)
        .and_then(|()| agrees(width, columns, window_width, right, horizontal, out_width))
        .ok_or_else(|| refused(node, "PyTorch makes another number of windows than ONNX"))
}

#[cfg(test)]
mod tests {
    use schema::graph::{ElementType, Fill, Input};

    use super::*;

    fn node(name: &str, op: Op, inputs: &[&str]) -> Node {
        Node {
            name: name.to_owned(),
            op,
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
            outputs: vec![name.to_owned()],
            in_place: false,
        }
    }

    fn graph(nodes: Vec<Node>) -> Graph {
        Graph {
            name: "g".to_owned(),
            inputs: vec![Input {
                name: "x".to_owned(),
                element: ElementType::Float,
                shape: vec![2, 2],
                fill: Fill::Constant { value: 1.0 },
            }],
            parameters: vec![],
            outputs: nodes
                .last()
                .map(|last| last.name.clone())
                .into_iter()
                .collect(),
            nodes,
            loss: None,
        }
    }

    #[test]
    fn values_are_let_go_after_their_last_reader() {
        let graph = graph(vec![
            node("a", Op::Silu, &["x"]),
            node("unread", Op::Tanh, &["a"]),
            node("b", Op::Mul, &["a", "x"]),
            node("c", Op::Tanh, &["b"]),
        ]);
        let lowered = lower(&graph, Mode::Inference).unwrap();
        let expired: Vec<_> = lowered
            .program
            .steps
            .iter()
            .map(|step| {
                let named = |index: &usize| {
                    lowered
                        .indices
                        .iter()
                        .find(|(_, i)| *i == index)
                        .map(|(name, _)| name.as_str())
                };
                step.expired.iter().filter_map(named).collect::<Vec<_>>()
            })
            .collect();
        // Neither the input, which the next step needs, nor the output is among them.
        assert_eq!(expired, [vec![], vec!["unread"], vec!["a"], vec!["b"]]);
    }

    #[test]
    fn a_value_made_twice_or_by_nothing_is_refused() {
        let twice = graph(vec![node("x", Op::Relu, &["x"])]);
        let from_nothing = graph(vec![node("a", Op::Relu, &["y"])]);
        for graph in [twice, from_nothing] {
            assert!(lower(&graph, Mode::Inference).is_err(), "{graph:?}");
        }
    }
}
