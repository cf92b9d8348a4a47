//! Files with functions of their own: read as what these are made of, or left to engines that read ONNX.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::BTreeMap;

use photofinish_models::{
    infer,
    onnx::{File, ReadError},
};
use schema::{Graph, graph::Op};
use support::{
    by_hand::{ByHand, FLOAT, node, tensor, text, value, zero},
    limits,
    users::count,
    wire::{field, float_field, number_field},
};

const OWN: &str = "own";

/// A function as a message: its operators are ONNX's at a version, its own beside them.
fn function(
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    nodes: &[Vec<u8>],
    defaults: &[Vec<u8>],
) -> Vec<u8> {
    function_at(17, OWN, name, inputs, outputs, nodes, defaults)
}

fn function_at(
    version: u64,
    domain: &str,
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    nodes: &[Vec<u8>],
    defaults: &[Vec<u8>],
) -> Vec<u8> {
    let mut function = Vec::new();
    field(1, name.as_bytes(), &mut function);
    for input in inputs {
        field(4, input.as_bytes(), &mut function);
    }
    for output in outputs {
        field(5, output.as_bytes(), &mut function);
    }
    for node in nodes {
        field(7, node, &mut function);
    }
    for (domain, version) in [("", version), (OWN, 1)] {
        field(9, &opset(domain, version), &mut function);
    }
    field(10, domain.as_bytes(), &mut function);
    for default in defaults {
        field(11, default, &mut function);
    }
    function
}

fn opset(domain: &str, version: u64) -> Vec<u8> {
    let mut opset = Vec::new();
    field(1, domain.as_bytes(), &mut opset);
    number_field(2, version, &mut opset);
    opset
}

/// An attribute that is a number.
fn float(name: &str, number: f32) -> Vec<u8> {
    let mut attribute = zero(name, 1);
    float_field(2, number, &mut attribute);
    attribute
}

/// An attribute in a function that is the call's of another name.
fn handed(name: &str, kind: u64, by: &str) -> Vec<u8> {
    let mut attribute = zero(name, kind);
    field(21, by.as_bytes(), &mut attribute);
    attribute
}

/// The file with functions; fields of one message may stand in any order.
fn with(file: ByHand, functions: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = file.made("y");
    for function in functions {
        field(25, function, &mut bytes);
    }
    field(8, &opset(OWN, 1), &mut bytes);
    bytes
}

fn x() -> ByHand {
    ByHand::default().fed("x", FLOAT, &[2, 3])
}

fn read(bytes: &[u8]) -> Graph {
    let file = File::from_bytes("own", bytes).unwrap();
    file.read(&BTreeMap::new()).unwrap().graph
}

/// What is said of a call that stays; engines that read ONNX run the file.
fn stays(bytes: &[u8]) {
    let file = File::from_bytes("own", bytes).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    assert!(error.to_string().contains("operators of `own`"), "{error}");
    file.outline(&BTreeMap::new()).unwrap();
}

/// `(x + 1, tanh(x + 1))`.
fn twofold() -> Vec<u8> {
    let one = value(&tensor("", FLOAT, &[], &1_f32.to_le_bytes()));
    function(
        "Twofold",
        &["a"],
        &["more", "bent"],
        &[
            node("", "Constant", &[], &["one"], &[one]),
            node("", "Add", &["a", "one"], &["more"], &[]),
            node("", "Tanh", &["more"], &["bent"], &[]),
        ],
        &[],
    )
}

#[test]
fn a_call_is_what_its_function_is_made_of() {
    // Twice, with names of the file's that are those inside.
    let file = x()
        .message(&node(OWN, "Twofold", &["x"], &["one", "bent"], &[]))
        .message(&node(OWN, "Twofold", &["bent"], &["", "more"], &[]))
        .node("Add", &["more", "one"], "y");
    let graph = read(&with(file, &[twofold()]));
    assert_eq!(count(&graph, |op| *op == Op::Tanh), 2);
    assert_eq!(count(&graph, |op| *op == Op::Add), 3);
    assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [2, 3]);
    let add = graph.nodes.last().unwrap();
    let made = |at: usize| {
        graph
            .nodes
            .iter()
            .find(|node| node.outputs.contains(&add.inputs[at]))
    };
    assert_eq!(made(0).unwrap().op, Op::Tanh);
    assert_eq!(made(1).unwrap().op, Op::Add);
}

