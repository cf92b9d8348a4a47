//! What few exporters write, field by field: read as ONNX means it, or refused.

use std::{collections::BTreeMap, fs};

use photofinish_models::{
    Checkpoint, infer,
    onnx::{File, ReadError},
};
use schema::{
    Graph, Precision,
    graph::{ElementType, Fill, Op},
};

use crate::support::{
    by_hand::{
        BOOL, ByHand, DOUBLE, FLOAT, FLOAT16, INT8, INT32, INT64, UINT8, int, list, node, tensor,
        text, value, zero,
    },
    users::{count, reading},
    wire::{field, number_field},
};

fn read(bytes: &[u8]) -> Result<Graph, ReadError> {
    reading(bytes).map(|reading| reading.graph)
}

/// What is said of a file that no graph can say, and what goes in and out of it.
fn outlined(bytes: &[u8]) -> (String, Graph) {
    let file = File::from_bytes("own", bytes).unwrap();
    let error = file.read(&BTreeMap::new()).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    let outline = file.outline(&BTreeMap::new()).unwrap();
    (error.to_string(), outline.graph)
}

fn shape_of(graph: &Graph, value: &str) -> Vec<u64> {
    infer::shapes(graph).unwrap()[value].shape.clone()
}

/// Token ids `[2, 3]`, and a table of 5 rows.
fn tokens() -> ByHand {
    ByHand::default()
        .fed("ids", INT64, &[2, 3])
        .floats("table", &[5, 2], &[0.5; 10])
}

#[test]
fn ids_in_another_shape_are_rows_all_the_same() {
    let file = tokens()
        .integers("flat", &[1], &[-1])
        .node("Reshape", &["ids", "flat"], "list")
        .node("Gather", &["table", "list"], "rows")
        .integers("first", &[1], &[0])
        .node("Unsqueeze", &["rows", "first"], "y");
    let graph = read(&file.made("y")).unwrap();
    assert_eq!(shape_of(&graph, "y"), [1, 6, 2]);
    assert_eq!(count(&graph, |op| *op == Op::Gather), 1);
    assert_eq!(graph.inputs[0].fill, Fill::Integers { bound: 5 });
}

#[test]
fn opsets_that_are_not_known_are_named() {
    let relu = || {
        let file = ByHand::default().fed("x", FLOAT, &[2, 3]);
        file.node("Relu", &["x"], "y")
    };
    for version in [1, 12, 23, 1 << 40] {
        let error = read(&relu().made_at(version, "y")).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        let says = format!("it has opset {version}, and 13 to 22 are read; export it again");
        assert!(error.to_string().contains(&says), "{error}");
    }
    for version in 13..=22 {
        assert_eq!(read(&relu().made_at(version, "y")).unwrap().nodes.len(), 1);
    }
}

