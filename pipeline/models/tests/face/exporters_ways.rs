//! What exporters of transformers leave in a file, field by field: questions about attention, places in
//! constants, reductions of them; and files that cost more to read than they are large.

use std::collections::BTreeMap;

use photofinish_models::{
    fill, infer,
    onnx::{File, ReadError},
};
use schema::{
    Graph,
    graph::{Fill, Op},
};

use crate::support::{
    by_hand::{ByHand, FLOAT, INT64, int, list, text},
    users::{count, reading},
};

fn read(bytes: &[u8]) -> Graph {
    reading(bytes).unwrap().graph
}

/// What is said of a file that no graph can say; it has an outline.
fn refused(bytes: &[u8]) -> String {
    let file = File::from_bytes("own", bytes).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    file.outline(&BTreeMap::new()).unwrap();
    error.to_string()
}

/// What a sum of an input and of something made of constants reads: the constant's numbers.
fn made(file: ByHand, shape: &[i64]) -> Vec<f32> {
    let file = file.fed("x", FLOAT, shape).node("Add", &["x", "c"], "y");
    let reading = reading(&file.made("y")).unwrap();
    let parameter = &reading.graph.parameters[0];
    let sizes: Vec<i64> = parameter.shape.iter().map(|&size| size as i64).collect();
    assert_eq!(sizes, shape);
    assert!(matches!(parameter.fill, Fill::Stored { offset: 0, .. }));
    let mut bytes = Vec::new();
    reading.write_weights(&mut bytes).unwrap();
    let numbers = bytes.chunks_exact(4);
    numbers
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect()
}

fn counted(count: i64) -> ByHand {
    let numbers: Vec<f32> = (0..count).map(|at| at as f32).collect();
    ByHand::default().floats("t", &[2, count / 2], &numbers)
}

#[test]
fn places_in_constants_are_looked_up() {
    let at = counted(6)
        .integers("places", &[3, 2], &[1, 2, 0, 1, -1, 0])
        .node("GatherND", &["t", "places"], "c");
    assert_eq!(made(at, &[3]), [5.0, 1.0, 3.0]);
    let rows =
        counted(6)
            .integers("places", &[2, 1], &[1, 0])
            .node("GatherND", &["t", "places"], "c");
    assert_eq!(made(rows, &[2, 3]), [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
    let along = counted(6)
        .integers("places", &[2, 2], &[2, 0, -1, 1])
        .node_with("GatherElements", &["t", "places"], "c", &[int("axis", 1)]);
    assert_eq!(made(along, &[2, 2]), [2.0, 0.0, 5.0, 4.0]);
    for (op, places) in [("GatherND", &[2, 0][..]), ("GatherElements", &[0, 2])] {
        let beyond = counted(6)
            .integers("places", &[1, 2], places)
            .node(op, &["t", "places"], "c")
            .fed("x", FLOAT, &[1])
            .node("Add", &["x", "c"], "y");
        refused(&beyond.made("y"));
    }
}

/// Of each sequence one position, as classifiers take the last and CLIP that of the largest id.
#[test]
fn what_lies_at_fixed_places_is_taken() {
    let graph = read(
        &ByHand::default()
            .fed("x", FLOAT, &[2, 5, 3])
            .integers("places", &[2, 2], &[0, 4, 1, -4])
            .node("GatherND", &["x", "places"], "y")
            .made("y"),
    );
    assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [2, 3]);
    let slices = graph.nodes.iter().filter_map(|node| match node.op {
        Op::Slice { start, end, .. } => Some((start, end)),
        _ => None,
    });
    assert_eq!(slices.collect::<Vec<_>>(), [(4, 5), (6, 7)]);
    let beyond = ByHand::default()
        .fed("x", FLOAT, &[2, 5, 3])
        .integers("places", &[1, 2], &[2, 0])
        .node("GatherND", &["x", "places"], "y");
    refused(&beyond.made("y"));
}

/// Transformers of images stretch their table of places. The numbers are those of PyTorch 2.11's
/// `interpolate` in double precision.
#[test]
fn fixed_images_are_stretched_by_cubic_convolution() {
    let stretched = |way: &str, sizes: &[i64; 4]| {
        ByHand::default()
            .floats(
                "t",
                &[1, 1, 2, 4],
                &[1.0, 2.0, 4.0, 8.0, 0.0, 1.0, 0.0, -1.0],
            )
            .integers("sizes", &[4], sizes)
            .node_with(
                "Resize",
                &["t", "", "", "sizes"],
                "c",
                &[
                    text("mode", "cubic"),
                    text("coordinate_transformation_mode", way),
                ],
            )
    };
    let half = [
        1.0, 1.374_891, 2.421_043, 3.655_273, 6.776_15, 9.166_148, 0.413_194, 0.953_125, 1.632_523,
        1.815_394, 2.796_875, 3.630_208, -0.173_611, 0.531_359, 0.844_003, -0.024_486, -1.182_4,
        -1.905_732,
    ];
    let corners = [
        1.0, 1.396, 2.352, 3.288, 5.768, 8.0, 0.5, 1.058, 1.648, 1.792, 2.636, 3.5, 0.0, 0.72,
        0.944, 0.296, -0.496, -1.0,
    ];
    for (way, expected) in [("half_pixel", half), ("align_corners", corners)] {
        let found = made(stretched(way, &[1, 1, 3, 6]), &[1, 1, 3, 6]);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 2e-6, "{way}: {found} {expected}");
        }
    }
    let same = made(stretched("half_pixel", &[1, 1, 2, 4]), &[1, 1, 2, 4]);
    assert_eq!(same, [1.0, 2.0, 4.0, 8.0, 0.0, 1.0, 0.0, -1.0]);
    let file = stretched("tf_crop_and_resize", &[1, 1, 3, 6])
        .fed("x", FLOAT, &[1])
        .node("Add", &["x", "c"], "y");
    refused(&file.made("y"));
}

