//! The example of CONTRIBUTING, "An engine in any language", on a model of one's own and against a
//! real engine.

use std::fs;

use models::{
    onnx::{self, WriteOptions},
    sample,
};
use schema::Precision;
use serde_json::Value;

use crate::command::{output, photofinish, program, root, run};

const MANIFEST: &str = "version: 1
measure: { blocks: 2, rounds: 1, round: 20ms, warm_up: 200ms }
jobs:
  - id: example
    question: How fast is plain Python?
    matrix:
      model: { onnx: perceptron.onnx }
      precision: fp64
      threads: 1
      engine: [pytorch/eager, plain/python]
    compare: { axis: engine, baseline: pytorch/eager }
";

/// Registers the example as CONTRIBUTING says, and measures it: its outputs agree with PyTorch's,
/// or the bench would fail.
pub(crate) fn check() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let config = folder.path().join("config");
    let example = root().join("pipeline/engines/python/examples");
    fs::create_dir(&config).map_err(|error| error.to_string())?;
    run(program("cp")
        .arg("-r")
        .args(["engines.toml", "worker.py", "perceptron.py"].map(|name| example.join(name)))
        .arg(example.with_file_name("photofinish_worker"))
        .arg(&config))?;
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    write("perceptron.onnx", &model()?)?;
    write("bench.yaml", MANIFEST.as_bytes())?;
    let mut bench = program(photofinish());
    bench
        .arg("bench")
        .arg(folder.path().join("bench.yaml"))
        .args(["--output-format", "json", "--store"])
        .arg(folder.path().join("store"))
        .arg("--out")
        .arg(folder.path().join("site"))
        .env("PHOTOFINISH_CONFIG", &config);
    let ended = output(&mut bench)?;
    let told = String::from_utf8_lossy(&ended.stdout);
    if !ended.status.success() {
        let log = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("bench ended with {}: {told}{log}", ended.status));
    }
    let summary: Value =
        serde_json::from_str(&told).map_err(|error| format!("bench printed no JSON: {error}"))?;
    let parity = &summary["verdicts"][0]["parity_error"];
    if parity.as_f64().is_some() {
        Ok(())
    } else {
        Err(format!("expected a verdict with its parity: {told}"))
    }
}

/// A perceptron as an ONNX file, such as a user has.
fn model() -> Result<Vec<u8>, String> {
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let graph = sample::perceptron(4).map_err(|error| error.to_string())?;
    let written = onnx::write(&graph, &options).map_err(|error| error.to_string())?;
    Ok(written.model)
}
