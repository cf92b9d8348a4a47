//! What PyTorch's exporters write, on every engine.

use std::{collections::BTreeMap, fs};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::command::{output, photofinish, program, root, run, target, write};

/// Engines that do not compile for minutes. Those of one library share how they read a graph: TensorFlow's
/// functions are its eager operators, traced.
const ENGINES: [&str; 6] = [
    "onnxruntime/cpu",
    "openvino/cpu",
    "pytorch/eager",
    "pytorch/python-eager",
    "tensorflow/graph",
    "tensorflow/eager",
];

/// Of each network one file of each exporter, with all of its sizes closed or those open that can be.
const KINDS: [&str; 4] = [
    "dynamo-static",
    "dynamo-dynamic",
    "dynamo-untidied-dynamic",
    "torchscript-dynamic",
];

/// Engines that compile, on a network of each kind.
const COMPILERS: [&str; 5] = [
    "pytorch/aot",
    "pytorch/compiled",
    "tensorflow/function",
    "tensorflow/keras",
    "tensorflow/xla",
];
const COMPILED: [&str; 3] = ["resnet18", "vit", "lstm"];

/// A file.
#[derive(Deserialize)]
struct Exported {
    name: String,
    /// The names of its open sizes.
    dims: Vec<String>,
}

/// Exports networks as PyTorch's users do and has every engine run each: all cells end measured, so all
/// agree with what ONNX Runtime makes of the file itself.
pub(crate) fn check(make_exporters: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let folder = target().join("exported");
    // A file of an earlier run is not what is exported now.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let manifest = folder.join("exported.yaml");
    let exported = export(&folder, make_exporters)?;
    write(&manifest, &format!("{:#}\n", bench_of(&exported)))?;
    let mut bench = program(photofinish());
    bench.args(["bench", "--fresh"]).arg(manifest);
    bench.arg("--store").arg(folder.join("store"));
    run(bench.arg("--out").arg(folder.join("site")))
}

fn export(
    folder: &std::path::Path,
    make_exporters: impl Fn() -> Result<(), String>,
) -> Result<Vec<Exported>, String> {
    // Made by the tests of the reader, which export by it too.
    let python = target().join("tmp/models-exporters/environment/bin/python3");
    if !python.exists() {
        make_exporters()?;
    }
    let script = root().join("pipeline/models/tests/python/pytorch_exports.py");
    let ended = output(program(python).arg(script).arg(folder).arg("all"))?;
    if !ended.status.success() {
        let log = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("exporting ended with {}: {log}", ended.status));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| format!("no list of files: {error}"))
}

/// A manifest, in the part of YAML that is JSON: files with the same open sizes are a job.
fn bench_of(exported: &[Exported]) -> Value {
    let mut by_sizes: BTreeMap<&[String], Vec<Value>> = BTreeMap::new();
    for file in exported {
        if KINDS.iter().any(|kind| file.name.ends_with(kind)) {
            let path = format!("{}.onnx", file.name);
            let files = by_sizes.entry(&file.dims).or_default();
            files.push(json!({ "onnx": path }));
        }
    }
    let compiled = COMPILED.map(|name| json!({ "onnx": format!("{name}-dynamo-static.onnx") }));
    let compiled = json!({
        "id": "exported-compiled",
        "question": "Do engines that compile run what PyTorch exports?",
        "device": "cpu",
        "matrix": { "model": compiled, "engine": COMPILERS },
    });
    let jobs = by_sizes.into_iter().map(|(sizes, files)| {
        let mut matrix = json!({ "model": files, "engine": ENGINES });
        for size in sizes {
            matrix[size] = json!(if size == "batch" { 2 } else { 6 });
        }
        let open = match sizes {
            [] => "closed".to_owned(),
            sizes => sizes.join("-"),
        };
        json!({
            "id": format!("exported-{open}"),
            "question": "Does every engine run what PyTorch exports?",
            "device": "cpu",
            "matrix": matrix,
            "compare": { "axis": "engine", "baseline": ENGINES[0] },
        })
    });
    json!({
        "version": 1,
        "title": "Files of PyTorch's exporters on every engine",
        "measure": {
            "blocks": 1, "rounds": 1, "round": "1ms", "round_steps": 1, "warm_up": "1ms",
            "budget": "2h", "timeout": "10m",
        },
        "jobs": jobs.chain([compiled]).collect::<Vec<_>>(),
    })
}
