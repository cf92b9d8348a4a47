//! Models of the user's: no cell is measured before ONNX Runtime, on the file itself, agrees with what
//! was read from it.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{collections::BTreeMap, fs};

use common::*;
use models::onnx::{self, File, WriteOptions};
use schema::{
    Cell, Heat, Model, ModelSource, Outcome, OutcomeKind, Plan, Precision,
    plan::{ManifestSource, PlannedCell},
    record::HeatResult,
};

/// A manifest's folder with a model.
struct Brought {
    folder: tempfile::TempDir,
    cell: Cell,
}

impl Brought {
    fn new() -> Self {
        Self::with("Softmax")
    }

    /// With an operator of this name in the place of one of the file's.
    fn with(operator: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dims = [("batch", 1), ("seq", 4)].map(|(name, size)| (name.to_owned(), size));
        let graph = models::zoo::build("bert_tiny", &BTreeMap::from(dims)).unwrap();
        let options = WriteOptions {
            opset: 17,
            precision: Precision::Fp32,
            external: None,
            threshold: 0,
        };
        let mut model = onnx::write(&graph, &options).unwrap().model;
        let (from, length) = (b"Softmax", operator.len());
        for at in 0..model.len() - length {
            if model[at..].starts_with(from) {
                model[at..at + length].copy_from_slice(operator.as_bytes());
            }
        }
        fs::write(folder.path().join("mine.onnx"), model).unwrap();
        let file = File::open(folder.path(), "mine.onnx").unwrap();
        let cell = Cell {
            model: Model {
                name: "mine.onnx".to_owned(),
                source: ModelSource::Onnx,
                graph: file.digest(),
                weights: None,
            },
            dims: BTreeMap::from([("batch".to_owned(), 1)]),
            ..cell("noop", 1)
        };
        Self { folder, cell }
    }

    /// A file with an operator that no graph has.
    fn outline() -> Self {
        Self::with("Sparsem")
    }

    fn plan(&self) -> Plan {
        let other = Cell {
            engine: cell("steady", 1).engine,
            ..self.cell.clone()
        };
        let cells: Vec<PlannedCell> = [self.cell.clone(), other].map(planned).into();
        let path = self.folder.path().join("jobs.yaml");
        Plan {
            manifests: vec![ManifestSource {
                path: path.to_str().unwrap().to_owned(),
                text: String::new(),
            }],
            ..plan(measure(), vec![("g", cells)])
        }
    }

    fn run(&self, track: &Track) -> (Heat, Diary) {
        let (record, diary) = track.run(&self.plan());
        (track.heat(&record, 0), diary)
    }
}

fn all(heat: &Heat, kind: OutcomeKind, words: &str) {
    assert_eq!(kinds(&heat.footer.outcomes), [kind; 2]);
    let says = |outcome: &Outcome| outcome.reason.contains(words);
    let outcomes = &heat.footer.outcomes;
    assert!(outcomes.iter().all(says), "{outcomes:?}");
}

