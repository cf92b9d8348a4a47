//! Branches of a user's file: those whose condition is known once sizes are take the place of the `If`, all
//! others are left to engines that read ONNX.

use std::{collections::BTreeMap, fs};

use photofinish_models::{
    infer,
    onnx::{File, ReadError},
};
use schema::{Graph, graph::Op};

use crate::support::{
    by_hand::{BOOL, ByHand, FLOAT, int, node, tensor, zero},
    users,
    wire::field,
};

/// A graph as a message, of nodes, tensors that it holds, and what it gives.
fn graph(nodes: &[Vec<u8>], held: &[Vec<u8>], outputs: &[&str]) -> Vec<u8> {
    let mut graph = Vec::new();
    // ONNX Runtime takes none without a name.
    field(2, b"branch", &mut graph);
    for node in nodes {
        field(1, node, &mut graph);
    }
    for tensor in held {
        field(5, tensor, &mut graph);
    }
    for output in outputs {
        let mut described = Vec::new();
        field(1, output.as_bytes(), &mut described);
        field(12, &described, &mut graph);
    }
    graph
}

/// The node that takes the one branch or the other.
fn branching(condition: &str, branches: [&[u8]; 2], outputs: &[&str]) -> Vec<u8> {
    let names = ["then_branch", "else_branch"];
    let attributes = names.iter().zip(branches).map(|(name, branch)| {
        let mut attribute = zero(name, 5);
        field(6, branch, &mut attribute);
        attribute
    });
    let attributes: Vec<Vec<u8>> = attributes.collect();
    node("", "If", &[condition], outputs, &attributes)
}

fn unary(op: &str, input: &str, output: &str) -> Vec<u8> {
    node("", op, &[input], &[output], &[])
}

/// `x`, and whether its second axis has the size 1.
fn asked(sizes: &[i64]) -> ByHand {
    let x = ByHand::default().fed("x", FLOAT, sizes);
    let x = x.integers("one", &[1], &[1]).node("Shape", &["x"], "sizes");
    x.node_with("Gather", &["sizes", "one"], "size", &[int("axis", 0)])
        .node("Equal", &["size", "one"], "is_one")
}

/// As PyTorch's exporter writes `squeeze(1)`.
fn squeezing(sizes: &[i64]) -> Vec<u8> {
    let squeeze = node("", "Squeeze", &["x", "one"], &["left"], &[]);
    let then = graph(&[squeeze], &[], &["left"]);
    let other = graph(&[unary("Identity", "x", "left")], &[], &["left"]);
    let file = asked(sizes).message(&branching("is_one", [&then, &other], &["b"]));
    file.node("Tanh", &["b"], "y").made("y")
}

fn read(bytes: &[u8]) -> Graph {
    users::reading(bytes).unwrap().graph
}

fn shape(graph: &Graph) -> Vec<u64> {
    infer::shapes(graph).unwrap()["y"].shape.clone()
}

#[test]
fn a_branch_is_taken_by_sizes() {
    let one = read(&squeezing(&[2, 1, 3]));
    assert_eq!(shape(&one), [2, 3]);
    let two = read(&squeezing(&[2, 2, 3]));
    assert_eq!(shape(&two), [2, 2, 3]);
    assert_eq!(users::count(&two, |op| *op == Op::Tanh), 1);
}

#[test]
fn what_is_taken_computes_what_the_file_computes() {
    // Both branches call what they make by one name, and those of two nodes do.
    let number = |name: &str, x: f32| tensor(name, FLOAT, &[], &x.to_le_bytes());
    let add = node("", "Add", &["x", "own"], &["sum"], &[]);
    let then = graph(
        &[
            add,
            unary("Tanh", "sum", "inner"),
            unary("Identity", "x", "same"),
        ],
        &[number("own", 0.5)],
        &["inner", "same"],
    );
    let exp = unary("Exp", "x", "inner");
    let other = graph(
        &[exp, unary("Abs", "inner", "same")],
        &[],
        &["inner", "same"],
    );
    let folder = tempfile::tempdir().unwrap();
    for (sizes, ops) in [(&[2, 1, 3], [2, 0]), (&[2, 4, 3], [0, 2])] {
        let first = branching("is_one", [&then, &other], &["b", "c"]);
        let second = branching("is_one", [&then, &other], &["d", "e"]);
        let file = asked(sizes).message(&first).message(&second);
        let file = file
            .node("Mul", &["b", "c"], "f")
            .node("Add", &["d", "e"], "g");
        let file = file.node("Add", &["f", "g"], "y");
        fs::write(folder.path().join("own.onnx"), file.made("y")).unwrap();
        let graph = users::read(folder.path(), "own", &[]).unwrap();
        let found = [Op::Tanh, Op::Exp].map(|op| users::count(&graph, |own| *own == op));
        assert_eq!(found, ops);
        let error = users::error(folder.path(), "own", &graph);
        assert!(error < 1e-6, "{error}");
    }
}

