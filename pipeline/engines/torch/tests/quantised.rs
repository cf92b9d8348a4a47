//! A quantised network in ONNX Runtime's kernels for integers and in PyTorch's simulation: both are
//! off from the network in fp64 by what the grids cost, and nearer to each other than that. (Not much
//! nearer always: a number that falls on the other side of a step moves many behind it.) TensorRT's form
//! is simulated alone.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/library.rs"]
mod library;

use std::{collections::BTreeMap, convert::Infallible, fs, path::PathBuf};

use common::{Array, arrays, cell};
use library::library;
use models::{
    Numbers,
    quantise::{
        self, Form, Grids, Range, Sink, WeightBits,
        calibrate::{self, Calibration, Method},
    },
    rewrite::{ATTENTION, PLAIN, Rewriting},
};
use photofinish_worker_onnxruntime::OnnxRuntime;
use photofinish_worker_torch::Torch;
use schema::{
    EngineVariant, Graph, Precision,
    protocol::{Load, ModelFiles},
};
use worker::Engine;

/// Runs a graph, with the numbers of the file where there is one.
fn run(
    engine: &mut impl Engine,
    name: &str,
    graph: &Graph,
    precision: Precision,
    weights: Option<PathBuf>,
) -> Vec<Array> {
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
    let (mut session, _) = engine.load(&load).unwrap();
    session.step().unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

fn torch(graph: &Graph, precision: Precision, weights: Option<PathBuf>) -> Vec<Array> {
    run(
        &mut Torch::default(),
        "pytorch/eager",
        graph,
        precision,
        weights,
    )
}

/// Ranges as a run finds them: from copies of the network in PyTorch.
fn ranges(graph: &Graph, form: Form) -> BTreeMap<String, Range> {
    let method = Method::MinMax;
    let calibration = Calibration::of(graph, form, method, 1 << 20).unwrap();
    let mut ranges = calibration.ranges;
    for pass in &calibration.passes {
        let arrays = torch(pass, Precision::Fp32, None);
        let made: BTreeMap<&String, &Array> = pass.outputs.iter().zip(&arrays).collect();
        for (value, copies) in calibrate::copies(pass) {
            let Ok(range) = calibrate::range(method, |see| {
                copies
                    .iter()
                    .for_each(|&copy| see(&made[&copy.to_owned()].data));
                Ok::<(), Infallible>(())
            });
            ranges.insert(value.to_owned(), range.unwrap());
        }
    }
    ranges
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
        (Form::Symmetric, Precision::Int8Static),
        (Form::Dynamic, Precision::Int8Dynamic),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let weights = folder.path().join("weights");
        let mut out = fs::File::create(&weights).unwrap();
        let sink = Sink {
            out: &mut out,
            bytes: 0,
        };
        // Eight bits are off by 9 % in ResNet-18, and by 24 % in BERT, where products saturate.
        let grids = Grids {
            form,
            weights: WeightBits::safe_here(),
        };
        let ranges = ranges(&graph, form);
        let quantised = quantise::apply(&graph, grids, &ranges, &Numbers::default(), sink).unwrap();
        let weights = || Some(weights.clone());
        let simulated = torch(&quantised, precision, weights());
        let cost = distance(&simulated, &exact);
        assert!((0.001..0.2).contains(&cost), "{name} {form:?}: {cost}");
        // The symmetric form is TensorRT's: of a transformer in it ONNX Runtime makes something else.
        if form != Form::Symmetric {
            let mut ort = OnnxRuntime::at(library());
            let variant = "onnxruntime/cpu";
            let made = run(&mut ort, variant, &quantised, precision, weights());
            let apart = distance(&made, &simulated);
            assert!(apart < cost, "{name} {form:?}: {apart} {cost}");
        }
        let products = quantise::census(&quantised);
        assert!(
            form == Form::Dynamic || products.quantised == products.products,
            "{products:?}"
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