/// A rotary embedding turns all of a head, or leaves the rest of it as it is.
#[test]
fn nothing_is_cut_off_and_joined_again() {
    let joined = |start: i64| {
        ByHand::default()
            .fed("x", FLOAT, &[2, 5, 4])
            .integers("start", &[1], &[start])
            .integers("end", &[1], &[i64::MAX])
            .integers("axis", &[1], &[2])
            .node("Slice", &["x", "start", "end", "axis"], "rest")
            .node("Tanh", &["x"], "turned")
            .node_with("Concat", &["turned", "rest"], "all", &[int("axis", -1)])
            .node("Relu", &["all"], "y")
    };
    let graph = read(&joined(4).made("y"));
    assert_eq!(count(&graph, |_| true), 2);
    assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [2, 5, 4]);
    let graph = read(&joined(3).made("y"));
    assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [2, 5, 5]);
    // Nothing is nothing to compute with.
    refused(&joined(4).node("Relu", &["rest"], "z").made("z"));
}

/// As RoBERTa counts its places: those of tokens that are no padding, from behind the padding's own number.
#[test]
fn places_that_are_counted_by_the_ids_are_worked_out_for_those_that_are_fed() {
    let table = |name: &str, rows: i64, file: ByHand| {
        let numbers: Vec<f32> = (0..rows).map(|at| at as f32).collect();
        file.floats(name, &[rows, 1], &numbers)
    };
    let begun = |rows: i64| {
        table("tokens", rows, table("places", 20, ByHand::default())).fed("ids", INT64, &[2, 6])
    };
    let counted = |file: ByHand| {
        file.integers("padding", &[], &[1])
            .integers("axis", &[], &[1])
            .node("Equal", &["ids", "padding"], "is_padding")
            .node("Not", &["is_padding"], "is_token")
            .node_with("Cast", &["is_token"], "ones", &[int("to", 6)])
            .node("CumSum", &["ones", "axis"], "count")
            .node("Mul", &["count", "ones"], "counted")
            .node_with("Cast", &["counted"], "wide", &[int("to", 7)])
            .node("Add", &["wide", "padding"], "at")
            .node("Gather", &["places", "at"], "there")
            .node("Gather", &["tokens", "ids"], "words")
            .node("Add", &["words", "there"], "sum")
    };
    let counting = |rows: i64| counted(begun(rows));
    let few = |file: ByHand| {
        file.floats("two", &[2, 1], &[1.0, 2.0])
            .floats("none", &[0, 1], &[])
            .node_with("Concat", &["two", "none"], "few", &[int("axis", 0)])
            .node("Gather", &["few", "ids"], "more")
    };
    // With a smaller table that is made while reading, too, seen before.
    let smaller = counted(few(begun(3))).node("Add", &["sum", "more"], "y");
    for (file, bound) in [(counting(3).node("Tanh", &["sum"], "y"), 3), (smaller, 2)] {
        let reading = reading(&file.made("y")).unwrap();
        let [input] = reading.graph.inputs.as_slice() else {
            panic!("{:?}", reading.graph.inputs)
        };
        assert_eq!(input.fill, Fill::Integers { bound });
        let ids = fill::integers("ids", &input.fill, &input.shape);
        assert!(ids.contains(&1) && ids.iter().any(|&id| id != 1), "{ids:?}");
        let mut expected = Vec::new();
        for row in ids.chunks(6) {
            let mut count = 0;
            for &id in row {
                count += i32::from(id != 1);
                expected.push(if id == 1 { 1.0 } else { (count + 1) as f32 });
            }
        }
        let mut bytes = Vec::new();
        reading.write_weights(&mut bytes).unwrap();
        let mut parameters = reading.graph.parameters.iter();
        let there = parameters.find(|held| held.shape == [2, 6, 1]).unwrap();
        let Fill::Stored { offset, .. } = there.fill else {
            panic!("{there:?}")
        };
        let numbers = bytes[offset as usize..].chunks_exact(4).take(12);
        let numbers: Vec<f32> = numbers
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
            .collect();
        assert_eq!(numbers, expected);
    }
    // Seen behind: the ids would be others. Engines that read ONNX get ids that all tables have.
    let smaller = few(counting(3))
        .node("Add", &["sum", "more"], "y")
        .made("y");
    let said = refused(&smaller);
    assert!(said.contains("takes one of 2 rows by `ids`"), "{said}");
    let file = File::from_bytes("own", &smaller).unwrap();
    let outline = file.outline(&BTreeMap::new()).unwrap().graph;
    assert_eq!(outline.inputs[0].fill, Fill::Integers { bound: 2 });
    // What is a network's own arithmetic is not worked out once: ids as numbers, and ids of a field among
    // the rows of many.
    let others = [
        counting(3)
            .node("Add", &["ids", "padding"], "next")
            .node("CastLike", &["next", "sum"], "number")
            .node("Mul", &["number", "sum"], "y"),
        counting(3)
            .node_with("Cast", &["ids"], "number", &[int("to", 1)])
            .node_with("ReduceMax", &["sum"], "most", &[int("keepdims", 0)])
            .node("Mul", &["number", "most"], "y"),
        counting(3)
            .node("Add", &["ids", "padding"], "next")
            .node("Gather", &["places", "next"], "more")
            .node("Add", &["sum", "more"], "y"),
    ];
    for other in others {
        let said = refused(&other.made("y"));
        assert!(said.contains("integers that are fed"), "{said}");
    }
    // Of ids that no table bounds nothing is known: they are ones, as a mask's are.
    let unbounded = ByHand::default()
        .fed("x", FLOAT, &[2])
        .fed("m", INT64, &[2])
        .integers("one", &[], &[1])
        .node("Add", &["m", "one"], "c")
        .node_with("Cast", &["c"], "f", &[int("to", 1)])
        .node("Mul", &["x", "f"], "y");
    read(&unbounded.made("y"));
}

