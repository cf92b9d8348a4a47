//! The example of CONTRIBUTING, "An engine in any language", on a model of one's own and against a
//! real engine; and weights of one's own on real engines.

use std::{collections::BTreeMap, fs, path::Path};

use models::{
    onnx::{self, WriteOptions},
    sample, zoo,
};
use schema::{Mode, Precision};
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

/// Weights that only the file has: whoever takes others is off from whoever takes them.
const WEIGHTS: &str = "version: 1
measure: { blocks: 1, rounds: 1, round: 20ms, warm_up: 200ms, disturbed: keep, ceilings: false }
jobs:
  - id: inference
    matrix:
      model: { zoo: bert_tiny, weights: own.safetensors }
      seq: 8
      engine: [pytorch/eager, pytorch/python-eager, tensorflow/graph, tensorflow/function, onnxruntime/cpu, openvino/cpu, transformers/model]
    compare: { axis: engine, baseline: pytorch/eager }
  - id: integers
    matrix:
      model: { zoo: bert_tiny, weights: own.safetensors }
      seq: 8
      precision: int8-static
      weight_bits: \"7\"
      engine: onnxruntime/cpu
  - id: training
    mode: training
    optimizer: adam
    matrix:
      model: { zoo: bert_tiny, weights: own.safetensors }
      seq: 8
      batch: 2
      engine: [pytorch/eager, pytorch/python-eager, tensorflow/graph, transformers/model]
    compare: { axis: engine, baseline: pytorch/eager }
";

/// Registers the example as CONTRIBUTING says, and measures it; then real engines with weights of one's own. All
/// outputs agree, or the bench would fail.
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
    write("own.safetensors", &weights()?)?;
    for (name, text, verdicts) in [("example", MANIFEST, 1), ("weights", WEIGHTS, 9)] {
        let manifest = format!("{name}.yaml");
        write(&manifest, text.as_bytes())?;
        let told = bench(folder.path(), &manifest, &config)?;
        let summary: Value = serde_json::from_str(&told)
            .map_err(|error| format!("bench printed no JSON: {error}"))?;
        let told_of = summary["verdicts"].as_array().into_iter().flatten();
        let agreeing = told_of.filter(|verdict| verdict["parity_error"].as_f64().is_some());
        if agreeing.count() != verdicts {
            return Err(format!(
                "expected {verdicts} verdicts of {name}, each with its parity: {told}"
            ));
        }
    }
    Ok(())
}

/// What a bench of this manifest prints.
fn bench(folder: &Path, manifest: &str, config: &Path) -> Result<String, String> {
    let mut bench = program(photofinish());
    bench
        .arg("bench")
        .arg(folder.join(manifest))
        .args(["--output-format", "json", "--store"])
        .arg(folder.join("store"))
        .arg("--out")
        .arg(folder.join("site"))
        .env("PHOTOFINISH_CONFIG", config);
    let ended = output(&mut bench)?;
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    if ended.status.success() {
        return Ok(told);
    }
    let log = String::from_utf8_lossy(&ended.stderr);
    Err(format!("bench ended with {}: {told}{log}", ended.status))
}

/// A file of weights, such as a user has: other numbers than the zoo's own.
fn weights() -> Result<Vec<u8>, String> {
    let dims = BTreeMap::from([("seq".to_owned(), 8)]);
    let graph = zoo::build_for("bert_tiny", &dims, Mode::Training);
    let graph = graph.map_err(|error| error.to_string())?;
    sample::safetensors(&graph, |number| 0.8 * number + 0.01).map_err(|error| error.to_string())
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