#[test]
fn known_operators_in_a_circle_are_no_network() {
    let fed = || ByHand::default().fed("x", FLOAT, &[2, 3]);
    let two = fed()
        .node("Add", &["x", "b"], "a")
        .node("Relu", &["a"], "b");
    let itself = fed().node("Add", &["x", "b"], "b");
    for file in [two, itself] {
        let error = read(&file.made("b")).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        let says = "in no order, or in a circle";
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_network_of_which_nothing_is_left_is_none() {
    // Which rows these are cannot be said by a graph; and they are not those of ones.
    let moved = tokens()
        .node_with("Concat", &["ids", "ids"], "twice", &[int("axis", 0)])
        .node("Gather", &["table", "twice"], "y");
    let (says, outline) = outlined(&moved.made("y"));
    assert!(
        says.contains("`Gather`") && says.contains("worked with"),
        "{says}"
    );
    assert_eq!(outline.outputs, ["y"]);
    let computed = tokens()
        .integers("offset", &[], &[1])
        .node("Add", &["ids", "offset"], "other")
        .node("Gather", &["table", "other"], "y");
    let (says, _) = outlined(&computed.made("y"));
    assert!(says.contains("depends on nothing that is fed"), "{says}");
}

#[test]
fn masks_of_a_large_batch_are_computed() {
    let (batch, seq) = (40, 256);
    let mask = |size: i64| {
        ByHand::default()
            .fed("scores", FLOAT, &[size, 1, seq, seq])
            .fed("mask", INT64, &[size, seq])
            .integers("axes", &[2], &[1, 2])
            .node("Unsqueeze", &["mask", "axes"], "wide")
            .integers("whole", &[4], &[size, 1, seq, seq])
            .node("Expand", &["wide", "whole"], "square")
            .node_with("Cast", &["square"], "seen", &[int("to", FLOAT as i64)])
            .floats("one", &[], &[1.0])
            .node("Sub", &["one", "seen"], "unseen")
            .floats("least", &[], &[-3.4e38])
            .node("Mul", &["unseen", "least"], "bias")
            .node("Add", &["scores", "bias"], "y")
            .made("y")
    };
    let graph = read(&mask(batch)).unwrap();
    assert_eq!(graph.nodes.len(), 1);
    // Beyond what is computed while reading, it is an honest file still.
    let (says, _) = outlined(&mask(1 << 14));
    assert!(
        says.contains("more than is computed while reading"),
        "{says}"
    );
}

#[test]
fn a_number_that_is_left_out_is_zero() {
    let flat = |attributes: &[Vec<u8>]| {
        let file = ByHand::default().fed("x", FLOAT, &[2, 3]);
        let file = file.node_with("Flatten", &["x"], "y", attributes);
        shape_of(&read(&file.made("y")).unwrap(), "y")
    };
    assert_eq!(flat(&[int("axis", 1)]), [2, 3]);
    assert_eq!(flat(&[zero("axis", 2)]), [1, 6]);
    // HardSigmoid's slope is 0.2 where none is given.
    let bent = |attributes: &[Vec<u8>]| {
        let file = ByHand::default().fed("x", FLOAT, &[2, 3]);
        let file = file.node_with("HardSigmoid", &["x"], "y", attributes);
        let reading = reading(&file.made("y")).unwrap();
        let mut numbers = Vec::new();
        reading.write_weights(&mut numbers).unwrap();
        f32::from_le_bytes(*numbers.first_chunk().unwrap())
    };
    assert_eq!(bent(&[]), 0.2);
    assert_eq!(bent(&[zero("alpha", 1)]), 0.0);
}

#[test]
fn groups_were_scaled_as_a_whole_before_opset_21() {
    for of in [3, 6] {
        let numbers = vec![0.5; of as usize];
        let file = ByHand::default()
            .fed("x", FLOAT, &[2, 6, 4])
            .floats("scale", &[of], &numbers)
            .floats("bias", &[of], &numbers)
            .node_with(
                "GroupNormalization",
                &["x", "scale", "bias"],
                "y",
                &[int("num_groups", 3)],
            );
        let graph = read(&file.made_at(21, "y")).unwrap();
        let norm = |op: &Op| matches!(op, Op::InstanceNormalization { .. });
        assert_eq!(count(&graph, norm), 1);
        // What is scaled by channels is scaled behind it.
        assert_eq!(count(&graph, |op| *op == Op::Mul), usize::from(of == 6));
        assert_eq!(shape_of(&graph, "y"), [2, 6, 4]);
    }
    let none = ByHand::default()
        .fed("x", FLOAT, &[2, 6, 4])
        .floats("scale", &[4], &[1.0; 4])
        .node_with(
            "GroupNormalization",
            &["x", "scale", "scale"],
            "y",
            &[int("num_groups", 3)],
        );
    assert!(
        outlined(&none.made_at(21, "y"))
            .0
            .contains("for each of 6 channels")
    );
}

#[test]
fn what_a_graph_has_no_picture_for_is_told() {
    let image = || ByHand::default().fed("x", FLOAT, &[1, 4, 5, 6]);
    let resized = |attributes: &[Vec<u8>], scale: f32| {
        image()
            .floats("scales", &[4], &[1.0, 1.0, scale, 2.0])
            .node_with("Resize", &["x", "", "scales"], "y", attributes)
            .made_at(18, "y")
    };
    for (attributes, scale, reason) in [
        (vec![text("mode", "cubic")], 2.0, "interpolates by `cubic`"),
        (vec![int("antialias", 1)], 2.0, "smooths"),
        (vec![], 1.5, "makes no whole number"),
        (
            vec![text("coordinate_transformation_mode", "asymmetric")],
            2.0,
            "takes the nearest pixel",
        ),
    ] {
        let (says, _) = outlined(&resized(&attributes, scale));
        assert!(says.contains(reason), "{says}");
    }
    let padded = |sides: &[i64], mode: &str| {
        image()
            .integers("pads", &[sides.len() as i64], sides)
            .node_with("Pad", &["x", "pads"], "y", &[text("mode", mode)])
            .made("y")
    };
    for (sides, mode, reason) in [
        (
            &[0, 0, 0, 0, 0, 0, -1, 0][..],
            "constant",
            "takes elements away",
        ),
        (&[0, 0, 1, 0, 0, 0, 0, 0], "edge", "by the rule `edge`"),
        (&[0, 0, 5, 0, 0, 0, 0, 0], "reflect", "not there to reflect"),
        (&[0, 0, 1], "constant", "3 sides for 4 axes"),
    ] {
        let (says, _) = outlined(&padded(sides, mode));
        assert!(says.contains(reason), "{says}");
    }
    let blocks = image().node_with("DepthToSpace", &["x"], "y", &[int("blocksize", 3)]);
    assert!(outlined(&blocks.made("y")).0.contains("do not divide"));
    let scattered = image().node_with("ReduceMax", &["x"], "y", &[list("axes", &[1, 3])]);
    assert!(outlined(&scattered.made("y")).0.contains("no neighbours"));
}

/// Fed and made in one precision, computed in fp16 between two casts.
fn cast_around(fed: u64, made: u64) -> Vec<u8> {
    ByHand::default()
        .fed("x", fed, &[2, 3])
        .held("w", FLOAT16, &[3, 4], &[0, 0x3c].repeat(12))
        .node_with("Cast", &["x"], "half", &[int("to", FLOAT16 as i64)])
        .node("MatMul", &["half", "w"], "product")
        .node_with("Cast", &["product"], "y", &[int("to", made as i64)])
        .made("y")
}

#[test]
fn casts_at_the_ends_are_no_other_network() {
    for (fed, made) in [(FLOAT, FLOAT), (DOUBLE, FLOAT), (FLOAT, DOUBLE)] {
        let file = File::from_bytes("own", &cast_around(fed, made)).unwrap();
        assert_eq!(file.precision(), Precision::Fp16);
        let graph = file.read(&BTreeMap::new()).unwrap().graph;
        assert_eq!(graph.nodes.len(), 1, "{graph:?}");
        assert_eq!(graph.outputs, ["y"]);
    }
}

#[test]
fn casts_that_round_are_more_than_a_graph_says() {
    let (says, outline) = outlined(&cast_around(FLOAT, INT64));
    assert!(says.contains("`Cast`") && says.contains("`y`"), "{says}");
    assert_eq!(outline.inputs.len(), 1);
    // What is fed in fewer bits than is computed in are other numbers than a graph's.
    let narrow = ByHand::default()
        .fed("x", FLOAT16, &[2, 3])
        .floats("w", &[3, 4], &[1.0; 12])
        .node_with("Cast", &["x"], "wide", &[int("to", FLOAT as i64)])
        .node("MatMul", &["wide", "w"], "y");
    let (says, _) = outlined(&narrow.made("y"));
    assert!(says.contains("`Cast`") && says.contains("`wide`"), "{says}");
    // Read by more than the cast.
    let also = ByHand::default()
        .fed("x", DOUBLE, &[2, 3])
        .fed("z", FLOAT, &[2, 3])
        .node_with("Cast", &["x"], "single", &[int("to", FLOAT as i64)])
        .node("Add", &["single", "z"], "sum")
        .node("Relu", &["x"], "other")
        .node_with("Cast", &["other"], "rounded", &[int("to", FLOAT as i64)])
        .node("Add", &["sum", "rounded"], "y");
    let file = File::from_bytes("own", &also.made("y")).unwrap();
    assert_eq!(file.precision(), Precision::Fp64);
    assert!(file.read(&BTreeMap::new()).is_err());
    // Widened within, where what reads it computes in the wider precision.
    let within = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .node_with("Cast", &["x"], "wide", &[int("to", DOUBLE as i64)])
        .node("Relu", &["wide"], "y");
    assert!(outlined(&within.made("y")).0.contains("`wide`"));
}

#[test]
fn double_precision_is_run_by_engines_that_read_onnx() {
    let file = ByHand::default()
        .fed("x", DOUBLE, &[2, 3])
        .held("w", DOUBLE, &[3], &0.1_f64.to_le_bytes().repeat(3))
        .node("Shape", &["x"], "shape")
        .node("Mul", &["x", "w"], "y")
        .made("y");
    assert_eq!(
        File::from_bytes("own", &file).unwrap().precision(),
        Precision::Fp64
    );
    let (says, outline) = outlined(&file);
    for named in ["`Shape`", "`shape`", "64 bits", "fp64"] {
        assert!(says.contains(named), "{says}");
    }
    assert_eq!(outline.inputs.len(), 1);
}

#[test]
fn two_precisions_are_no_broken_file() {
    let half = [0_u8, 0x3c].repeat(12);
    // Weights that are only stored in it are those that they stand for.
    let stored = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .held("w", FLOAT16, &[3, 4], &half)
        .node_with("Cast", &["w"], "weight", &[int("to", FLOAT as i64)])
        .node("MatMul", &["x", "weight"], "y");
    let graph = read(&stored.made("y")).unwrap();
    assert_eq!(count(&graph, |op| *op == Op::Gemm), 1);
    // Without a cast it is another matter.
    let mixed = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .held("w", FLOAT16, &[3, 4], &half)
        .node("MatMul", &["x", "w"], "y");
    let (says, _) = outlined(&mixed.made("y"));
    assert!(says.contains("`w`") && says.contains("fp32"), "{says}");
}

#[test]
fn constants_among_the_nodes_tell_the_precision() {
    let table = tensor("", FLOAT16, &[5, 2], &[0, 0x3c].repeat(10));
    let file = ByHand::default()
        .fed("ids", INT64, &[2, 3])
        .floats("small", &[1], &[1.0])
        .node_with("Constant", &[], "table", &[value(&table)])
        .node("Gather", &["table", "ids"], "y")
        .made("y");
    let file = File::from_bytes("own", &file).unwrap();
    assert_eq!(file.precision(), Precision::Fp16);
    assert!(file.read(&BTreeMap::new()).is_ok());
}

#[test]
fn ids_come_in_integers_of_any_width() {
    let table = |element: u64, cast: bool| {
        let file =
            ByHand::default()
                .fed("ids", element, &[2, 3])
                .floats("table", &[500, 2], &[0.5; 1000]);
        let wide = [int("to", INT64 as i64)];
        let (file, ids) = match cast {
            true => (file.node_with("Cast", &["ids"], "wide", &wide), "wide"),
            false => (file, "ids"),
        };
        let file = file.node("Gather", &["table", ids], "y").made("y");
        let graph = read(&file).unwrap();
        assert_eq!(count(&graph, |op| *op == Op::Gather), 1);
        let input = graph.inputs.first().unwrap();
        assert_eq!(input.element, ElementType::Int64);
        input.fill
    };
    for (element, cast, bound) in [
        (INT64, false, 500),
        (INT32, false, 500),
        (INT32, true, 500),
        // No number that its type does not hold.
        (INT8, true, 128),
        (UINT8, true, 256),
        (BOOL, true, 2),
    ] {
        assert_eq!(table(element, cast), Fill::Integers { bound }, "{element}");
    }
}

#[test]
fn masks_come_in_wide_integers_and_in_truths() {
    let masked = |element: u64| {
        ByHand::default()
            .fed("scores", FLOAT, &[2, 3])
            .fed("mask", element, &[2, 3])
            .node_with("Cast", &["mask"], "seen", &[int("to", BOOL as i64)])
            .floats("never", &[], &[-1e38])
            .node("Where", &["seen", "scores", "never"], "y")
            .made("y")
    };
    let mask = |element: u64| {
        let graph = read(&masked(element)).unwrap();
        assert_eq!(graph.nodes.len(), 1, "{graph:?}");
        let mask = graph.inputs.last().unwrap();
        (mask.element, mask.fill)
    };
    for element in [INT64, INT32, BOOL] {
        let ones = (ElementType::Int64, Fill::Constant { value: 1.0 });
        assert_eq!(mask(element), ones, "{element}");
    }
    // As pixels come: no mask of ones, but what the network looks at.
    for element in [UINT8, INT8] {
        let (says, outline) = outlined(&masked(element));
        assert!(says.contains("`mask`, small integers"), "{says}");
        assert_eq!(outline.inputs.len(), 2);
    }
}

#[test]
fn truth_values_that_leave_the_model_are_more_than_a_graph_says() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .fed("mask", BOOL, &[2, 3])
        .node("Relu", &["x"], "y")
        .node("Not", &["mask"], "pad");
    let (says, _) = outlined(&file.leaving("y").made("pad"));
    assert!(
        says.contains("`Not`") && says.contains("the output `pad`"),
        "{says}"
    );
}

#[test]
fn a_file_has_the_precision_that_its_inputs_are_cast_to() {
    let file = ByHand::default()
        .fed("x", DOUBLE, &[2, 3])
        .node_with("Cast", &["x"], "single", &[int("to", FLOAT as i64)])
        .node("Softmax", &["single"], "y")
        .made("y");
    let file = File::from_bytes("own", &file).unwrap();
    assert_eq!(file.precision(), Precision::Fp32);
    assert_eq!(file.read(&BTreeMap::new()).unwrap().graph.nodes.len(), 1);
}

#[test]
fn dropout_that_drops_is_refused() {
    let drop = |training: u8| {
        let file = ByHand::default().fed("x", FLOAT, &[2, 3]);
        let file = file.floats("ratio", &[], &[0.5]);
        let file = file.held("training", BOOL, &[], &[training]);
        let file = file.node("Dropout", &["x", "ratio", "training"], "kept");
        file.node("Relu", &["kept"], "y").made("y")
    };
    assert_eq!(read(&drop(0)).unwrap().nodes.len(), 1);
    let (says, _) = outlined(&drop(1));
    assert!(says.contains("drops as in training"), "{says}");
}

#[test]
fn a_factor_with_axes_gives_them_to_what_it_makes() {
    let gelu = |dims: &[i64]| {
        let file = ByHand::default()
            .fed("x", FLOAT, &[2, 3])
            .floats("root", &[], &[std::f32::consts::SQRT_2])
            .floats("one", &[], &[1.0])
            .floats("half", dims, &[0.5])
            .node("Div", &["x", "root"], "scaled")
            .node("Erf", &["scaled"], "erf")
            .node("Add", &["erf", "one"], "sum")
            .node("Mul", &["x", "sum"], "product")
            .node("Mul", &["product", "half"], "y");
        read(&file.made("y"))
    };
    let graph = gelu(&[1]).unwrap();
    assert_eq!(count(&graph, |op| matches!(op, Op::Gelu { .. })), 1);
    // Then there is no GELU of this shape, and no error function without one.
    let error = gelu(&[1, 1, 1]).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    let power = |dims: &[i64]| {
        let file = ByHand::default().fed("x", FLOAT, &[2, 3]);
        let file = file.floats("two", dims, &[2.0]);
        read(&file.node("Pow", &["x", "two"], "y").made("y"))
    };
    assert_eq!(shape_of(&power(&[1]).unwrap(), "y"), [2, 3]);
    assert!(power(&[1, 1, 1]).is_err());
}

/// `x [2, 3]`, masked by infinities.
fn masked() -> ByHand {
    ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .held("seen", BOOL, &[3], &[1, 1, 0])
        .floats("never", &[], &[f32::NEG_INFINITY])
        .floats("nought", &[], &[0.0])
        .node("Where", &["seen", "x", "never"], "masked")
}

#[test]
fn infinities_that_are_not_chosen_are_no_numbers() {
    let twice = masked().node("Where", &["seen", "masked", "never"], "y");
    assert_eq!(
        count(&read(&twice.made("y")).unwrap(), |op| *op == Op::Add),
        2
    );
    let after = masked().node("Softmax", &["masked"], "weights").node(
        "Where",
        &["seen", "weights", "nought"],
        "y",
    );
    assert!(read(&after.made("y")).is_ok());
    let product = masked().node("Where", &["seen", "masked", "nought"], "y");
    let (says, _) = outlined(&product.made("y"));
    assert!(says.contains("may be infinite"), "{says}");
    // Further on, as well.
    let product =
        masked()
            .node("Neg", &["masked"], "other")
            .node("Where", &["seen", "nought", "other"], "y");
    assert!(outlined(&product.made("y")).0.contains("may be infinite"));
}

#[test]
fn what_is_not_chosen_has_to_be_finite() {
    let chosen = |file: ByHand, of: &str| {
        let file = file
            .held("seen", BOOL, &[3], &[1, 1, 0])
            .floats("nought", &[], &[0.0]);
        file.node("Where", &["seen", of, "nought"], "y").made("y")
    };
    let x = || ByHand::default().fed("x", FLOAT, &[2, 3]);
    let far = |op: &str, inputs: &[&str]| {
        let file = x()
            .floats("three", &[], &[3.0])
            .floats("none", &[1], &[0.0]);
        outlined(&chosen(file.node(op, inputs, "far"), "far")).0
    };
    for says in [
        far("Exp", &["x"]),
        far("Log", &["x"]),
        far("Sqrt", &["x"]),
        far("Reciprocal", &["x"]),
        far("Div", &["three", "x"]),
        far("Div", &["x", "none"]),
    ] {
        assert!(says.contains("may be infinite or no number"), "{says}");
    }
    // Further on, too.
    let file = x()
        .node("Exp", &["x"], "far")
        .node("Mul", &["far", "x"], "z");
    assert!(outlined(&chosen(file, "z")).0.contains("no number"));
    // A root mean square and what is divided by it are finite, and so is a quotient by a fixed number.
    let file = x()
        .floats("two", &[], &[2.0])
        .floats("epsilon", &[], &[1e-6])
        .node("Pow", &["x", "two"], "square")
        .node_with("ReduceMean", &["square"], "mean", &[list("axes", &[-1])])
        .node("Add", &["mean", "epsilon"], "above")
        .node("Sqrt", &["above"], "root")
        .node("Div", &["x", "root"], "normal")
        .node("Div", &["normal", "two"], "half");
    assert!(read(&chosen(file, "half")).is_ok());
    let file = x()
        .floats("least", &[], &[1e-12])
        .node_with("ReduceL2", &["x"], "length", &[list("axes", &[-1])])
        .node("Clip", &["length", "least"], "above")
        .node("Div", &["x", "above"], "normal");
    assert!(read(&chosen(file, "normal")).is_ok());
}

#[test]
fn two_large_masks_are_not_added_up() {
    let file = |below: f32| {
        ByHand::default()
            .fed("x", FLOAT, &[2, 3])
            .held("seen", BOOL, &[3], &[1, 1, 0])
            .floats("never", &[], &[below])
            .node("Where", &["seen", "x", "never"], "once")
            .node("Where", &["seen", "once", "never"], "y")
            .made("y")
    };
    assert!(read(&file(f32::NEG_INFINITY)).is_ok());
    assert!(outlined(&file(f32::MIN)).0.contains("may be infinite"));
}

#[test]
fn attributes_are_the_operators_own() {
    let refused = |op: &str, attributes: &[Vec<u8>]| {
        let file = ByHand::default().fed("x", FLOAT, &[1, 4, 2, 2]);
        let file = file.node_with(op, &["x"], "y", attributes).made("y");
        let error = read(&file).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        error.to_string()
    };
    // As they were before opset 13.
    for (op, name) in [("Split", "split"), ("Clip", "min"), ("Squeeze", "axes")] {
        let says = refused(op, &[list(name, &[1])]);
        assert!(says.contains(&format!("the attribute `{name}`")), "{says}");
    }
    let says = refused("ReduceMean", &[int("axes", 1)]);
    assert!(says.contains("another type"), "{says}");
    let says = refused("LeakyRelu", &[int("alpha", 1)]);
    assert!(says.contains("another type"), "{says}");
    let says = refused("Flatten", &[int("axis", 1), int("axis", 2)]);
    assert!(says.contains("`axis` twice"), "{says}");
    let mut word = zero("mode", 3);
    field(4, &[0xff], &mut word);
    let says = refused("DepthToSpace", &[int("blocksize", 2), word]);
    assert!(says.contains("no text"), "{says}");
    let unknown = [int("blocksize", 2), text("mode", "crd")];
    let file = ByHand::default().fed("x", FLOAT, &[1, 4, 2, 2]);
    let file = file.node_with("DepthToSpace", &["x"], "y", &unknown);
    assert!(outlined(&file.made("y")).0.contains("by the rule `crd`"));
    let file = ByHand::default().fed("x", FLOAT, &[1, 4]);
    let file = file.node_with("Gelu", &["x"], "y", &[text("approximate", "Tanh")]);
    assert!(outlined(&file.made_at(20, "y")).0.contains("`Tanh`"));
}

#[test]
fn outputs_and_inputs_that_are_left_out_are_nothing() {
    let lstm = |outputs: &[&str]| {
        let file = ByHand::default()
            .fed("x", FLOAT, &[3, 1, 2])
            .floats("w", &[1, 16, 2], &[0.1; 32])
            .floats("r", &[1, 16, 4], &[0.1; 64])
            .floats("b", &[1, 32], &[0.1; 32])
            .floats("h", &[1, 1, 4], &[0.0; 4]);
        let inputs = ["x", "w", "r", "b", "", "h", "h"];
        let file = file.node_of("LSTM", &inputs, outputs, &[int("hidden_size", 4)]);
        let made = outputs.iter().find(|name| !name.is_empty()).unwrap();
        file.made(made)
    };
    assert!(read(&lstm(&["y"])).is_ok());
    assert!(read(&lstm(&["y", "", ""])).is_ok());
    assert!(read(&lstm(&["", "last"])).is_ok());
    // Nothing is called nothing.
    let unnamed = ByHand::default()
        .fed("x", FLOAT, &[3])
        .floats("", &[], &[5.0])
        .floats("most", &[], &[6.0])
        .node("Clip", &["x", "", "most"], "y");
    let error = read(&unnamed.made("y")).unwrap_err().to_string();
    assert!(error.contains("has no name"), "{error}");
}

#[test]
fn slices_say_as_much_of_each_axis() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[4, 4])
        .integers("starts", &[2], &[0, 1])
        .integers("ends", &[2], &[4, 3])
        .integers("axes", &[1], &[0])
        .node("Slice", &["x", "starts", "ends", "axes"], "y");
    assert!(outlined(&file.made("y")).0.contains("[2, 2, 1, 2]"));
}

