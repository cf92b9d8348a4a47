//! Products of matrices, attention, layer normalisation and tables.

use schema::graph::{Node, Op};
use tensorflow::{Output, Tensor};

use super::{Lowering, Value};
use crate::{
    builder::{Builder, Made, narrow, small},
    failure::Fault,
    form::Order,
    tensors::Host,
};

/// Parameters of one direction of an LSTM.
const PARAMETERS: usize = 4;

/// Which result of `BlockLSTMV2` is what the layer gives.
const HIDDEN: i32 = 6;

/// What is added to the score of a position that must not be seen, as Keras has it.
const UNSEEN: f64 = -1e9;

impl Lowering<'_> {
    /// A dense layer: one product of matrices, whatever the leading axes.
    pub(super) fn dense(&mut self, node: &Node) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let weight = self.operand(node, 1)?;
        let linear = matches!(node.op, Op::Linear);
        // Whether the weight lies as `[out, in]`.
        let turned = linear && weight.form.order != Order::Transposed;
        let weight = if linear && !turned {
            weight.output
        } else {
            self.plain(&weight)?
        };
        let rows = self.rows(&x)?;
        let product = self.product(&rows, &weight, turned)?;
        let output = match self.optional(node, 2) {
            Some(bias) => {
                let bias = self.plain(&bias)?;
                self.builder.op("BiasAdd", &[&product, &bias])?
            }
            None => product,
        };
        let shape = self.output_shape(node)?;
        let output = if shape.len() == 2 {
            output
        } else {
            self.builder.reshape(&output, &shape)?
        };
        self.made(node, output)
    }

    /// `value` as a matrix: all axes but the last become one.
    fn rows(&mut self, value: &Value) -> Result<Output, Fault> {
        let plain = self.plain(value)?;
        match value.form.shape.split_last() {
            Some((_, [_])) => Ok(plain),
            Some((&width, leading)) => {
                let rows = leading.iter().product();
                Ok(self.builder.reshape(&plain, &[rows, width])?)
            }
            None => Err(Fault::Unsupported("a scalar has no last axis".to_owned())),
        }
    }

    fn product(&mut self, a: &Output, b: &Output, turned: bool) -> Made<Output> {
        self.builder.with("MatMul", &[a, b], |product| {
            Ok(product.set_attr_bool("transpose_b", turned)?)
        })
    }

    pub(super) fn matmul(&mut self, node: &Node) -> Result<Value, Fault> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let shape = self.output_shape(node)?;
        let output = match (&a.form.shape[..], &b.form.shape[..]) {
            ([_, _], [_, _]) => {
                let (a, b) = (self.plain(&a)?, self.plain(&b)?);
                self.product(&a, &b, false)?
            }
            (_, [_, _]) => {
                let (rows, b) = (self.rows(&a)?, self.plain(&b)?);
                let product = self.product(&rows, &b, false)?;
                self.builder.reshape(&product, &shape)?
            }
            _ => {
                let (a, b) = (self.batched(&a, &shape)?, self.batched(&b, &shape)?);
                self.builder.op("BatchMatMulV2", &[&a, &b])?
            }
        };
        self.made(node, output)
    }

    /// `value` repeated to the leading axes of `shape`. The operator could do so by itself; its
    /// gradient could not.
    fn batched(&mut self, value: &Value, shape: &[u64]) -> Result<Output, Fault> {
        let plain = self.plain(value)?;
        let own = &value.form.shape;
        let (Some(leading), Some(matrix)) = (
            shape.get(..shape.len().saturating_sub(2)),
            own.get(own.len().saturating_sub(2)..),
        ) else {
            return Ok(plain);
        };
        let wanted = [leading, matrix].concat();
        if wanted == *own || !self.pass.trains() {
            return Ok(plain);
        }
        let dims = self.builder.integers(&narrow(&wanted)?)?;
        Ok(self.builder.op("BroadcastTo", &[&plain, &dims])?)
    }

    /// Attention as Keras composes it: queries scaled, scores masked, shares of the values.
    pub(super) fn attention(
        &mut self,
        node: &Node,
        heads: u64,
        causal: bool,
    ) -> Result<Value, Fault> {
        let shape = self.output_shape(node)?;
        let &[batch, queries, width] = shape.as_slice() else {
            return Err(Fault::Unsupported(format!(
                "{shape:?} is not [batch, position, heads·size]"
            )));
        };
        let size = width.checked_div(heads).unwrap_or(width);
        let mut split = Vec::with_capacity(3);
        for position in 0..3 {
            let value = self.operand(node, position)?;
            let positions = value.form.shape.get(1).copied().unwrap_or(1);
            let plain = self.plain(&value)?;
            let parts = self
                .builder
                .reshape(&plain, &[batch, positions, heads, size])?;
            split.push(self.builder.transpose(&parts, &[0, 2, 1, 3])?);
        }
        let [query, key, value] = &split[..] else {
            return Err(Fault::Missing("an operand".to_owned()));
        };
        let builder = &mut self.builder;
        let scale = builder.scalar(1.0 / (size as f64).sqrt())?;
        let query = builder.op("Mul", &[query, &scale])?;
        let scores = builder.with("BatchMatMulV2", &[&query, key], |product| {
            Ok(product.set_attr_bool("adj_y", true)?)
        })?;
        let scores = if causal {
            let mask = mask(builder, queries)?;
            builder.op("AddV2", &[&scores, &mask])?
        } else {
            scores
        };
        let shares = builder.op("Softmax", &[&scores])?;
        let seen = builder.op("BatchMatMulV2", &[&shares, value])?;
        let joined = builder.transpose(&seen, &[0, 2, 1, 3])?;
        let output = builder.reshape(&joined, &shape)?;
        self.made(node, output)
    }

    /// An LSTM as one operator for each direction, of inference alone: TensorFlow has no gradient of it
    /// in C++.
    pub(super) fn lstm(&mut self, node: &Node) -> Result<Value, Fault> {
        if self.pass.trains() {
            return Err(Fault::Unsupported(
                "TensorFlow has no gradient of its LSTM outside Python: give `recurrent: unrolled`"
                    .to_owned(),
            ));
        }
        let x = self.operand(node, 0)?;
        let &[batch, positions, _] = x.form.shape.as_slice() else {
            return Err(Fault::Unsupported(format!(
                "{:?} is not [batch, position, feature]",
                x.form.shape
            )));
        };
        let x = self.plain(&x)?;
        let in_time = self.builder.transpose(&x, &[1, 0, 2])?;
        let count = i64::try_from(positions).unwrap_or(i64::MAX);
        let count = Tensor::<i64>::new(&[]).with_values(&[count])?;
        let count = self.builder.constant(Host::I64(count))?;
        let mut ways = Vec::new();
        for first in (1..node.inputs.len()).step_by(PARAMETERS) {
            let backward = first > 1;
            let sequence = self.turned_if(&in_time, backward)?;
            let hidden = self.block(node, first, &sequence, &count, batch)?;
            let hidden = self.turned_if(&hidden, backward)?;
            ways.push(self.builder.transpose(&hidden, &[1, 0, 2])?);
        }
        let output = self.join(&ways, 2)?;
        self.made(node, output)
    }

    /// One direction over a sequence that lies as `[position, batch, feature]`, with the parameters from
    /// operand `first` on; `[position, batch, size]`.
    fn block(
        &mut self,
        node: &Node,
        first: usize,
        sequence: &Output,
        count: &Output,
        batch: u64,
    ) -> Result<Output, Fault> {
        let state_weight = self.operand(node, first + 1)?;
        let &[_, size] = state_weight.form.shape.as_slice() else {
            return Err(Fault::Missing("the matrix of its state".to_owned()));
        };
        // The order of the gates is the graph's.
        let input_weight = self.operand(node, first)?;
        let weights = [
            self.ordered(&input_weight, Order::Transposed)?,
            self.ordered(&state_weight, Order::Transposed)?,
        ];
        let weight = self.join(&weights, 0)?;
        let (input_bias, state_bias) = (
            self.plain_operand(node, first + 2)?,
            self.plain_operand(node, first + 3)?,
        );
        let builder = &mut self.builder;
        let bias = builder.op("AddV2", &[&input_bias, &state_bias])?;
        let nothing = builder.scalar(0.0)?;
        let states = builder.integers(&narrow(&[batch, size])?)?;
        let start = builder.op("Fill", &[&states, &nothing])?;
        let width = builder.integers(&narrow(&[size])?)?;
        // Weights from the memory to the gates, which is asked for none of them.
        let peephole = builder.op("Fill", &[&width, &nothing])?;
        let inputs = [
            count, sequence, &start, &start, &weight, &peephole, &peephole, &peephole, &bias,
        ];
        let block = builder.operation("BlockLSTMV2", |block| {
            for input in inputs {
                block.add_input(input.clone());
            }
            Ok(())
        })?;
        Ok(Output {
            operation: block,
            index: HIDDEN,
        })
    }

    /// A sequence from its end, or as it is; positions are its first axis.
    fn turned_if(&mut self, sequence: &Output, backward: bool) -> Made<Output> {
        if !backward {
            return Ok(sequence.clone());
        }
        let axis = self.builder.integers(&[0])?;
        self.builder.op("ReverseV2", &[sequence, &axis])
    }

    /// Layer normalisation of primitive operators, as Keras has it, but with the mean taken off
    /// first: `(x − mean) · (γ/√(variance + ε)) + β`. What Keras writes, `x·s + (β − mean·s)`,
    /// TensorFlow 2.21 fuses into one operator of oneDNN's where γ and β are constants, and that
    /// one adds 0.001 to the variance whatever ε is.
    pub(super) fn layer_norm(&mut self, node: &Node, epsilon: f64) -> Result<Value, Fault> {
        let x = self.plain_operand(node, 0)?;
        let (scale, bias) = (self.plain_operand(node, 1)?, self.plain_operand(node, 2)?);
        let last = small(self.output_shape(node)?.len().saturating_sub(1));
        let builder = &mut self.builder;
        let mean = builder.mean(&x, &[last], true)?;
        let fixed = builder.op("StopGradient", &[&mean])?;
        let squares = builder.op("SquaredDifference", &[&x, &fixed])?;
        let variance = builder.mean(&squares, &[last], true)?;
        let epsilon = builder.scalar(epsilon)?;
        let shifted = builder.op("AddV2", &[&variance, &epsilon])?;
        let root = builder.op("Rsqrt", &[&shifted])?;
        let factor = builder.op("Mul", &[&root, &scale])?;
        let centred = builder.op("Sub", &[&x, &mean])?;
        let product = builder.op("Mul", &[&centred, &factor])?;
        let output = builder.op("AddV2", &[&product, &bias])?;
        self.made(node, output)
    }

    pub(super) fn gather(&mut self, node: &Node) -> Result<Value, Fault> {
        let (table, indices) = (self.plain_operand(node, 0)?, self.plain_operand(node, 1)?);
        let axis = self.builder.integer(0)?;
        let output = self.builder.op("GatherV2", &[&table, &indices, &axis])?;
        self.made(node, output)
    }
}

/// What is added to the score of each position for each query: a later one is not seen. Made by
/// operators, since it can be too large for this process; TensorFlow folds it where it is not.
fn mask(builder: &mut Builder, positions: u64) -> Made<Output> {
    let count = narrow(&[positions])?.first().copied().unwrap_or(0);
    let (none, count, one) = (
        builder.integer(0)?,
        builder.integer(count)?,
        builder.integer(1)?,
    );
    let places = builder.op("Range", &[&none, &count, &one])?;
    let queries = builder.reshape(&places, &[positions, 1])?;
    let seen = builder.op("GreaterEqual", &[&queries, &places])?;
    let (nothing, unseen) = (builder.scalar(0.0)?, builder.scalar(UNSEEN)?);
    builder.op("SelectV2", &[&seen, &nothing, &unseen])
}
