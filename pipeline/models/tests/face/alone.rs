//! Integers that are fed and are no rows of a table: what may be worked out of them while reading, and what
//! every engine has to compute in each step.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use photofinish_models::onnx::{File, ReadError};
use schema::{
    Graph,
    graph::{ElementType, Fill, Op},
};

use crate::support::{
    by_hand::{BOOL, ByHand, FLOAT, INT32, INT64, int},
    users::{count, error, read as read_from, reading},
};

fn read(file: ByHand) -> Graph {
    reading(&file.made("y")).unwrap().graph
}

/// What is said of a file that no graph can say, and what goes in and out of it.
fn outlined(file: ByHand) -> (String, Graph) {
    let file = File::from_bytes("own", &file.made("y")).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    let outline = file.outline(&BTreeMap::new()).unwrap();
    (error.to_string(), outline.graph)
}

const fn multiplies(op: &Op) -> bool {
    matches!(
        op,
        Op::MatMul | Op::Gemm | Op::Linear | Op::Conv { .. } | Op::Lstm { .. }
    )
}

/// Products of a graph, and those among them that an engine may compute once.
fn products(graph: &Graph) -> (usize, usize) {
    let mut fed: BTreeSet<&String> = graph.inputs.iter().map(|input| &input.name).collect();
    let mut fixed = 0;
    for node in &graph.nodes {
        if node.inputs.iter().any(|name| fed.contains(name)) {
            fed.extend(&node.outputs);
        } else {
            fixed += usize::from(multiplies(&node.op));
        }
    }
    (count(graph, multiplies), fixed)
}

fn fill_of(graph: &Graph, name: &str) -> f32 {
    let mut inputs = graph.inputs.iter();
    let input = inputs.find(|input| input.name == name).unwrap();
    assert_eq!(input.element, ElementType::Int64);
    match input.fill {
        Fill::Constant { value } => value,
        other => panic!("{other:?}"),
    }
}

const TO_FLOAT: i64 = FLOAT as i64;

/// `x [2, 3]` times a weight, and a mask or the like `m [2, 3]`.
fn beside(element: u64) -> ByHand {
    ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .fed("m", element, &[2, 3])
        .floats("w", &[3, 4], &[0.5; 12])
        .floats("v", &[3, 4], &[0.25; 12])
        .node("MatMul", &["x", "w"], "a")
}

/// The time of a denoiser, `m [2]`, as waves, and what a network makes of them.
fn of_time() -> ByHand {
    ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .fed("m", INT64, &[2])
        .floats("frequencies", &[2], &[1.0, 0.1])
        .floats("w", &[4, 3], &[0.5; 12])
        .integers("last", &[1], &[1])
        .node("Unsqueeze", &["m", "last"], "column")
        .node_with("Cast", &["column"], "number", &[int("to", TO_FLOAT)])
        .node("Mul", &["number", "frequencies"], "angle")
        .node("Cos", &["angle"], "cos")
        .node("Sin", &["angle"], "sin")
        .node_with("Concat", &["cos", "sin"], "waves", &[int("axis", 1)])
        .node("Gemm", &["waves", "w"], "time")
        .node("Add", &["x", "time"], "y")
}

/// Counts of a table `m [2, 3]`, of which all follows.
fn of_counts() -> ByHand {
    ByHand::default()
        .fed("m", INT32, &[2, 3])
        .floats("w", &[3, 4], &[0.5; 12])
        .node_with("Cast", &["m"], "number", &[int("to", TO_FLOAT)])
        .node("MatMul", &["number", "w"], "y")
}

#[test]
fn no_product_is_worked_out_of_what_is_fed() {
    let masked = |element| {
        beside(element)
            .node_with("Cast", &["m"], "number", &[int("to", TO_FLOAT)])
            .node("MatMul", &["number", "v"], "b")
            .node("Mul", &["a", "b"], "y")
    };
    for (file, wanted) in [
        (masked(INT64), 2),
        (masked(INT32), 2),
        (masked(BOOL), 2),
        (of_time(), 1),
        (of_counts(), 1),
    ] {
        let graph = read(file);
        assert_eq!(products(&graph), (wanted, 0), "{:?}", graph.nodes);
        assert_eq!(fill_of(&graph, "m"), 1.0);
    }
}