#[test]
fn functions_call_functions_and_hand_attributes_on() {
    let bent = [node(
        "",
        "LeakyRelu",
        &["a"],
        &["b"],
        &[handed("alpha", 1, "slope")],
    )];
    let bend_by =
        |defaults: &[Vec<u8>]| function("Bend", &["a", "unused"], &["b"], &bent, defaults);
    let bend = bend_by(&[float("slope", 0.25)]);
    let twice = function(
        "Twice",
        &["a"],
        &["c"],
        &[
            node(OWN, "Bend", &["a"], &["b"], &[handed("slope", 1, "steep")]),
            node(OWN, "Bend", &["b"], &["c"], &[]),
        ],
        &[],
    );
    let alphas = |call: Vec<u8>| -> Vec<f32> {
        let graph = read(&with(x().message(&call), &[bend.clone(), twice.clone()]));
        let alpha = |op: &Op| match op {
            Op::LeakyRelu { alpha } => Some(*alpha),
            _ => None,
        };
        graph
            .nodes
            .iter()
            .filter_map(|node| alpha(&node.op))
            .collect()
    };
    let given = [float("steep", 0.5)];
    assert_eq!(
        alphas(node(OWN, "Twice", &["x"], &["y"], &given)),
        [0.5, 0.25]
    );
    // Left out by the call and by the function.
    assert_eq!(
        alphas(node(OWN, "Twice", &["x"], &["y"], &[])),
        [0.25, 0.25]
    );
    let graph = read(&with(
        x().message(&node(OWN, "Bend", &["x"], &["y"], &[])),
        &[bend_by(&[])],
    ));
    assert_eq!(graph.nodes[0].op, Op::LeakyRelu { alpha: 0.01 });
}

#[test]
fn calls_that_cannot_be_replaced_stay() {
    let call = || x().message(&node(OWN, "F", &["x"], &["y"], &[]));
    let tanh = |from: &str, to: &str| node("", "Tanh", &[from], &[to], &[]);
    let one = |nodes: &[Vec<u8>]| function("F", &["a"], &["b"], nodes, &[]);
    let plain = one(&[tanh("a", "b")]);
    let only = [plain.clone()];
    assert_eq!(read(&with(call(), &only)).nodes.len(), 1);
    stays(&with(call(), &[]));
    // By another overload there is none.
    let mut other = node(OWN, "F", &["x"], &["y"], &[]);
    field(8, b"other", &mut other);
    stays(&with(x().message(&other), &only));
    let mut overload = one(&[node("", "Relu", &["a"], &["b"], &[])]);
    field(13, b"other", &mut overload);
    let graph = read(&with(x().message(&other), &[plain.clone(), overload]));
    assert_eq!(graph.nodes[0].op, Op::Relu);
    // Operators of another version.
    let newer = function_at(18, OWN, "F", &["a"], &["b"], &[tanh("a", "b")], &[]);
    stays(&with(call(), &[newer]));
    // It reads what it does not make, makes what it is given, or does not make what it gives.
    stays(&with(call(), &[one(&[tanh("x", "b")])]));
    stays(&with(call(), &[one(&[tanh("a", "a"), tanh("a", "b")])]));
    stays(&with(call(), &[one(&[tanh("a", "c")])]));
    stays(&with(
        call(),
        &[function("F", &["a", "a"], &["b"], &[tanh("a", "b")], &[])],
    ));
    // More than it takes, or gives.
    let many =
        |inputs: &[&str], outputs: &[&str]| x().message(&node(OWN, "F", inputs, outputs, &[]));
    stays(&with(many(&["x", "x"], &["y"]), &only));
    stays(&with(many(&["x"], &["y", "z"]), &only));
    // An attribute twice.
    let twice = [float("slope", 0.5), float("slope", 0.25)];
    stays(&with(
        x().message(&node(OWN, "F", &["x"], &["y"], &twice)),
        &[plain],
    ));
    let defaults = function("F", &["a"], &["b"], &[tanh("a", "b")], &twice);
    stays(&with(call(), &[defaults]));
    // An input in the middle that is left out, and not read.
    let three = function(
        "F",
        &["a", "b", "c"],
        &["d"],
        &[node("", "Add", &["a", "c"], &["d"], &[])],
        &[],
    );
    let graph = read(&with(many(&["x", "", "x"], &["y"]), &[three]));
    assert_eq!(graph.nodes[0].inputs, ["x", "x"]);
}

