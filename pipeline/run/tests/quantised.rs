//! Networks on grids of integers: ranges are found once a heat, every block runs what was judged, and
//! where no ranges can be found the cells that need them end, and no others.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::*;
use models::quantise::CALIBRATION;
use schema::{Cell, Heat, OutcomeKind, Plan, Precision, plan::PlannedCell, record::Reference};

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
    // Another engine on the same network.
    cells.push(at(Precision::Int8Static, "steady"));
    let (heat, diary) = run(&track, cells);
    assert_eq!(diary.count("Calibration"), 2, "{:?}", diary.lines);
    // The machine lacks nothing here: an `allow: unavailable` must not cover a crash.
    for slot in [0, 2] {
        let outcome = &heat.footer.outcomes[slot];
        assert_eq!(outcome.kind, OutcomeKind::ParityUnverified);
        assert!(outcome.reason.contains("ended crashed"), "{outcome:?}");
        let log = heat.reference.logs[slot].as_deref().unwrap();
        assert!(log.contains("left at the start"), "{log:?}");
    }
    assert!(heat.reference.quantised.iter().all(|known| known.slot == 1));
}

#[test]
fn a_calibration_that_fails_by_chance_is_tried_again() {
    let track = Track::new();
    track.workers.bad_starts.set(1);
    let (heat, diary) = run(&track, by_precision());
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 3]);
    assert_eq!(diary.count("Calibration"), 2, "{:?}", diary.lines);
    assert_eq!(diary.count("failed pytorch/eager: crashed"), 1);
}

/// The heat of [`by_precision`], left after its first block.
fn left(track: &Track) -> Plan {
    let plan = plan(measure(), vec![("g", by_precision())]);
    let (_, diary) = track.run_until(&plan, false, "block 1");
    assert_eq!(diary.count("Calibration"), 1, "{:?}", diary.lines);
    plan
}

#[test]
fn a_heat_goes_on_with_the_networks_that_were_judged() {
    let mut track = Track::new();
    let plan = left(&track);
    // Nothing of the reference is launched any more.
    track.workers.lacking = vec!["pytorch"];
    let (record, diary) = track.run(&plan);
    assert_eq!(diary.lines[0], "heat g, 1 kept", "{:?}", diary.lines);
    assert_eq!(diary.count("Calibration"), 0, "{:?}", diary.lines);
    let heat = track.heat(&record, 0);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 3]);
    let [found, in_steps] = heat.reference.quantised.as_slice() else {
        panic!("{:?}", heat.reference.quantised);
    };
    assert_eq!((found.slot, in_steps.slot), (1, 2));
    assert!(!found.ranges.is_empty() && in_steps.ranges.is_empty());
    // What every launch tells of its network is what was judged.
    let launches = heat.blocks.iter().flat_map(|block| &block.launches);
    let mut told = 0;
    for launch in launches {
        let settings = &launch.loaded.as_ref().unwrap().settings;
        let mut known = heat.reference.quantised.iter();
        let known = known.find(|known| known.slot == launch.slot);
        let known = known.map(|known| known.graph.short());
        assert_eq!(settings.get("quantised graph"), known.as_ref());
        assert_eq!(settings.contains_key("products on grids"), launch.slot > 0);
        told += u32::from(known.is_some());
    }
    assert_eq!(told, 2 * 2);
    // So does the first launch, which is all there is where nothing is timed.
    for (slot, start) in heat.reference.starts.iter().enumerate() {
        let settings = &start.as_ref().unwrap().loaded.settings;
        assert_eq!(settings.contains_key("products on grids"), slot > 0);
    }
}

type Change = dyn Fn(&mut Reference);

/// Changes what the journal says was judged.
fn rewrite(track: &Track, plan: &Plan, change: &Change) {
    let lock = track.store.lock().unwrap();
    let old = lock.resume(&plan.heats[0].key).unwrap().unwrap();
    let (header, block) = (old.header().clone(), old.blocks()[0].clone());
    let mut reference = old.reference().unwrap().clone();
    change(&mut reference);
    let mut changed = lock.begin(header).unwrap();
    changed.set_reference(reference).unwrap();
    changed.append(block).unwrap();
}

#[test]
fn a_heat_whose_networks_are_not_those_judged_begins_anew() {
    let of_another_graph = |reference: &mut Reference| {
        reference.quantised[0].graph = schema::Digest::of_bytes(b"another");
    };
    let of_other_ranges = |reference: &mut Reference| {
        let ranges = &mut reference.quantised[0].ranges;
        ranges.values_mut().for_each(|[_, high]| *high *= 2.0);
    };
    let of_fewer_ranges = |reference: &mut Reference| {
        reference.quantised[0].ranges.pop_last();
    };
    let changes: [(&Change, &str); 3] = [
        (&of_another_graph, "in another way now"),
        (&of_other_ranges, "in another way now"),
        (&of_fewer_ranges, "is not quantised as it was"),
    ];
    for (change, says) in changes {
        let track = Track::new();
        let plan = left(&track);
        rewrite(&track, &plan, change);
        let (record, diary) = track.run(&plan);
        assert!(
            diary.lines[0].starts_with("note: heat g begins anew") && diary.lines[0].contains(says),
            "{:?}",
            diary.lines
        );
        assert_eq!(diary.lines[1], "heat g, 0 kept");
        assert_eq!(diary.count("Calibration"), 1, "{:?}", diary.lines);
        let heat = track.heat(&record, 0);
        assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 3]);
        assert_eq!(heat.blocks.len(), 2);
    }
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
            weights: None,
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