#[test]
fn numbers_of_integers_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, file) in [("time", of_time()), ("counts", of_counts())] {
        fs::write(folder.path().join(format!("{name}.onnx")), file.made("y")).unwrap();
        let graph = read_from(folder.path(), name, &[]).unwrap();
        let off = error(folder.path(), name, &graph);
        assert!(off < 1e-6, "{name}: {off}");
    }
}

#[test]
fn where_a_graph_cannot_cast_them_engines_that_read_onnx_run_the_file() {
    // Arithmetic on integers, which no graph has, before they are numbers.
    let counted = beside(INT64)
        .integers("one", &[], &[1])
        .node("Add", &["m", "one"], "more")
        .node_with("Cast", &["more"], "number", &[int("to", TO_FLOAT)])
        .node("MatMul", &["number", "v"], "b")
        .node("Mul", &["a", "b"], "y");
    let (says, outline) = outlined(counted);
    assert!(
        says.contains("`MatMul` of node `b`") && says.contains("the input `m` alone"),
        "{says}"
    );
    assert_eq!(fill_of(&outline, "m"), 1.0);
    // Which ids are padding, though the ids are rows of a table.
    let padding = ByHand::default()
        .fed("ids", INT64, &[2, 3])
        .floats("table", &[5, 4], &[0.5; 20])
        .floats("v", &[3, 4], &[0.25; 12])
        .integers("padding", &[], &[1])
        .node("Gather", &["table", "ids"], "words")
        .node("Equal", &["ids", "padding"], "is_padding")
        .node_with("Cast", &["is_padding"], "number", &[int("to", TO_FLOAT)])
        .node("MatMul", &["number", "v"], "b")
        .integers("middle", &[1], &[1])
        .node("Unsqueeze", &["b", "middle"], "wide")
        .node("Mul", &["words", "wide"], "y");
    let (says, _) = outlined(padding);
    assert!(says.contains("the input `ids` alone"), "{says}");
    // What a step makes of them is theirs alone as well.
    let normal = beside(INT64)
        .integers("one", &[], &[1])
        .floats("ones", &[3], &[1.0; 3])
        .node("Mul", &["m", "one"], "same")
        .node_with("Cast", &["same"], "number", &[int("to", TO_FLOAT)])
        .node_with("Softmax", &["number"], "b", &[int("axis", 1)])
        .node("MatMul", &["b", "v"], "c")
        .node("Mul", &["a", "c"], "y");
    let (says, _) = outlined(normal);
    assert!(says.contains("`MatMul` of node `c`"), "{says}");
}

#[test]
fn places_times_frequencies_are_worked_out() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[1, 4, 3])
        .fed("m", INT64, &[1, 3])
        .floats("frequencies", &[1, 4, 1], &[1.0, 0.1, 0.01, 0.001])
        .integers("middle", &[1], &[1])
        .node("Unsqueeze", &["m", "middle"], "row")
        .node_with("Cast", &["row"], "number", &[int("to", TO_FLOAT)])
        .node("MatMul", &["frequencies", "number"], "angle")
        .node("Cos", &["angle"], "cos")
        .node("Mul", &["x", "cos"], "y");
    let graph = read(file);
    assert_eq!(graph.nodes.len(), 1, "{:?}", graph.nodes);
}

/// Attention's scores `x [2, 4, 3]`, and a mask of truth values `m [2, 3]` over what is looked at.
fn scores() -> ByHand {
    ByHand::default()
        .fed("x", FLOAT, &[2, 4, 3])
        .fed("m", BOOL, &[2, 3])
        .floats("least", &[], &[f32::NEG_INFINITY])
        .floats("zero", &[], &[0.0])
        .integers("middle", &[1], &[1])
}

fn attended(file: ByHand) -> ByHand {
    file.node("Unsqueeze", &["bias", "middle"], "wide")
        .node("Add", &["x", "wide"], "scores")
        .node_with("Softmax", &["scores"], "y", &[int("axis", -1)])
}