#[test]
fn constants_are_reduced_over_any_axes() {
    let reduced = |op: &str, axes: &[i64], keeps: i64, shape: &[i64]| {
        let file = counted(6);
        let file = match op {
            // Its axes are an input.
            "ReduceSum" => file.integers("axes", &[axes.len() as i64], axes).node_with(
                op,
                &["t", "axes"],
                "c",
                &[int("keepdims", keeps)],
            ),
            _ => {
                let attributes = [list("axes", axes), int("keepdims", keeps)];
                file.node_with(op, &["t"], "c", &attributes)
            }
        };
        made(file, shape)
    };
    assert_eq!(reduced("ReduceSum", &[1], 0, &[2]), [3.0, 12.0]);
    assert_eq!(reduced("ReduceSum", &[0], 1, &[1, 3]), [3.0, 5.0, 7.0]);
    assert_eq!(reduced("ReduceMean", &[-1], 1, &[2, 1]), [1.0, 4.0]);
    assert_eq!(reduced("ReduceMax", &[0], 0, &[3]), [3.0, 4.0, 5.0]);
    assert_eq!(reduced("ReduceMin", &[1], 0, &[2]), [0.0, 3.0]);
    assert_eq!(reduced("ReduceProd", &[0, 1], 1, &[1, 1]), [0.0]);
}

