//! Trends over the batch, and where the lead changes.

use photofinish_aggregate::downloads;
use schema::{
    Outcome, OutcomeKind,
    tables::{Crossover, Direction, Knee, TrendRow},
};
use synthetic::Synthetic;

use crate::race::{heat, run, set_times, tables};

/// One network at batches 1, 2 and 3 on two engines, all in one heat: slots 0, 4 and 6 are PyTorch, the
/// odd ones after them ONNX Runtime, and 2 and 3 the twins of the first two.
fn line() -> Synthetic {
    let mut run = run(9, 6);
    let name = run.record.plan.heats[0].group.clone();
    for group in [4, 8] {
        let planned = run.record.plan.heats[group].clone();
        let other = heat(&mut run, group).clone();
        let own = heat(&mut run, 0);
        let offset = u32::try_from(own.header.cells.len()).unwrap();
        own.header.cells.extend(planned.cells.iter().cloned());
        own.reference.parity.extend(other.reference.parity);
        own.reference.obstacles.extend(other.reference.obstacles);
        own.reference.logs.extend(other.reference.logs);
        own.footer.outcomes.extend(other.footer.outcomes);
        for (block, others) in own.blocks.iter_mut().zip(other.blocks) {
            for mut launch in others.launches {
                launch.slot += offset;
                block.launches.push(launch);
            }
        }
        let plan = &mut run.record.plan;
        plan.heats[0].cells.extend(planned.cells);
        let pairs = plan.jobs[0].comparisons[0].pairs.iter_mut();
        for pair in pairs.filter(|pair| pair.group == planned.group) {
            pair.group.clone_from(&name);
        }
    }
    for group in [8, 4] {
        run.record.plan.heats.remove(group);
        run.record.heats.remove(group);
    }
    run
}

/// Step times of a slot in six blocks: around one of them, in microseconds.
fn around(run: &mut Synthetic, slot: u32, us: u64) {
    let times = [0, 3, 1, 4, 2, 5].map(|off| us * 1000 + off * us / 10);
    set_times(run, 0, slot, &times);
}

/// A run of that line with these times, by slot.
fn with(times: &[(u32, u64)]) -> Synthetic {
    let mut run = line();
    for (slot, us) in times {
        around(&mut run, *slot, *us);
    }
    run
}

/// ONNX Runtime leads at batch 1, and PyTorch at 3.
const CROSSING: [(u32, u64); 8] = [
    (0, 1000),
    (2, 1000),
    (1, 500),
    (3, 500),
    (4, 1200),
    (5, 1200),
    (6, 1500),
    (7, 2500),
];

fn of<'a>(trends: &'a [TrendRow], engine: &str) -> &'a TrendRow {
    let has = |row: &&TrendRow| {
        row.coordinates
            .get("engine")
            .is_some_and(|own| own == engine)
    };
    trends.iter().find(has).unwrap()
}

#[test]
fn lines_of_a_heat_have_a_trend_and_a_knee() {
    // Per sample 1000, 600 and 590 µs, and 1000 each.
    let run = with(&[
        (0, 1000),
        (2, 1000),
        (4, 1200),
        (6, 1770),
        (1, 1000),
        (3, 1000),
        (5, 2000),
        (7, 3000),
    ]);
    let tables = tables(&run);
    let trends = &tables.jobs[0].trends;
    assert_eq!(trends.len(), 2, "{trends:?}");
    let falls = of(trends, "pytorch/eager");
    assert_eq!((falls.direction, falls.blocks), (Direction::Falls, 6));
    let knee = Knee {
        low: 2,
        centre: 2,
        high: 2,
    };
    assert_eq!(falls.knee, Some(knee));
    let [first, second, third] = falls.sizes.as_slice() else {
        panic!("three batches: {falls:?}")
    };
    assert_eq!((first.batch, second.batch, third.batch), (1, 2, 3));
    assert_eq!(first.ratio, None);
    assert_eq!(second.ratio.unwrap().centre, 0.6);
    assert_eq!(third.ratio.unwrap().centre, 0.59);
    // Each of two lines has half of 5 %; of that the intervals of three pairs share half.
    assert_eq!(
        (falls.confidence, third.ratio.unwrap().confidence),
        (0.975, 0.995_833_333_333)
    );
    let flat = of(trends, "onnxruntime/cpu");
    assert_eq!((flat.direction, flat.p), (Direction::None, Some(1.0)));
}

