//! Models as files, and what numpy and ONNX Runtime make of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use photofinish_models::onnx::{self, WriteOptions};
use schema::{Graph, Precision};
use tempfile::TempDir;

use super::python;

pub(crate) fn options(opset: u32, precision: Precision) -> WriteOptions {
    WriteOptions {
        opset,
        precision,
        external: None,
        threshold: 0,
    }
}

pub(crate) fn save(folder: &Path, graph: &Graph, options: &WriteOptions) -> PathBuf {
    let written = onnx::write(graph, options).expect("a model that ONNX can say");
    let stem = format!(
        "{}-{}-{}.onnx",
        graph.name, options.opset, options.precision
    );
    let path = folder.join(stem);
    fs::write(&path, written.model).expect("a writable folder");
    if let (Some(name), Some(data)) = (&options.external, written.data) {
        fs::write(folder.join(name), data).expect("a writable folder");
    }
    path
}

pub(crate) fn scratch() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("target can be written")
}

/// What `reference.py` found.
#[derive(serde::Deserialize)]
pub(crate) struct Findings {
    /// For each file the largest relative error of an output, and its name.
    pub(crate) errors: Vec<(f64, String)>,
    pub(crate) smallest: f64,
    pub(crate) largest: f64,
    pub(crate) output: f64,
    pub(crate) sensitivity: f64,
}

/// Runs the graph in numpy, and the ONNX files in ONNX Runtime.
pub(crate) fn reference(graph: &Graph, written: &[WriteOptions]) -> Findings {
    let folder = scratch();
    let models: Vec<PathBuf> = written
        .iter()
        .map(|options| save(folder.path(), graph, options))
        .collect();
    held_against(graph, &models, folder.path())
}

/// Runs the graph in numpy, and in ONNX Runtime these files, which may hold other forms of it.
pub(crate) fn held_against(graph: &Graph, models: &[PathBuf], folder: &Path) -> Findings {
    let [json, recipe] = described(graph, folder);
    let arguments: Vec<&Path> = [&json, &recipe]
        .into_iter()
        .chain(models)
        .map(PathBuf::as_path)
        .collect();
    let printed = python::run("reference.py", &arguments);
    serde_json::from_str(&printed).expect("findings")
}

/// Files that hold the graph and the recipe for its numbers.
pub(crate) fn described(graph: &Graph, folder: &Path) -> [PathBuf; 2] {
    let json = folder.join("graph.json");
    fs::write(&json, serde_json::to_vec(graph).expect("graphs serialize")).expect("a folder");
    let recipe = folder.join("recipe.py");
    fs::write(&recipe, documented_recipe()).expect("a folder");
    [json, recipe]
}

/// The numpy recipe from the documentation of `fill`, so that it is held to its word.
pub(crate) fn documented_recipe() -> String {
    let documentation = include_str!("../../src/fill.rs");
    let lines = documentation
        .lines()
        .skip_while(|line| *line != "//! ```python")
        .skip(1);
    let code = lines.take_while(|line| *line != "//! ```");
    code.map(|line| {
        line.trim_start_matches("//!")
            .get(1..)
            .unwrap_or("")
            .to_owned()
            + "\n"
    })
    .collect()
}