#[test]
fn numbers_are_added_up_and_raised_and_compared_in_constants() {
    let running = counted(4)
        .integers("axis", &[], &[1])
        .node("CumSum", &["t", "axis"], "c");
    assert_eq!(made(running, &[2, 2]), [0.0, 1.0, 2.0, 5.0]);
    let raised = counted(4)
        .integers("two", &[], &[2])
        .node("Pow", &["t", "two"], "c");
    assert_eq!(made(raised, &[2, 2]), [0.0, 1.0, 4.0, 9.0]);
    let largest = counted(4)
        .floats("one", &[], &[1.0])
        .floats("row", &[2], &[2.5, 0.0])
        .node("Max", &["t", "one", "row"], "c");
    assert_eq!(made(largest, &[2, 2]), [2.5, 1.0, 2.5, 3.0]);
    let largest = |axis: i64, last: i64| {
        let file = ByHand::default().integers("n", &[2, 3], &[4, 7, 7, 9, 2, 7]);
        let attributes = [int("axis", axis), int("select_last_index", last)];
        let file = file.node_with("ArgMax", &["n"], "at", &attributes);
        file.node_with("Cast", &["at"], "c", &[int("to", 1)])
    };
    assert_eq!(made(largest(1, 0), &[2, 1]), [1.0, 0.0]);
    assert_eq!(made(largest(-1, 1), &[2, 1]), [2.0, 0.0]);
    assert_eq!(made(largest(0, 0), &[1, 3]), [1.0, 0.0, 0.0]);
    assert_eq!(made(largest(0, 1), &[1, 3]), [1.0, 0.0, 1.0]);
    let sign = counted(4)
        .floats("one", &[], &[1.0])
        .node("Sub", &["t", "one"], "less")
        .node("Sign", &["less"], "c");
    assert_eq!(made(sign, &[2, 2]), [-1.0, 0.0, 1.0, 1.0]);
}

/// Weights of attention as PyTorch 2.11's exporters write them, over four positions.
fn attention(of: &str) -> ByHand {
    ByHand::default()
        .fed("x", FLOAT, &[2, 4, 4])
        .floats("zero", &[], &[0.0])
        .node(of, &["x"], "weights")
        .node("IsNaN", &["weights"], "none")
}

