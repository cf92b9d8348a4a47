//! Corners of ONNX's rules, where a reading that is nearly right is another network.

use photofinish_models::{infer, onnx::ReadError};
use schema::{Graph, graph::Op};

use crate::support::{
    by_hand::{ByHand, FLOAT, FLOAT16, INT64, UINT8, int, list, text},
    users::{count, reading},
    wire::{field, number_field},
};

fn read(bytes: &[u8]) -> Graph {
    reading(bytes).unwrap().graph
}

/// What is said of a file of which an outline is left.
fn unsupported(bytes: &[u8]) -> String {
    let error = reading(bytes).map(drop).unwrap_err();
    assert!(matches!(error, ReadError::Unsupported { .. }), "{error:?}");
    error.to_string()
}

fn first_weight(bytes: &[u8]) -> f32 {
    let mut numbers = Vec::new();
    reading(bytes).unwrap().write_weights(&mut numbers).unwrap();
    f32::from_le_bytes(*numbers.first_chunk().unwrap())
}

#[test]
fn integers_that_were_widened_are_wide() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[5])
        .held("narrow", UINT8, &[1], &[200])
        .integers("hundred", &[1], &[100])
        .node_with("Cast", &["narrow"], "wide", &[int("to", INT64 as i64)])
        .node("Add", &["wide", "hundred"], "sum")
        .node_with("Cast", &["sum"], "number", &[int("to", FLOAT as i64)])
        .node("Mul", &["x", "number"], "y");
    assert_eq!(first_weight(&file.made("y")), 300.0);
}

#[test]
fn unsigned_integers_lie_in_a_field_of_their_own() {
    const UINT64: u64 = 13;
    let mut stored = Vec::new();
    number_field(1, 1, &mut stored);
    number_field(2, UINT64, &mut stored);
    field(8, b"three", &mut stored);
    field(11, &[3], &mut stored);
    let file = ByHand::default()
        .fed("x", FLOAT, &[5])
        .tensor(&stored)
        .node_with("Cast", &["three"], "number", &[int("to", FLOAT as i64)])
        .node("Mul", &["x", "number"], "y");
    assert_eq!(first_weight(&file.made("y")), 3.0);
}

#[test]
fn sums_of_constants_are_constants_however_many() {
    for operands in [&["a"][..], &["a", "a"], &["a", "a", "a"]] {
        let file = ByHand::default()
            .fed("x", FLOAT, &[5])
            .floats("a", &[1], &[2.0])
            .node("Sum", operands, "sum")
            .node("Mul", &["x", "sum"], "y");
        assert_eq!(first_weight(&file.made("y")), 2.0 * operands.len() as f32);
    }
}

#[test]
fn a_scale_for_each_row_is_none_for_each_element() {
    let file = |shape: &[i64]| {
        ByHand::default()
            .fed("x", FLOAT, &[6, 2, 3])
            .floats("scale", shape, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .node_with(
                "LayerNormalization",
                &["x", "scale"],
                "y",
                &[int("axis", 1)],
            )
            .made_at(17, "y")
    };
    for shape in [&[2, 3][..], &[1, 2, 3]] {
        let graph = read(&file(shape));
        assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [6, 2, 3]);
    }
    let says = unsupported(&file(&[6, 1, 1]));
    assert!(says.contains("no scale for each of 6"), "{says}");
}

#[test]
fn onnx_runtime_writes_normalisations_into_older_files() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[2, 3])
        .floats("scale", &[3], &[1.0, 2.0, 3.0])
        .node_with(
            "LayerNormalization",
            &["x", "scale"],
            "y",
            &[int("axis", -1)],
        );
    let graph = read(&file.made_at(13, "y"));
    let is = |op: &Op| matches!(op, Op::LayerNormalization { .. });
    assert_eq!(count(&graph, is), 1);
}

#[test]
fn scales_of_images_are_binary32_in_any_precision() {
    let file = |scale: f32| {
        ByHand::default()
            .fed("x", FLOAT16, &[1, 3, 9, 9])
            .floats("scales", &[4], &[1.0, 1.0, scale, scale])
            .node_with(
                "Resize",
                &["x", "", "scales"],
                "y",
                &[text("mode", "linear")],
            )
            .made("y")
    };
    let graph = read(&file(2.0));
    assert_eq!(infer::shapes(&graph).unwrap()["y"].shape, [1, 3, 18, 18]);
    // A pixel less than nine thirds.
    let says = unsupported(&file(0.333_333_3));
    assert!(says.contains("no whole number"), "{says}");
}

#[test]
fn a_factor_that_no_precision_rounds_is_itself() {
    // The binary16 next to one, and one.
    let silu = |one: u16| {
        let file = ByHand::default()
            .fed("x", FLOAT16, &[2, 3])
            .held("one", FLOAT16, &[], &one.to_le_bytes())
            .node("Sigmoid", &["x"], "gate")
            .node("Mul", &["x", "one"], "scaled")
            .node("Mul", &["scaled", "gate"], "y");
        count(&read(&file.made("y")), |op| *op == Op::Silu)
    };
    assert_eq!(silu(0x3c00), 1);
    assert_eq!(silu(0x3bff), 0);
}

