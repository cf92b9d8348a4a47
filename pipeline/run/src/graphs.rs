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
    quantise::{Form, calibrate::Method},
    rewrite::{self, Rewriting},
};
use schema::{
    Cell, Digest, Graph, ModelSource, Outcome, OutcomeKind, Precision, Weights,
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
    pub(crate) form: Form,
    pub(crate) method: Method,
}

impl Quantisation {
    /// What a cell asks for; `None` where it is not one of integers.
    pub(crate) fn asked_by(cell: &Cell) -> Option<Self> {
        Form::of(cell).map(|form| Self {
            form,
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

fn network(cell: &Cell) -> Digest {
    Digest::of_value(&(&cell.model, &cell.dims, cell.mode))
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
    let graph = models::resolve(&cell.model, &cell.dims, cell.mode).map_err(unsupported)?;
    Ok(Prepared { graph, files: None })
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
mod tests {
    use models::{quantise, zoo};
    use schema::{Model, ModelSource, Precision, graph::Role};

    use super::*;

    /// A cell of the LSTM language model with this value of `recurrent`.
    fn planned(recurrent: &str) -> PlannedCell {
        let dims = zoo::resolve_dims("lstm_lm", &[("seq".to_owned(), 3)].into()).unwrap();
        let graph = zoo::build("lstm_lm", &dims).unwrap();
        let cell = Cell {
            dims,
            factors: [(rewrite::RECURRENT.to_owned(), recurrent.to_owned())].into(),
            ..Cell::plain(&graph, "any/any".parse().unwrap())
        };
        PlannedCell {
            id: cell.id(),
            coordinates: BTreeMap::new(),
            twin_of: None,
            obstacle: None,
            predicted_step_ns: 1,
            predicted_bytes: 1,
            flops: 1,
            bytes: 1,
            parameters: 1,
            cell,
        }
    }

    /// A manifest that lies in a folder.
    fn manifest(folder: &Path) -> ManifestSource {
        ManifestSource {
            path: folder.join("jobs.yaml").to_string_lossy().into_owned(),
            text: String::new(),
        }
    }

    fn of(planned: &PlannedCell) -> Graphs {
        Graphs {
            prepared: prepare(&[], std::slice::from_ref(planned), None),
            onnx: RefCell::default(),
            folder: None,
            logs: BTreeMap::new(),
        }
    }

    #[test]
    fn a_cell_gets_the_form_it_asks_for_and_the_reference_the_model_s_own() {
        let [long, own] = ["unrolled", "fused"].map(planned);
        // The heat has nothing but the spelt-out form; its reference is the model's own.
        let graphs = of(&long);
        let layers = |cell: &Cell| {
            let nodes = graphs.get(cell).unwrap().graph.nodes.iter();
            nodes
                .filter(|node| rewrite::decides(rewrite::RECURRENT, &node.op))
                .count()
        };
        assert_eq!((layers(&long.cell), layers(&own.cell)), (0, 2));
    }

    /// As an engine that has no kernel for recurrent layers needs it.
    #[test]
    fn a_file_of_the_user_s_is_spelt_out_over_the_same_numbers() {
        let source = planned("unrolled").cell;
        let graph = models::resolve(&source.model, &source.dims, source.mode).unwrap();
        let options = onnx::WriteOptions {
            opset: 21,
            precision: Precision::Fp32,
            external: None,
            threshold: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        let written = onnx::write(&graph, &options).unwrap();
        fs::write(folder.path().join("words.onnx"), written.model).unwrap();
        let file = onnx::File::open(folder.path(), "words.onnx").unwrap();
        let mut planned = planned("unrolled");
        planned.cell.model = Model {
            name: "words.onnx".to_owned(),
            source: ModelSource::Onnx,
            graph: file.digest(),
            weights: None,
        };
        planned.cell.dims = BTreeMap::from([("batch".to_owned(), 1)]);
        let manifest = manifest(folder.path());
        let scratch = tempfile::tempdir().unwrap();
        let cells = std::slice::from_ref(&planned);
        let prepared = prepare(&[manifest], cells, Some(scratch.path()));
        let get = |rewriting| {
            let key = (network(&planned.cell), rewriting, None);
            prepared.get(&key).unwrap().as_ref().unwrap()
        };
        let [own, long] = [Rewriting::default(), asked(&planned.cell)].map(get);
        let layers = |prepared: &Prepared| {
            let nodes = prepared.graph.nodes.iter();
            nodes
                .filter(|node| rewrite::decides(rewrite::RECURRENT, &node.op))
                .count()
        };
        assert_eq!((layers(own), layers(long)), (2, 0));
        let weights = |prepared: &Prepared| prepared.files.as_ref().unwrap().weights.clone();
        assert_eq!(weights(own), weights(long));
        // The weights once, and a copy of the file.
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
        // The witness is not among the cells, and has its engine's own factors.
        let mut witness = planned.cell.clone();
        let forms = [(rewrite::RECURRENT, "fused"), (rewrite::ATTENTION, "plain")];
        witness.factors = forms
            .map(|(name, form)| (name.to_owned(), form.to_owned()))
            .into();
        assert_eq!(asked(&witness), Rewriting::default());
    }

    #[test]
    fn a_network_of_the_zoo_takes_the_user_s_weights() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own.safetensors");
        let source = planned("fused").cell;
        let graph = models::resolve(&source.model, &source.dims, source.mode).unwrap();
        let content = models::sample::safetensors(&graph, 1.0).unwrap();
        fs::write(&own, &content).unwrap();
        let manifests = [manifest(folder.path())];
        let trained = ["fused", "unrolled"].map(|form| {
            let mut planned = planned(form);
            planned.cell.model.weights = Some(Weights {
                path: "own.safetensors".to_owned(),
                content: Digest::of_bytes(&content),
            });
            planned
        });
        let scratch = tempfile::tempdir().unwrap();
        let cells = [&trained[..], &[planned("fused")]].concat();
        let prepare = || Graphs {
            prepared: prepare(&manifests, &cells, Some(scratch.path())),
            onnx: RefCell::default(),
            folder: None,
            logs: BTreeMap::new(),
        };
        let graphs = prepare();
        for planned in &trained {
            let prepared = graphs.get(&planned.cell).unwrap();
            let numbers =
                models::Numbers::open(prepared.files.as_ref().map(|files| files.weights.as_path()));
            let numbers = numbers.unwrap();
            let held = prepared.graph.parameters.iter();
            for weight in held.filter(|parameter| parameter.role != Role::Constant) {
                let held = numbers.floats(weight).unwrap();
                let are_ones = held.iter().all(|&number| number == 1.0);
                assert!(are_ones, "{}", weight.name);
            }
        }
        assert!(graphs.get(&cells[2].cell).unwrap().files.is_none());
        // The plan was made for other numbers.
        let mut other = content;
        *other.last_mut().unwrap() ^= 1;
        fs::write(&own, &other).unwrap();
        fs::remove_dir_all(scratch.path()).unwrap();
        fs::create_dir(scratch.path()).unwrap();
        let refused = prepare();
        let outcome = refused.get(&trained[0].cell).err().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
        assert!(
            outcome
                .reason
                .contains("has changed since the plan was made"),
            "{outcome:?}"
        );
        assert!(refused.get(&cells[2].cell).is_ok());
    }

    #[test]
    fn grids_are_as_the_cell_wants_them() {
        let cell = |precision, grid: &str| {
            let mut cell = planned("unrolled").cell;
            cell.precision = precision;
            let grid = [(quantise::GRID.to_owned(), grid.to_owned())];
            cell.factors.extend(grid);
            cell
        };
        let form = |cell: &Cell| Quantisation::asked_by(cell).map(|asked| asked.form);
        let [static_, dynamic] = [Precision::Int8Static, Precision::Int8Dynamic];
        let symmetric = cell(static_, quantise::SYMMETRIC);
        assert_eq!(form(&symmetric), Some(Form::Symmetric));
        assert_eq!(quantise::check(&symmetric), Ok(()));
        let asymmetric = cell(static_, quantise::ASYMMETRIC);
        assert_eq!(form(&asymmetric), Some(Form::Asymmetric));
        let silent = Cell {
            factors: BTreeMap::new(),
            ..symmetric
        };
        assert_eq!(form(&silent), Some(Form::Asymmetric));
        let unknown = quantise::check(&cell(static_, "crooked")).unwrap_err();
        assert!(
            unknown.contains("known: `asymmetric`, `symmetric`"),
            "{unknown}"
        );
        let idle = quantise::check(&cell(dynamic, quantise::SYMMETRIC)).unwrap_err();
        assert!(idle.contains("no part in int8-dynamic"), "{idle}");
    }

    #[test]
    fn onnx_is_written_once_for_each_form_and_precision() {
        let [long, own] = ["unrolled", "fused"].map(planned);
        let graphs = Graphs {
            folder: Some(tempfile::tempdir().unwrap()),
            prepared: prepare(&[], &[long.clone(), own.clone()], None),
            onnx: RefCell::default(),
            logs: BTreeMap::new(),
        };
        let written = |cell: &Cell, precision| {
            let load = Load {
                cell: Cell {
                    precision,
                    ..cell.clone()
                },
                graph: graphs.get(cell).unwrap().graph.clone(),
                files: None,
                scratch: "/nonexistent".into(),
            };
            graphs.onnx(&load).unwrap().onnx.unwrap()
        };
        let first = written(&own.cell, Precision::Fp32);
        let bytes = fs::read(&first).unwrap();
        fs::remove_file(&first).unwrap();
        assert_eq!(written(&own.cell, Precision::Fp32), first);
        assert!(!first.exists(), "it was written again");
        let half = fs::read(written(&own.cell, Precision::Fp16)).unwrap();
        assert!(half.len() < bytes.len() * 6 / 10);
        assert_ne!(
            fs::read(written(&long.cell, Precision::Fp32)).unwrap(),
            bytes
        );
        let refused = of(&own);
        let load = Load {
            cell: own.cell.clone(),
            graph: refused.get(&own.cell).unwrap().graph.clone(),
            files: None,
            scratch: "/nonexistent".into(),
        };
        assert_eq!(
            refused.onnx(&load).unwrap_err().kind,
            OutcomeKind::Unavailable
        );
    }

    #[test]
    fn a_form_that_is_too_large_is_unsupported_and_says_so() {
        let mut planned = planned("unrolled");
        planned.cell.model.name = "deepspeech2".to_owned();
        planned.cell.dims =
            zoo::resolve_dims("deepspeech2", &[("frames".to_owned(), 4000)].into()).unwrap();
        let graph = zoo::build("deepspeech2", &planned.cell.dims).unwrap();
        planned.cell.model.graph = Digest::of_value(&graph);
        let graphs = of(&planned);
        let outcome = graphs.get(&planned.cell).err().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(outcome.reason.contains("shorter sequence"), "{outcome:?}");
    }
}
