//! Models of the user's: OpenVINO reads the file itself, and says which operator it lacks.

use std::{collections::BTreeMap, fs};

use models::{
    fill,
    onnx::{self, File, WriteOptions},
    sample,
};
use photofinish_worker_onnxruntime::OnnxRuntime;
use photofinish_worker_openvino::OpenVino;
use schema::{
    Boundary, Cell, Graph, Outcome, OutcomeKind, Precision,
    protocol::{Load, ModelFiles},
};
use worker::{Engine, LoadReport};

use crate::{
    by_hand::{BOOL, ByHand, DOUBLE, FLOAT, INT8, INT32, INT64, UINT8, int},
    library::library,
    openvino_library::openvino,
    outputs::{Array, arrays, cell, relative_l2},
    wire,
};

/// Numbers of `TensorProto.DataType` of what no input is.
const UINT16: u64 = 4;
const INT16: u64 = 5;
const UINT32: u64 = 12;
const UINT64: u64 = 13;

/// A batch whose size takes as many bytes in a file as a name of one letter does.
const BATCH: u64 = 128;

/// A size of [`BATCH`] in a shape of an ONNX file, and one that is left open, named `N`.
const WRITTEN_IN: [u8; 5] = [0x0a, 0x03, 0x08, 0x80, 0x01];
const LEFT_OPEN: [u8; 5] = [0x0a, 0x03, 0x12, 0x01, b'N'];

/// A perceptron as an ONNX file.
fn perceptron() -> Vec<u8> {
    perceptron_in(Precision::Fp32)
}

fn perceptron_in(precision: Precision) -> Vec<u8> {
    let options = WriteOptions {
        opset: 17,
        precision,
        external: None,
        threshold: 0,
    };
    let graph = sample::perceptron(BATCH).unwrap();
    onnx::write(&graph, &options).unwrap().model
}

/// The file with other bytes, of the same length, at all places of these.
fn replaced(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut file = file.to_vec();
    let mut places = 0;
    for start in 0..=file.len() - from.len() {
        let window = &mut file[start..start + from.len()];
        if window == from {
            window.copy_from_slice(to);
            places += 1;
        }
    }
    assert!(places > 0, "{from:x?} is nowhere");
    file
}

/// A file of the user's with what was read from it.
struct Brought {
    folder: tempfile::TempDir,
    graph: Graph,
    precision: Precision,
    /// What the cell asks for.
    asked: Precision,
}

/// A file with an operator that no graph has, at the size of its batch where it has one.
fn bring_outline(file: &[u8]) -> Brought {
    outlined(file, BTreeMap::from([("batch".to_owned(), BATCH)]))
}

fn outlined(file: &[u8], dims: BTreeMap<String, u64>) -> Brought {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.onnx"), file).unwrap();
    let file = File::open(folder.path(), "model.onnx").unwrap();
    let dims = file.resolve_dims(&dims).unwrap();
    assert!(file.read(&dims).is_err());
    fs::write(folder.path().join("numbers"), []).unwrap();
    Brought {
        folder,
        graph: file.outline(&dims).unwrap().graph,
        precision: file.precision(),
        asked: Precision::Fp32,
    }
}

fn bring(file: &[u8]) -> Brought {
    brought(file, BTreeMap::from([("batch".to_owned(), BATCH)]))
}

fn brought(file: &[u8], dims: BTreeMap<String, u64>) -> Brought {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.onnx"), file).unwrap();
    let file = File::open(folder.path(), "model.onnx").unwrap();
    let reading = file.read(&file.resolve_dims(&dims).unwrap()).unwrap();
    let mut weights = fs::File::create(folder.path().join("numbers")).unwrap();
    reading.write_weights(&mut weights).unwrap();
    Brought {
        folder,
        graph: reading.graph,
        precision: file.precision(),
        asked: Precision::Fp32,
    }
}

/// What becomes of the file on an engine's variant `cpu`.
fn run(
    engine: &mut dyn Engine,
    name: &str,
    brought: &Brought,
) -> Result<(Vec<Array>, LoadReport), Outcome> {
    run_at(Boundary::Step, engine, name, brought)
}

