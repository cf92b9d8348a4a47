//! The graphs of a heat's cells, each built once.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use models::{
    Checkpoint, onnx,
    quantise::{Grids, calibrate::Method},
    rewrite::{self, Rewriting},
};
use schema::{
    BATCH, Cell, Digest, Graph, ModelSource, Outcome, OutcomeKind, Precision, Strategy, Weights,
    graph::Loss,
    plan::{ManifestSource, PlannedCell},
    protocol::{Load, ModelFiles},
};
use tempfile::TempDir;

use crate::{context::Context, error::Stop};

/// A network at its sizes, what is spelt out of it, and how it is quantised.
type Key = (Digest, Rewriting, Option<Quantisation>);

/// How a network is quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantisation {
    pub(crate) grids: Grids,
    pub(crate) method: Method,
}

impl Quantisation {
    /// What a cell asks for; `None` where it is not one of integers.
    pub(crate) fn asked_by(cell: &Cell) -> Option<Self> {
        Grids::of(cell).map(|grids| Self {
            grids,
            method: Method::asked_by(&cell.factors),
        })
    }
}

/// The graphs of a heat's cells, and the files that were made of them, which are removed with them.
pub(crate) struct Graphs {
    prepared: BTreeMap<Key, Result<Prepared, Outcome>>,
    /// What was written as ONNX, by what was written and in which precision.
    onnx: RefCell<BTreeMap<(Digest, Precision), Result<ModelFiles, Outcome>>>,
    /// What is put down for workers; removed in the end.
    folder: Option<TempDir>,
    /// Logs of calibrations that failed.
    logs: BTreeMap<Key, String>,
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
        let has_file = |planned: &PlannedCell| {
            let cell = &planned.cell;
            cell.model.source == ModelSource::Onnx
                || cell.model.weights.is_some()
                || cell.precision.is_int8()
                || context.workers.takes_onnx(&cell.engine)
        };
        let folder = match cells.iter().any(has_file) {
            true => Some(context.store.scratch()?),
            false => None,
        };
        let prepared = prepare(manifests, cells, folder.as_ref().map(TempDir::path));
        if folder.is_some() {
            // A disk that is full now is no fault of the model's.
            context.store.check_room()?;
        }
        let mut failures = prepared.values().filter_map(|made| made.as_ref().err());
        if let Some(missing) = failures.find(|outcome| outcome.kind == OutcomeKind::Unavailable) {
            return Err(Stop::Later(missing.reason.clone()));
        }
        Ok(Self {
            prepared,
            onnx: RefCell::default(),
            folder,
            logs: BTreeMap::new(),
        })
    }

    /// The network of a cell before it is quantised, where that is still to be done, and a name for
    /// the file of what that makes.
    pub(crate) fn unquantised(&self, cell: &Cell) -> Option<(&Prepared, PathBuf)> {
        Quantisation::asked_by(cell)?;
        if self.prepared.contains_key(&key(cell)) {
            return None;
        }
        let floats = (network(cell), asked(cell), None);
        let network = self.prepared.get(&floats)?.as_ref().ok()?;
        let name = format!("quantised-{}", self.prepared.len());
        Some((network, self.folder.as_ref()?.path().join(name)))
    }

    /// Keeps the network of a cell as it was quantised, or why it was not, with the log of the launch
    /// that decided.
    pub(crate) fn keep(
        &mut self,
        cell: &Cell,
        made: Result<Prepared, Outcome>,
        log: Option<String>,
    ) {
        self.logs.extend(log.map(|log| (key(cell), log)));
        self.prepared.insert(key(cell), made);
    }

    /// The log of the launch for lack of which a cell has no network, if there was one.
    pub(crate) fn log(&self, cell: &Cell) -> Option<String> {
        self.logs.get(&key(cell)).cloned()
    }

    /// The network of a cell, or of the reference for a cell.
    pub(crate) fn get(&self, cell: &Cell) -> Result<&Prepared, Outcome> {
        let floats = (network(cell), asked(cell), None);
        let found = self.prepared.get(&key(cell));
        match found.or_else(|| self.prepared.get(&floats)) {
            Some(Ok(_)) if found.is_none() => Err(Outcome::new(
                OutcomeKind::Unsupported,
                "the heat has the model in floats alone",
            )),
            Some(Ok(prepared)) => Ok(prepared),
            Some(Err(outcome)) => Err(outcome.clone()),
            None => Err(Outcome::new(
                OutcomeKind::Unsupported,
                "the heat has no such model",
            )),
        }
    }

    /// The network of a cell as the model has it, with nothing spelt out.
    pub(crate) fn own(&self, cell: &Cell) -> Option<&Graph> {
        let own = (network(cell), Rewriting::default(), None);
        let own = self.prepared.get(&own)?.as_ref().ok()?;
        Some(&own.graph)
    }

    /// The network of a request to load as an ONNX file in the cell's precision. It is written when
    /// it is asked for the first time, which is before anything is measured.
    pub(crate) fn onnx(&self, load: &Load) -> Result<ModelFiles, Outcome> {
        let mut written = self.onnx.borrow_mut();
        let network = Digest::of_value(&(&load.graph, &load.files));
        let number = written.len();
        let files = written
            .entry((network, load.cell.precision))
            .or_insert_with(|| self.write(load, number));
        files.clone()
    }

    fn write(&self, load: &Load, number: usize) -> Result<ModelFiles, Outcome> {
        let unavailable = |reason: String| Outcome::new(OutcomeKind::Unavailable, reason);
        let folder = self.folder.as_ref();
        let folder = folder.ok_or_else(|| unavailable("there is no folder for ONNX".to_owned()))?;
        let folder = folder.path().join(format!("onnx-{number}"));
        fs::create_dir(&folder)
            .map_err(|error| unavailable(format!("{}: {error}", folder.display())))?;
        onnx::Document::files(load, &folder)
    }
}

