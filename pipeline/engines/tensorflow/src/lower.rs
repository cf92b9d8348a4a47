//! From a graph to TensorFlow's operators.
//!
//! Images and what convolutions make of them lie with channels last, the only order for which
//! TensorFlow has kernels on a CPU. A value goes back into the graph's own order where an operator
//! tells channels from positions by their place: that is a transposition, or nothing where one of
//! the two has size 1.

mod image;
mod pointwise;
mod sequence;
mod shape;
mod window;

use std::collections::BTreeMap;

use schema::{
    Outcome,
    graph::{Node, Op, decimal},
};
use tensorflow::Output;

use crate::{
    builder::Builder,
    failure::{Fault, failed, missing},
    form::{Form, Order, inverse, pick},
    network::Network,
    tensors::Maker,
};

/// What a step is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Inference: running statistics, no dropout.
    Inference,
    /// A training iteration.
    Training,
    /// A training iteration for parity: dropout off.
    Deterministic,
}

impl Pass {
    const fn trains(self) -> bool {
        matches!(self, Self::Training | Self::Deterministic)
    }
}

/// A value of the graph, in a TensorFlow graph.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    /// Where it comes from.
    pub(crate) output: Output,
    /// Its shape, and how it lies.
    pub(crate) form: Form,
}

/// A statistic of a batch, towards which a running one moves.
pub(crate) struct Statistic {
    /// Name of the running statistic.
    pub(crate) buffer: String,
    /// That of the batch; the variance unbiased.
    pub(crate) batch: Output,
    /// Weight of the new one.
    pub(crate) momentum: f64,
}

/// A lowered graph.
pub(crate) struct Lowered {
    /// Every value, by name.
    pub(crate) values: BTreeMap<String, Value>,
    /// What training moves besides weights.
    pub(crate) statistics: Vec<Statistic>,
}

impl Lowered {
    /// The value called `name`.
    pub(crate) fn value(&self, name: &str) -> Result<&Value, Outcome> {
        self.values.get(name).ok_or_else(|| missing(name))
    }
}

/// Lowers `network` into `builder`. `given` has the inputs by name, and the handles of those
/// parameters that are variables; the others become constants.
pub(crate) fn lower(
    builder: &mut Builder,
    network: &Network,
    given: &BTreeMap<String, Output>,
    maker: &mut Maker,
    pass: Pass,
) -> Result<Lowered, Outcome> {
    let mut values = BTreeMap::new();
    for input in network.inputs() {
        let value = Value {
            output: given
                .get(&input.name)
                .ok_or_else(|| missing(&input.name))?
                .clone(),
            form: network.input_form(input),
        };
        values.insert(input.name.clone(), value);
    }
    for parameter in &network.graph.parameters {
        builder.enter(&parameter.name);
        let form = network.parameter_form(parameter);
        let output = match given.get(&parameter.name) {
            Some(handle) => builder.read(handle, builder.float.data_type()),
            None => builder.constant(maker.parameter(parameter, &form)?),
        };
        let output = output.map_err(|status| failed(&parameter.name, &status))?;
        values.insert(parameter.name.clone(), Value { output, form });
    }
    let mut lowering = Lowering {
        builder,
        network,
        pass,
        lowered: Lowered {
            values,
            statistics: Vec::new(),
        },
    };
    for node in &network.graph.nodes {
        lowering.builder.enter(&node.name);
        let value = lowering
            .node(node)
            .map_err(|fault| fault.at(&place(node)))?;
        for output in &node.outputs {
            lowering
                .lowered
                .values
                .insert(output.clone(), value.clone());
        }
    }
    lowering.builder.enter("");
    Ok(lowering.lowered)
}

/// Operator and node, as a reader of an error finds them.
fn place(node: &Node) -> String {
    format!("{} {}", node.op.name(), node.name)
}

/// Lowers node after node.
struct Lowering<'a> {
    builder: &'a mut Builder,
    network: &'a Network,
    pass: Pass,
    lowered: Lowered,
}