#[test]
fn what_a_mask_leaves_out_is_not_all() {
    let left_out = || scores().node("Where", &["m", "least", "zero"], "bias");
    let taken = || scores().node("Where", &["m", "zero", "least"], "bias");
    let turned = || {
        scores()
            .node("Not", &["m"], "others")
            .node("Where", &["others", "zero", "least"], "bias")
    };
    let finite =
        scores()
            .floats("small", &[], &[-3.4e38])
            .node("Where", &["m", "small", "zero"], "bias");
    for (file, fed) in [
        (attended(left_out()), 0.0),
        (attended(taken()), 1.0),
        (attended(turned()), 0.0),
        // Nothing is no number here.
        (attended(finite), 1.0),
    ] {
        assert_eq!(fill_of(&read(file), "m"), fed);
    }
    // Filled in where the scores are, in every way that these may stand.
    let filled = |which: &[&str]| {
        scores()
            .node("Unsqueeze", &["m", "middle"], "wide")
            .node("Where", which, "scores")
            .node_with("Softmax", &["scores"], "y", &[int("axis", -1)])
    };
    let ways: [(&[&str], f32); 2] = [
        (&["wide", "least", "x"], 0.0),
        (&["wide", "x", "least"], 1.0),
    ];
    for (which, fed) in ways {
        assert_eq!(fill_of(&read(filled(which)), "m"), fed);
    }
    // Two of them, of which one leaves out and the other takes.
    let both = scores()
        .fed("k", BOOL, &[2, 3])
        .node("Not", &["k"], "unkept")
        .node("Or", &["m", "unkept"], "either")
        .node("Where", &["either", "least", "zero"], "bias");
    let graph = read(attended(both));
    assert_eq!((fill_of(&graph, "m"), fill_of(&graph, "k")), (0.0, 1.0));
    // Nothing that could be fed leaves anything.
    let never = scores()
        .node("Not", &["m"], "others")
        .node("Or", &["m", "others"], "all")
        .node("Where", &["all", "least", "zero"], "bias");
    assert_eq!(fill_of(&read(attended(never)), "m"), 1.0);
    // Engines that read ONNX are fed as the others would be.
    let (_, outline) = outlined(attended(left_out()).node("Celu", &["x"], "z").leaving("z"));
    assert_eq!(fill_of(&outline, "m"), 0.0);
}

/// What is multiplied by a mask is nothing where that is zero everywhere, and a mean over it no number.
#[test]
fn what_a_mask_multiplies_is_not_all_zero() {
    let fed = || {
        ByHand::default()
            .fed("x", FLOAT, &[2, 3, 4])
            .fed("m", BOOL, &[2, 3])
            .floats("zero", &[], &[0.0])
            .integers("last", &[1], &[2])
            .integers("middle", &[1], &[1])
            .node("Not", &["m"], "others")
    };
    let mean = |file: ByHand, mask: &str| {
        file.node_with("Cast", &[mask], "kept", &[int("to", FLOAT as i64)])
            .node("Unsqueeze", &["kept", "last"], "wide")
            .node("Mul", &["wide", "x"], "taken")
            .node("ReduceSum", &["taken", "middle"], "sum")
            .node("ReduceSum", &["wide", "middle"], "count")
            .node("Div", &["sum", "count"], "y")
    };
    let chosen = |file: ByHand, choice: &[&str]| {
        file.node("Unsqueeze", &["m", "last"], "wide")
            .node("Unsqueeze", &["others", "last"], "rest")
            .node("Where", choice, "y")
    };
    for (file, zeros) in [
        (mean(fed(), "m"), 1.0),
        (mean(fed(), "others"), 0.0),
        (chosen(fed(), &["wide", "x", "zero"]), 1.0),
        (chosen(fed(), &["rest", "x", "zero"]), 0.0),
        (chosen(fed(), &["wide", "zero", "x"]), 0.0),
        (chosen(fed(), &["rest", "zero", "x"]), 1.0),
    ] {
        assert_eq!(fill_of(&read(file), "m"), zeros);
    }
    // Numbers are ones where all is taken, whatever else is made of those that are left.
    let of_numbers = ByHand::default()
        .fed("x", FLOAT, &[2, 3, 4])
        .fed("m", INT64, &[2, 3])
        .floats("one", &[], &[1.0])
        .integers("last", &[1], &[2])
        .node_with("Cast", &["m"], "kept", &[int("to", FLOAT as i64)])
        .node("Sub", &["one", "kept"], "left")
        .node("Unsqueeze", &["left", "last"], "wide")
        .node("Mul", &["wide", "x"], "y");
    assert_eq!(fill_of(&read(of_numbers), "m"), 1.0);
}