#[test]
fn integers_have_the_width_of_the_file() {
    let rows = |a: u8, b: u8| {
        let file = ByHand::default()
            .fed("x", FLOAT, &[5])
            .held("a", UINT8, &[], &[a])
            .held("b", UINT8, &[], &[b])
            .node("Add", &["a", "b"], "sum")
            .node_with("Cast", &["sum"], "number", &[int("to", FLOAT as i64)])
            .node("Mul", &["x", "number"], "y");
        let reading = reading(&file.made("y")).unwrap();
        let mut numbers = Vec::new();
        reading.write_weights(&mut numbers).unwrap();
        f32::from_le_bytes(*numbers.first_chunk().unwrap())
    };
    assert_eq!(rows(3, 4), 7.0);
    assert_eq!(rows(250, 10), 4.0);
}

#[test]
fn constants_stand_for_numbers_as_far_as_their_precision_goes() {
    let hard_swish = |shift: f32| {
        let file = ByHand::default()
            .fed("x", FLOAT, &[2, 3])
            .floats("shift", &[], &[shift])
            .floats("nought", &[], &[0.0])
            .floats("six", &[], &[6.0])
            .node("Add", &["x", "shift"], "shifted")
            .node("Clip", &["shifted", "nought", "six"], "gate")
            .node("Mul", &["x", "gate"], "product")
            .node("Div", &["product", "six"], "y");
        count(&read(&file.made("y")).unwrap(), |op| *op == Op::HardSwish)
    };
    assert_eq!(hard_swish(3.0), 1);
    assert_eq!(hard_swish(3.002), 0);
}

