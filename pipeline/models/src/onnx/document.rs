//! A model as ONNX, ready for an engine that reads it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost::Message as _;
use schema::{
    Graph, Outcome, OutcomeKind, Precision,
    graph::{ElementType, Parameter},
    protocol::Load,
};

use super::{Extensions, WriteOptions, proto::ModelProto, write_with};
use crate::{Numbers, infer, rewrite};

/// The version of ONNX's operators that engines are given a graph in: the first with `Gelu` is 20.
pub const OPSET: u32 = 21;

/// A protobuf message holds less than 2 GiB: above this the weights go to a file of their own.
const LARGEST_MESSAGE_BYTES: u64 = 1_900_000_000;

/// Tensors from this size on go to the file.
const SMALLEST_EXTERNAL_BYTES: u64 = 1024;

/// Names of the files in the scratch folder.
const MODEL_FILE: &str = "model.onnx";
const DATA_FILE: &str = "model.data";

/// A model as ONNX, where an engine finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// All of it.
    Bytes(Vec<u8>),
    /// The file where it lies, weights beside it.
    File(PathBuf),
}

impl Document {
    /// What a worker is to load: the user's own file where the cell wants it as it is
    /// ([`own_file`]), the graph in `precision` otherwise, its large weights in the scratch folder
    /// if one message cannot hold them.
    ///
    /// # Errors
    /// `unsupported`: the graph cannot be written. `crashed`: the weights cannot be read, or the
    /// scratch folder not be written to.
    pub fn of(load: &Load, precision: Precision, extensions: Extensions) -> Result<Self, Outcome> {
        if let Some(own) = own_file(load, precision) {
            return Ok(Self::File(own.to_owned()));
        }
        let numbers = Numbers::of(load)?;
        write_within(
            LARGEST_MESSAGE_BYTES,
            &load.graph,
            precision,
            extensions,
            &numbers,
            &load.scratch,
        )
    }

    /// The first node with the operator `op`: its name, or that of its output where it has none.
    /// For messages; `None` too where the document cannot be read.
    #[must_use]
    pub fn node_of(&self, op: &str) -> Option<String> {
        let read;
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::File(path) => {
                read = fs::read(path).ok()?;
                &read
            }
        };
        let graph = ModelProto::decode(bytes.as_slice()).ok()?.graph?;
        let node = graph.node.into_iter().find(|node| node.op_type == op)?;
        let output = || node.output.first().cloned().unwrap_or_default();
        Some(if node.name.is_empty() {
            output()
        } else {
            node.name
        })
    }
}

/// The user's own file, if it is run as it is: its floats have the cell's precision, and no recurrent
/// layer of it is to be spelt out.
#[must_use]
pub fn own_file(load: &Load, precision: Precision) -> Option<&Path> {
    let files = load.files.as_ref()?;
    let form = load.cell.factors.get(rewrite::RECURRENT);
    let is_as_it_is =
        files.precision == precision && form.is_none_or(|form| form != rewrite::UNROLLED);
    files.onnx.as_deref().filter(|_| is_as_it_is)
}

/// Writes `graph` as ONNX: in memory, or to `scratch` where it is too large for one message.
fn write_within(
    largest_bytes: u64,
    graph: &Graph,
    precision: Precision,
    extensions: Extensions,
    numbers: &Numbers,
    scratch: &Path,
) -> Result<Document, Outcome> {
    let large = weight_bytes(graph, precision) > largest_bytes;
    let options = WriteOptions {
        opset: OPSET,
        precision,
        external: large.then(|| DATA_FILE.to_owned()),
        threshold: SMALLEST_EXTERNAL_BYTES,
    };
    let written = write_with(graph, &options, extensions, numbers)
        .map_err(|error| Outcome::new(OutcomeKind::Unsupported, error.to_string()))?;
    let Some(data) = written.data else {
        return Ok(Document::Bytes(written.model));
    };
    let path = scratch.join(MODEL_FILE);
    fs::write(scratch.join(DATA_FILE), data)
        .and_then(|()| fs::write(&path, written.model))
        .map_err(|error| {
            Outcome::new(
                OutcomeKind::Crashed,
                format!("{}: {error}", scratch.display()),
            )
        })?;
    Ok(Document::File(path))
}

