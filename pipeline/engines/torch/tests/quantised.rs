//! A quantised network in ONNX Runtime's kernels for integers and in PyTorch's simulation: both are
//! off from the network in fp64 by what the grids cost, and nearer to each other than that. (Not much
//! nearer always: a number that falls on the other side of a step moves many behind it.)

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/library.rs"]
mod library;

use std::{collections::BTreeMap, fs, path::PathBuf};

use common::{Array, arrays, cell};
use library::library;
use models::{
    Numbers,
    quantise::{
        self, CALIBRATION_INPUTS, Form, Range, Sink,
        calibrate::{self, Extremes},
    },
    rewrite::{ATTENTION, PLAIN, Rewriting},
};
use photofinish_worker_onnxruntime::OnnxRuntime;
use photofinish_worker_torch::Torch;
use schema::{
    EngineVariant, Graph, Precision,
    protocol::{Load, ModelFiles},
};
use worker::{Engine, LoadReport};

/// Runs a graph, with the numbers of the file where there is one.
fn run(
    engine: &mut impl Engine,
    name: &str,
    graph: &Graph,
    precision: Precision,
    weights: Option<PathBuf>,
) -> (Vec<Array>, LoadReport) {
    let mut cell = cell(graph, precision, None);
    cell.engine = name.parse::<EngineVariant>().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell,
        graph: graph.clone(),
        files: weights.map(|weights| ModelFiles {
            weights,
            onnx: None,
            precision: Precision::Fp32,
        }),
        scratch: scratch.path().to_owned(),
    };
    let (mut session, report) = engine.load(&load).unwrap();
    session.step().unwrap();
    (arrays(&session.parity(1).unwrap().tensors), report)
}

fn torch(graph: &Graph, precision: Precision, weights: Option<PathBuf>) -> Vec<Array> {
    run(&mut Torch, "pytorch/eager", graph, precision, weights).0
}

/// Ranges as a run finds them: from copies of the network in PyTorch.
fn ranges(graph: &Graph, form: Form) -> BTreeMap<String, Range> {
    let wanted = quantise::wanted(graph, form).unwrap();
    let mut found: BTreeMap<String, Extremes> = BTreeMap::new();
    let mut see = |value: &str, numbers: &[f64]| {
        let extremes = found.entry(value.to_owned()).or_default();
        extremes.see(numbers).unwrap();
    };
    let mut made = Vec::new();
    for value in wanted {
        match calibrate::of_input(graph, &value, CALIBRATION_INPUTS) {
            Some(numbers) => {
                let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
                see(&value, &numbers);
            }
            None => made.push(value),
        }
    }
    for pass in calibrate::passes(graph, &made, CALIBRATION_INPUTS, 1 << 20).unwrap() {
        for (output, numbers) in pass.outputs.iter().zip(torch(&pass, Precision::Fp32, None)) {
            see(calibrate::original(output).unwrap(), &numbers.data);
        }
    }
    let range = |(value, extremes): (String, Extremes)| (value, extremes.range().unwrap());
    found.into_iter().map(range).collect()
}

/// `‖a − b‖₂ / ‖b‖₂` over all outputs.
fn distance(a: &[Array], b: &[Array]) -> f64 {
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        let pairs = a
            .iter()
            .zip(b)
            .flat_map(|(a, b)| a.data.iter().zip(&b.data));
        pairs.map(|(a, b)| of(*a, *b).powi(2)).sum()
    };
    (sum(&|a, b| a - b) / sum(&|_, b| b)).sqrt()
}

fn agree(name: &str, sizes: &[(&str, u64)]) {
    let dims = sizes.iter().map(|&(name, size)| (name.to_owned(), size));
    let graph = models::zoo::build(name, &dims.collect()).unwrap();
    let plain = [(ATTENTION.to_owned(), PLAIN.to_owned())].into();
    let graph = Rewriting::asked_by(&plain).apply(graph).unwrap();
    let exact = torch(&graph, Precision::Fp64, None);
    for (form, precision) in [
        (Form::Asymmetric, Precision::Int8Static),
        (Form::Dynamic, Precision::Int8Dynamic),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let weights = folder.path().join("weights");
        let mut out = fs::File::create(&weights).unwrap();
        let sink = Sink {
            out: &mut out,
            bytes: 0,
        };
        let ranges = ranges(&graph, form);
        let quantised = quantise::apply(&graph, form, &ranges, &Numbers::default(), sink).unwrap();
        let weights = || Some(weights.clone());
        let simulated = torch(&quantised, precision, weights());
        let mut ort = OnnxRuntime::at(library());
        let (made, report) = run(
            &mut ort,
            "onnxruntime/cpu",
            &quantised,
            precision,
            weights(),
        );
        let (cost, apart) = (distance(&simulated, &exact), distance(&made, &simulated));
        assert!((0.001..0.2).contains(&cost), "{name} {form:?}: {cost}");
        assert!(apart < cost, "{name} {form:?}: {apart} {cost}");
        let products = &report.settings["products in integers"];
        let (quantised, all) = products.split_once(" of ").unwrap();
        assert!(
            form == Form::Dynamic || all.starts_with(quantised),
            "{products}"
        );
    }
}

#[test]
fn a_convolutional_network_is_the_same_in_integers_and_simulated() {
    agree("resnet18", &[("batch", 2), ("image", 64)]);
}

#[test]
fn a_transformer_is_the_same_in_integers_and_simulated() {
    agree("bert_tiny", &[("batch", 2), ("seq", 16)]);
}