fn run_at(
    boundary: Boundary,
    engine: &mut dyn Engine,
    name: &str,
    brought: &Brought,
) -> Result<(Vec<Array>, LoadReport), Outcome> {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| brought.folder.path().join(name);
    assert!(engine.reads_weights());
    let (mut session, report) = engine.load(&Load {
        cell: Cell {
            precision: brought.asked,
            boundary,
            ..cell(&brought.graph, name, "cpu")
        },
        graph: brought.graph.clone(),
        files: Some(ModelFiles {
            weights: path("numbers"),
            onnx: Some(path("model.onnx")),
            precision: brought.precision,
        }),
        scratch: scratch.path().to_owned(),
    })?;
    session.step()?;
    Ok((arrays(&session.parity(1)?.tensors), report))
}

fn agrees(brought: &Brought) -> LoadReport {
    let (actual, report) = run(&mut OpenVino::at(openvino()), "openvino", brought).unwrap();
    let (expected, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", brought).unwrap();
    assert_eq!(actual.len(), 1);
    let error = relative_l2(&actual[0], &expected[0]);
    assert!(error < 1e-5, "relative L2 error {error:e}");
    report
}

#[test]
fn a_file_is_run_as_it_is() {
    let report = agrees(&bring(&perceptron()));
    assert_eq!(report.settings["model"], "the user's file as it is");
    assert!(!report.settings.contains_key("opset"));
}

/// `Atan` is an operator of ONNX's that no graph has.
#[test]
fn a_file_that_no_graph_can_say_is_run_as_it_is() {
    let strange = replaced(&perceptron(), b"Relu", b"Atan");
    let open = replaced(&strange, &WRITTEN_IN, &LEFT_OPEN);
    for file in [strange, open] {
        let brought = bring_outline(&file);
        let report = agrees(&brought);
        assert_eq!(report.settings["model"], "the user's file as it is");
        let (outputs, report) =
            run(&mut OnnxRuntime::at(library()), "onnxruntime", &brought).unwrap();
        assert_eq!(outputs[0].shape[0], BATCH);
        let bound = &report.settings["inputs and outputs"];
        assert!(bound.contains("placed anew by each step"), "{bound}");
    }
}

#[test]
fn a_file_that_no_graph_can_say_is_run_in_its_own_precision_alone() {
    let mut brought = bring_outline(&replaced(&perceptron(), b"Relu", b"Atan"));
    brought.precision = Precision::Fp16;
    let refused = [
        run(&mut OpenVino::at(openvino()), "openvino", &brought),
        run(&mut OnnxRuntime::at(library()), "onnxruntime", &brought),
    ];
    for outcome in refused {
        let outcome = outcome.err().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
        assert!(outcome.reason.contains("run as it is"), "{outcome:?}");
    }
}

/// Where the CPU has no such arithmetic it is that which is said, and not that the file has another
/// precision.
#[test]
fn a_file_that_no_graph_can_say_is_run_in_half_precision() {
    let strange = |precision| replaced(&perceptron_in(precision), b"Relu", b"Atan");
    let single = bring_outline(&strange(Precision::Fp32));
    let (expected, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &single).unwrap();
    let precision = Precision::Fp16;
    let mut brought = bring_outline(&strange(precision));
    assert_eq!(brought.precision, precision);
    brought.asked = precision;
    match run(&mut OpenVino::at(openvino()), "openvino", &brought) {
        Ok((actual, report)) => {
            let error = relative_l2(&actual[0], &expected[0]);
            assert!(error < 2e-2, "relative L2 error {error:e}");
            let stored = &report.settings["weights, inputs and outputs"];
            assert_eq!(*stored, precision.to_string());
        }
        Err(outcome) => {
            assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
            assert!(outcome.reason.contains("this CPU"), "{outcome:?}");
        }
    }
}

#[test]
fn a_file_in_another_precision_is_run_from_what_was_read() {
    let mut brought = bring(&perceptron());
    brought.precision = Precision::Fp64;
    let report = agrees(&brought);
    assert!(report.settings.contains_key("opset"));
}

#[test]
fn a_batch_that_is_left_open_takes_the_cell_s_size() {
    let open = replaced(&perceptron(), &WRITTEN_IN, &LEFT_OPEN);
    let brought = bring(&open);
    assert_eq!(brought.graph.inputs[0].shape[0], BATCH);
    agrees(&brought);
}

#[test]
fn an_operator_that_openvino_lacks_is_named_with_its_node() {
    let sound = perceptron();
    let brought = bring(&sound);
    let strange = replaced(&sound, b"Relu", b"Rely");
    fs::write(brought.folder.path().join("model.onnx"), strange).unwrap();
    let outcome = run(&mut OpenVino::at(openvino()), "openvino", &brought).unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
    for named in ["Rely", "relu"] {
        assert!(outcome.reason.contains(named), "{outcome:?}");
    }
}

#[test]
fn a_file_that_is_gone_or_broken_is_no_reason_to_die() {
    let sound = perceptron();
    let brought = bring(&sound);
    let path = brought.folder.path().join("model.onnx");
    fs::write(&path, &sound[..sound.len() / 2]).unwrap();
    let broken = run(&mut OpenVino::at(openvino()), "openvino", &brought).unwrap_err();
    let elsewhere = run(&mut OnnxRuntime::at(library()), "onnxruntime", &brought).unwrap_err();
    assert_eq!(elsewhere.kind, OutcomeKind::Unsupported, "{elsewhere:?}");
    assert!(elsewhere.reason.contains("parsing failed"), "{elsewhere:?}");
    fs::remove_file(&path).unwrap();
    let gone = run(&mut OpenVino::at(openvino()), "openvino", &brought).unwrap_err();
    for (outcome, kind) in [
        (broken, OutcomeKind::Unsupported),
        (gone, OutcomeKind::Crashed),
    ] {
        assert_eq!(outcome.kind, kind, "{outcome:?}");
        assert!(outcome.reason.contains("reading the model"), "{outcome:?}");
    }
}

/// Rows of a table by ids of one type, those that a mask of another type hides left out, and floats of a
/// third: what engines are fed is what the file says.
fn mixed(ids: u64, mask: u64, floats: u64, activation: &str) -> Vec<u8> {
    let rows: Vec<f32> = (0..600).map(|at| (at as f32 * 0.37).sin()).collect();
    let to = |element: u64| [int("to", element as i64)];
    ByHand::default()
        .fed("ids", ids, &[2, 3])
        .fed("mask", mask, &[2, 3])
        .fed("x", floats, &[2, 3, 2])
        .floats("table", &[300, 2], &rows)
        .node_with("Cast", &["ids"], "places", &to(INT64))
        .node("Gather", &["table", "places"], "words")
        .node_with("Cast", &["mask"], "seen", &to(FLOAT))
        .integers("last", &[1], &[-1])
        .node("Unsqueeze", &["seen", "last"], "wide")
        .node("Mul", &["words", "wide"], "kept")
        .node_with("Cast", &["x"], "single", &to(FLOAT))
        .node("Add", &["kept", "single"], "sum")
        .node(activation, &["sum"], "y")
        .made("y")
}

/// The files' element types of ids, mask and floats.
const MIXED: [[u64; 3]; 4] = [
    [INT64, INT64, FLOAT],
    [INT32, INT32, DOUBLE],
    [UINT8, BOOL, FLOAT],
    [INT8, INT32, FLOAT],
];

#[test]
fn a_file_is_fed_what_it_takes() {
    for [ids, mask, floats] in MIXED {
        let file = mixed(ids, mask, floats, "Tanh");
        let own = brought(&file, BTreeMap::new());
        agrees(&own);
        // In another precision the graph is run, whose integers have 64 bits: the same numbers.
        let (on_file, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &own).unwrap();
        let read = Brought {
            precision: Precision::Fp16,
            ..own
        };
        let (on_graph, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &read).unwrap();
        let error = relative_l2(&on_file[0], &on_graph[0]);
        assert!(error < 1e-6, "ids {ids}, mask {mask}: {error:e}");
        agrees(&read);
    }
}

/// What nothing reads is a part of the file, and of no model that an engine makes of it.
#[test]
fn an_input_that_nothing_reads_is_no_trouble() {
    for batch in [BATCH as i64, wire::BATCH] {
        let sizes = [batch, 3];
        for activation in ["Tanh", "Atan"] {
            let file = ByHand::default()
                .fed("unread", INT64, &sizes)
                .fed("x", FLOAT, &sizes)
                .node(activation, &["x"], "y")
                .made("y");
            agrees(&match activation {
                "Atan" => bring_outline(&file),
                _ => bring(&file),
            });
        }
    }
}

#[test]
fn a_file_that_no_graph_can_say_is_fed_what_it_takes() {
    let graph = |file: &[u8]| {
        let read = brought(file, BTreeMap::new());
        let (outputs, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &read).unwrap();
        outputs
    };
    for [ids, mask, floats] in MIXED {
        let strange = outlined(&mixed(ids, mask, floats, "Atan"), BTreeMap::new());
        agrees(&strange);
        // It is the arctangent of what the other file makes the hyperbolic tangent of.
        let (outputs, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &strange).unwrap();
        let tanh = graph(&mixed(ids, mask, floats, "Tanh"));
        for (atan, tanh) in outputs[0].data.iter().zip(&tanh[0].data) {
            assert_eq!(*atan > 0.0, *tanh > 0.0, "{atan} of {tanh}");
        }
    }
}

#[test]
fn what_comes_out_is_read_whatever_its_width() {
    let elements = [
        INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8, BOOL,
    ];
    for element in elements {
        let file = ByHand::default()
            .fed("x", FLOAT, &[4, 3])
            .floats("many", &[], &[80.0])
            .node("Atan", &["x"], "angle")
            .node("Mul", &["angle", "many"], "wide")
            .node("Abs", &["wide"], "size")
            .node_with("Cast", &["size"], "y", &[int("to", element as i64)])
            .made("y");
        let strange = outlined(&file, BTreeMap::new());
        agrees(&strange);
        let (outputs, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &strange).unwrap();
        let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..128.0).contains(number);
        assert!(outputs[0].data.iter().all(is_whole), "{outputs:?}");
    }
}