#[test]
fn branches_lie_in_branches() {
    let inner = graph(&[unary("Tanh", "x", "deep")], &[], &["deep"]);
    let never = graph(&[unary("Exp", "x", "never")], &[], &["never"]);
    let nested = branching("is_one", [&inner, &never], &["middle"]);
    let outer = graph(&[nested], &[], &["middle"]);
    let file = asked(&[2, 1]).message(&branching("is_one", [&outer, &never], &["y"]));
    let graph = read(&file.made("y"));
    assert_eq!(graph.nodes.len(), 1, "{:?}", graph.nodes);
    assert_eq!(graph.nodes[0].op, Op::Tanh);
}

/// What is said of a file that keeps an `If`; it has an outline.
fn stays(bytes: &[u8]) {
    let (op, reason) = refused(bytes);
    assert_eq!(
        (op.as_str(), reason.as_str()),
        ("If", "holds a graph of its own")
    );
}

/// The operator of which a file is refused, and why; engines that read ONNX run it.
fn refused(bytes: &[u8]) -> (String, String) {
    let file = File::from_bytes("own", bytes).unwrap();
    file.outline(&BTreeMap::new()).unwrap();
    match file.read(&BTreeMap::new()).unwrap_err() {
        ReadError::Unsupported { op, reason, .. } => (op, reason),
        error => panic!("{error:?}"),
    }
}

#[test]
fn what_depends_on_what_is_fed_stays() {
    let [then, other] = ["Tanh", "Exp"].map(|op| graph(&[unary(op, "x", "b")], &[], &["b"]));
    let branching = branching("c", [&then, &other], &["y"]);
    let fed = || {
        ByHand::default()
            .fed("x", FLOAT, &[1])
            .floats("zero", &[], &[0.0])
    };
    let computed = fed().node("Greater", &["x", "zero"], "c");
    let (op, _) = refused(&computed.message(&branching).made("y"));
    assert_eq!(op, "Greater");
    // A constant is no such thing.
    let held = ByHand::default()
        .fed("x", FLOAT, &[1])
        .held("c", BOOL, &[], &[0]);
    let graph = read(&held.message(&branching).made("y"));
    assert_eq!(graph.nodes[0].op, Op::Exp);
}

#[test]
fn branches_that_cannot_be_taken_stay() {
    let tanh = |output: &str| graph(&[unary("Tanh", "x", "b")], &[], &[output]);
    let held = || {
        ByHand::default()
            .fed("x", FLOAT, &[1])
            .held("c", BOOL, &[], &[1])
    };
    let with = |then: &[u8]| {
        held()
            .message(&branching("c", [then, then], &["y"]))
            .made("y")
    };
    // It gives two values, and one is taken.
    stays(&with(&graph(&[unary("Tanh", "x", "b")], &[], &["b", "x"])));
    // It gives what nothing makes.
    let error = users::reading(&with(&tanh("z"))).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("reads `z`, which nothing before it makes"),
        "{error}"
    );
    // Nothing tells whether numbers of no or several elements hold.
    let many = ByHand::default()
        .fed("x", FLOAT, &[1])
        .held("c", BOOL, &[2], &[1, 0]);
    let branch = tanh("b");
    stays(
        &many
            .message(&branching("c", [&branch, &branch], &["y"]))
            .made("y"),
    );
}

#[test]
fn more_branches_than_anyone_writes_are_left() {
    let mut file = ByHand::default()
        .fed("x", FLOAT, &[1])
        .held("c", BOOL, &[], &[1]);
    let mut last = "x".to_owned();
    for at in 0..200 {
        let next = if at == 199 {
            "y".to_owned()
        } else {
            format!("v{at}")
        };
        let branch = graph(&[unary("Tanh", &last, "b")], &[], &["b"]);
        file = file.message(&branching("c", [&branch, &branch], &[&next]));
        last = next;
    }
    stays(&file.made("y"));
}

#[test]
fn a_small_file_does_not_become_a_large_one() {
    let long = "n".repeat(1 << 20);
    let nodes: Vec<Vec<u8>> = (0..2000)
        .map(|at| unary("Tanh", "x", &format!("v{at}")))
        .collect();
    let branch = graph(&nodes, &[], &["v0"]);
    let mut holder = branching("c", [&branch, &branch], &["y"]);
    field(3, long.as_bytes(), &mut holder);
    let held = ByHand::default()
        .fed("x", FLOAT, &[1])
        .held("c", BOOL, &[], &[1]);
    let error = users::reading(&held.message(&holder).made("y")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the branches that sizes decide come to more than")
    );
    let unnamed = tensor("", FLOAT, &[], &[0; 4]);
    let branch = graph(&[unary("Tanh", "x", "b")], &[unnamed], &["b"]);
    let held = ByHand::default()
        .fed("x", FLOAT, &[1])
        .held("c", BOOL, &[], &[1]);
    let error = users::reading(
        &held
            .message(&branching("c", [&branch, &branch], &["y"]))
            .made("y"),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has no name, or that of another"),
        "{error}"
    );
}