#[test]
fn a_file_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one.bin", "two.bin"] {
        fs::write(folder.path().join(name), [0; 8]).unwrap();
    }
    let external = |locations: &[&str]| {
        let mut tensor = Vec::new();
        number_field(1, 2, &mut tensor);
        number_field(2, FLOAT, &mut tensor);
        field(8, b"w", &mut tensor);
        for location in locations {
            let mut entry = Vec::new();
            field(1, b"location", &mut entry);
            field(2, location.as_bytes(), &mut entry);
            field(13, &entry, &mut tensor);
        }
        number_field(14, 1, &mut tensor);
        let file = ByHand::default().fed("x", FLOAT, &[2]).tensor(&tensor);
        let file = file.node("Add", &["x", "w"], "y").made("y");
        fs::write(folder.path().join("model.onnx"), file).unwrap();
        File::open(folder.path(), "model.onnx")
    };
    assert!(external(&["one.bin"]).is_ok());
    assert!(external(&["./one.bin"]).is_ok());
    let error = external(&["./model.onnx"]).unwrap_err().to_string();
    assert!(error.contains("in the model itself"), "{error}");
    // A place in memory to ONNX Runtime, and to a file system a place like others.
    let address = folder.path().join("*/_ORT_MEM_ADDR_");
    fs::create_dir_all(&address).unwrap();
    fs::write(address.join("*"), [0; 8]).unwrap();
    let error = external(&["*/_ORT_MEM_ADDR_/*"]).unwrap_err().to_string();
    assert!(error.contains("lies in memory"), "{error}");
    let error = external(&["one.bin", "two.bin"]).unwrap_err().to_string();
    assert!(error.contains("says `location` twice"), "{error}");
}

