//! Numbers that come back from engines, and how far they are apart.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test is a program and uses a part of it"
)]

use std::path::PathBuf;

use photofinish_worker_onnxruntime::OnnxRuntime;
use schema::{Cell, EngineVariant, Graph, protocol::Load};
use worker::{Engine, Values};

/// Numbers with a shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub shape: Vec<u64>,
    pub data: Vec<f64>,
}

/// The tensors of a parity answer, in binary64.
pub fn arrays(tensors: &[worker::Tensor]) -> Vec<Array> {
    let array = |tensor: &worker::Tensor| Array {
        shape: tensor.shape.clone(),
        data: match &tensor.values {
            Values::F32(values) => values.iter().map(|&x| f64::from(x)).collect(),
            Values::F64(values) => values.clone(),
        },
    };
    tensors.iter().map(array).collect()
}

/// `‖a − b‖₂ / ‖b‖₂`.
pub fn relative_l2(a: &Array, b: &Array) -> f64 {
    assert_eq!(a.shape, b.shape);
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let difference = squares(&mut a.data.iter().zip(&b.data).map(|(a, b)| a - b));
    let size = squares(&mut b.data.iter().copied());
    assert!(size > 0.0, "an output of zeros proves nothing");
    (difference / size).sqrt()
}

/// A cell of inference in fp32, on one thread of the CPU, driven from Rust.
pub fn cell(graph: &Graph, engine: &str, variant: &str) -> Cell {
    Cell::plain(
        graph,
        EngineVariant {
            engine: engine.to_owned(),
            variant: variant.to_owned(),
        },
    )
}

/// The outputs of a graph on an engine.
pub fn outputs(engine: &mut dyn Engine, graph: &Graph, cell: Cell) -> Vec<Array> {
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    };
    let (mut session, _) = engine
        .load(&load)
        .unwrap_or_else(|outcome| panic!("{outcome:?}"));
    session.step().unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

/// The outputs of a graph on ONNX Runtime, whose library is at `library`.
pub fn onnx_outputs(graph: &Graph, library: PathBuf) -> Vec<Array> {
    let cell = cell(graph, "onnxruntime", "cpu");
    outputs(&mut OnnxRuntime::at(library), graph, cell)
}