#[test]
fn attention_that_is_asked_for_no_numbers_is_attention() {
    let file = attention("Softmax").node("Where", &["none", "zero", "weights"], "y");
    let graph = read(&file.made("y"));
    assert_eq!(graph.nodes.len(), 1);
    assert_eq!(count(&graph, |op| matches!(op, Op::Softmax { .. })), 1);
    assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [2, 4, 4]);
    // What may be no number is what the file asks for.
    let wild = attention("Log").node("Where", &["none", "zero", "weights"], "y");
    assert!(refused(&wild.made("y")).contains("`IsNaN`"));
    // A mask that something else reads is more than a choice.
    let counted = attention("Softmax")
        .node("Where", &["none", "zero", "weights"], "chosen")
        .node_with("Cast", &["none"], "number", &[int("to", FLOAT as i64)])
        .node("Add", &["chosen", "number"], "y");
    assert!(refused(&counted.made("y")).contains("more than a choice"));
    assert!(refused(&attention("Softmax").made("none")).contains("`IsNaN`"));
    // Of constants it is known.
    let known = ByHand::default()
        .floats("t", &[2], &[f32::NAN, 3.0])
        .floats("one", &[], &[1.0])
        .node("IsNaN", &["t"], "none")
        .node("Where", &["none", "one", "t"], "c");
    assert_eq!(made(known, &[2]), [1.0, 3.0]);
}

/// PyTorch's `softplus` as its newer exporter writes it, `beta` and the threshold written out.
fn softplus(beta: f32, over: f32, threshold: f32) -> ByHand {
    ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .floats("beta", &[], &[beta])
        .floats("over", &[], &[over])
        .floats("threshold", &[], &[threshold])
        .node("Mul", &["x", "beta"], "scaled")
        .node("Softplus", &["scaled"], "softened")
        .node("Div", &["softened", "over"], "below")
        .node("Greater", &["scaled", "threshold"], "past")
}

#[test]
fn softplus_with_its_threshold_is_softplus() {
    for (beta, over) in [(1.0, 1.0), (2.0, 2.0), (-0.5, -0.5)] {
        let file = softplus(beta, over, 20.0).node("Where", &["past", "x", "below"], "y");
        let graph = read(&file.made("y"));
        assert_eq!(count(&graph, |op| *op == Op::Softplus), 1);
        assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [2, 3]);
    }
    // With a factor of one left out.
    let plain = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .floats("threshold", &[], &[20.0])
        .node("Softplus", &["x"], "softened")
        .node("Greater", &["x", "threshold"], "past")
        .node("Where", &["past", "x", "softened"], "y");
    let graph = read(&plain.made("y"));
    assert_eq!(graph.nodes.len(), 1);
    let others = [
        // Below 15 the two differ in binary32.
        softplus(1.0, 1.0, 14.0).node("Where", &["past", "x", "below"], "y"),
        softplus(1.0, 1.0, f32::NAN).node("Where", &["past", "x", "below"], "y"),
        // Another function.
        softplus(2.0, 3.0, 20.0).node("Where", &["past", "x", "below"], "y"),
        softplus(2.0, 2.0, 20.0).node("Where", &["past", "scaled", "below"], "y"),
        softplus(2.0, 2.0, 20.0).node("Where", &["past", "x", "softened"], "y"),
        softplus(1.0, 1.0, 20.0).node("Where", &["past", "below", "x"], "y"),
        softplus(1.0, 1.0, 20.0).node("Where", &["past", "x", "beta"], "y"),
        // More than the choice depends on it.
        softplus(1.0, 1.0, 20.0)
            .node("Where", &["past", "x", "below"], "chosen")
            .node_with("Cast", &["past"], "number", &[int("to", FLOAT as i64)])
            .node("Add", &["chosen", "number"], "y"),
        softplus(1.0, 1.0, 20.0)
            .node("Where", &["past", "x", "below"], "chosen")
            .node("Greater", &["chosen", "threshold"], "y"),
    ];
    for other in others {
        assert!(refused(&other.made("y")).contains("threshold of a Softplus"));
    }
    assert!(refused(&softplus(1.0, 1.0, 20.0).made("past")).contains("`Greater`"));
    // A threshold with more axes than what it is a threshold of gives them to what comes of it.
    let wide = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .floats("threshold", &[1, 1, 1], &[20.0])
        .node("Softplus", &["x"], "softened")
        .node("Greater", &["x", "threshold"], "past")
        .node("Where", &["past", "x", "softened"], "y");
    assert!(refused(&wide.made("y")).contains("threshold of a Softplus"));
}

