//! Operators that treat every element by itself.

use schema::graph::{Approximation, Node, Op, decimal};
use tensorflow::Output;

use super::{Lowering, Pass, Value};
use crate::{
    builder::Made,
    builder::narrow,
    failure::Fault,
    form::{Form, Order, pick},
};

/// Most axes that oneDNN's softmax takes, which TensorFlow calls on a CPU; with more the step fails.
const MOST_AXES_OF_SOFTMAX: usize = 5;

/// Seed of dropout; with the number of the operation it is a stream of its own.
const SEED: i64 = 1;

impl Lowering<'_> {
    /// An operator of one operand, whatever its order.
    pub(super) fn pointwise(&mut self, node: &Node) -> Result<Value, Fault> {
        let value = self.operand(node, 0)?;
        let x = &value.output;
        let builder = &mut self.builder;
        let output = match &node.op {
            Op::Relu => builder.op("Relu", &[x])?,
            Op::Clip { min, max } if *min == 0.0 && *max == 6.0 => builder.op("Relu6", &[x])?,
            Op::Clip { min, max } => {
                let (low, high) = (
                    builder.scalar(decimal(*min))?,
                    builder.scalar(decimal(*max))?,
                );
                let bounded = builder.op("Maximum", &[x, &low])?;
                builder.op("Minimum", &[&bounded, &high])?
            }
            Op::Sigmoid => builder.op("Sigmoid", &[x])?,
            Op::HardSigmoid => self.hard_sigmoid(x)?,
            Op::HardSwish => {
                let gate = self.hard_sigmoid(x)?;
                self.builder.op("Mul", &[x, &gate])?
            }
            Op::LeakyRelu { alpha } => {
                let slope = builder.scalar(decimal(*alpha))?;
                self.leaky(x, &slope)?
            }
            Op::Elu { alpha } => self.elu(x, decimal(*alpha))?,
            Op::Softplus => builder.op("Softplus", &[x])?,
            Op::Sqrt => builder.op("Sqrt", &[x])?,
            Op::Exp => builder.op("Exp", &[x])?,
            Op::Log => builder.op("Log", &[x])?,
            Op::Abs => builder.op("Abs", &[x])?,
            Op::Sin => builder.op("Sin", &[x])?,
            Op::Cos => builder.op("Cos", &[x])?,
            Op::Silu => {
                let gate = builder.op("Sigmoid", &[x])?;
                builder.op("Mul", &[x, &gate])?
            }
            Op::Tanh => builder.op("Tanh", &[x])?,
            Op::Gelu { approximate } => self.gelu(x, *approximate)?,
            Op::Dropout { ratio } if self.pass == Pass::Training && *ratio > 0.0 => {
                self.dropout(&value, decimal(*ratio))?
            }
            _ => value.output.clone(),
        };
        Ok(Value { output, ..value })
    }

    /// `max(x, 0) + slope · min(x, 0)`; what TensorFlow has for that takes a number of single precision,
    /// and none for each channel.
    fn leaky(&mut self, x: &Output, slope: &Output) -> Made<Output> {
        let builder = &mut self.builder;
        let zero = builder.scalar(0.0)?;
        let above = builder.op("Relu", &[x])?;
        let below = builder.op("Minimum", &[x, &zero])?;
        let below = builder.op("Mul", &[&below, slope])?;
        builder.op("AddV2", &[&above, &below])
    }

    /// TensorFlow's own has an `alpha` of 1.
    fn elu(&mut self, x: &Output, alpha: f64) -> Made<Output> {
        let builder = &mut self.builder;
        if alpha == 1.0 {
            return builder.op("Elu", &[x]);
        }
        let (zero, alpha) = (builder.scalar(0.0)?, builder.scalar(alpha)?);
        let above = builder.op("Relu", &[x])?;
        let below = builder.op("Minimum", &[x, &zero])?;
        let below = builder.op("Elu", &[&below])?;
        let below = builder.op("Mul", &[&below, &alpha])?;
        builder.op("AddV2", &[&above, &below])
    }

    /// A slope for each channel, or one for all.
    pub(super) fn prelu(&mut self, node: &Node) -> Result<Value, Fault> {
        let (x, slope) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let rank = x.form.shape.len();
        let slope = self.aligned(&slope, rank, x.form.order)?;
        let output = self.leaky(&x.output, &slope)?;
        self.made_in(node, output, x.form.order)
    }

    /// As `keras.activations.hard_sigmoid` composes it.
    fn hard_sigmoid(&mut self, x: &Output) -> Made<Output> {
        let builder = &mut self.builder;
        let (three, six) = (builder.scalar(3.0)?, builder.scalar(6.0)?);
        let shifted = builder.op("AddV2", &[x, &three])?;
        let bounded = builder.op("Relu6", &[&shifted])?;
        builder.op("RealDiv", &[&bounded, &six])
    }

    /// As `tf.nn.gelu` composes it.
    fn gelu(&mut self, x: &Output, approximate: Approximation) -> Made<Output> {
        let builder = &mut self.builder;
        let (half, one) = (builder.scalar(0.5)?, builder.scalar(1.0)?);
        let inner = match approximate {
            Approximation::None => {
                let root = builder.scalar(std::f64::consts::SQRT_2)?;
                let scaled = builder.op("RealDiv", &[x, &root])?;
                builder.op("Erf", &[&scaled])?
            }
            Approximation::Tanh => {
                let (three, coefficient) = (builder.scalar(3.0)?, builder.scalar(0.044_715)?);
                let slope = builder.scalar((2.0 / std::f64::consts::PI).sqrt())?;
                let cube = builder.op("Pow", &[x, &three])?;
                let bend = builder.op("Mul", &[&coefficient, &cube])?;
                let sum = builder.op("AddV2", &[x, &bend])?;
                let scaled = builder.op("Mul", &[&slope, &sum])?;
                builder.op("Tanh", &[&scaled])?
            }
        };
        let share = builder.op("AddV2", &[&one, &inner])?;
        let halved = builder.op("Mul", &[&half, x])?;
        builder.op("Mul", &[&halved, &share])
    }

    /// As `tf.nn.dropout` composes it.
    fn dropout(&mut self, value: &Value, ratio: f64) -> Made<Output> {
        let builder = &mut self.builder;
        let element = builder.float.data_type();
        let dims = builder.integers(&narrow(&value.form.dims())?)?;
        let random = builder.with("RandomUniform", &[&dims], |random| {
            random.set_attr_type("dtype", element)?;
            Ok(random.set_attr_int("seed", SEED)?)
        })?;
        let rate = builder.scalar(ratio)?;
        let kept = builder.op("GreaterEqual", &[&random, &rate])?;
        let mask = builder.with("Cast", &[&kept], |cast| {
            Ok(cast.set_attr_type("DstT", element)?)
        })?;
        let scale = builder.scalar(1.0 / (1.0 - ratio))?;
        let scaled = builder.op("Mul", &[&value.output, &scale])?;
        builder.op("Mul", &[&scaled, &mask])
    }

    /// A sum or a product, with broadcasting.
    pub(super) fn binary(&mut self, node: &Node, kind: &str) -> Result<Value, Fault> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let rank = a.form.shape.len().max(b.form.shape.len());
        let leads = |value: &Value| {
            value.form.order == Order::ChannelsLast && value.form.shape.len() == rank
        };
        let order = if leads(&a) || leads(&b) {
            Order::ChannelsLast
        } else {
            Order::Plain
        };
        let (a, b) = (
            self.aligned(&a, rank, order)?,
            self.aligned(&b, rank, order)?,
        );
        let output = self.builder.op(kind, &[&a, &b])?;
        self.made_in(node, output, order)
    }

    /// `value` in `order` with at least as many axes as that needs, new ones in front.
    fn aligned(&mut self, value: &Value, rank: usize, order: Order) -> Result<Output, Fault> {
        let missing = rank.saturating_sub(value.form.shape.len());
        let one = value.form.shape.iter().all(|&size| size == 1);
        if order == Order::Plain || missing == 0 || one {
            return self.ordered(value, if missing == 0 { order } else { Order::Plain });
        }
        let mut shape = vec![1; missing];
        shape.extend(&value.form.shape);
        let plain = self.plain(value)?;
        let output = self.builder.reshape(&plain, &shape)?;
        let form = Form::new(&shape, Order::Plain);
        self.ordered(&Value { output, form }, order)
    }

    /// Softmax along any axis, or its logarithm; TensorFlow's are along the last.
    pub(super) fn softmax(&mut self, node: &Node, kind: &str, axis: i64) -> Result<Value, Fault> {
        let x = self.plain_operand(node, 0)?;
        let shape = self.output_shape(node)?;
        let rank = shape.len();
        let axis = if axis < 0 {
            rank.checked_add_signed(isize::try_from(axis).unwrap_or(isize::MIN))
        } else {
            usize::try_from(axis).ok()
        };
        let axis = axis
            .filter(|&axis| axis < rank)
            .ok_or_else(|| Fault::Unsupported("has no such axis".to_owned()))?;
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(axis, rank - 1);
        // A swap undoes itself.
        let moved = self.builder.transpose(&x, &axes)?;
        let shares = self.along_last(kind, &moved, &pick(&shape, &axes))?;
        let output = self.builder.transpose(&shares, &axes)?;
        self.made(node, output)
    }

    /// Softmax or its logarithm along the last axis of `x`, which has this shape; where that has more axes
    /// than the kernel takes, of its rows.
    fn along_last(&mut self, kind: &str, x: &Output, shape: &[u64]) -> Made<Output> {
        let builder = &mut self.builder;
        match shape {
            [leading @ .., size] if shape.len() > MOST_AXES_OF_SOFTMAX => {
                let rows = builder.reshape(x, &[leading.iter().product(), *size])?;
                let shares = builder.op(kind, &[&rows])?;
                builder.reshape(&shares, shape)
            }
            _ => builder.op(kind, &[x]),
        }
    }
}