#[test]
fn outputs_that_nothing_reads_are_nothing() {
    let pool = |reader: &str| {
        let kernel = list("kernel_shape", &[2, 2]);
        ByHand::default()
            .fed("x", FLOAT, &[1, 1, 4, 4])
            .node_of("MaxPool", &["x"], &["most", "places"], &[kernel])
            .node("Relu", &["most"], "y")
            .made(reader)
    };
    assert_eq!(read(&pool("y")).nodes.len(), 2);
    let says = unsupported(&pool("places"));
    assert!(says.contains("output 1, beside the first"), "{says}");
    // Of numbers of the file as well, where it was left unmade.
    let dropout = |reader: &str| {
        ByHand::default()
            .fed("x", FLOAT, &[2])
            .floats("fixed", &[2], &[1.0, 2.0])
            .node_of("Dropout", &["fixed"], &["kept", "mask"], &[])
            .node("Mul", &["x", "kept"], "y")
            .node("Not", &["mask"], "dropped")
            .made(reader)
    };
    let says = unsupported(&dropout("dropped"));
    assert!(says.contains("its mask is not read"), "{says}");
}

#[test]
fn views_of_a_weight_are_written_as_often_as_the_file_explains() {
    let file = |views: u32| {
        let elements = 1_i64 << 18;
        let mut file = ByHand::default().fed("x", FLOAT, &[1]).held(
            "w",
            FLOAT,
            &[elements],
            &vec![0; 4 << 18],
        );
        for view in 0..views {
            let ones = (0..view / 19).map(|_| 1);
            let shape = [1 << (view % 19), elements >> (view % 19)];
            let shape: Vec<i64> = shape.into_iter().chain(ones).collect();
            let named = |what: &str| format!("{what}{view}");
            file = file
                .integers(&named("shape"), &[shape.len() as i64], &shape)
                .node("Reshape", &["w", &named("shape")], &named("w"))
                .node("Mul", &["x", &named("w")], &named("y"))
                .leaving(&named("y"));
        }
        let file = file.node("Relu", &["x"], "last");
        reading(&file.made("last")).map(drop)
    };
    file(20).unwrap();
    // Beside eight, as many as there are bytes in the file and what is given.
    let says = file(7 * 19).unwrap_err().to_string();
    assert!(
        says.contains("more than is computed while reading"),
        "{says}"
    );
}

#[test]
fn a_list_of_the_file_s_making_is_told_by_its_length() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[4096])
        .floats("one", &[1], &[1.0])
        .integers("many", &[1], &[1 << 20])
        .node("ConstantOfShape", &["many"], "noughts")
        .node_with("Cast", &["noughts"], "times", &[int("to", INT64 as i64)])
        .node("Tile", &["one", "times"], "tiled")
        .node("Mul", &["x", "tiled"], "y");
    let says = unsupported(&file.made("y"));
    assert!(says.contains("repeats 1 axes by 1048576 numbers"), "{says}");
    assert!(says.len() < 300);
}

/// What engines make different numbers of, or none, they are not given.
#[test]
fn what_a_file_contradicts_itself_in_is_told() {
    let image = || ByHand::default().fed("x", FLOAT, &[1, 1, 6, 6]);
    let kernel = list("kernel_shape", &[3, 3]);
    let mean = |pads: &[i64], counted| {
        let attributes = [
            kernel.clone(),
            list("pads", pads),
            int("count_include_pad", counted),
        ];
        image()
            .node_with("AveragePool", &["x"], "y", &attributes)
            .made("y")
    };
    assert!(read(&mean(&[1, 1, 1, 1], 0)).nodes.len() == 1);
    assert!(read(&mean(&[2, 2, 2, 2], 1)).nodes.len() == 1);
    let told = unsupported(&mean(&[2, 2, 2, 2], 0));
    assert!(told.contains("more than half of its window"), "{told}");

    let conv = |window: &[i64]| {
        image()
            .floats("w", &[1, 1, 3, 3], &[0.5; 9])
            .node_with("Conv", &["x", "w"], "y", &[list("kernel_shape", window)])
            .made("y")
    };
    assert!(read(&conv(&[3, 3])).nodes.len() == 1);
    for window in [&[5, 5][..], &[3], &[-3, 3]] {
        let told = unsupported(&conv(window));
        assert!(told.contains("and its weight has [3, 3]"), "{told}");
    }
}

#[test]
fn the_length_along_no_axis_is_left_to_the_engines() {
    let noop = [int("noop_with_empty_axes", 1)];
    let file = |op| {
        let file = ByHand::default().fed("x", FLOAT, &[2, 3]);
        let file = file.node_with(op, &["x"], "same", &noop);
        file.node("Neg", &["same"], "y").made_at(18, "y")
    };
    assert_eq!(read(&file("ReduceSum")).nodes.len(), 1);
    let told = unsupported(&file("ReduceL2"));
    assert!(told.contains("along no axis"), "{told}");
}

/// In 32 bits 2,147,483,647 and 1 are another number on every engine.
#[test]
fn sums_of_integers_that_do_not_fit_are_left_to_the_engines() {
    let file = |more: i32| {
        let numbers = [i32::MAX, more].map(i32::to_le_bytes).concat();
        ByHand::default()
            .fed("x", FLOAT, &[5])
            .held("numbers", 6, &[2], &numbers)
            .node("ReduceSum", &["numbers"], "sum")
            .node_with("Cast", &["sum"], "number", &[int("to", FLOAT as i64)])
            .node("Mul", &["x", "number"], "y")
            .made("y")
    };
    assert_eq!(first_weight(&file(-i32::MAX + 7)), 7.0);
    let told = unsupported(&file(1));
    assert!(told.contains("too large for their type"), "{told}");
}
