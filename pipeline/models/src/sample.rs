//! For checks: a network that is nobody's, of few operators, and weights that are nobody's.

use safetensors::{Dtype, SafeTensorError, tensor::TensorView};
use schema::{
    Graph, Optimizer,
    graph::{ElementType, Fill, Op, Role},
};

use crate::{
    ModelError,
    builder::{GraphBuilder, moment},
    fill,
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

/// A linear layer behind dropout of this ratio, and a training of it that diverges within [`STEPS`] steps, but for where
/// next to everything is dropped: then there is no gradient.
///
/// # Errors
/// None at these sizes.
pub fn dropping(ratio: f32) -> Result<(Graph, Optimizer), ModelError> {
    let (batch, features, classes) = (4, 3, 5);
    let mut builder = GraphBuilder::new("dropping");
    let fill = Fill::Uniform {
        low: -1.0,
        high: 1.0,
    };
    let x = builder.input("x", ElementType::Float, &[batch, features], fill);
    let x = builder.node("dropout", Op::Dropout { ratio }, &[&x]);
    let weight = builder.parameter("w", &[classes, features], Role::Weight, fill);
    let logits = builder.node("layer", Op::Linear, &[&x, &weight]);
    builder.output(&logits, "logits");
    builder.cross_entropy("logits", &[batch], classes);
    let wild = Optimizer::Sgd {
        learning_rate: 3e38,
        momentum: 0.9,
        weight_decay: 0.0,
    };
    Ok((builder.finish()?, wild))
}

/// Steps after which the training of [`dropping`] has diverged.
pub const STEPS: u32 = 20;

/// A file of weights for the network, in which every number is made of that which the network's own recipe gives.
///
/// # Errors
/// A shape that no memory has room for.
pub fn safetensors(graph: &Graph, made: impl Fn(f32) -> f32) -> Result<Vec<u8>, SafeTensorError> {
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = graph
        .parameters
        .iter()
        .filter(|parameter| parameter.role != Role::Constant)
        .map(|parameter| {
            let shape: Vec<usize> = parameter.shape.iter().map(|&size| size as usize).collect();
            let numbers = fill::parameter(parameter).into_iter().map(&made);
            let bytes = numbers.flat_map(f32::to_le_bytes).collect();
            (parameter.name.clone(), shape, bytes)
        })
        .collect();
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, shape, bytes)| {
            TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (name.as_str(), view))
        })
        .collect();
    safetensors::serialize(views?, None)
}
