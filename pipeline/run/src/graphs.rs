//! The graphs of a heat's cells, each built once.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

use models::onnx;
use schema::{
    Cell, Digest, Graph, ModelSource, Outcome, OutcomeKind,
    plan::{ManifestSource, PlannedCell},
    protocol::ModelFiles,
};
use tempfile::TempDir;

use crate::{context::Context, error::Stop};

/// The graphs of a heat's cells, and the weights of models of the user's, which are removed with
/// them.
pub(crate) struct Graphs {
    prepared: BTreeMap<Digest, Result<Prepared, Outcome>>,
    _folder: Option<TempDir>,
}

/// What a worker needs to build a network.
pub(crate) struct Prepared {
    pub(crate) graph: Graph,
    pub(crate) files: Option<ModelFiles>,
}

impl Graphs {
    pub(crate) fn of(
        context: &Context<'_>,
        manifests: &[ManifestSource],
        cells: &[PlannedCell],
    ) -> Result<Self, Stop> {
        let has_file = |planned: &PlannedCell| planned.cell.model.source == ModelSource::Onnx;
        let folder = match cells.iter().any(has_file) {
            true => Some(context.store.scratch()?),
            false => None,
        };
        let mut prepared = BTreeMap::new();
        for planned in cells {
            let count = prepared.len();
            prepared.entry(key(&planned.cell)).or_insert_with(|| {
                match (planned.cell.model.source, &folder) {
                    (ModelSource::Onnx, Some(folder)) => {
                        let weights = folder.path().join(format!("weights-{count}"));
                        from_file(&planned.cell, manifests, &weights)
                    }
                    _ => from_zoo(&planned.cell),
                }
            });
        }
        if folder.is_some() {
            // A disk that is full now is no fault of the model's.
            context.store.check_room()?;
        }
        Ok(Self {
            prepared,
            _folder: folder,
        })
    }

    /// The network of a cell, or of the reference for a cell, which is the same.
    pub(crate) fn get(&self, cell: &Cell) -> Result<&Prepared, Outcome> {
        match self.prepared.get(&key(cell)) {
            Some(Ok(prepared)) => Ok(prepared),
            Some(Err(outcome)) => Err(outcome.clone()),
            None => Err(Outcome::new(
                OutcomeKind::Unsupported,
                "the heat has no such model",
            )),
        }
    }
}

fn key(cell: &Cell) -> Digest {
    Digest::of_value(&(&cell.model, &cell.dims, cell.mode))
}

fn from_zoo(cell: &Cell) -> Result<Prepared, Outcome> {
    let graph = models::resolve(&cell.model, &cell.dims, cell.mode)
        .map_err(|error| Outcome::new(OutcomeKind::Unsupported, error.to_string()))?;
    Ok(Prepared { graph, files: None })
}

/// Reads the user's file once more, and puts its weights where workers find them.
fn from_file(
    cell: &Cell,
    manifests: &[ManifestSource],
    weights: &Path,
) -> Result<Prepared, Outcome> {
    let model = &cell.model;
    let file = find(cell, manifests)?;
    let reading = file.read(&cell.dims).map_err(|error| {
        Outcome::new(
            OutcomeKind::Unsupported,
            format!("`{}`: {error}", model.name),
        )
    })?;
    let unavailable = |what: &str, error: std::io::Error| {
        let reason = format!("`{}`: {what}: {error}", model.name);
        Outcome::new(OutcomeKind::Unavailable, reason)
    };
    let written = File::create_new(weights).and_then(|out| {
        let mut out = BufWriter::new(out);
        reading.write_weights(&mut out)?;
        out.flush()
    });
    written
        .map_err(|error| unavailable("its weights cannot be put down for the workers", error))?;
    let onnx = std::path::absolute(file.path())
        .map_err(|error| unavailable("its place is not known", error))?;
    Ok(Prepared {
        graph: reading.graph,
        files: Some(ModelFiles {
            weights: weights.to_owned(),
            onnx,
            precision: file.precision(),
        }),
    })
}

/// The file that the plan was made for: beside one of its manifests, by the name that it has there,
/// with the content that it had.
fn find(cell: &Cell, manifests: &[ManifestSource]) -> Result<onnx::File, Outcome> {
    let model = &cell.model;
    let mut reason = "the plan has no manifest that is a file".to_owned();
    for folder in manifests.iter().filter_map(ManifestSource::folder) {
        match onnx::File::open(folder, &model.name) {
            Ok(file) if file.digest() == model.graph => return Ok(file),
            Ok(_) => reason = "it has changed since the plan was made; plan again".to_owned(),
            Err(error) => reason = error.to_string(),
        }
    }
    let reason = format!("the model `{}` is not there: {reason}", model.name);
    Err(Outcome::new(OutcomeKind::Unavailable, reason))
}
