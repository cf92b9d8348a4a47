//! Weights of few bits in a user's file: what they are multiplied by stays in floats.

use std::{collections::BTreeMap, fs};

use models::onnx::File;
use photofinish_worker_onnxruntime::OnnxRuntime;
use schema::{
    Cell,
    protocol::{Load, ModelFiles},
};
use worker::Engine as _;

use crate::{
    by_hand::{ByHand, FLOAT, int},
    library::library,
    outputs::{arrays, relative_l2},
};

/// `x · dequantised(w)`, 64 numbers by 32 columns, a scale for each column.
fn file() -> Vec<u8> {
    const INT8: u64 = 3;
    let weight: Vec<u8> = (0..64 * 32_u32).map(|at| (at * 37 % 251) as u8).collect();
    let scales: Vec<f32> = (1..=32_u8).map(|at| 0.001 * f32::from(at)).collect();
    ByHand::default()
        .fed("x", FLOAT, &[4, 64])
        .held("w", INT8, &[64, 32], &weight)
        .floats("scales", &[32], &scales)
        .node_with(
            "DequantizeLinear",
            &["w", "scales"],
            "floats",
            &[int("axis", 1)],
        )
        .node("MatMul", &["x", "floats"], "y")
        .made("y")
}

#[test]
fn products_with_weights_of_few_bits_are_those_of_floats() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.onnx"), file()).unwrap();
    let own = File::open(folder.path(), "model.onnx").unwrap();
    let outline = own.outline(&BTreeMap::new()).unwrap();
    let weights = folder.path().join("numbers");
    fs::write(&weights, "").unwrap();
    let run = |optimization: &str| {
        let mut cell = Cell::plain(&outline.graph, "onnxruntime/cpu".parse().unwrap());
        let level = ("optimization".to_owned(), optimization.to_owned());
        cell.factors.extend([level]);
        let load = Load {
            cell,
            graph: outline.graph.clone(),
            files: Some(ModelFiles {
                weights: weights.clone(),
                onnx: Some(folder.path().join("model.onnx")),
                precision: own.precision(),
            }),
            scratch: folder.path().to_owned(),
        };
        let (mut session, report) = OnnxRuntime::at(library()).load(&load).unwrap();
        session.step().unwrap();
        (arrays(&session.parity(1).unwrap().tensors), report)
    };
    let (one_by_one, _) = run("off");
    let (fused, report) = run("all");
    let error = relative_l2(&fused[0], &one_by_one[0]);
    assert!(error < 1e-6, "{error}");
    let told = &report.settings["products with weights of 4 or 8 bits"];
    assert!(told.starts_with("in fp32"), "{told}");
}