/// What the newer exporter writes before it tidies up: constants as what they are computed with.
#[test]
fn constants_are_cast_to_what_they_are_computed_with() {
    let cast = counted(4)
        .integers("like", &[1], &[0])
        .node("CastLike", &["t", "like"], "whole")
        .floats("real", &[], &[0.0])
        .node("CastLike", &["whole", "real"], "c");
    assert_eq!(made(cast, &[2, 2]), [0.0, 1.0, 2.0, 3.0]);
    let fed = || ByHand::default().fed("x", FLOAT, &[2, 3]);
    let made = fed()
        .integers("two", &[], &[2])
        .node("CastLike", &["two", "x"], "real")
        .node("Mul", &["x", "real"], "scaled")
        .node("CastLike", &["scaled", "x"], "y");
    assert_eq!(count(&read(&made.made("y")), |op| *op == Op::Mul), 1);
    let to_integers = fed()
        .integers("two", &[], &[2])
        .node("CastLike", &["x", "two"], "y");
    assert!(refused(&to_integers.made("y")).contains("casts what is computed"));
}

#[test]
fn elements_in_any_order_are_joined() {
    let taken = |file: ByHand| read(&file.made("y"));
    let x = || ByHand::default().fed("x", FLOAT, &[2, 7]);
    let chosen = taken(x().integers("at", &[4], &[3, 4, 0, 6]).node_with(
        "Gather",
        &["x", "at"],
        "y",
        &[int("axis", 1)],
    ));
    assert_eq!(infer::shapes(&chosen).unwrap()["y"].shape, [2, 4]);
    assert_eq!(count(&chosen, |op| matches!(op, Op::Slice { .. })), 3);
    let cut = |start: i64, end: i64, step: i64| {
        let file = x()
            .integers("start", &[1], &[start])
            .integers("end", &[1], &[end])
            .integers("axis", &[1], &[1])
            .integers("step", &[1], &[step]);
        let graph = taken(file.node("Slice", &["x", "start", "end", "axis", "step"], "y"));
        infer::shapes(&graph).unwrap()["y"].shape.clone()
    };
    assert_eq!(cut(-1, i64::MIN, -1), [2, 7]);
    assert_eq!(cut(0, 7, 2), [2, 4]);
    assert_eq!(cut(0, 7, 3), [2, 3]);
    assert_eq!(cut(1, 7, 5), [2, 2]);
    let tiled = taken(
        x().integers("times", &[2], &[1, 3])
            .node("Tile", &["x", "times"], "y"),
    );
    assert_eq!(infer::shapes(&tiled).unwrap()["y"].shape, [2, 21]);
}

#[test]
fn slopes_may_have_an_axis_for_the_batch() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[3, 2, 4, 4])
        .floats("slope", &[1, 2, 1, 1], &[0.5, 0.25])
        .node("PRelu", &["x", "slope"], "y");
    let graph = read(&file.made("y"));
    assert_eq!(graph.parameters[0].shape, [2, 1, 1]);
}

#[test]
fn what_no_node_makes_leaves_engines_that_read_onnx_to_run_it() {
    let passed = ByHand::default()
        .fed("x", FLOAT, &[2])
        .node("Relu", &["x"], "r")
        .leaving("r");
    assert!(refused(&passed.made("x")).contains("`x` leaves as it comes"));
    let held = ByHand::default()
        .fed("x", FLOAT, &[2])
        .floats("t", &[1], &[1.0])
        .node("Add", &["x", "t"], "r")
        .leaving("r");
    assert!(refused(&held.made("t")).contains("`t` leaves as it comes"));
}