/// Every network that the cells and their references run; weights of users go to files in `folder`.
fn prepare(
    manifests: &[ManifestSource],
    cells: &[PlannedCell],
    folder: Option<&Path>,
) -> BTreeMap<Key, Result<Prepared, Outcome>> {
    let mut prepared = BTreeMap::new();
    for PlannedCell { cell, .. } in cells {
        // The reference runs the network as the model has it.
        let own = (network(cell), Rewriting::default(), None);
        if !prepared.contains_key(&own) {
            let weights = folder.map(|folder| folder.join(format!("weights-{}", prepared.len())));
            let made = match (cell.model.source, &cell.model.weights, weights) {
                (ModelSource::Onnx, _, Some(weights)) => from_file(cell, manifests, &weights),
                (ModelSource::Zoo, Some(own), Some(weights)) => {
                    trained(cell, own, manifests, &weights)
                }
                _ => from_zoo(cell),
            };
            prepared.insert(own, made);
        }
        let rewriting = asked(cell);
        let asked = (own.0, rewriting, None);
        if !prepared.contains_key(&asked)
            && let Some(own) = prepared.get(&own)
        {
            let made = own.as_ref().map_err(Outcome::clone);
            let made = made.and_then(|own| own.rewritten(rewriting));
            prepared.insert(asked, made);
        }
    }
    prepared
}

/// What tells the networks of cells apart: one that is fed a part of the batch is another than one that is
/// fed all of it.
fn network(cell: &Cell) -> Digest {
    Digest::of_value(&(&cell.model, cell.part_dims(), cell.mode))
}

fn key(cell: &Cell) -> Key {
    (network(cell), asked(cell), Quantisation::asked_by(cell))
}