#[test]
fn the_lead_changes_where_verdicts_do() {
    let run = with(&CROSSING);
    let tables = tables(&run);
    // Networks that the run holds besides cross, too.
    let rows = tables.jobs[0].crossovers.iter();
    let mut rows = rows.filter(|row| row.coordinates["model"] == "resnet18");
    let row = rows.next().unwrap();
    assert_eq!(rows.next(), None);
    assert_eq!(row.value, "onnxruntime/cpu");
    assert!(!row.coordinates.contains_key("batch"));
    assert_eq!(
        row.crossover,
        Crossover::Between {
            low: 1,
            centre: 2.0,
            high: 3,
            contender_first: true,
        }
    );
}

/// A claim about two batches says what all of them come to.
#[test]
fn claims_about_batches_tell_of_trends() {
    let told = |axis: &str, at: &[(&str, &str)]| {
        let mut run = with(&CROSSING);
        let claim = &mut run.record.plan.jobs[0].claims[0];
        let expect = &mut claim.expect;
        (expect.axis, expect.mostly) = (axis.to_owned(), false);
        (expect.left, expect.right) = ("3".to_owned(), "1".to_owned());
        let at = at.iter();
        expect.at = at
            .map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned()))
            .collect();
        tables(&run).jobs[0].claims[0].reason.clone()
    };
    let of_all = told("batch", &[]);
    assert!(
        of_all.ends_with("the time of a sample falls on 1 of 2 lines, and rises on 1"),
        "{of_all}"
    );
    let of_one = told("batch", &[("engine", "pytorch/eager")]);
    assert!(
        of_one.ends_with("on 1 of 1 line, and rises on none"),
        "{of_one}"
    );
    assert!(!told("engine", &[]).contains("trend"));
}

#[test]
fn a_trend_within_the_noise_is_none_to_tell() {
    let run = with(&[
        (0, 1000),
        (2, 1800),
        (4, 1200),
        (6, 1770),
        (1, 1000),
        (5, 2000),
        (7, 3000),
    ]);
    let tables = tables(&run);
    let row = of(&tables.jobs[0].trends, "pytorch/eager");
    assert_eq!(row.direction, Direction::Unclear);
    assert!(
        row.reason.contains("beyond the 5 % margin and the 80"),
        "{}",
        row.reason
    );
    let knee = row.knee.unwrap();
    assert_eq!((knee.low, knee.high), (1, 3));
}

#[test]
fn what_was_not_measured_has_no_trend_and_says_why() {
    let mut run = line();
    heat(&mut run, 0).footer.outcomes[4] = Outcome::new(OutcomeKind::Crashed, "gone");
    let tables = tables(&run);
    let row = of(&tables.jobs[0].trends, "pytorch/eager");
    assert_eq!(
        (row.direction, row.p, row.knee),
        (Direction::NotMeasured, None, None)
    );
    assert_eq!(row.reason, "2 batches were measured, fewer than 3");
    assert_eq!(row.sizes.len(), 2);
    // The other line is as it was, and its confidence, too: the plan fixes what shares the error.
    assert_eq!(
        of(&tables.jobs[0].trends, "onnxruntime/cpu").confidence,
        0.975
    );
    assert_eq!(row.confidence, 0.975);
}

#[test]
fn files_hold_every_batch_and_every_place() {
    let run = with(&CROSSING);
    let files = downloads(&tables(&run)).unwrap();
    for name in ["trends.csv", "crossovers.csv"] {
        let found = files.iter().find(|download| download.file == name).unwrap();
        let text = String::from_utf8(found.bytes.clone()).unwrap();
        insta::assert_snapshot!(name, text.replace("\r\n", "\n"));
    }
}

#[test]
fn batches_of_several_heats_are_no_line() {
    let tables = tables(&run(9, 6));
    assert!(tables.jobs[0].trends.is_empty());
}
