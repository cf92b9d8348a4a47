//! Where the time goes: TensorFlow's own trace of networks of the zoo, mapped to their nodes.

#![allow(clippy::unwrap_used, reason = "a test may")]

#[expect(
    unused_macros,
    unused_imports,
    reason = "the zoo's tests of agreement are others'"
)]
#[path = "../../onnxruntime/tests/support/zoo.rs"]
mod zoo;

mod common;

use std::collections::BTreeSet;

use common::{cell, load};
use schema::{
    Graph, Optimizer, OutcomeKind, Precision,
    graph::Op,
    protocol::{Profile, ProfileEntry},
};

const STEPS: u64 = 3;

fn profiled(graph: &Graph, weights: &str) -> Profile {
    let mut cell = cell(graph, Precision::Fp32, None);
    cell.factors
        .insert("weights".to_owned(), weights.to_owned());
    let (mut session, _) = load(graph, cell).unwrap();
    session.step().unwrap();
    let profile = session.profile(STEPS).unwrap();
    session.step().unwrap();
    assert_eq!(profile.steps, STEPS);
    assert!(profile.entries_ns() > 0 && profile.entries_ns() <= profile.wall_ns);
    assert!(profile.kernels.is_multiple_of(STEPS), "{}", profile.kernels);
    profile
}

/// The nodes that are computed in each step and that no entry tells of.
fn untold(graph: &Graph, profile: &Profile) -> Vec<String> {
    let entries = profile.entries.iter();
    let told: BTreeSet<&String> = entries.flat_map(|entry| &entry.nodes).collect();
    let mut moving: BTreeSet<&String> = graph.inputs.iter().map(|input| &input.name).collect();
    let mut untold = Vec::new();
    for node in &graph.nodes {
        if node.inputs.iter().any(|input| moving.contains(input)) {
            moving.extend(&node.outputs);
            if !matches!(node.op, Op::Dropout { .. }) && !told.contains(&node.name) {
                untold.push(node.name.clone());
            }
        }
    }
    untold
}

/// The entry whose name ends so.
fn entry<'a>(profile: &'a Profile, end: &str) -> &'a ProfileEntry {
    let mut entries = profile.entries.iter();
    entries.find(|entry| entry.name.contains(end)).unwrap()
}

fn nodes(entry: &ProfileEntry) -> Vec<&str> {
    entry.nodes.iter().map(String::as_str).collect()
}

#[test]
fn convolutions_are_told_with_what_grappler_fused_into_them() {
    let graph = zoo::small("resnet18");
    for weights in ["frozen", "variables"] {
        let profile = profiled(&graph, weights);
        assert_eq!(untold(&graph, &profile), [""; 0], "{weights}");
        let fused = entry(&profile, " layer1.0.relu1/");
        let expected = ["layer1.0.bn1", "layer1.0.conv1", "layer1.0.relu1"];
        assert_eq!(nodes(fused), expected, "{weights}: {fused:?}");
        assert_eq!(nodes(entry(&profile, " layer1.0.add/")), ["layer1.0.add"]);
        let reads = profile
            .entries
            .iter()
            .filter(|it| it.name.starts_with("ReadVariableOp "));
        assert_eq!(reads.count() > 0, weights == "variables");
    }
}

#[test]
fn composed_operators_are_told_as_the_nodes_that_they_are() {
    let graph = zoo::small("bert_tiny");
    let profile = profiled(&graph, "frozen");
    assert_eq!(untold(&graph, &profile), [""; 0]);
    // One kernel where TensorFlow takes oneDNN's, as it does by itself on processors with VNNI alone.
    let pooler = entry(&profile, " pooler.activation/");
    if nodes(pooler) == ["pooler.activation"] {
        assert_eq!(nodes(entry(&profile, " pooler.dense/")), ["pooler.dense"]);
    } else {
        assert_eq!(nodes(pooler), ["pooler.activation", "pooler.dense"]);
    }
    for entry in profile.entries.iter().filter(|entry| *entry != pooler) {
        assert!(entry.nodes.len() <= 1, "{entry:?}");
    }
    let attention = ["encoder.layer.0.attention.self.attention"];
    let softmax = entry(
        &profile,
        " encoder.layer.0.attention.self.attention/Softmax",
    );
    assert_eq!(nodes(softmax), attention);
}

/// TensorFlow takes fewer characters in names than others, and no name begins with every one of them.
#[test]
fn nodes_are_told_apart_whatever_their_names() {
    let names = ["a.b", "a_b", "_", "-", "λ", "/x/y", "7"];
    let mut graph = models::sample::perceptron(2).unwrap();
    for shift in 0..names.len() {
        let mut given = names.iter().cycle().skip(shift);
        for (node, name) in graph.nodes.iter_mut().zip(&mut given) {
            (*name).clone_into(&mut node.name);
        }
        let profile = profiled(&graph, "frozen");
        assert_eq!(untold(&graph, &profile), [""; 0]);
    }
}

#[test]
fn what_is_compiled_as_a_whole_or_differentiated_is_not_told() {
    let graph = zoo::small("resnet18");
    let mut xla = cell(&graph, Precision::Fp32, None);
    xla.engine.variant = "xla".to_owned();
    let sgd = Optimizer::Sgd {
        learning_rate: 0.1,
        momentum: 0.0,
        weight_decay: 0.0,
    };
    let training = cell(&graph, Precision::Fp32, Some(sgd));
    for (cell, named) in [(xla, "XLA"), (training, "gradients")] {
        let (mut session, _) = load(&graph, cell).unwrap();
        let outcome = session.profile(STEPS).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(outcome.reason.contains(named), "{outcome:?}");
    }
}