/// Nanoseconds that this thread was on a processor, whatever else the machine does.
fn busy_ns() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    status.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn twice_the_nodes_take_twice_the_time() {
    let took = |nodes: usize| {
        let mut file = ByHand::default().fed("v0", FLOAT, &[2, 3]);
        for at in 0..nodes {
            file = file.node("Neg", &[&format!("v{at}")], &format!("v{}", at + 1));
        }
        let bytes = file.made(&format!("v{nodes}"));
        let start = busy_ns();
        assert_eq!(read(&bytes).unwrap().nodes.len(), nodes);
        busy_ns() - start
    };
    let (few, many) = (took(2_000), took(16_000));
    assert!(many < 24 * few, "{few} ns and {many} ns");
}

#[test]
fn the_number_of_elements_is_known_as_sizes_are() {
    let x = ByHand::default().fed("x", FLOAT, &[2, 3]);
    let x = x.node("Tanh", &["x"], "t").node("Size", &["t"], "n");
    let x = x.integers("axes", &[1], &[0]);
    let x = x.node("Unsqueeze", &["n", "axes"], "shape");
    let graph = read(&x.node("Reshape", &["t", "shape"], "y").made("y")).unwrap();
    assert_eq!(shape_of(&graph, "y"), [6]);
}

#[test]
fn what_no_engine_could_run_is_told_at_once() {
    let x = || ByHand::default().fed("x", FLOAT, &[2]);
    let said = |bytes: &[u8]| match File::from_bytes("own", bytes) {
        Ok(file) => file.read(&BTreeMap::new()).unwrap_err(),
        Err(error) => error,
    };
    let malformed = |bytes: &[u8], words: &str| {
        let error = said(bytes);
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let named = |op: &str, input: &str, output: &str| {
        let mut node = node("", op, &[input], &[output], &[]);
        field(3, b"twin", &mut node);
        node
    };
    let twins = x()
        .message(&named("Tanh", "x", "a"))
        .message(&named("Relu", "a", "y"));
    malformed(&twins.made("y"), "two of its nodes are called `twin`");
    malformed(
        &ByHand::default()
            .fed("x", 16, &[2])
            .node("Tanh", &["x"], "y")
            .made("y"),
        "its floats are bf16",
    );
    // Of nothing comes nothing that a graph has.
    let nothing = x()
        .node("SequenceEmpty", &[], "s")
        .node("Tanh", &["x"], "y");
    let error = said(&nothing.made("y"));
    assert!(error.to_string().contains("no such operator"), "{error}");
}

#[test]
fn an_output_is_a_tensor() {
    // `TypeProto`: field 4 is a sequence.
    let (mut of, mut described) = (Vec::new(), Vec::new());
    field(4, &[], &mut of);
    field(1, b"s", &mut described);
    field(2, &of, &mut described);
    let file = ByHand::default().fed("x", FLOAT, &[2]);
    let file = file
        .node("SequenceConstruct", &["x"], "s")
        .described(&described);
    let error = File::from_bytes("own", &file.node("Tanh", &["x"], "y").made("y")).unwrap();
    let error = error.outline(&BTreeMap::new()).unwrap_err();
    assert!(
        error.to_string().contains("its output `s` is no tensor"),
        "{error}"
    );
}

/// Frameworks write a size that is open as a negative one, too.
#[test]
fn negative_sizes_are_open() {
    let file = |sizes: &[i64]| {
        let file = ByHand::default().fed("x", FLOAT, sizes);
        let bytes = file.node("Relu", &["x"], "y").made("y");
        File::from_bytes("own", &bytes)
    };
    let file_of_batches = file(&[-1, 4]).unwrap();
    let sizes = BTreeMap::from([("batch".to_owned(), 3)]);
    let graph = file_of_batches.read(&sizes).unwrap().graph;
    assert_eq!(graph.inputs[0].shape, [3, 4]);
    let refused = |sizes: &[i64]| file(sizes).unwrap_err().to_string();
    assert!(refused(&[2, -1]).contains("without size or name, its axis 1"));
    assert!(
        refused(&[2, 0])
            .ends_with("has an axis of size 0; export it with another, or a name for it")
    );
}

/// What is no model at all is told apart from a model that is wrong.
#[test]
fn files_of_another_kind_are_known() {
    let read = |bytes: &[u8]| File::from_bytes("own", bytes).unwrap_err();
    assert!(read(b"").is_foreign());
    assert!(read(b"<!DOCTYPE html>").is_foreign());
    let bytes = ByHand::default()
        .fed("x", FLOAT, &[2, 0])
        .node("Relu", &["x"], "y")
        .made("y");
    assert!(!read(&bytes).is_foreign());
}

/// A table for each column of one input, as networks over columns of categories have it.
#[test]
fn columns_of_integers_are_rows_of_tables() {
    let file = ByHand::default()
        .fed("ids", INT64, &[4, 2])
        .floats("a", &[5, 3], &[0.5; 15])
        .floats("b", &[9, 3], &[0.25; 27])
        .integers("first", &[], &[0])
        .integers("one", &[1], &[1])
        .integers("two", &[1], &[2])
        .node_with("Gather", &["ids", "first"], "left", &[int("axis", 1)])
        .node("Gather", &["a", "left"], "of_a")
        .node("Slice", &["ids", "one", "two", "one"], "right")
        .node("Gather", &["b", "right"], "rows")
        .node("Squeeze", &["rows", "one"], "of_b")
        .node("Add", &["of_a", "of_b"], "y");
    let graph = read(&file.made("y")).unwrap();
    assert_eq!(count(&graph, |op| matches!(op, Op::Gather)), 2);
    assert_eq!(count(&graph, |op| matches!(op, Op::Slice { .. })), 2);
    // Every table has every row that is asked for.
    assert_eq!(graph.inputs[0].fill, Fill::Integers { bound: 5 });
}

/// Whatever a manifest or a model names may be what Git LFS keeps in its place.
#[test]
fn what_git_lfs_keeps_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    for name in ["own.onnx", "weights", "own.safetensors"] {
        put(name, pointer);
    }
    let beside = |key: &str, value: &str| {
        let mut entry = Vec::new();
        field(1, key.as_bytes(), &mut entry);
        field(2, value.as_bytes(), &mut entry);
        entry
    };
    let mut weights = tensor("w", FLOAT, &[3], &[]);
    field(13, &beside("location", "weights"), &mut weights);
    number_field(14, 1, &mut weights);
    let other = ByHand::default().fed("x", FLOAT, &[2, 3]).tensor(&weights);
    put("other.onnx", &other.node("Add", &["x", "w"], "y").made("y"));
    let told = [
        File::open(folder.path(), "own.onnx").map(drop),
        File::open(folder.path(), "other.onnx").map(drop),
        Checkpoint::open(folder.path(), "own.safetensors").map(drop),
    ];
    for error in told.map(Result::unwrap_err) {
        assert!(error.to_string().contains("git lfs pull"), "{error}");
        assert!(!error.is_foreign(), "{error}");
    }
}