impl Lowering<'_> {
    fn node(&mut self, node: &Node) -> Result<Value, Fault> {
        match &node.op {
            Op::Conv {
                strides,
                pads,
                dilations,
                group,
            } => self.conv(node, *strides, *pads, *dilations, *group),
            Op::ConvTranspose {
                strides,
                pads,
                dilations,
                group,
                ..
            } => self.conv_transpose(node, *strides, *pads, *dilations, *group),
            Op::InstanceNormalization { epsilon } => self.instance_norm(node, decimal(*epsilon)),
            Op::Resize {
                sizes,
                interpolation,
            } => self.resize(node, *sizes, *interpolation),
            Op::BatchNormalization { epsilon, momentum } => {
                self.batch_norm(node, decimal(*epsilon), decimal(*momentum))
            }
            Op::MaxPool {
                kernel,
                strides,
                pads,
                ..
            } => self.max_pool(node, *kernel, *strides, *pads),
            Op::AveragePool {
                kernel,
                strides,
                pads,
                count_include_pad,
            } => self.average_pool(node, *kernel, *strides, *pads, *count_include_pad),
            Op::GlobalAveragePool => self.global_average_pool(node),
            Op::LayerNormalization { epsilon } => self.layer_norm(node, decimal(*epsilon)),
            Op::Linear | Op::Gemm => self.dense(node),
            Op::MatMul => self.matmul(node),
            Op::Attention { heads, causal } => self.attention(node, *heads, *causal),
            Op::Lstm { .. } => self.lstm(node),
            Op::Gru { .. } => Err(Fault::Unsupported(
                "TensorFlow's GRU of one operator resets before its product, and this one behind it: give \
                 `recurrent: unrolled`"
                    .to_owned(),
            )),
            Op::QuantizeDequantize { .. } | Op::DynamicQuantizeDequantize => {
                Err(Fault::Unsupported(
                    "networks on grids of integers are not run on TensorFlow here".to_owned(),
                ))
            }
            Op::Gather => self.gather(node),
            Op::Softmax { axis } => self.softmax(node, "Softmax", *axis),
            Op::LogSoftmax { axis } => self.softmax(node, "LogSoftmax", *axis),
            Op::PRelu => self.prelu(node),
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
            | Op::Dropout { .. } => self.pointwise(node),
            Op::Add => self.binary(node, "AddV2"),
            Op::Mul => self.binary(node, "Mul"),
            Op::Div => self.binary(node, "RealDiv"),
            Op::Max => self.binary(node, "Maximum"),
            Op::Min => self.binary(node, "Minimum"),
            Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. } => self.reshape(node),
            Op::Transpose { perm } => self.transpose(node, perm),
            Op::Expand { .. } => self.expand(node),
            Op::Pad {
                begins,
                ends,
                border,
            } => self.pad(node, begins, ends, *border),
            Op::Concat { axis } => self.concat(node, *axis),
            Op::Slice { axis, start, end } => self.slice(node, *axis, *start, *end),
        }
    }

    /// The operand at `position`.
    fn operand(&self, node: &Node, position: usize) -> Result<Value, Fault> {
        self.optional(node, position)
            .ok_or_else(|| Fault::Missing(format!("operand {position}")))
    }

    /// The operand at `position`, which a node may lack.
    fn optional(&self, node: &Node, position: usize) -> Option<Value> {
        let name = node.inputs.get(position)?;
        self.lowered.values.get(name).cloned()
    }

    /// The operand at `position`, in the graph's order.
    fn plain_operand(&mut self, node: &Node, position: usize) -> Result<Output, Fault> {
        let value = self.operand(node, position)?;
        self.plain(&value)
    }

    /// The shape of the node's output.
    fn output_shape(&self, node: &Node) -> Result<Vec<u64>, Fault> {
        node.outputs
            .first()
            .and_then(|name| self.network.types.get(name))
            .map(|value| value.shape.clone())
            .ok_or_else(|| Fault::Missing("its output's shape".to_owned()))
    }

    /// The node's output, which lies in the graph's order.
    fn made(&self, node: &Node, output: Output) -> Result<Value, Fault> {
        self.made_in(node, output, Order::Plain)
    }

    /// The node's output, which lies in `order`.
    fn made_in(&self, node: &Node, output: Output, order: Order) -> Result<Value, Fault> {
        let form = Form::new(&self.output_shape(node)?, order);
        Ok(Value { output, form })
    }

    /// `value` in the graph's order.
    fn plain(&mut self, value: &Value) -> Result<Output, Fault> {
        let shape = &value.form.shape;
        let axes = value.form.order.axes(shape.len());
        if axes.is_sorted() {
            return Ok(value.output.clone());
        }
        if moves_nothing(shape, &axes) {
            return Ok(self.builder.reshape(&value.output, shape)?);
        }
        let mut output = value.output.clone();
        if let Order::Depthwise(_) = value.form.order {
            output = self.builder.reshape(&output, &pick(shape, &axes))?;
        }
        Ok(self.builder.transpose(&output, &inverse(&axes))?)
    }

    /// `value` in `order`.
    fn ordered(&mut self, value: &Value, order: Order) -> Result<Output, Fault> {
        if value.form.order == order {
            return Ok(value.output.clone());
        }
        let plain = self.plain(value)?;
        let shape = &value.form.shape;
        let axes = order.axes(shape.len());
        let wanted = Form::new(shape, order);
        if moves_nothing(shape, &axes) {
            return Ok(self.builder.reshape(&plain, &wanted.dims())?);
        }
        let moved = self.builder.transpose(&plain, &axes)?;
        if let Order::Depthwise(_) = order {
            return Ok(self.builder.reshape(&moved, &wanted.dims())?);
        }
        Ok(moved)
    }

    /// `value` with channels last; one that has fewer than three axes has them there.
    fn channels_last(&mut self, value: &Value) -> Result<Output, Fault> {
        if value.form.shape.len() < 3 {
            self.plain(value)
        } else {
            self.ordered(value, Order::ChannelsLast)
        }
    }
}

/// Whether the axes of more than one element keep their order.
fn moves_nothing(shape: &[u64], axes: &[usize]) -> bool {
    let longer = |&axis: &usize| shape.get(axis).is_some_and(|&size| size > 1);
    axes.iter().copied().filter(longer).is_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_one_element_move_freely() {
        assert!(moves_nothing(&[4, 512, 1, 1], &[0, 2, 3, 1]));
        assert!(moves_nothing(&[4, 1, 7, 7], &[0, 2, 3, 1]));
        assert!(!moves_nothing(&[4, 2, 7, 1], &[0, 2, 3, 1]));
    }
}