fn weight_bytes(graph: &Graph, precision: Precision) -> u64 {
    let width = |parameter: &Parameter| match infer::parameter_element(parameter) {
        ElementType::Int64 => 8,
        ElementType::Float => match precision {
            Precision::Fp64 => 8,
            // What is left in floats, and at most that much for what is not.
            Precision::Fp32 | Precision::Tf32 | Precision::Int8Dynamic | Precision::Int8Static => 4,
            Precision::Bf16 | Precision::Fp16 => 2,
        },
    };
    graph.parameters.iter().fold(0, |sum: u64, parameter| {
        let bytes = parameter
            .shape
            .iter()
            .fold(width(parameter), |n: u64, &s| n.saturating_mul(s));
        sum.saturating_add(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn small() -> Graph {
        let dims = [("batch", 1), ("seq", 4)].map(|(name, size)| (name.to_owned(), size));
        crate::zoo::build("bert_tiny", &BTreeMap::from(dims)).unwrap()
    }

    #[test]
    fn a_large_model_lies_in_two_files() {
        let scratch = tempfile::tempdir().unwrap();
        let graph = small();
        let bytes = weight_bytes(&graph, Precision::Fp32);
        let write = |bytes| {
            let (extensions, numbers) = (Extensions::default(), Numbers::default());
            let precision = Precision::Fp32;
            write_within(
                bytes,
                &graph,
                precision,
                extensions,
                &numbers,
                scratch.path(),
            )
            .unwrap()
        };
        let within = write(bytes);
        assert!(matches!(within, Document::Bytes(message) if message.len() as u64 > bytes));
        let beyond = write(bytes - 1);
        let Document::File(path) = beyond else {
            panic!("one message");
        };
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(size(&path) < bytes / 10);
        assert!(size(&scratch.path().join(DATA_FILE)) > bytes * 9 / 10);
    }

    #[test]
    fn nodes_are_found_by_their_operator() {
        let numbers = Numbers::default();
        let scratch = tempfile::tempdir().unwrap();
        let document = write_within(
            u64::MAX,
            &small(),
            Precision::Fp32,
            Extensions::default(),
            &numbers,
            scratch.path(),
        )
        .unwrap();
        let Document::Bytes(bytes) = &document else {
            panic!("two files");
        };
        let path = scratch.path().join("own.onnx");
        fs::write(&path, bytes).unwrap();
        let gelu = document.node_of("Gelu").unwrap();
        assert!(small().nodes.iter().any(|node| node.name == gelu), "{gelu}");
        assert_eq!(Document::File(path).node_of("Gelu"), Some(gelu));
        assert_eq!(document.node_of("Conv"), None);
        assert_eq!(Document::Bytes(vec![0xff; 9]).node_of("Gelu"), None);
        assert_eq!(
            Document::File(scratch.path().to_owned()).node_of("Gelu"),
            None
        );
    }

    #[test]
    fn a_scratch_folder_that_is_gone_is_named() {
        let graph = small();
        let gone = Path::new("/nonexistent/scratch");
        let (extensions, numbers) = (Extensions::default(), Numbers::default());
        let outcome = write_within(0, &graph, Precision::Fp32, extensions, &numbers, gone)
            .err()
            .unwrap();
        assert!(
            outcome.reason.contains("/nonexistent/scratch"),
            "{outcome:?}"
        );
    }

    #[test]
    fn bytes_are_counted_by_precision() {
        let graph = small();
        let single = weight_bytes(&graph, Precision::Fp32);
        assert!(weight_bytes(&graph, Precision::Fp64) > single);
        assert!(weight_bytes(&graph, Precision::Fp16) < single);
    }
}
