//! Networks on grids of integers: ranges are found once a heat, and failing that the cells that need
//! them end, and no others.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::*;
use models::quantise::CALIBRATION;
use schema::{Cell, Heat, OutcomeKind, Precision, plan::PlannedCell};

fn at(precision: Precision, variant: &str) -> PlannedCell {
    planned(Cell {
        precision,
        ..cell(variant, 1)
    })
}

/// A heat of these cells.
fn run(track: &Track, cells: Vec<PlannedCell>) -> (Heat, Diary) {
    let (record, diary) = track.run(&plan(measure(), vec![("g", cells)]));
    (track.heat(&record, 0), diary)
}

fn by_precision() -> Vec<PlannedCell> {
    let precisions = [
        Precision::Fp32,
        Precision::Int8Static,
        Precision::Int8Dynamic,
    ];
    precisions.map(|precision| at(precision, "noop")).into()
}

#[test]
fn ranges_are_found_once_and_rows_are_counted_in_integers_alone() {
    let track = Track::new();
    let mut cells = by_precision();
    // The same network on the same grids, and one on others.
    cells.push(at(Precision::Int8Static, "steady"));
    let (heat, diary) = run(&track, cells);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 4]);
    assert_eq!(
        diary.count("Calibration pytorch/eager fp32"),
        1,
        "{:?}",
        diary.lines
    );
    let rows: Vec<_> = heat
        .reference
        .parity
        .iter()
        .map(|parity| parity.as_ref().unwrap().top1)
        .map(|top1| top1.map(|top1| (top1.agreeing, top1.rows)))
        .collect();
    assert_eq!(rows[0], None);
    assert!(
        rows[1].is_some_and(|(agreeing, rows)| agreeing == rows && rows > 0),
        "{rows:?}"
    );
    // Each form has a simulation of its own, and the reference is one for all.
    for (simulation, count) in [("fp64", 1), ("int8-static", 1), ("int8-dynamic", 1)] {
        let line = format!("Parity pytorch/eager {simulation}");
        assert_eq!(diary.count(&line), count, "{:?}", diary.lines);
    }
    // A network of the zoo has no file, though its quantised form has numbers in one.
    assert_eq!(diary.count("Parity onnxruntime"), 0, "{:?}", diary.lines);
    track.assert_deserted();
    let left = std::fs::read_dir(track.store.path().join("tmp")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn each_method_finds_ranges_of_its_own() {
    let track = Track::new();
    let cells = ["minmax", "percentile"].map(|method| {
        let mut cell = cell("noop", 1);
        cell.precision = Precision::Int8Static;
        cell.factors
            .insert(CALIBRATION.to_owned(), method.to_owned());
        planned(cell)
    });
    let (heat, diary) = run(&track, cells.into());
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
    assert_eq!(diary.count("Calibration"), 2, "{:?}", diary.lines);
}

#[test]
fn a_cell_that_cannot_run_needs_no_ranges() {
    let track = Track::new();
    let mut cells = by_precision();
    cells[1].obstacle = Some(schema::Outcome::new(OutcomeKind::Unsupported, "no"));
    let (_, diary) = run(&track, cells);
    assert_eq!(diary.count("Calibration"), 0, "{:?}", diary.lines);
}

#[test]
fn without_ranges_only_the_cells_that_need_them_end() {
    let mut track = Track::new();
    track.workers.lacking = vec!["pytorch"];
    let (heat, _) = run(&track, by_precision());
    let outcome = &heat.footer.outcomes[1];
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome
            .reason
            .contains("no calibration: pytorch/eager fp32 on cpu"),
        "{outcome:?}"
    );
    assert_eq!(heat.footer.outcomes[2].kind, OutcomeKind::ParityUnverified);
    track.workers.lacking.clear();
    track.workers.reference_variant = Some("exit_at_start");
    let mut cells = by_precision();
    cells.remove(0);
    let (heat, _) = run(&track, cells);
    let outcome = &heat.footer.outcomes[0];
    assert!(outcome.reason.contains("ended crashed"), "{outcome:?}");
}

#[test]
fn a_file_of_the_user_s_is_quantised_behind_its_own_weights() {
    use models::onnx::{self, File, WriteOptions};
    use schema::{Model, ModelSource, plan::ManifestSource};

    let track = Track::new();
    let folder = tempfile::tempdir().unwrap();
    let dims = [("batch".to_owned(), 1), ("seq".to_owned(), 4)].into();
    let graph = models::zoo::build("bert_tiny", &dims).unwrap();
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let model = onnx::write(&graph, &options).unwrap().model;
    std::fs::write(folder.path().join("mine.onnx"), model).unwrap();
    let file = File::open(folder.path(), "mine.onnx").unwrap();
    let cells = by_precision().into_iter().map(|planned| {
        let mut cell = planned.cell;
        cell.dims = [("batch".to_owned(), 1)].into();
        cell.model = Model {
            name: "mine.onnx".to_owned(),
            source: ModelSource::Onnx,
            graph: file.digest(),
        };
        common::planned(cell)
    });
    let mut plan = plan(measure(), vec![("g", cells.collect())]);
    let path = folder.path().join("jobs.yaml");
    plan.manifests = vec![ManifestSource {
        path: path.to_str().unwrap().to_owned(),
        text: String::new(),
    }];
    let (record, diary) = track.run(&plan);
    let heat = track.heat(&record, 0);
    assert_eq!(
        kinds(&heat.footer.outcomes),
        [OutcomeKind::Measured; 3],
        "{:?}",
        heat.footer
    );
    assert_eq!(diary.count("Calibration"), 1, "{:?}", diary.lines);
    assert_eq!(
        diary.count("Parity onnxruntime/cpu fp32"),
        1,
        "{:?}",
        diary.lines
    );
}
