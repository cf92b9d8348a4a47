//! Where the time goes: ONNX Runtime's own profile of networks of the zoo, mapped to their nodes.

#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "support/library.rs"]
mod library;
#[allow(
    unused_macros,
    unused_imports,
    reason = "the zoo's tests of agreement are others'"
)]
#[path = "support/zoo.rs"]
mod zoo;

use std::collections::{BTreeMap, BTreeSet};

use library::library;
use photofinish_worker_onnxruntime::OnnxRuntime;
use schema::{
    Cell, Graph, OutcomeKind, Precision,
    graph::Op,
    protocol::{Load, Profile, ProfileEntry},
};
use worker::Engine as _;

const STEPS: u64 = 4;

fn profiled(graph: &Graph, change: impl FnOnce(&mut Cell)) -> Profile {
    let scratch = tempfile::tempdir().unwrap();
    let mut cell = Cell::plain(graph, "onnxruntime/cpu".parse().unwrap());
    change(&mut cell);
    let load = Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    };
    let (mut session, _) = OnnxRuntime::at(library()).load(&load).unwrap();
    session.step().unwrap();
    let profile = session.profile(STEPS).unwrap();
    session.step().unwrap();
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(profile.steps, STEPS);
    assert!(profile.entries_ns() > 0 && profile.entries_ns() <= profile.wall_ns);
    assert!(profile.kernels >= STEPS && profile.kernels.is_multiple_of(STEPS));
    profile
}

fn nodes(entry: &ProfileEntry) -> Vec<&str> {
    entry.nodes.iter().map(String::as_str).collect()
}

/// The nodes that no entry computes, but for dropout, which is nothing in inference, and for what
/// follows from no input and is computed once, before the first step.
fn untold(graph: &Graph, profile: &Profile) -> Vec<String> {
    let entries = profile.entries.iter();
    let told: BTreeSet<&String> = entries.flat_map(|entry| &entry.nodes).collect();
    let mut moving: BTreeSet<&String> = graph.inputs.iter().map(|input| &input.name).collect();
    let mut untold = Vec::new();
    for node in &graph.nodes {
        if !node.inputs.iter().any(|input| moving.contains(input)) {
            continue;
        }
        moving.extend(&node.outputs);
        if !matches!(node.op, Op::Dropout { .. }) && !told.contains(&node.name) {
            untold.push(node.name.clone());
        }
    }
    untold
}

#[test]
fn convolutions_are_told_with_what_was_fused_into_them() {
    let graph = zoo::small("resnet18");
    let profile = profiled(&graph, |_| ());
    assert_eq!(untold(&graph, &profile), [""; 0]);
    let blocks: BTreeMap<&str, &ProfileEntry> = profile
        .entries
        .iter()
        .filter_map(|entry| Some((*nodes(entry).first()?, entry)))
        .collect();
    let of = |node: &str| nodes(blocks[node]);
    assert_eq!(of("bn1"), ["bn1", "conv1", "relu"]);
    assert_eq!(
        of("layer1.0.add"),
        [
            "layer1.0.add",
            "layer1.0.bn2",
            "layer1.0.conv2",
            "layer1.0.relu"
        ]
    );
    assert_eq!(
        of("layer2.0.downsample.0"),
        ["layer2.0.downsample.0", "layer2.0.downsample.1"]
    );
    // Every node is one kernel's.
    let count: usize = profile.entries.iter().map(|entry| entry.nodes.len()).sum();
    assert_eq!(count, graph.nodes.len());
    for entry in profile.entries.iter().filter(|entry| entry.conversion) {
        assert!(entry.name.starts_with("Reorder"), "{entry:?}");
        assert_eq!(nodes(entry), [""; 0]);
    }
}

#[test]
fn composed_operators_are_told_as_the_nodes_that_they_are() {
    let graph = zoo::small("bert_tiny");
    let profile = profiled(&graph, |_| ());
    assert_eq!(untold(&graph, &profile), [""; 0]);
    let overhead = profile.entries.iter().find(|entry| entry.nodes.is_empty());
    assert_eq!(overhead, None);
    let softmax = profile
        .entries
        .iter()
        .find(|entry| entry.name.starts_with("Softmax "))
        .unwrap();
    assert_eq!(nodes(softmax), ["encoder.layer.0.attention.self.attention"]);
    let norm = profile
        .entries
        .iter()
        .find(|entry| nodes(entry).contains(&"encoder.layer.1.output.LayerNorm"))
        .unwrap();
    assert_eq!(
        nodes(norm),
        [
            "encoder.layer.1.output.LayerNorm",
            "encoder.layer.1.output.add"
        ]
    );
}

#[test]
fn the_zoo_is_told_node_by_node() {
    for name in ["mobilenet_v2", "lstm_lm", "vit_b16", "gpt2"] {
        let graph = zoo::small(name);
        let profile = profiled(&graph, |_| ());
        assert_eq!(untold(&graph, &profile), [""; 0], "{name}");
    }
}

#[test]
fn casts_are_conversions() {
    let graph = zoo::small("resnet18");
    let profile = profiled(&graph, |cell| cell.precision = Precision::Fp16);
    let casts = || profile.entries.iter().filter(|entry| entry.conversion);
    assert!(
        casts().any(|entry| entry.name.starts_with("Cast ")),
        "{:#?}",
        profile.entries
    );
    assert!(casts().all(|entry| entry.nodes.is_empty()));
}

#[test]
fn nodes_are_told_without_optimisation_as_well() {
    let graph = zoo::small("resnet18");
    let off = |cell: &mut Cell| drop(cell.factors.insert("optimization".into(), "off".into()));
    let profile = profiled(&graph, off);
    assert_eq!(untold(&graph, &profile), [""; 0]);
    assert!(profile.entries.iter().all(|entry| entry.nodes.len() == 1));
    assert_eq!(profile.kernels, STEPS * graph.nodes.len() as u64);
}

#[test]
fn a_profile_ends_with_a_reason_where_there_is_none() {
    let graph = zoo::small("resnet18");
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("a file");
    std::fs::write(&file, "").unwrap();
    let load = Load {
        cell: Cell::plain(&graph, "onnxruntime/cpu".parse().unwrap()),
        graph,
        files: None,
        scratch: file.clone(),
    };
    let (mut session, _) = OnnxRuntime::at(library()).load(&load).unwrap();
    let outcome = session.profile(1).unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::Crashed);
    assert!(outcome.reason.contains(&file.display().to_string()));
}