/// No arctangent is that small: the file names no place.
#[test]
fn an_output_that_holds_nothing_is_read() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[4, 3])
        .floats("low", &[], &[-80.0])
        .node("Atan", &["x"], "angle")
        .node("Less", &["angle", "low"], "lower")
        .node("NonZero", &["lower"], "places")
        .made("places");
    let strange = outlined(&file, BTreeMap::new());
    for boundary in [Boundary::Step, Boundary::Request] {
        for (name, engine) in [
            ("openvino", &mut OpenVino::at(openvino()) as &mut dyn Engine),
            ("onnxruntime", &mut OnnxRuntime::at(library())),
        ] {
            let (outputs, _) = run_at(boundary, engine, name, &strange).unwrap();
            assert_eq!(outputs[0].shape, [2, 0], "{name}");
            assert!(outputs[0].data.is_empty(), "{name}");
        }
    }
}

#[test]
fn an_output_that_is_no_tensor_is_unsupported_by_name() {
    let file = ByHand::default()
        .fed("x", FLOAT, &[4, 3])
        .node("Atan", &["x"], "angle")
        .node("SequenceConstruct", &["x", "angle"], "several")
        .made("several");
    let strange = outlined(&file, BTreeMap::new());
    for boundary in [Boundary::Step, Boundary::Request] {
        let mut engine = OnnxRuntime::at(library());
        let refused = run_at(boundary, &mut engine, "onnxruntime", &strange).unwrap_err();
        assert_eq!(refused.kind, OutcomeKind::Unsupported, "{refused:?}");
        let named = ["the output `several` is", "no tensor"];
        assert!(
            named.iter().all(|words| refused.reason.contains(words)),
            "{refused:?}"
        );
    }
}

