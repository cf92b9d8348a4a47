//! Models of the user's: what is read from a file computes what ONNX Runtime computes on the file
//! itself.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/library.rs"]
mod library;

use std::{collections::BTreeMap, fs};

use common::{Array, arrays, cell};
use library::library;
use models::onnx::{self, File, WriteOptions};
use photofinish_worker_onnxruntime::OnnxRuntime;
use photofinish_worker_torch::Torch;
use schema::{
    EngineVariant, Graph, Mode, Precision,
    protocol::{Load, ModelFiles},
};
use worker::Engine;

/// A file with its graph and its weights, ready for workers.
struct Brought {
    folder: tempfile::TempDir,
    graph: Graph,
    files: ModelFiles,
}

fn bring(name: &str, opset: u32, external: bool) -> Brought {
    let folder = tempfile::tempdir().unwrap();
    let options = WriteOptions {
        opset,
        precision: Precision::Fp32,
        external: external.then(|| "weights.bin".to_owned()),
        threshold: 4096,
    };
    let written = onnx::write(&small(name), &options).unwrap();
    fs::write(folder.path().join("model.onnx"), written.model).unwrap();
    if let Some(data) = written.data {
        fs::write(folder.path().join("weights.bin"), data).unwrap();
    }
    read(folder)
}

fn read(folder: tempfile::TempDir) -> Brought {
    let file = File::open(folder.path(), "model.onnx").unwrap();
    let reading = file.read(&BTreeMap::new()).unwrap();
    let weights = folder.path().join("numbers");
    let mut out = std::io::BufWriter::new(fs::File::create(&weights).unwrap());
    reading.write_weights(&mut out).unwrap();
    std::io::Write::flush(&mut out).unwrap();
    Brought {
        graph: reading.graph,
        files: ModelFiles {
            weights,
            onnx: Some(folder.path().join("model.onnx")),
            precision: file.precision(),
        },
        folder,
    }
}

fn small(name: &str) -> Graph {
    let dims: &[(&str, u64)] = match name {
        "bert_tiny" | "distilbert_base" | "gpt2" => &[("batch", 2), ("seq", 16)],
        "transformer_base" => &[("batch", 2), ("seq", 16), ("target", 11)],
        "vit_b16" => &[("batch", 2), ("image", 48)],
        _ => &[("batch", 2), ("image", 64)],
    };
    let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size));
    models::zoo::build_for(name, &dims.collect(), Mode::Inference).unwrap()
}

fn outputs(
    engine: &mut dyn Engine,
    variant: &str,
    brought: &Brought,
    precision: Precision,
) -> Vec<Array> {
    let (name, variant) = variant.split_once('/').unwrap();
    let mut cell = cell(&brought.graph, precision, None);
    cell.engine = EngineVariant {
        engine: name.to_owned(),
        variant: variant.to_owned(),
    };
    let scratch = tempfile::tempdir_in(brought.folder.path()).unwrap();
    let load = Load {
        cell,
        graph: brought.graph.clone(),
        files: Some(brought.files.clone()),
        scratch: scratch.path().to_owned(),
    };
    assert!(engine.reads_weights());
    let (mut session, report) = engine.load(&load).unwrap();
    if name == "onnxruntime" {
        let is_own = brought.files.precision == precision;
        assert_eq!(
            report.settings.contains_key("model"),
            is_own,
            "{:?}",
            report.settings
        );
    }
    session.step().unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

fn close(a: &[Array], b: &[Array], bound: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.shape, b.shape, "{what}");
        let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
        let difference = squares(&mut a.data.iter().zip(&b.data).map(|(a, b)| a - b));
        let size = squares(&mut b.data.iter().copied());
        assert!(size > 0.0, "{what}: an output of zeros proves nothing");
        let error = (difference / size).sqrt();
        assert!(error < bound, "{what}: relative L2 error {error:e}");
    }
}

/// PyTorch on what was read, ONNX Runtime on the file and on what was read.
fn agree(what: &str, brought: &mut Brought) {
    let ort = || OnnxRuntime::at(library());
    let exact = outputs(
        &mut Torch::default(),
        "pytorch/eager",
        brought,
        Precision::Fp64,
    );
    let own = outputs(&mut ort(), "onnxruntime/cpu", brought, Precision::Fp32);
    close(
        &own,
        &exact,
        1e-4,
        &format!("{what}: ONNX Runtime on the file"),
    );
    // Said to be of another precision, the file is left alone.
    brought.files.precision = Precision::Fp16;
    let ours = outputs(&mut ort(), "onnxruntime/cpu", brought, Precision::Fp32);
    close(
        &ours,
        &exact,
        1e-4,
        &format!("{what}: ONNX Runtime on what was read"),
    );
}

#[test]
fn convolution_networks_are_read_as_they_are() {
    for name in ["resnet18", "mobilenet_v2", "efficientnet_b4"] {
        agree(name, &mut bring(name, 17, false));
    }
}

#[test]
fn transformers_are_read_as_they_are() {
    for (name, opset) in [
        ("bert_tiny", 17),
        ("bert_tiny", 21),
        ("vit_b16", 17),
        ("gpt2", 17),
        ("transformer_base", 21),
    ] {
        agree(name, &mut bring(name, opset, false));
    }
}

#[test]
fn weights_beside_the_model_are_read_as_they_are() {
    agree("bert_tiny", &mut bring("bert_tiny", 17, true));
}

#[test]
fn other_weights_make_other_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let mut brought = bring("bert_tiny", 17, false);
    let before = outputs(
        &mut Torch::default(),
        "pytorch/eager",
        &brought,
        Precision::Fp32,
    );
    let mut numbers = fs::read(&brought.files.weights).unwrap();
    // The last of them are those of the pooling layer.
    let end = numbers.len();
    numbers[end - 4000..].fill(0);
    brought.files.weights = folder.path().join("other");
    fs::write(&brought.files.weights, numbers).unwrap();
    let after = outputs(
        &mut Torch::default(),
        "pytorch/eager",
        &brought,
        Precision::Fp32,
    );
    assert!(before != after);
}

#[test]
fn a_file_of_weights_that_is_too_short_is_told() {
    let brought = bring("bert_tiny", 17, false);
    fs::write(&brought.files.weights, [0; 64]).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell: cell(&brought.graph, Precision::Fp32, None),
        graph: brought.graph.clone(),
        files: Some(brought.files.clone()),
        scratch: scratch.path().to_owned(),
    };
    let outcome = Torch::default().load(&load).err().unwrap();
    assert!(outcome.reason.contains("reach beyond"), "{outcome:?}");
}