/// What is spelt out for a cell. The reader of users' files makes no attention that could be,
/// whatever an engine's factor is by default.
fn asked(cell: &Cell) -> Rewriting {
    let mut factors = cell.factors.clone();
    if cell.model.source == ModelSource::Onnx {
        factors.remove(rewrite::ATTENTION);
    }
    Rewriting::asked_by(&factors)
}

impl Prepared {
    /// The network with more of it spelt out. The numbers stay where they are.
    fn rewritten(&self, rewriting: Rewriting) -> Result<Self, Outcome> {
        let graph = rewriting.apply(self.graph.clone()).map_err(unsupported)?;
        let files = self.files.clone();
        Ok(Self { graph, files })
    }
}

fn unsupported(error: models::ModelError) -> Outcome {
    Outcome::new(OutcomeKind::Unsupported, error.to_string())
}

fn from_zoo(cell: &Cell) -> Result<Prepared, Outcome> {
    let planned = models::resolve(&cell.model, &cell.dims, cell.mode).map_err(unsupported)?;
    if cell.strategy == Strategy::Single && cell.passes() == 1 {
        return Ok(Prepared {
            graph: planned,
            files: None,
        });
    }
    let dims = cell.part_dims().ok_or_else(|| {
        let (batch, parts) = (cell.batch(), cell.parts());
        let reason = format!("a batch of {batch} does not fall into {parts} equal parts");
        Outcome::new(OutcomeKind::Unsupported, reason)
    })?;
    let mut of_all = dims.clone();
    of_all.insert(BATCH.to_owned(), cell.samples());
    let build = |dims| models::zoo::build_for(&cell.model.name, dims, cell.mode);
    let (part, whole) = (build(&dims), build(&of_all));
    let (part, whole) = (part.map_err(unsupported)?, whole.map_err(unsupported)?);
    check_parts(cell, &whole, &part)?;
    Ok(Prepared {
        graph: part,
        files: None,
    })
}

/// Whether what the whole network is fed is what so many of its parts are fed, one after another in the
/// first dimension.
fn check_parts(cell: &Cell, whole: &Graph, part: &Graph) -> Result<(), Outcome> {
    let Some(Loss::CrossEntropy { labels, .. }) = &whole.loss else {
        let reason = format!("{} has no loss to train with", whole.name);
        return Err(Outcome::new(OutcomeKind::Unsupported, reason));
    };
    let of_part = part.loss.iter().map(|loss| {
        let Loss::CrossEntropy { labels, .. } = loss;
        labels
    });
    let fed = (whole.inputs.iter().chain([labels])).zip(part.inputs.iter().chain(of_part));
    let times = u64::from(cell.world_size).saturating_mul(cell.passes().into());
    for (whole, part) in fed {
        let rows = part.shape.first().map(|rows| rows.saturating_mul(times));
        if rows.as_ref() != whole.shape.first() || whole.shape.get(1..) != part.shape.get(1..) {
            let reason = format!(
                "`{}` of {} does not fall into parts along its first dimension",
                whole.name, cell.model.name
            );
            return Err(Outcome::new(OutcomeKind::Unsupported, reason));
        }
    }
    Ok(())
}

/// A network of the zoo with the user's weights, which are put where workers find them.
fn trained(
    cell: &Cell,
    own: &Weights,
    manifests: &[ManifestSource],
    weights: &Path,
) -> Result<Prepared, Outcome> {
    let Prepared { graph, .. } = from_zoo(cell)?;
    let checkpoint = find(
        &own.path,
        own.content,
        manifests,
        Checkpoint::open,
        |found| found.digest(),
    )?;
    let reading = checkpoint.read(graph).map_err(|error| {
        let reason = format!("`{}`: {error}", own.path);
        Outcome::new(OutcomeKind::Unsupported, reason)
    })?;
    let refused = |reason: String| {
        let reason = format!("`{}`: {reason}", own.path);
        Outcome::new(OutcomeKind::Unsupported, reason)
    };
    let not_finite = reading
        .first_not_finite()
        .map_err(|error| refused(format!("it cannot be read: {error}")))?;
    if let Some(name) = not_finite {
        return Err(refused(format!(
            "of its numbers for `{name}` one is not finite in single precision, and nothing can be \
             compared that comes of it"
        )));
    }
    write_weights(&own.path, Some(&reading), weights)?;
    // Numbers that the plan was not made for would be measured under its keys.
    if !checkpoint.is_unchanged() {
        let reason = format!("`{}` has changed while it was copied", own.path);
        return Err(Outcome::new(OutcomeKind::Unavailable, reason));
    }
    Ok(Prepared {
        graph: reading.graph,
        files: Some(ModelFiles {
            weights: weights.to_owned(),
            onnx: None,
            precision: Precision::Fp32,
        }),
    })
}