#[test]
fn windows_that_pytorch_does_not_have_are_no_graph_s() {
    let pooled = |opset: u64, size: i64| {
        let attributes = [
            list("kernel_shape", &[2, 2]),
            list("strides", &[3, 3]),
            int("ceil_mode", 1),
        ];
        let file = ByHand::default().fed("x", FLOAT, &[1, 1, size, size]);
        file.node_with("MaxPool", &["x"], "y", &attributes)
            .made_at(opset, "y")
    };
    // Three windows at the places 0, 3 and 6 of six, by the older opsets' count.
    assert!(refused(&pooled(17, 6)).contains("behind what is pooled"));
    read(&pooled(22, 6));
    read(&pooled(17, 7));
    let uneven = |op: &str, more: &[Vec<u8>]| {
        let mut attributes = vec![list("pads", &[0, 0, 1, 1])];
        attributes.extend_from_slice(more);
        let file =
            ByHand::default()
                .fed("x", FLOAT, &[1, 1, 4, 4])
                .floats("w", &[1, 1, 2, 2], &[0.5; 4]);
        let inputs: &[&str] = if op == "AveragePool" {
            &["x"]
        } else {
            &["x", "w"]
        };
        file.node_with(op, inputs, "y", &attributes).made("y")
    };
    let kernel = list("kernel_shape", &[2, 2]);
    assert!(refused(&uneven("AveragePool", std::slice::from_ref(&kernel))).contains("unevenly"));
    read(&uneven(
        "AveragePool",
        &[kernel, int("count_include_pad", 1)],
    ));
    // What is cut off on one side alone is cut off behind.
    let cut = read(&uneven("ConvTranspose", &[]));
    assert_eq!(infer::shapes(&cut).unwrap()["y"].shape, [1, 1, 4, 4]);
    assert_eq!(count(&cut, |op| matches!(op, Op::Slice { .. })), 2);
    let reflected = |pads: &[i64]| {
        let file = ByHand::default()
            .fed("x", FLOAT, &[4, 4])
            .integers("pads", &[4], pads);
        let mode = [text("mode", "reflect")];
        file.node_with("Pad", &["x", "pads"], "y", &mode).made("y")
    };
    assert!(refused(&reflected(&[1, 0, 0, 0])).contains("first axis"));
    read(&reflected(&[0, 1, 0, 1]));
}

/// Each input of the sum is a step, and each step keeps the node's name.
#[test]
fn long_names_do_not_multiply() {
    let name = "n".repeat(100_000);
    let inputs = vec!["x"; 20_000];
    let file = ByHand::default()
        .fed("x", FLOAT, &[2])
        .node("Sum", &inputs, &name)
        .made(&name);
    let error = reading(&file).unwrap_err().to_string();
    assert!(
        error.len() < 500_000 && error.contains("Sum"),
        "{}",
        error.len()
    );
}

/// Millions of parts of nothing beside one of something.
#[test]
fn nothing_is_joined_as_often_as_it_stands_there() {
    let rows = 1 << 18;
    let mut inputs = vec!["nothing"; 2_000];
    inputs.push("t");
    let file = ByHand::default()
        .integers("nothing", &[rows, 0], &[])
        .held("t", INT64, &[rows, 1], &vec![0; 8 << 18])
        .fed("x", FLOAT, &[2])
        .node_with("Concat", &inputs, "all", &[int("axis", 1)])
        .node("Relu", &["x"], "y");
    read(&file.made("y"));
}

/// Behind what no graph has constants may grow as well: engines would be given them.
#[test]
fn constants_behind_an_unknown_operator_are_looked_at() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[2])
        .integers("whole", &[3], &[1 << 20, 1 << 20, 1 << 10])
        .node("Unheard", &["x"], "u")
        .node("ConstantOfShape", &["whole"], "zeros")
        .node("Add", &["u", "zeros"], "y");
    let file = File::from_bytes("own", &file.made("y")).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    let error = file.outline(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Excessive { .. }), "{error:?}");
}
