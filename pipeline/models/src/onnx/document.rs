//! A model as ONNX, ready for an engine that reads it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message as _;
use schema::{
    Graph, Outcome, OutcomeKind, Precision,
    graph::{ElementType, Parameter},
    protocol::{Load, ModelFiles},
};

use super::{Extensions, WriteOptions, proto::ModelProto, write_with};
use crate::{Numbers, infer, rewrite};

/// The version of ONNX's operators that engines are given a graph in: the first with `Gelu` is 20.
pub const OPSET: u32 = 21;

/// A protobuf message holds less than 2 GiB: above this the weights go to a file of their own.
const LARGEST_MESSAGE_BYTES: u64 = 1_900_000_000;

/// Tensors from this size on go to the file.
const SMALLEST_EXTERNAL_BYTES: u64 = 1024;

/// What is said where an outline would have to be written.
const AS_IT_IS: &str = "the file holds operators or floats that no graph can say: it is run as it is, in its \
                        own precision, with nothing spelt out";

/// Names of the files in the scratch folder.
const MODEL_FILE: &str = "model.onnx";
const DATA_FILE: &str = "model.data";
const NO_WEIGHTS_FILE: &str = "no.weights";

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
    /// `unsupported`: the graph cannot be written; or it is an outline ([`Graph::is_outline`]), and the
    /// cell wants something else than the file as it is. `crashed`: the weights cannot be read, or the
    /// scratch folder not be written to.
    pub fn of(load: &Load, precision: Precision, extensions: Extensions) -> Result<Self, Outcome> {
        if let Some(own) = own_file(load, precision) {
            return Ok(Self::File(own.to_owned()));
        }
        if load.graph.is_outline() {
            return Err(Outcome::new(OutcomeKind::Unsupported, AS_IT_IS));
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

    /// The same in the cell's precision, as files for a worker that reads ONNX and cannot write it:
    /// what is not the user's is put into `folder`, which the worker does not write to.
    ///
    /// # Errors
    /// As [`Document::of`].
    pub fn files(load: &Load, folder: &Path) -> Result<ModelFiles, Outcome> {
        let failed = |error| cannot_write(folder, &error);
        let precision = load.cell.precision;
        let here = Load {
            scratch: folder.to_owned(),
            ..load.clone()
        };
        let onnx = match Self::of(&here, precision, Extensions::default())? {
            Self::File(path) => path,
            Self::Bytes(bytes) => {
                let path = folder.join(MODEL_FILE);
                fs::write(&path, bytes).map_err(failed)?;
                path
            }
        };
        let weights = match &load.files {
            Some(files) => files.weights.clone(),
            None => {
                let path = folder.join(NO_WEIGHTS_FILE);
                fs::write(&path, []).map_err(failed)?;
                path
            }
        };
        Ok(ModelFiles {
            weights,
            onnx: Some(onnx),
            precision,
        })
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
        .map_err(|error| cannot_write(scratch, &error))?;
    Ok(Document::File(path))
}

fn cannot_write(folder: &Path, error: &io::Error) -> Outcome {
    let reason = format!("{}: {error}", folder.display());
    Outcome::new(OutcomeKind::Crashed, reason)
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

    use schema::{
        Boundary, Cell, Device, Digest, HostLanguage, Mode, Model, ModelSource, Strategy,
    };

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

    fn load(precision: Precision, files: Option<ModelFiles>) -> Load {
        let cell = Cell {
            model: Model {
                name: "bert_tiny".to_owned(),
                source: ModelSource::Zoo,
                graph: Digest::of_value(&small()),
                weights: None,
            },
            dims: BTreeMap::new(),
            precision,
            mode: Mode::Inference,
            optimizer: None,
            engine: "tensorrt/rtx".parse().unwrap(),
            host_language: HostLanguage::Python,
            device: Device::Cuda(0),
            threads: 1,
            strategy: Strategy::Single,
            world_size: 1,
            boundary: Boundary::Step,
            factors: BTreeMap::new(),
        };
        Load {
            cell,
            graph: small(),
            files,
            scratch: "/nonexistent".into(),
        }
    }

    #[test]
    fn a_worker_that_reads_onnx_finds_it_in_the_cell_s_precision() {
        let folder = tempfile::tempdir().unwrap();
        let size = |precision| {
            let files = Document::files(&load(precision, None), folder.path()).unwrap();
            assert_eq!(files.precision, precision);
            assert!(fs::read(&files.weights).unwrap().is_empty());
            let model = fs::read(files.onnx.unwrap()).unwrap();
            assert!(ModelProto::decode(model.as_slice()).is_ok());
            model.len()
        };
        let [single, half] = [Precision::Fp32, Precision::Fp16].map(size);
        assert!(half < single * 6 / 10, "{half} of {single}");
        // The user's own file where it has the precision, and the graph where it has not.
        let weights = folder.path().join("own.weights");
        fs::write(&weights, []).unwrap();
        let own = |precision| ModelFiles {
            weights: weights.clone(),
            onnx: Some("/own/model.onnx".into()),
            precision,
        };
        for (floats, is_own) in [(Precision::Fp32, true), (Precision::Fp16, false)] {
            let load = load(Precision::Fp32, Some(own(floats)));
            let files = Document::files(&load, folder.path()).unwrap();
            assert_eq!(files.onnx == own(floats).onnx, is_own);
            assert_eq!(files.weights, own(floats).weights);
        }
        let gone = Document::files(&load(Precision::Fp32, None), Path::new("/nonexistent"));
        assert!(gone.unwrap_err().reason.contains("/nonexistent"));
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
