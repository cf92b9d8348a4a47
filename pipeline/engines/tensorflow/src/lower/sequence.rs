//! Products of matrices, attention, layer normalisation and tables.

use schema::graph::{Node, Op};
use tensorflow::Output;

use super::{Lowering, Value};
use crate::{
    builder::{Builder, Made, narrow, small},
    failure::Fault,
    form::Order,
};

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
