//! Files that no graph can say: what goes in and comes out is known, and what is broken or hostile in
//! them is refused all the same, since engines that read ONNX are given them as they are.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::BTreeMap;

use photofinish_models::onnx::{self, Document, Extensions, File, ReadError, own_file};
use proptest::{prelude::*, test_runner::TestRunner};
use schema::{Outcome, OutcomeKind, Precision, graph::Fill, protocol::Load};
use support::{
    by_hand::{ByHand, DOUBLE, FLOAT, INT64, int, list, tensor, value},
    hostile,
    judge::options,
    limits,
    networks::small,
    wire::{self, field, number_field},
};

/// A model of the zoo as a file, with another operator of a name as long.
fn with(name: &str, operator: &str, other: &str) -> Vec<u8> {
    assert_eq!(operator.len(), other.len());
    let bytes = onnx::write(&small(name, 2), &options(17, Precision::Fp32));
    let mut bytes = bytes.unwrap().model;
    let length = operator.len();
    for at in 0..bytes.len() - length {
        if bytes[at..].starts_with(operator.as_bytes()) {
            bytes[at..at + length].copy_from_slice(other.as_bytes());
        }
    }
    bytes
}

/// Operator, inputs and outputs.
type Node<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

/// A model that is fed `x [2, 3]`, with these attributes of its first node.
fn model(nodes: &[Node<'_>], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut graph = Vec::new();
    for (at, (op, inputs, makes)) in nodes.iter().enumerate() {
        let mut node = Vec::new();
        for (tag, names) in [(1, inputs), (2, makes)] {
            for name in *names {
                field(tag, name.as_bytes(), &mut node);
            }
        }
        field(3, format!("n{at}").as_bytes(), &mut node);
        field(4, op.as_bytes(), &mut node);
        for attribute in attributes.iter().filter(|_| at == 0) {
            field(5, attribute, &mut node);
        }
        field(1, &node, &mut graph);
    }
    field(11, &wire::described("x", &[2, 3]), &mut graph);
    for output in outputs {
        let mut described = Vec::new();
        field(1, output.as_bytes(), &mut described);
        field(12, &described, &mut graph);
    }
    let mut model = Vec::new();
    field(7, &graph, &mut model);
    let mut opset = Vec::new();
    number_field(2, 17, &mut opset);
    field(8, &opset, &mut model);
    model
}

/// An attribute that holds a graph.
fn branch(graph: &[u8]) -> Vec<u8> {
    let mut attribute = Vec::new();
    field(1, b"then_branch", &mut attribute);
    field(6, graph, &mut attribute);
    attribute
}

fn outline(bytes: &[u8]) -> Result<onnx::Outline, ReadError> {
    File::from_bytes("own", bytes)?.outline(&BTreeMap::new())
}

#[test]
fn what_goes_in_and_comes_out_is_that_of_the_graph() {
    for (name, operator, other) in [
        ("mobilenet_v2", "GlobalAveragePool", "GlobalLpPoolOther"),
        ("bert_tiny", "Softmax", "Sparsem"),
    ] {
        let bytes = with(name, operator, other);
        let file = File::from_bytes(name, &bytes).unwrap();
        let error = file.read(&BTreeMap::new()).unwrap_err();
        let ReadError::Unsupported { op, node, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(op, other);
        assert!(!node.is_empty());
        let outline = file.outline(&BTreeMap::new()).unwrap();
        let whole = File::from_bytes(name, &with(name, operator, operator)).unwrap();
        let whole = whole.read(&BTreeMap::new()).unwrap().graph;
        assert!(outline.graph.is_outline() && !whole.is_outline());
        assert!(outline.nodes >= whole.nodes.len());
        // Fills among them: integers stay below the rows of the tables that are read before.
        assert_eq!(outline.graph.inputs, whole.inputs);
        assert_eq!(outline.graph.outputs, whole.outputs);
        assert!(outline.graph.parameters.is_empty());
    }
    let text = outline(&with("bert_tiny", "Softmax", "Sparsem")).unwrap();
    let is_bound = |fill| matches!(fill, Fill::Integers { .. });
    assert!(text.graph.inputs.iter().any(|input| is_bound(input.fill)));
}

#[test]
fn sizes_are_asked_for_as_of_a_graph() {
    let bytes = with("mobilenet_v2", "GlobalAveragePool", "GlobalLpPoolOther");
    let file = File::from_bytes("own", &bytes).unwrap();
    let error = file.outline(&[("batch".to_owned(), 8)].into()).unwrap_err();
    assert!(matches!(error, ReadError::Dimension { .. }), "{error}");
}

#[test]
fn what_contradicts_itself_is_refused_behind_an_operator_that_is_not_known() {
    let mish: Node<'_> = ("Mish", &["x"], &["y"]);
    for (nodes, outputs, says) in [
        (
            vec![mish, ("Relu", &["b"], &["a"]), ("Relu", &["a"], &["b"])],
            vec!["b"],
            "in no order, or in a circle",
        ),
        (
            vec![mish, mish],
            vec!["y"],
            "makes `y`, which is there already",
        ),
        (
            vec![("Mish", &["x"], &["x"])],
            vec!["x"],
            "has the name of another value",
        ),
        (vec![mish], vec!["z"], "its output `z` is made by nothing"),
        (vec![mish], vec!["y"; 1025], "1025 outputs"),
        (vec![mish], vec![], "0 outputs"),
    ] {
        let bytes = model(&nodes, &outputs, &[]);
        let error = outline(&bytes).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
    // What is returned twice leaves once.
    let twice = outline(&model(&[mish], &["y", "y"], &[])).unwrap();
    assert_eq!(twice.graph.outputs, ["y"]);
    // Otherwise the above would say nothing.
    let right = model(&[mish, ("Relu", &["y"], &["z"])], &["z"], &[]);
    assert_eq!(outline(&right).unwrap().nodes, 2);
}

#[test]
fn constants_beyond_all_measure_are_no_operator_that_is_not_known() {
    let node = |op: &str, reads: &[usize]| hostile::Node {
        op: hostile::operator(op),
        reads: reads.to_vec(),
        attributes: vec![],
    };
    // `v3` is `[size, size]`: 2^33 by 2^33, and 2^15 by 2^15, which no file of this size explains.
    for size in [1_i64 << 33, 1 << 15] {
        let bytes = hostile::model(&[node("ConstantOfShape", &[3])], size, &[4]);
        let file = File::from_bytes("own", &bytes).unwrap();
        let error = file.read(&BTreeMap::new()).unwrap_err();
        assert!(matches!(error, ReadError::Excessive { .. }), "{error:?}");
        assert_eq!(file.outline(&BTreeMap::new()).unwrap_err(), error);
    }
}

#[test]
fn no_file_is_named_that_was_not_looked_at() {
    for op in ["If", "Loop", "Scan"] {
        looked_at_in(op);
    }
}

/// Looks into the graphs that such an operator has as its attributes.
fn looked_at_in(op: &str) {
    let run = |graph: &[u8]| {
        let branches = [branch(graph)];
        outline(&model(&[(op, &["x"], &["y"])], &["y"], &branches))
    };
    // An initializer of a graph in a node: external, in a file outside.
    let mut entry = Vec::new();
    field(1, b"location", &mut entry);
    field(2, b"../../secret", &mut entry);
    let mut tensor = Vec::new();
    number_field(2, 1, &mut tensor);
    field(8, b"w", &mut tensor);
    field(13, &entry, &mut tensor);
    let mut outside = Vec::new();
    field(5, &tensor, &mut outside);
    let error = run(&outside).unwrap_err().to_string();
    assert!(error.contains("lie beside the model"), "{error}");
    // The same in a constant of that graph, and one level below.
    let mut attribute = Vec::new();
    field(1, b"value", &mut attribute);
    field(5, &tensor, &mut attribute);
    let held = |attribute: &[u8]| {
        let (mut node, mut graph) = (Vec::new(), Vec::new());
        field(4, b"Constant", &mut node);
        field(5, attribute, &mut node);
        field(1, &node, &mut graph);
        graph
    };
    let error = run(&held(&attribute)).unwrap_err().to_string();
    assert!(error.contains("lie beside the model"), "{error}");
    assert!(run(&held(&branch(&held(&attribute)))).is_err());
    assert!(run(&held(&branch(&held(&[])))).is_ok());
    // Two graphs in one attribute, of which some readers see the last and some both.
    let mut twice = branch(&outside);
    field(6, &held(&[]), &mut twice);
    let error = run(&held(&twice)).unwrap_err().to_string();
    assert!(error.contains("two graphs"), "{error}");
    // Without end, and cut off.
    let mut deep = held(&[]);
    for _ in 0..20 {
        deep = held(&branch(&deep));
    }
    let error = run(&deep).unwrap_err().to_string();
    assert!(error.contains("without end"), "{error}");
    assert!(run(&[0x0a, 9]).is_err());
}

#[test]
fn an_outline_is_run_from_its_file_or_not_at_all() {
    let outline = outline(&with("bert_tiny", "Softmax", "Sparsem")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cell = serde_json::json!({
        "model": { "name": "own.onnx", "source": "onnx", "graph": schema::Digest::of_bytes(b"own") },
        "dims": {}, "precision": "fp32", "mode": "inference", "optimizer": null,
        "engine": "any/any", "host_language": "rust", "device": "cpu", "threads": 1,
        "strategy": "single", "world_size": 1, "boundary": "step", "factors": {},
    });
    let mut load = Load {
        cell: serde_json::from_value(cell).unwrap(),
        graph: outline.graph,
        files: Some(schema::protocol::ModelFiles {
            weights: folder.path().join("weights"),
            onnx: Some(folder.path().join("own.onnx")),
            precision: Precision::Fp32,
        }),
        scratch: folder.path().to_owned(),
    };
    let of = |load: &Load, precision| Document::of(load, precision, Extensions::default());
    let file = folder.path().join("own.onnx");
    assert_eq!(own_file(&load, Precision::Fp32), Some(file.as_path()));
    assert_eq!(of(&load, Precision::Fp32), Ok(Document::File(file)));
    let refused = |got: Result<Document, Outcome>| {
        let outcome = got.unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(outcome.reason.contains("run as it is"), "{outcome:?}");
    };
    refused(of(&load, Precision::Fp16));
    let unrolled = ("recurrent".to_owned(), "unrolled".to_owned());
    load.cell.factors = BTreeMap::from([unrolled]);
    refused(of(&load, Precision::Fp32));
}

#[test]
fn axes_do_not_double_without_end() {
    let gather = |reads| hostile::Node {
        op: hostile::operator("Gather"),
        reads: vec![reads, reads],
        attributes: vec![],
    };
    // `v7` is a matrix of 0 and 1: taken by itself it has three axes, that by itself has five.
    let nodes: Vec<_> = (7..47).map(gather).collect();
    let error = outline(&hostile::model(&nodes, 1, &[4])).unwrap_err();
    assert!(matches!(error, ReadError::Excessive { .. }), "{error:?}");
    assert!(error.to_string().contains("makes 9 axes"), "{error}");
    let flat = tensor("t", INT64, &[1; 1 << 16], &1_i64.to_le_bytes());
    for file in [
        ByHand::default().tensor(&flat),
        ByHand::default().node_with("Constant", &[], "t", &[value(&flat)]),
    ] {
        let file = file.fed("x", FLOAT, &[2]).node("Shape", &["t"], "y");
        let read = |bytes: &[u8]| File::from_bytes("own", bytes)?.read(&BTreeMap::new());
        let error = read(&file.made("y")).unwrap_err().to_string();
        assert!(error.contains("has 65536 axes"), "{error}");
    }
}

/// What has a shape that nothing can hold is an error of the file's, not of the engine that would be asked for it.
#[test]
fn shapes_beyond_all_memory_are_handed_to_nobody() {
    for sizes in [
        vec![1_i64 << 60],
        vec![1 << 21, 1 << 20],
        vec![1 << 62, 1 << 62],
    ] {
        let file = ByHand::default()
            .fed("x", FLOAT, &[1])
            .integers("sizes", &[sizes.len() as i64], &sizes)
            .node("Expand", &["x", "sizes"], "wide")
            .node("ReduceMean", &["wide"], "y");
        let file = File::from_bytes("own", &file.made("y")).unwrap();
        for error in [
            file.read(&BTreeMap::new()).unwrap_err(),
            file.outline(&BTreeMap::new()).unwrap_err(),
        ] {
            assert!(matches!(error, ReadError::Excessive { .. }), "{error:?}");
            let said = error.to_string();
            assert!(
                said.starts_with("operator `Expand` of node `wide`: "),
                "{said}"
            );
            assert!(said.ends_with("has more than 2^40 elements"), "{said}");
        }
    }
}

/// Small files ask for much: whatever they say, reading them stays within a few gigabytes. Beyond them an
/// allocation fails, and ends the test.
#[test]
fn what_a_small_file_says_costs_no_more_than_a_bounded_memory() {
    // Threads of other tests have their arenas of 64 MiB each.
    limits::bound_memory(3 << 30);
    let sizes = prop::sample::select(vec![1_i64 << 12, 1 << 15, 1 << 20, 1 << 24, 1 << 31, -1, 0]);
    let strategy = (prop::collection::vec(hostile::node(), 1..12), sizes);
    let mut runner = TestRunner::default();
    let outcome = runner.run(&strategy, |(nodes, size)| {
        let bytes = hostile::model(&nodes, size, &[1 << 20, 4]);
        if let Ok(file) = File::from_bytes("hostile", &bytes) {
            let dims = BTreeMap::new();
            let _ = file.read(&dims).map(drop);
            let _ = file.outline(&dims).map(drop);
        }
        Ok(())
    });
    outcome.unwrap();
}

/// 40 times twice as much.
fn doubled(mut file: ByHand, first: &str) -> ByHand {
    let mut last = first.to_owned();
    for at in 0..40 {
        let next = format!("c{at}");
        file = file.node_with("Concat", &[&last, &last], &next, &[int("axis", 0)]);
        last = next;
    }
    file.node_with("ReduceMean", &[&last], "mean", &[int("keepdims", 0)])
}

#[test]
fn constants_that_double_without_end_are_handed_to_nobody() {
    let fed = || ByHand::default().fed("x", FLOAT, &[2, 4]);
    let floats = doubled(fed().floats("first", &[8], &[1.0; 8]), "first");
    let floats = floats.node("Add", &["x", "mean"], "y");
    let sizes = fed().node("Shape", &["x"], "size").node_with(
        "Cast",
        &["size"],
        "first",
        &[int("to", FLOAT as i64)],
    );
    let sizes = doubled(sizes, "first").node("Add", &["x", "mean"], "y");
    // By a sum on the way, and in another shape.
    let mut others = fed().floats("c0", &[1, 8], &[1.0; 8]);
    others = others.integers("twice", &[2], &[2, 1]);
    for at in 0..40 {
        let (last, next) = (format!("c{at}"), format!("c{}", at + 1));
        let (wide, turned) = (format!("w{at}"), format!("t{at}"));
        others = others
            .node("Tile", &[&last, "twice"], &wide)
            .node_with("Transpose", &[&wide], &turned, &[list("perm", &[1, 0])])
            .node("Add", &[&turned, &turned], &next);
    }
    others = others
        .node("ReduceMean", &["c40"], "mean")
        .node("Add", &["x", "mean"], "y");
    for file in [floats, sizes, others] {
        let file = File::from_bytes("own", &file.made("y")).unwrap();
        let error = file.read(&BTreeMap::new()).unwrap_err();
        assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
        let error = file.outline(&BTreeMap::new()).unwrap_err();
        assert!(matches!(error, ReadError::Excessive { .. }), "{error:?}");
        assert!(error.to_string().contains("absurdly larger"), "{error}");
    }
    // More than is computed here, and no more than engines may.
    let many = fed()
        .integers("size", &[1], &[10 << 20])
        .node("ConstantOfShape", &["size"], "a")
        .node("Exp", &["a"], "b")
        .node("Exp", &["b"], "c")
        .node_with("ReduceMean", &["c"], "mean", &[int("keepdims", 0)])
        .node("Add", &["x", "mean"], "y");
    let many = File::from_bytes("own", &many.made("y")).unwrap();
    many.read(&BTreeMap::new()).unwrap_err();
    many.outline(&BTreeMap::new()).unwrap();
}

#[test]
fn what_contradicts_itself_at_these_sizes_is_handed_to_nobody() {
    let fed = || ByHand::default().fed("x", FLOAT, &[7, 3, 16]);
    let reshaped =
        fed()
            .integers("written", &[3], &[6, 6, 8])
            .node("Reshape", &["x", "written"], "y");
    let multiplied = fed()
        .floats("w", &[5, 2], &[1.0; 10])
        .node("MatMul", &["x", "w"], "y");
    let of_integers = fed()
        .integers("w", &[16, 1], &[1; 16])
        .node("MatMul", &["x", "w"], "y");
    let added = fed()
        .floats("w", &[5], &[1.0; 5])
        .node("Add", &["x", "w"], "y");
    let begun = fed()
        .floats("w", &[1, 8, 16], &[0.5; 128])
        .floats("r", &[1, 8, 2], &[0.5; 16])
        .floats("b", &[1, 16], &[0.0; 16])
        .floats("h", &[1, 3, 2], &[0.0; 6])
        .floats("c", &[1, 1, 2], &[0.0; 2])
        .node_with(
            "LSTM",
            &["x", "w", "r", "b", "", "h", "c"],
            "y",
            &[int("hidden_size", 2)],
        );
    for (file, says) in [
        (
            reshaped,
            "[7, 3, 16] and [6, 6, 8] differ in their elements",
        ),
        (multiplied, "multiplies [7, 3, 16] and [5, 2]"),
        (of_integers, "floats and integers at once"),
        (added, "[5]"),
        (begun, "[1, 1, 2], and its states are of [1, 3, 2]"),
    ] {
        let file = File::from_bytes("own", &file.made("y")).unwrap();
        file.read(&BTreeMap::new()).unwrap_err();
        let error = file.outline(&BTreeMap::new()).unwrap_err();
        assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.to_string().contains("exported"), "{error}");
    }
    // A size that the file calls open, and has written in.
    let frozen = ByHand::default()
        .fed("x", FLOAT, &[wire::BATCH, 16])
        .integers("written", &[3], &[6, 2, 8])
        .node("Reshape", &["x", "written"], "y");
    let file = File::from_bytes("own", &frozen.made("y")).unwrap();
    let sizes = |batch| BTreeMap::from([("batch".to_owned(), batch)]);
    assert!(file.read(&sizes(6)).is_ok());
    file.read(&sizes(7)).unwrap_err();
    let error = file.outline(&sizes(7)).unwrap_err().to_string();
    assert!(
        error.contains("another size of `batch` was written into the node"),
        "{error}"
    );
}

/// Engines that read the file take rows that no graph does: all of them must be there.
#[test]
fn rows_of_what_is_not_read_bound_what_is_fed() {
    let columns = || {
        ByHand::default()
            .fed("ids", INT64, &[4, 2])
            .floats("a", &[100, 3], &[0.5; 300])
            .integers("first", &[], &[0])
            .integers("second", &[], &[1])
            .node_with("Gather", &["ids", "first"], "left", &[int("axis", 1)])
            .node_with("Gather", &["ids", "second"], "right", &[int("axis", 1)])
            .node("Gather", &["a", "left"], "of_a")
            .leaving("of_a")
    };
    let deep = columns()
        .floats("b", &[7, 3, 4], &[0.5; 84])
        .node("Gather", &["b", "right"], "y");
    let across = columns().floats("b", &[50, 6], &[0.5; 300]).node_with(
        "Gather",
        &["b", "right"],
        "y",
        &[int("axis", 1)],
    );
    let unread = columns()
        .floats("b", &[50, 6], &[0.5; 300])
        .node("Celu", &["b"], "other")
        .node("Gather", &["other", "right"], "y");
    for (file, rows) in [(deep, 7), (across, 6)] {
        assert_eq!(bound_of(&file.made("y")), Fill::Integers { bound: rows });
    }
    // How many rows those have is not known.
    let Fill::Integers { bound } = bound_of(&unread.made("y")) else {
        panic!("they are places");
    };
    assert!(bound <= 50, "{bound}");
}

fn bound_of(file: &[u8]) -> Fill {
    let file = File::from_bytes("own", file).unwrap();
    let outline = file.outline(&BTreeMap::new()).unwrap();
    outline.graph.inputs[0].fill
}

/// Numbers that nobody can compute a second time are told of as such.
#[test]
fn what_draws_numbers_is_named() {
    let noisy = ByHand::default()
        .fed("x", FLOAT, &[2, 4])
        .node("RandomNormalLike", &["x"], "noise")
        .node("Add", &["x", "noise"], "y");
    let file = File::from_bytes("own", &noisy.made("y")).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err().to_string();
    assert!(
        error.starts_with("operator `RandomNormalLike` of node `noise`: draws"),
        "{error}"
    );
}

#[test]
fn what_onnx_runtime_refuses_of_outputs_is_an_error() {
    let fed = || ByHand::default().fed("x", FLOAT, &[2, 4]);
    let described = |element| wire::described_as("y", element, &[2, 4]);
    let with = |file: ByHand, element| {
        let described = described(element);
        file.described(&described).made("y")
    };
    let sizes = || fed().node("Shape", &["x"], "size");
    let unread = || fed().node("Celu", &["x"], "other");
    for (bytes, says) in [
        (
            with(fed().node("Relu", &["x"], "y"), INT64),
            "`y` is said to be of integers or truth values, and the node `y` makes floats",
        ),
        (
            with(sizes().node("Identity", &["size"], "y"), FLOAT),
            "`y` is said to be of floats",
        ),
        (
            with(unread().node("Relu", &["x"], "y"), INT64),
            "`y` is said to be of integers",
        ),
        (
            fed().node_of("Relu", &["x"], &["y", "z"], &[]).made("y"),
            "has 2 outputs, and the operator 1",
        ),
    ] {
        let file = File::from_bytes("own", &bytes).unwrap();
        file.read(&BTreeMap::new()).map(drop).unwrap_err();
        let error = file.outline(&BTreeMap::new()).map(drop).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
    // Floats of another width, and no more outputs than there are, are none of it.
    let right = with(fed().node("Relu", &["x"], "y"), DOUBLE);
    File::from_bytes("own", &right)
        .unwrap()
        .read(&BTreeMap::new())
        .unwrap();
    let unnamed = fed().node_of("Relu", &["x"], &["y", ""], &[]).made("y");
    File::from_bytes("own", &unnamed)
        .unwrap()
        .read(&BTreeMap::new())
        .unwrap();
}
