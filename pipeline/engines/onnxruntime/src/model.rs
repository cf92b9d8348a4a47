//! From a graph to a session.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    Numbers,
    onnx::{self, Extensions, WriteOptions},
};
use ort::session::{Session, builder::SessionBuilder};
use schema::{
    Graph, Outcome, OutcomeKind, Precision,
    graph::{ElementType, Parameter},
    protocol::Load,
};

use crate::{
    configuration::Configuration,
    failure::{failed, unsupported},
    library::Library,
};

/// The version of ONNX's operators that the model is written in: the first with `Gelu` is 20.
pub(crate) const OPSET: u32 = 21;

/// A protobuf message holds less than 2 GiB: above this the weights go to a file of their own.
const LARGEST_MESSAGE_BYTES: u64 = 1_900_000_000;

/// Tensors from this size on go to the file.
const SMALLEST_EXTERNAL_BYTES: u64 = 1024;

/// Names of the files in the scratch folder.
const MODEL_FILE: &str = "model.onnx";
const DATA_FILE: &str = "model.data";

/// A model as ONNX, ready for a session.
pub(crate) enum Model {
    /// All of it.
    Bytes(Vec<u8>),
    /// The file where it lies, weights beside it.
    File(PathBuf),
}

/// What a session is made from: the user's own file where the cell wants it as it is, the graph
/// otherwise.
pub(crate) fn of(load: &Load, configuration: &Configuration) -> Result<Model, Outcome> {
    let precision = configuration.precision;
    if let Some(own) = own_file(load, configuration) {
        return Ok(Model::File(own.to_owned()));
    }
    let numbers = Numbers::of(load)?;
    let extensions = Extensions {
        multi_head_attention: configuration.fuses_attention,
    };
    write_within(
        LARGEST_MESSAGE_BYTES,
        &load.graph,
        precision,
        extensions,
        &numbers,
        &load.scratch,
    )
}

/// The user's own file, if it is run as it is: its floats have the cell's precision, and nothing of
/// it is spelt out.
pub(crate) fn own_file<'a>(load: &'a Load, configuration: &Configuration) -> Option<&'a Path> {
    let files = load.files.as_ref()?;
    let as_it_is = files.precision == configuration.precision && !configuration.unrolls;
    as_it_is.then_some(files.onnx.as_path())
}

/// Writes `graph` as ONNX: in memory, or to `scratch` where it is too large for one message.
fn write_within(
    largest_bytes: u64,
    graph: &Graph,
    precision: Precision,
    extensions: Extensions,
    numbers: &Numbers,
    scratch: &Path,
) -> Result<Model, Outcome> {
    let large = weight_bytes(graph, precision) > largest_bytes;
    let options = WriteOptions {
        opset: OPSET,
        precision,
        external: large.then(|| DATA_FILE.to_owned()),
        threshold: SMALLEST_EXTERNAL_BYTES,
    };
    let written = onnx::write_with(graph, &options, extensions, numbers)
        .map_err(|error| unsupported(error.to_string()))?;
    let Some(data) = written.data else {
        return Ok(Model::Bytes(written.model));
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
    Ok(Model::File(path))
}

fn weight_bytes(graph: &Graph, precision: Precision) -> u64 {
    let width = |parameter: &Parameter| match models::infer::parameter_element(parameter) {
        ElementType::Int64 => 8,
        ElementType::Float => match precision {
            Precision::Fp64 => 8,
            Precision::Fp32 | Precision::Tf32 => 4,
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

/// Makes the session: optimises the graph, places the weights.
pub(crate) fn commit(
    model: &Model,
    configuration: &Configuration,
    library: &Library,
) -> Result<Session, Outcome> {
    let mut builder = options(configuration, library)?;
    let session = match model {
        Model::Bytes(bytes) => builder.commit_from_memory(bytes),
        Model::File(path) => builder.commit_from_file(path),
    };
    session.map_err(|error| failed("session", &error))
}

fn options(configuration: &Configuration, library: &Library) -> Result<SessionBuilder, Outcome> {
    let set = || -> ort::Result<SessionBuilder> {
        let builder = Session::builder(&library.environment)?
            .with_optimization_level(configuration.optimization.level())?
            .with_intra_threads(configuration.threads)?
            .with_inter_threads(1)?
            .with_parallel_execution(false)?;
        if configuration.spins {
            Ok(builder)
        } else {
            Ok(builder.with_intra_op_spinning(false)?)
        }
    };
    let builder = set().map_err(|error| failed("session options", &error))?;
    configuration
        .provider
        .register(builder, configuration.precision, &library.path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn small() -> Graph {
        let dims = [("batch", 1), ("seq", 4)].map(|(name, size)| (name.to_owned(), size));
        models::zoo::build("bert_tiny", &BTreeMap::from(dims)).unwrap()
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
        assert!(matches!(within, Model::Bytes(message) if message.len() as u64 > bytes));
        let beyond = write(bytes - 1);
        let Model::File(path) = beyond else {
            panic!("one message");
        };
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(size(&path) < bytes / 10);
        assert!(size(&scratch.path().join(DATA_FILE)) > bytes * 9 / 10);
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
