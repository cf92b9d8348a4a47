//! A network that is nobody's: for checks of workers whose engine has few operators.

use schema::{
    Graph,
    graph::{ElementType, Fill, Op},
};

use crate::{
    ModelError,
    builder::{GraphBuilder, moment},
};

/// Sizes of its layers.
const FEATURES: u64 = 16;
const HIDDEN: u64 = 32;
const CLASSES: u64 = 10;

/// A perceptron of two linear layers with a ReLU between them, from `[batch, 16]` to `[batch, 10]`,
/// with a loss.
///
/// # Errors
/// A batch that is too large for shapes to be counted.
pub fn perceptron(batch: u64) -> Result<Graph, ModelError> {
    let mut builder = GraphBuilder::new("perceptron");
    let fill = Fill::Uniform {
        low: -1.0,
        high: 1.0,
    };
    let x = builder.input("input", ElementType::Float, &[batch, FEATURES], fill);
    let hidden = builder.linear(&x, "hidden", HIDDEN, 1.0 / 3.0, 1.0);
    let hidden = builder.node("relu", Op::Relu, &[&hidden]);
    let logits = builder.linear(&hidden, "output", CLASSES, moment::RELU, 1.0);
    builder.output(&logits, "logits");
    builder.cross_entropy("logits", &[batch], CLASSES);
    builder.finish()
}