#[test]
fn a_file_in_double_precision_is_run_in_it_or_not_at_all() {
    let number = |number: f64| number.to_le_bytes().repeat(6);
    let file = ByHand::default()
        .fed("x", DOUBLE, &[4, 3])
        .held("w", DOUBLE, &[3, 2], &number(0.1))
        .held("zero", DOUBLE, &[], &0_f64.to_le_bytes())
        .node("MatMul", &["x", "w"], "product")
        .node("Max", &["product", "zero"], "y")
        .made("y");
    let mut own = outlined(&file, BTreeMap::new());
    assert_eq!(own.precision, Precision::Fp64);
    own.asked = Precision::Fp64;
    let (outputs, _) = run(&mut OnnxRuntime::at(library()), "onnxruntime", &own).unwrap();
    let fed = fill::floats("x", &own.graph.inputs[0].fill, 12);
    for (row, made) in fed.chunks(3).zip(outputs[0].data.chunks(2)) {
        let sum: f64 = row.iter().map(|&x| 0.1 * f64::from(x)).sum();
        for number in made {
            assert!((number - sum.max(0.0)).abs() < 1e-15, "{number} of {row:?}");
        }
    }
    let refused = run(&mut OpenVino::at(openvino()), "openvino", &own).unwrap_err();
    assert_eq!(refused.kind, OutcomeKind::Unsupported, "{refused:?}");
    assert!(refused.reason.contains("fp64"), "{refused:?}");
    own.asked = Precision::Fp32;
    let refused = run(&mut OnnxRuntime::at(library()), "onnxruntime", &own).unwrap_err();
    assert_eq!(refused.kind, OutcomeKind::Unsupported, "{refused:?}");
}
