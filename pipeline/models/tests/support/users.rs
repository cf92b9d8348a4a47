//! Models of users': what is read from them, and whether it computes what the file computes.

use std::{collections::BTreeMap, fs, path::Path};

use photofinish_models::onnx::{File, ReadError, Reading};
use schema::{Graph, graph::Op};

use super::judge::held_against;

pub(crate) fn dims(sizes: &[(&str, u64)]) -> BTreeMap<String, u64> {
    sizes
        .iter()
        .map(|&(name, size)| (name.to_owned(), size))
        .collect()
}

/// What is read of a file, with no sizes given.
pub(crate) fn reading(bytes: &[u8]) -> Result<Reading, ReadError> {
    File::from_bytes("own", bytes)?.read(&BTreeMap::new())
}

/// The graph of the model, whose numbers then lie in the folder.
pub(crate) fn read(folder: &Path, name: &str, sizes: &[(&str, u64)]) -> Result<Graph, ReadError> {
    let file = File::open(folder, &format!("{name}.onnx"))?;
    let reading = file.read(&dims(sizes))?;
    let weights = fs::File::create(folder.join("weights"));
    let mut weights = weights.expect("a folder that can be written");
    reading
        .write_weights(&mut weights)
        .expect("a folder that can be written");
    Ok(reading.graph)
}

/// The relative error of ONNX Runtime on the file against numpy on what was read of it last.
pub(crate) fn error(folder: &Path, name: &str, graph: &Graph) -> f64 {
    let file = folder.join(format!("{name}.onnx"));
    let found = held_against(graph, &[file], folder);
    found.errors.first().expect("an error for the file").0
}

pub(crate) fn count(graph: &Graph, is: impl Fn(&Op) -> bool) -> usize {
    graph.nodes.iter().filter(|node| is(&node.op)).count()
}
