//! Where the time goes: ONNX Runtime's own profile of networks of the zoo, mapped to their nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use models::onnx::File;
use photofinish_worker_onnxruntime::OnnxRuntime;
use schema::{
    Cell, Graph, OutcomeKind, Precision,
    graph::Op,
    protocol::{Load, ModelFiles, Profile, ProfileEntry},
};
use worker::Engine as _;

use crate::{
    by_hand::{self, ByHand, FLOAT},
    grids,
    library::library,
    wire, zoo,
};

const STEPS: u64 = 4;

fn profiled(graph: &Graph, change: impl FnOnce(&mut Cell)) -> Profile {
    profiled_from(graph, None, change)
}

/// With the user's file, or the weights, where there are some.
fn profiled_from(
    graph: &Graph,
    files: Option<ModelFiles>,
    change: impl FnOnce(&mut Cell),
) -> Profile {
    let scratch = tempfile::tempdir().unwrap();
    let mut cell = Cell::plain(graph, "onnxruntime/cpu".parse().unwrap());
    change(&mut cell);
    let load = Load {
        cell,
        graph: graph.clone(),
        files,
        scratch: scratch.path().to_owned(),
    };
    let (mut session, _) = OnnxRuntime::at(library()).load(&load).unwrap();
    session.step().unwrap();
    let before = session.parity(1).unwrap();
    let profile = session.profile(STEPS).unwrap();
    session.step().unwrap();
    assert!(session.parity(1).unwrap() == before, "another result");
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
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

/// What rounds and bends behind a convolution is a part of its kernel, whose values have other names than ours.
#[test]
fn convolutions_of_integers_are_told_with_what_follows_them() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, files) = grids::on_grids(
        &zoo::small("resnet18"),
        Precision::Int8Static,
        folder.path(),
    );
    let profile = profiled_from(&graph, Some(files), |cell| {
        cell.precision = Precision::Int8Static;
    });
    assert_eq!(untold(&graph, &profile), [""; 0]);
    let kernels: BTreeMap<&str, Vec<&str>> = profile
        .entries
        .iter()
        .filter(|entry| entry.name.starts_with("QLinear") || entry.name.contains("MaxPool "))
        .map(|entry| (*nodes(entry).first().unwrap(), nodes(entry)))
        .collect();
    let block = [
        ["conv1", "relu.quantized"],
        ["maxpool", "maxpool.quantized"],
        ["layer1.0.conv1", "layer1.0.relu1.quantized"],
        ["layer1.0.bn2.quantized", "layer1.0.conv2"],
        ["layer1.0.add", "layer1.0.relu.quantized"],
    ];
    for kernel in block {
        assert_eq!(kernels[kernel[0]], kernel);
    }
    // Every node that is not computed once is one kernel's.
    let count: usize = profile.entries.iter().map(|entry| entry.nodes.len()).sum();
    let told = profile.entries.iter().flat_map(|entry| &entry.nodes);
    assert_eq!(count, told.collect::<BTreeSet<_>>().len());
}

/// A file of the user's, read.
fn brought(folder: &Path, file: &[u8]) -> (Graph, ModelFiles) {
    fs::write(folder.join("model.onnx"), file).unwrap();
    let file = File::open(folder, "model.onnx").unwrap();
    let reading = file.read(&BTreeMap::new()).unwrap();
    let weights = folder.join("numbers");
    reading
        .write_weights(&mut fs::File::create(&weights).unwrap())
        .unwrap();
    let files = ModelFiles {
        weights,
        onnx: Some(folder.join("model.onnx")),
        precision: file.precision(),
    };
    (reading.graph, files)
}

/// A tensor of binary32 whose numbers lie in the file `beside`.
fn lying_beside(name: &str, dims: &[i64], numbers: &[f32], beside: &Path) -> Vec<u8> {
    let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(beside, raw).unwrap();
    let mut tensor = by_hand::tensor(name, FLOAT, dims, &[]);
    let mut location = Vec::new();
    wire::field(1, b"location", &mut location);
    let beside = beside.file_name().unwrap();
    wire::field(2, beside.as_encoded_bytes(), &mut location);
    wire::field(13, &location, &mut tensor);
    wire::number_field(14, 1, &mut tensor);
    tensor
}

/// ONNX lets operators go without names.
#[test]
fn operators_of_a_file_are_told_apart_without_names() {
    let numbers: Vec<f32> = (0..64).map(|n| f32::from(n as u8) / 64.0 - 0.5).collect();
    for is_beside in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let file = ByHand::default().fed("x", FLOAT, &[2, 8]);
        let file = match is_beside {
            false => file.floats("w", &[8, 8], &numbers),
            true => {
                let beside = folder.path().join("w.bin");
                file.tensor(&lying_beside("w", &[8, 8], &numbers, &beside))
            }
        };
        // A name that another's output has.
        let mut named = by_hand::node("", "Softmax", &["c"], &["d"], &[]);
        wire::field(3, b"a", &mut named);
        let file = file
            .node("MatMul", &["x", "w"], "a")
            .node("Softmax", &["a"], "b")
            .node("MatMul", &["b", "w"], "c")
            .message(&named)
            .node("MatMul", &["d", "w"], "y")
            .made("y");
        let (graph, files) = brought(folder.path(), &file);
        let profile = profiled_from(&graph, Some(files), |_| ());
        assert_eq!(untold(&graph, &profile), [""; 0]);
        for entry in &profile.entries {
            assert_eq!((entry.nodes.len(), entry.calls), (1, STEPS), "{entry:?}");
        }
        assert_eq!(profile.entries.len(), graph.nodes.len());
    }
}

/// A norm is one operator of the file, and in the graph squares, their sum and a root.
#[test]
fn an_operator_of_a_file_that_became_several_nodes_is_told_as_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = ByHand::default()
        .fed("x", FLOAT, &[4, 8])
        .node("Exp", &["x"], "e")
        .node("ReduceL2", &["e"], "y")
        .made("y");
    let (graph, files) = brought(folder.path(), &file);
    let profile = profiled_from(&graph, Some(files), |_| ());
    assert_eq!(untold(&graph, &profile), [""; 0]);
    let norm = profile
        .entries
        .iter()
        .find(|entry| entry.name.starts_with("ReduceL2 "));
    let told = nodes(norm.unwrap());
    assert!(
        told.len() > 1 && told.iter().all(|node| node.starts_with('y')),
        "{told:?}"
    );
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
    fs::write(&file, "").unwrap();
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
