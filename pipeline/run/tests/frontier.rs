//! The largest batch that fits, sought with workers that really take the memory.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::*;
use schema::{
    Measure, OutcomeKind,
    record::{Frontier, HeatResult},
};

/// Room for seven samples of `hoards`, 40 MiB each, and for the worker.
fn seeking() -> Measure {
    Measure {
        blocks: 0,
        memory_limit_bytes: Some(310 << 20),
        frontier: Some(64),
        ..measure()
    }
}

fn batches(frontier: &Frontier) -> Vec<(u64, OutcomeKind)> {
    let tries = frontier.tries.iter();
    tries
        .map(|tried| (tried.batch, tried.outcome.kind))
        .collect()
}

#[test]
fn it_is_doubled_and_bisected_until_memory_ends_it() {
    use OutcomeKind::{Measured, OutOfMemory};

    let track = Track::new();
    let plan = plan(seeking(), vec![("g", cells(&["hoards", "unsupported"]))]);
    let (record, diary) = track.run(&plan);
    let heat = track.heat(&record, 0);
    assert_eq!(
        kinds(&heat.footer.outcomes),
        [OutcomeKind::Verified, OutcomeKind::Unsupported]
    );
    let [Some(found), None] = heat.footer.frontiers.as_slice() else {
        panic!("{:?}", heat.footer.frontiers)
    };
    let expected = [
        (1, Measured),
        (2, Measured),
        (4, Measured),
        (8, OutOfMemory),
        (6, Measured),
        (7, Measured),
    ];
    assert_eq!(batches(found), expected, "{found:?}");
    assert_eq!(diary.count("Frontier"), expected.len());
    let peak = |at: usize| {
        found.tries[at]
            .memory
            .as_ref()
            .map(|it| it.peak_resident_bytes)
    };
    // Three samples more.
    let difference = peak(5).unwrap() - peak(2).unwrap();
    assert!(difference.abs_diff(3 * (40 << 20)) < 20 << 20, "{found:?}");
    assert_eq!(peak(3), None);
    assert!(heat.blocks.is_empty());
    track.assert_deserted();
    // It is kept like any other.
    assert_eq!(track.run(&plan).1.lines, ["cached g"]);
}

/// A peak too short to be seen by who looks now and then is one.
#[test]
fn what_held_too_much_for_a_moment_does_not_fit() {
    let track = Track::new();
    let plan = plan(seeking(), vec![("g", cells(&["memory_gulper"]))]);
    let heat = track.heat(&track.run(&plan).0, 0);
    let found = heat.footer.frontiers[0].as_ref().unwrap();
    assert_eq!(batches(found), [(1, OutcomeKind::OutOfMemory)], "{found:?}");
}

/// What is sought is whether cells fit, and not whether references do.
#[test]
fn what_vouches_for_outputs_has_no_limit() {
    let mut track = Track::new();
    track.workers.reference_variant = Some("hoards");
    let narrow = Measure {
        memory_limit_bytes: Some(40 << 20),
        frontier: Some(2),
        ..seeking()
    };
    let plan = plan(narrow, vec![("g", cells(&["steady", "hoards"]))]);
    let (record, _) = track.run(&plan);
    let heat = track.heat(&record, 0);
    let outcomes = kinds(&heat.footer.outcomes);
    assert_eq!(outcomes, [OutcomeKind::Verified, OutcomeKind::OutOfMemory]);
    // That it does not fit is found by a try.
    let found = heat.footer.frontiers[1].as_ref().unwrap();
    assert_eq!(batches(found), [(1, OutcomeKind::OutOfMemory)]);
}

/// A cell that runs out of its limit vouches for others all the same.
#[test]
fn what_does_not_fit_itself_vouches_for_others() {
    let mut track = Track::new();
    track.workers.reference_variant = Some("hoards");
    let mut raced = cells(&["steady"]);
    let mut eager = raced[0].clone();
    eager.cell.engine = "pytorch/eager".parse().unwrap();
    eager.id = eager.cell.id();
    raced.insert(0, eager);
    let narrow = Measure {
        memory_limit_bytes: Some(40 << 20),
        blocks: 1,
        ..measure()
    };
    let plan = plan(narrow, vec![("g", raced)]);
    let (record, _) = track.run(&plan);
    let outcomes = kinds(&track.heat(&record, 0).footer.outcomes);
    assert_eq!(outcomes, [OutcomeKind::OutOfMemory, OutcomeKind::Measured]);
}

#[test]
fn it_ends_where_the_manifest_says() {
    let track = Track::new();
    let most = Measure {
        frontier: Some(5),
        ..seeking()
    };
    let (record, _) = track.run(&plan(most, vec![("g", cells(&["steady"]))]));
    let heat = track.heat(&record, 0);
    let found = heat.footer.frontiers[0].as_ref().unwrap();
    let tried: Vec<u64> = found.tries.iter().map(|tried| tried.batch).collect();
    assert_eq!(tried, [1, 2, 4, 5]);
}

#[test]
fn an_interruption_leaves_it_unreached_and_it_is_sought_anew() {
    let track = Track::new();
    let plan = plan(seeking(), vec![("g", cells(&["hoards"]))]);
    let (record, diary) = track.run_until(&plan, false, "Frontier { batch: 2 }");
    assert!(matches!(record.heats[0].heat, HeatResult::NotReached(_)));
    let parities = diary.count("Parity");
    assert!(parities > 0);
    let (record, diary) = track.run(&plan);
    assert_eq!(diary.count("Parity"), 0, "{:?}", diary.lines);
    assert_eq!(track.heat(&record, 0).footer.frontiers.len(), 1);
}