#[test]
fn the_file_itself_is_a_witness() {
    let (track, brought) = (Track::new(), Brought::new());
    let (heat, diary) = brought.run(&track);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
    for parity in &heat.reference.parity {
        assert_eq!(
            parity.as_ref().unwrap().reference,
            "pytorch/eager fp64 on cpu"
        );
    }
    // Two cells, the reference, PyTorch at their precision, and the witness, once for both.
    assert_eq!(diary.count("Parity"), 5, "{:?}", diary.lines);
    assert_eq!(diary.count("Parity onnxruntime/cpu fp32"), 1);
    track.assert_deserted();
    // The weights are gone with the heat.
    let left = fs::read_dir(track.store.path().join("tmp"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

#[test]
fn a_witness_that_disagrees_says_that_the_file_was_misread() {
    let (mut track, brought) = (Track::new(), Brought::new());
    track.workers.witness_variant = Some("wrong_output");
    let (heat, diary) = brought.run(&track);
    all(
        &heat,
        OutcomeKind::ParityFailed,
        "our reading of the file comes to something else",
    );
    assert!(heat.blocks.is_empty());
    assert_eq!(diary.count("Parity onnxruntime/cpu fp32"), 1);
}

#[test]
fn without_a_witness_nothing_is_verified() {
    let (mut track, brought) = (Track::new(), Brought::new());
    track.workers.lacking = vec!["onnxruntime"];
    let (heat, _) = brought.run(&track);
    all(
        &heat,
        OutcomeKind::ParityUnverified,
        "no witness of the file itself",
    );
}

#[test]
fn a_file_that_no_graph_can_say_is_held_against_onnx_runtime() {
    let (track, brought) = (Track::new(), Brought::outline());
    let (heat, diary) = brought.run(&track);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
    for parity in &heat.reference.parity {
        let parity = parity.as_ref().unwrap();
        let reference = "onnxruntime/cpu fp32 on cpu, optimization off";
        assert_eq!(parity.reference, reference);
        let least = 32.0 * Precision::Fp32.unit_roundoff();
        assert!(
            (parity.eager_error / least - 1.0).abs() < 1e-9,
            "{parity:?}"
        );
        assert!((parity.bound / least - 10.0).abs() < 1e-6, "{parity:?}");
    }
    // Two cells, and ONNX Runtime twice: with its optimisation and without. PyTorch is not asked.
    assert_eq!(diary.count("Parity"), 4, "{:?}", diary.lines);
    assert_eq!(diary.count("Parity onnxruntime/cpu fp32"), 2);
    let asked = track.workers.asked.borrow();
    assert!(asked.iter().all(|engine| engine.engine != "pytorch"));
    track.assert_deserted();
}

#[test]
fn outputs_unlike_onnx_runtime_s_are_no_speed() {
    let (mut track, brought) = (Track::new(), Brought::outline());
    track.workers.witness_variant = Some("wrong_output");
    let (heat, _) = brought.run(&track);
    all(
        &heat,
        OutcomeKind::ParityFailed,
        "onnxruntime/cpu fp32 on cpu",
    );
    assert!(heat.blocks.is_empty());
}

#[test]
fn without_onnx_runtime_a_file_that_no_graph_can_say_is_not_verified() {
    let (mut track, brought) = (Track::new(), Brought::outline());
    track.workers.lacking = vec!["onnxruntime"];
    let (heat, _) = brought.run(&track);
    all(
        &heat,
        OutcomeKind::ParityUnverified,
        "no reference: onnxruntime/cpu",
    );
}

/// The plan's heat is not reached, for this reason.
fn unreached(track: &Track, plan: &Plan, words: &str) {
    let (record, _) = track.run(plan);
    let HeatResult::NotReached(reason) = &record.heats[0].heat else {
        panic!("{:?}", record.heats);
    };
    assert!(reason.contains(words), "{reason}");
}

#[test]
fn a_file_that_changed_since_the_plan_is_not_run() {
    let (track, brought) = (Track::new(), Brought::new());
    let path = brought.folder.path().join("mine.onnx");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    unreached(
        &track,
        &brought.plan(),
        "has changed since the plan was made",
    );
    // Nothing was sealed that would answer for the file that the plan was made for.
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (heat, _) = brought.run(&track);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
}

#[test]
fn a_file_that_became_a_link_is_not_followed() {
    let (track, brought) = (Track::new(), Brought::new());
    let path = brought.folder.path().join("mine.onnx");
    let away = brought.folder.path().join("away.onnx");
    fs::rename(&path, &away).unwrap();
    std::os::unix::fs::symlink(&away, &path).unwrap();
    unreached(&track, &brought.plan(), "through a link");
}

#[test]
fn a_plan_without_its_manifest_finds_no_file() {
    let (track, brought) = (Track::new(), Brought::new());
    let mut plan = brought.plan();
    plan.manifests.clear();
    unreached(&track, &plan, "no manifest that is a file");
}