/// What is wrong whatever engine runs it.
#[test]
fn circles_doubles_and_names_of_nothing_are_refused() {
    let refused = |bytes: &[u8], words: &str| {
        let error = File::from_bytes("own", bytes).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let calls = |name: &str, other: &str| {
        function(
            name,
            &["a"],
            &["b"],
            &[node(OWN, other, &["a"], &["b"], &[])],
            &[],
        )
    };
    let plain = calls("F", "Tanh");
    let call = || x().message(&node(OWN, "F", &["x"], &["y"], &[]));
    refused(&with(call(), &[calls("F", "F")]), "calls itself");
    refused(
        &with(call(), &[calls("F", "G"), calls("G", "F")]),
        "calls itself",
    );
    // Called by nobody.
    let spare = x().node("Tanh", &["x"], "y");
    refused(
        &with(spare, &[calls("F", "G"), calls("G", "H"), calls("H", "G")]),
        "calls itself",
    );
    refused(
        &with(call(), &[plain.clone(), plain]),
        "two of its functions are called `F`",
    );
    // In the function there is a value by the name that it gets there.
    let own = || {
        let nodes = [
            node("", "Tanh", &["a"], &["c"], &[]),
            node("", "Tanh", &["c"], &["b"], &[]),
        ];
        function("F", &["a"], &["b"], &nodes, &[])
    };
    let ghost = x()
        .message(&node(OWN, "F", &["x"], &["z"], &[]))
        .node("Add", &["z", "c.1"], "y");
    refused(&with(ghost, &[own()]), "reads `c.1`");
    let itself = x().message(&node(OWN, "F", &["y"], &["y"], &[]));
    refused(&with(itself, &[own()]), "reads `y`");
}

#[test]
fn nodes_of_a_function_are_refused_by_their_names() {
    let odd = function(
        "F",
        &["a"],
        &["b"],
        &[node("", "Sinh", &["a"], &["b"], &[])],
        &[],
    );
    let bytes = with(x().message(&node(OWN, "F", &["x"], &["y"], &[])), &[odd]);
    let file = File::from_bytes("own", &bytes).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err().to_string();
    assert!(error.contains("`Sinh` of node `y/b`"), "{error}");
    // In an order that nothing can be computed in.
    let nodes = [
        node("", "Tanh", &["c"], &["b"], &[]),
        node("", "Tanh", &["a"], &["c"], &[]),
    ];
    let late = function("F", &["a"], &["b"], &nodes, &[]);
    let bytes = with(x().message(&node(OWN, "F", &["x"], &["y"], &[])), &[late]);
    let file = File::from_bytes("own", &bytes).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
}

#[test]
fn functions_name_no_file_and_no_operator_of_onnx() {
    let refused = |function: Vec<u8>| {
        let bytes = with(x().node("Tanh", &["x"], "y"), &[function]);
        let error = File::from_bytes("own", &bytes).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        error.to_string()
    };
    let mut outside = tensor("", FLOAT, &[1], &[0; 4]);
    let mut entry = Vec::new();
    field(1, b"location", &mut entry);
    field(2, b"/etc/passwd", &mut entry);
    field(13, &entry, &mut outside);
    number_field(14, 1, &mut outside);
    let constant = node("", "Constant", &[], &["b"], &[value(&outside)]);
    let said = refused(function("F", &["a"], &["b"], &[constant], &[]));
    assert!(said.contains("beside the model"), "{said}");
    let said = refused(function("F", &["a"], &["b"], &[], &[value(&outside)]));
    assert!(said.contains("beside the model"), "{said}");
    for domain in ["", "ai.onnx", "com.microsoft"] {
        let said = refused(function_at(17, domain, "Tanh", &["a"], &["b"], &[], &[]));
        assert!(said.contains("functions by names"), "{said}");
    }
    // In a branch of a function's.
    let said = refused(function(
        "F",
        &["a"],
        &["b"],
        &[branching(&graph_of(&[], &[outside]))],
        &[],
    ));
    assert!(said.contains("beside the model"), "{said}");
}

/// A graph in a node.
fn graph_of(nodes: &[Vec<u8>], held: &[Vec<u8>]) -> Vec<u8> {
    let mut graph = Vec::new();
    for node in nodes {
        field(1, node, &mut graph);
    }
    for tensor in held {
        field(5, tensor, &mut graph);
    }
    graph
}

fn graph_attribute(name: &str, graph: &[u8]) -> Vec<u8> {
    let mut attribute = zero(name, 5);
    field(6, graph, &mut attribute);
    attribute
}

/// A node that takes one of two equal branches.
fn branching(graph: &[u8]) -> Vec<u8> {
    let branches = ["then_branch", "else_branch"].map(|name| graph_attribute(name, graph));
    node("", "If", &["a"], &["b"], &branches)
}

/// Exporters put a choice into a function: engines that read ONNX run it.
#[test]
fn functions_hold_graphs() {
    let call = || x().message(&node(OWN, "F", &["x"], &["y"], &[]));
    let holding = |nodes: &[Vec<u8>]| {
        let branching = branching(&graph_of(nodes, &[]));
        function("F", &["a"], &["b"], &[branching], &[])
    };
    let tanh = node("", "Tanh", &["a"], &["c"], &[]);
    stays(&with(call(), &[holding(std::slice::from_ref(&tanh))]));
    let refused = |bytes: &[u8], words: &str| {
        let error = File::from_bytes("own", bytes).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    // A circle through a branch.
    let itself = node(OWN, "F", &["a"], &["c"], &[]);
    refused(&with(call(), &[holding(&[itself])]), "calls itself");
    // Growth through branches: each calls the one before 16 times, in two branches.
    let name = |at: usize| format!("G{at}");
    let grown_to = |last: usize| -> Vec<Vec<u8>> {
        let first = function("G0", &["a"], &["c"], std::slice::from_ref(&tanh), &[]);
        let others = (1..=last).map(|at| {
            let inner = node(OWN, &name(at - 1), &["a"], &["c"], &[]);
            let branching = branching(&graph_of(&vec![inner; 8], &[]));
            function(&name(at), &["a"], &["b"], &[branching], &[])
        });
        [first].into_iter().chain(others).collect()
    };
    let calls = |count: usize| {
        let calls = (0..count).fold(x(), |file, at| {
            file.message(&node(OWN, "G4", &["x"], &[&format!("z{at}")], &[]))
        });
        calls.message(&node(OWN, "G4", &["x"], &["y"], &[]))
    };
    stays(&with(calls(1), &grown_to(4)));
    refused(
        &with(calls(16), &grown_to(4)),
        "its graph comes to more than",
    );
    refused(&with(calls(1), &grown_to(5)), "comes to more than");
    // In bytes, and in attributes that are handed on.
    let weighty = graph_of(
        std::slice::from_ref(&tanh),
        &[tensor("w", FLOAT, &[1 << 18], &vec![0; 1 << 20])],
    );
    let weighty = function("G4", &["a"], &["b"], &[branching(&weighty)], &[]);
    stays(&with(calls(40), std::slice::from_ref(&weighty)));
    refused(&with(calls(70), &[weighty]), "comes to more than");
    let asked: Vec<Vec<u8>> = (0..1000)
        .map(|at| handed(&format!("a{at}"), 3, "text"))
        .collect();
    let asking = |words: &str| {
        let nodes = [
            node("", "Tanh", &["a"], &["t"], &asked),
            branching(&graph_of(std::slice::from_ref(&tanh), &[])),
        ];
        let call = node(OWN, "F", &["x"], &["y"], &[text("text", words)]);
        with(
            x().message(&call),
            &[function("F", &["a"], &["b"], &nodes, &[])],
        )
    };
    stays(&asking("short"));
    refused(&asking(&"n".repeat(1 << 18)), "comes to more than");
    // Graphs in graphs, by way of functions.
    let nested = |last: usize| -> Vec<Vec<u8>> {
        let first = function("G0", &["a"], &["c"], std::slice::from_ref(&tanh), &[]);
        let others = (1..=last).map(|at| {
            let inner = node(OWN, &name(at - 1), &["a"], &["c"], &[]);
            let branching = branching(&graph_of(&[inner], &[]));
            function(&name(at), &["a"], &["b"], &[branching], &[])
        });
        [first].into_iter().chain(others).collect()
    };
    let call_of = |at: usize| x().message(&node(OWN, &name(at), &["x"], &["y"], &[]));
    stays(&with(call_of(10), &nested(10)));
    refused(&with(call_of(20), &nested(20)), "comes to more than");
    // A graph that is handed to a function, which may stand for it as often as it likes.
    let handed_on = graph_attribute("body", &graph_of(std::slice::from_ref(&tanh), &[]));
    let given = x().message(&node(
        OWN,
        "F",
        &["x"],
        &["y"],
        std::slice::from_ref(&handed_on),
    ));
    let plain = function("F", &["a"], &["c"], std::slice::from_ref(&tanh), &[]);
    refused(
        &with(given, std::slice::from_ref(&plain)),
        "are handed graphs",
    );
    let default = function("F", &["a"], &["c"], &[tanh], &[handed_on]);
    refused(&with(call(), &[default]), "are handed graphs");
}

/// Small files whose functions would come to more than any memory has, within a few gigabytes. Beyond them an
/// allocation fails, and ends the test.
#[test]
fn functions_within_functions_have_a_budget() {
    limits::bound_memory(3 << 30);
    let refused = |bytes: &[u8]| {
        let error = File::from_bytes("own", bytes).unwrap_err();
        assert!(error.to_string().contains("comes to more than"), "{error}");
    };
    let tanh = |from: &str, to: &str| node("", "Tanh", &[from], &[to], &[]);
    let name = |at: usize| format!("F{at}");
    let chain = |at: usize, calls: usize| {
        let within = name(at - 1);
        let values: Vec<String> = (0..=calls).map(|value| format!("v{value}")).collect();
        let nodes: Vec<Vec<u8>> = values
            .windows(2)
            .map(|pair| node(OWN, &within, &[&pair[0]], &[&pair[1]], &[]))
            .collect();
        let last = format!("v{calls}");
        function(&name(at), &["v0"], &[&last], &nodes, &[])
    };
    let call = |at: usize| x().message(&node(OWN, &name(at), &["x"], &["y"], &[]));
    let first = function("F0", &["a"], &["b"], &[tanh("a", "b")], &[]);
    // Each calls the one before ten times.
    let tenfold = |count: usize| -> Vec<Vec<u8>> {
        let others = (1..=count).map(|at| chain(at, 10));
        [first.clone()].into_iter().chain(others).collect()
    };
    assert_eq!(read(&with(call(2), &tenfold(2))).nodes.len(), 100);
    refused(&with(call(0), &tenfold(8)));
    // Each calls the one before once.
    let deep = |count: usize| -> Vec<Vec<u8>> {
        let others = (1..=count).map(|at| chain(at, 1));
        [first.clone()].into_iter().chain(others).collect()
    };
    assert_eq!(read(&with(call(60), &deep(60))).nodes.len(), 1);
    refused(&with(call(0), &deep(10_000)));
    // Many calls, and much in each: names of nothing, a long name, an attribute of many graphs.
    let many = |made: &dyn Fn(usize) -> Vec<u8>, count: usize| {
        let calls = (0..count).fold(x(), |file, at| file.message(&made(at)));
        calls.node("Tanh", &["x"], "y")
    };
    let plain = |at: usize| node(OWN, "F", &["x"], &[&format!("z{at}")], &[]);
    let nothing = vec![""; 200_000];
    let empty = node("", "Tanh", &nothing, &["b"], &[]);
    refused(&with(
        many(&plain, 50_000),
        &[function("F", &["a"], &["b"], &[empty], &[])],
    ));
    let long = "n".repeat(1 << 20);
    let by_long = |at: usize| node(OWN, "F", &[&long], &[&format!("z{at}")], &[]);
    let reads = vec!["a"; 20_000];
    let wide = node("", "Sum", &reads, &["b"], &[]);
    let wide = function("F", &["a"], &["b"], &[wide], &[]);
    let file = x().node("Tanh", &["x"], &long).message(&by_long(0));
    refused(&with(file.node("Tanh", &["x"], "y"), &[wide]));
    let asked: Vec<Vec<u8>> = (0..10_000)
        .map(|at| handed(&format!("a{at}"), 3, "text"))
        .collect();
    let asking = function(
        "F",
        &["a"],
        &["b"],
        &[node("", "Tanh", &["a"], &["b"], &asked)],
        &[],
    );
    let heavy = text("text", &long);
    let by_text = |at: usize| {
        node(
            OWN,
            "F",
            &["x"],
            &[&format!("z{at}")],
            std::slice::from_ref(&heavy),
        )
    };
    refused(&with(many(&by_text, 1), &[asking]));
}

/// What is not read as numbers is named where it is read.
#[test]
fn tensors_of_4_and_8_bits_and_texts_are_left_to_engines_that_read_onnx() {
    let raw = |element: u64, bytes: usize| {
        let message = tensor("w", element, &[3], &vec![0; bytes]);
        x().tensor(&message)
            .floats("one", &[], &[1.0])
            .node("DequantizeLinear", &["w", "one"], "d")
            .node("Add", &["x", "d"], "y")
            .made_at(21, "y")
    };
    for (element, bytes) in [(17, 3), (21, 2), (22, 2), (14, 24)] {
        let file = File::from_bytes("own", &raw(element, bytes)).unwrap();
        let error = file.read(&BTreeMap::new()).unwrap_err();
        assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
        file.outline(&BTreeMap::new()).unwrap();
        let short = File::from_bytes("own", &raw(element, bytes - 1)).unwrap_err();
        assert!(matches!(short, ReadError::Malformed(_)), "{short:?}");
    }
    let added = x()
        .tensor(&tensor("w", 19, &[3], &[0; 3]))
        .node("Add", &["x", "w"], "y");
    let file = File::from_bytes("own", &added.made("y")).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err().to_string();
    assert!(error.contains("of a type that is not read"), "{error}");
    // A text where it is not used is none of anybody's business.
    let mut text = tensor("t", 8, &[1], &[]);
    text.truncate(text.len() - 2);
    field(6, b"a text", &mut text);
    let spare = x().tensor(&text).node("Tanh", &["x"], "y").made("y");
    let graph = read(&spare);
    assert_eq!(graph.nodes.len(), 1);
    assert!(graph.parameters.is_empty());
    // Numbers of 4 bits that something moves: more of them than are computed with while reading.
    let large = tensor("w", 22, &[1 << 14, 1 << 13], &vec![0; 1 << 26]);
    let moved = x()
        .tensor(&large)
        .node("Transpose", &["w"], "t")
        .node("Shape", &["t"], "s")
        .node("Tanh", &["x"], "y");
    let file = File::from_bytes("own", &moved.made_at(21, "y")).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    file.outline(&BTreeMap::new()).unwrap();
}