/// Puts the numbers that were read, if any, where workers find them.
fn write_weights(name: &str, reading: Option<&onnx::Reading>, to: &Path) -> Result<(), Outcome> {
    let written = File::create_new(to).and_then(|out| {
        let mut out = BufWriter::new(out);
        if let Some(reading) = reading {
            reading.write_weights(&mut out)?;
        }
        out.flush()
    });
    written.map_err(|error| {
        let what = "its weights cannot be put down for the workers";
        Outcome::new(
            OutcomeKind::Unavailable,
            format!("`{name}`: {what}: {error}"),
        )
    })
}

/// Reads the user's file once more, and puts its weights where workers find them.
fn from_file(
    cell: &Cell,
    manifests: &[ManifestSource],
    weights: &Path,
) -> Result<Prepared, Outcome> {
    let model = &cell.model;
    let file = find(
        &model.name,
        model.graph,
        manifests,
        onnx::File::open,
        |found| found.digest(),
    )?;
    let refused = |error: onnx::ReadError| {
        let reason = format!("`{}`: {error}", model.name);
        Outcome::new(OutcomeKind::Unsupported, reason)
    };
    // Of a file with operators that no graph has, the outline; its weights stay in it.
    let (graph, reading) = match file.read(&cell.dims) {
        Ok(reading) => (reading.graph.clone(), Some(reading)),
        Err(onnx::ReadError::Unsupported { .. }) => {
            (file.outline(&cell.dims).map_err(refused)?.graph, None)
        }
        Err(error) => return Err(refused(error)),
    };
    write_weights(&model.name, reading.as_ref(), weights)?;
    // Engines that read ONNX open it in every launch, and shall find what was read here.
    let folder = weights.with_extension("onnx");
    let copied = fs::create_dir(&folder).and_then(|()| file.copy_to(&folder));
    let onnx = copied.map_err(|error| {
        let reason = format!(
            "`{}` cannot be put down for the workers: {error}",
            model.name
        );
        Outcome::new(OutcomeKind::Unavailable, reason)
    })?;
    Ok(Prepared {
        graph,
        files: Some(ModelFiles {
            weights: weights.to_owned(),
            onnx: Some(onnx),
            precision: file.precision(),
        }),
    })
}

/// The file that the plan was made for: beside one of its manifests, by the name that it has there,
/// with the content that it had.
fn find<T>(
    path: &str,
    content: Digest,
    manifests: &[ManifestSource],
    open: impl Fn(&Path, &str) -> Result<T, onnx::ReadError>,
    digest: impl Fn(&T) -> Digest,
) -> Result<T, Outcome> {
    let mut reason = "the plan has no manifest that is a file".to_owned();
    for folder in manifests.iter().filter_map(ManifestSource::folder) {
        match open(folder, path) {
            Ok(file) if digest(&file) == content => return Ok(file),
            Ok(_) => reason = "it has changed since the plan was made; plan again".to_owned(),
            Err(error) => reason = error.to_string(),
        }
    }
    let reason = format!("`{path}` cannot be used: {reason}");
    Err(Outcome::new(OutcomeKind::Unavailable, reason))
}

#[cfg(test)]
mod tests;
