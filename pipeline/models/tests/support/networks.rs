//! Graphs to try things on.

use photofinish_models::{
    onnx::{self, WriteOptions},
    zoo,
};
use schema::{
    Graph, Precision,
    graph::{ElementType, Fill, Input, Node, Op},
};
use std::collections::BTreeMap;

use super::is_full;

/// The smallest form of a model that still has all its operators.
pub(crate) fn small(name: &str, batch: u64) -> Graph {
    let sizes: &[(&str, u64)] = match name {
        "vgg16" => &[("image", 224)],
        "inception_v3" => &[("image", 91)],
        "vit_b16" => &[("image", 32)],
        "bert_tiny" | "bert_base" | "distilbert_base" | "gpt2" => &[("seq", 12)],
        "transformer_base" => &[("seq", 12), ("target", 9)],
        "lstm_lm" => &[("seq", 7)],
        "deepspeech2" => &[("frames", 13)],
        _ => &[("image", 64)],
    };
    let sizes = sizes.iter().copied().chain([("batch", batch)]);
    let dims: BTreeMap<_, _> = sizes.map(|(name, size)| (name.to_owned(), size)).collect();
    zoo::build(name, &dims).expect("a model of the zoo")
}

/// Whether a network is judged here: in the short form one of each kind of operators is. On ONNX Runtime and OpenVINO
/// the whole zoo runs in either form.
pub(crate) fn is_asked(name: &str) -> bool {
    let few = [
        "resnet18",
        "mobilenet_v2",
        "bert_tiny",
        "lstm_lm",
        "deepspeech2",
    ];
    is_full() || few.contains(&name)
}

/// A graph as a file of one piece.
pub(crate) fn written(graph: &Graph, opset: u32) -> Vec<u8> {
    let options = WriteOptions {
        opset,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let written = onnx::write(graph, &options).expect("a graph that ONNX has words for");
    written.model
}

/// A graph of one node over inputs in `-1..1`.
pub(crate) fn one_op(op: Op, inputs: &[(&str, &[u64])], reads: &[&str]) -> Graph {
    let input = |&(name, shape): &(&str, &[u64])| Input {
        name: name.into(),
        element: ElementType::Float,
        shape: shape.to_vec(),
        fill: Fill::Uniform {
            low: -1.0,
            high: 1.0,
        },
    };
    Graph {
        name: op.name().to_lowercase(),
        inputs: inputs.iter().map(input).collect(),
        parameters: Vec::new(),
        nodes: vec![Node {
            name: "node".into(),
            op,
            inputs: reads.iter().map(|&name| name.into()).collect(),
            outputs: vec!["y".into()],
            in_place: false,
        }],
        outputs: vec!["y".into()],
        loss: None,
    }
}

/// One graph of several, their names kept apart: Python need not start for each.
pub(crate) fn side_by_side(graphs: impl IntoIterator<Item = Graph>) -> Graph {
    let mut all = one_op(Op::Relu, &[("x", &[2])], &["x"]);
    for (index, graph) in graphs.into_iter().enumerate() {
        let own = |name: &str| format!("{}.{index}.{name}", graph.name);
        all.inputs.extend(graph.inputs.iter().map(|input| Input {
            name: own(&input.name),
            ..input.clone()
        }));
        all.nodes.extend(graph.nodes.iter().map(|node| Node {
            name: own(&node.name),
            op: node.op.clone(),
            inputs: node.inputs.iter().map(|name| own(name)).collect(),
            outputs: node.outputs.iter().map(|name| own(name)).collect(),
            in_place: node.in_place,
        }));
        all.outputs
            .extend(graph.outputs.iter().map(|name| own(name)));
    }
    all
}
