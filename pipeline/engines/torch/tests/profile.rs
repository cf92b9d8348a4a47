//! Where the time goes: what PyTorch's dispatcher says of each node, and of its gradient.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{SGD, cell, load};
use models::rewrite::{ATTENTION, PLAIN, Rewriting};
use schema::{
    Graph, Optimizer, Precision,
    graph::Op,
    protocol::{Profile, ProfileEntry},
};

const STEPS: u64 = 3;

fn network(name: &str) -> Graph {
    let dims = [("batch", 2), ("image", 64), ("seq", 16)];
    let known = |dim: &str| match name {
        "resnet18" => dim != "seq",
        _ => dim != "image",
    };
    let dims = dims.into_iter().filter(|(dim, _)| known(dim));
    let dims: BTreeMap<_, _> = dims.map(|(dim, size)| (dim.to_owned(), size)).collect();
    models::zoo::build(name, &dims).unwrap()
}

fn profiled(graph: &Graph, optimizer: Option<Optimizer>) -> Profile {
    let (mut session, _) = load(graph, cell(graph, Precision::Fp32, optimizer)).unwrap();
    session.step().unwrap();
    let profile = session.profile(STEPS).unwrap();
    session.step().unwrap();
    assert_eq!(profile.steps, STEPS);
    assert!(profile.entries_ns() > 0 && profile.entries_ns() <= profile.wall_ns);
    assert!(profile.kernels.is_multiple_of(STEPS), "{}", profile.kernels);
    for entry in &profile.entries {
        assert!(entry.nodes.len() <= 1, "{entry:?}");
        assert!(entry.calls.is_multiple_of(STEPS), "{entry:?}");
    }
    profile
}

/// The entries of a node, by their names.
fn names<'a>(profile: &'a Profile, node: &str) -> BTreeSet<&'a str> {
    let entries = profile.entries.iter();
    let of_node = entries.filter(|entry| entry.nodes.contains(node));
    of_node.map(|entry| entry.name.as_str()).collect()
}

fn untold(graph: &Graph, profile: &Profile) -> Vec<String> {
    let names = graph.nodes.iter().map(|node| &node.name);
    let untold = names.filter(|name| self::names(profile, name).is_empty());
    untold.cloned().collect()
}

#[test]
fn each_node_of_a_forward_pass_is_told() {
    let graph = network("resnet18");
    let profile = profiled(&graph, None);
    assert_eq!(untold(&graph, &profile), [""; 0]);
    assert_eq!(names(&profile, "conv1"), ["aten::conv2d"].into());
    assert_eq!(names(&profile, "bn1"), ["aten::batch_norm"].into());
    assert_eq!(names(&profile, "layer1.0.add"), ["aten::add_"].into());
    // Nothing is called but what the nodes are, and each does one thing.
    assert!(profile.entries.iter().all(|entry| entry.nodes.len() == 1));
    let views = graph
        .nodes
        .iter()
        .filter(|node| matches!(node.op, Op::Flatten { .. }));
    // The mean of the last pool is a sum and a division.
    let kernels = graph.nodes.len() - views.count() + 1;
    assert_eq!(profile.kernels, STEPS * kernels as u64);
}

#[test]
fn copies_to_another_order_are_told_apart_from_the_node_that_asks_for_them() {
    let factors = [(ATTENTION.to_owned(), PLAIN.to_owned())].into();
    let rewriting = Rewriting::asked_by(&factors);
    let graph = rewriting.apply(network("bert_tiny")).unwrap();
    let profile = profiled(&graph, None);
    let copies: Vec<&ProfileEntry> = profile
        .entries
        .iter()
        .filter(|entry| entry.conversion)
        .collect();
    assert!(!copies.is_empty(), "{:#?}", profile.entries);
    for copy in copies {
        assert_eq!(copy.name, "aten::clone", "{copy:?}");
        let node = copy.nodes.first().unwrap();
        // What asks for it has its own time beside, without that of the copy.
        let all = names(&profile, node);
        assert!(all.len() > 1, "{all:?}");
    }
    // The product of heads lies in another order than the positions that are read next.
    let turned = "encoder.layer.0.attention.self.attention";
    assert!(names(&profile, turned).contains("aten::clone"));
}

#[test]
fn gradients_belong_to_the_nodes_that_they_are_of() {
    let graph = network("resnet18");
    let profile = profiled(&graph, Some(SGD));
    assert_eq!(untold(&graph, &profile), [""; 0]);
    let expected = ["ConvolutionBackward0", "aten::conv2d"];
    assert_eq!(names(&profile, "conv1"), expected.into());
    let told = names(&profile, "layer1.0.bn1");
    assert!(told.contains("NativeBatchNormBackward0"), "{told:?}");
    // Two ways lead from the first block's input; their gradients are added up.
    assert!(names(&profile, "maxpool").contains("MaxPool2DWithIndicesBackward0"));
    let others: BTreeSet<&str> = profile
        .entries
        .iter()
        .filter(|entry| entry.nodes.is_empty())
        .map(|entry| entry.name.as_str())
        .collect();
    assert!(
        others.contains("loss: aten::cross_entropy_loss"),
        "{others:?}"
    );
    assert!(
        others.contains("torch::autograd::AccumulateGrad"),
        "{others:?}"
    );
    assert!(
        others.iter().any(|name| name.starts_with("optimizer: ")),
        "{others:?}"
    );
    let strange = others.iter().find(|name| name.contains("Convolution"));
    assert_eq!(strange, None);
}

#[test]
fn a_second_profile_begins_anew() {
    let graph = network("bert_tiny");
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, None)).unwrap();
    let mut told = || {
        let profile = session.profile(STEPS).unwrap();
        let entries = profile.entries.into_iter();
        let entries = entries.map(|entry| (entry.name, entry.nodes, entry.calls));
        (entries.collect::<Vec<_>>(), profile.kernels)
    };
    let first = told();
    assert_eq!(told(), first);
}
