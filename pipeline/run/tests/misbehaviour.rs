//! Whatever a worker does, its cell ends typed, the others are measured, and nothing is left.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::*;
use schema::{OutcomeKind, protocol::VERSION};

/// Runs a misbehaving cell beside a good one.
fn beside_a_good_one(
    variants: &[(&str, OutcomeKind, &str)],
    change: impl Fn(&mut schema::Measure),
) {
    let track = Track::new();
    let mut measure = measure();
    change(&mut measure);
    let groups = variants
        .iter()
        .map(|(variant, _, _)| (*variant, cells(&[variant, "steady"])));
    let (record, _) = track.run(&plan(measure, groups.collect()));
    for (index, (variant, kind, says)) in variants.iter().enumerate() {
        let heat = track.heat(&record, index);
        let [bad, good] = heat.footer.outcomes.as_slice() else {
            panic!()
        };
        assert_eq!(bad.kind, *kind, "{variant}: {}", bad.reason);
        assert!(bad.reason.contains(says), "{variant}: {}", bad.reason);
        assert_eq!(
            good.kind,
            OutcomeKind::Measured,
            "beside {variant}: {}",
            good.reason
        );
        let rounds = heat
            .blocks
            .iter()
            .flat_map(|block| &block.launches)
            .filter(|l| l.slot == 1);
        assert_eq!(
            rounds.map(|launch| launch.rounds.len()).sum::<usize>(),
            4,
            "beside {variant}"
        );
    }
    track.assert_deserted();
}

#[test]
fn workers_that_die_or_speak_nonsense() {
    let next_version = format!("speaks protocol {}", VERSION + 1);
    beside_a_good_one(
        &[
            ("segfault", OutcomeKind::Crashed, "SIGSEGV"),
            ("exit_early", OutcomeKind::Crashed, "exit status 0"),
            (
                "exit_at_start",
                OutcomeKind::Crashed,
                "before it said `hello`",
            ),
            ("wrong_version", OutcomeKind::Crashed, &next_version),
            ("garbage", OutcomeKind::Crashed, ""),
            ("flood", OutcomeKind::Crashed, ""),
            ("huge_message", OutcomeKind::Crashed, ""),
            ("flood_stderr", OutcomeKind::Crashed, ""),
            ("panics", OutcomeKind::Crashed, "as it was told to"),
            ("unsupported", OutcomeKind::Unsupported, "operator Conv"),
            ("out_of_memory", OutcomeKind::OutOfMemory, "12 GiB"),
            (
                "diverges",
                OutcomeKind::ParityFailed,
                "`fc.weight` is not finite",
            ),
            (
                "no_such_variant",
                OutcomeKind::Unsupported,
                "no_such_variant",
            ),
        ],
        |_| {},
    );
}

/// What was written is what tells a missing library from a bug.
#[test]
fn the_log_of_a_launch_for_parity_is_kept_with_its_cell() {
    let track = Track::new();
    let cells = cells(&["exit_early", "chatter", "steady"]);
    let mut measure = measure();
    measure.blocks = 1;
    let (record, diary) = track.run(&plan(measure, vec![("g", cells)]));
    let heat = track.heat(&record, 0);
    let [early, chatter, steady] = heat.reference.logs.as_slice() else {
        panic!("{:?}", heat.reference.logs)
    };
    let last_words = "synthetic: left early";
    assert!(early.as_ref().unwrap().contains(last_words), "{early:?}");
    assert!(chatter.as_ref().unwrap().contains("verbose"), "{chatter:?}");
    assert_eq!(steady.as_deref(), Some(""));
    assert!(diary.logs.iter().any(|log| log.contains(last_words)));
}

#[test]
fn the_log_of_a_failed_reference_is_kept_with_the_cell_that_needed_it() {
    let mut track = Track::new();
    track.workers.reference_variant = Some("exit_at_start");
    let (record, _) = track.run(&plan(measure(), vec![("g", cells(&["steady"]))]));
    let heat = track.heat(&record, 0);
    assert_eq!(heat.footer.outcomes[0].kind, OutcomeKind::ParityUnverified);
    let log = heat.reference.logs[0].as_ref().unwrap();
    assert!(log.contains("synthetic: left at the start"), "{log}");

    track.workers.lacking = vec!["synthetic"];
    let (record, _) = track.run(&plan(measure(), vec![("h", cells(&["steady"]))]));
    assert_eq!(track.heat(&record, 0).reference.logs, [None]);
}

#[test]
fn a_worker_that_removes_its_surroundings_harms_itself_alone() {
    beside_a_good_one(
        &[(
            "removes_scratch",
            OutcomeKind::Crashed,
            "its outputs cannot be read: there is no file",
        )],
        |_| {},
    );
}

#[test]
fn workers_that_hang() {
    beside_a_good_one(
        &[
            ("mute", OutcomeKind::TimedOut, "hello"),
            ("hang_at_load", OutcomeKind::TimedOut, "load"),
            ("hang_at_measure", OutcomeKind::TimedOut, ""),
            ("stubborn", OutcomeKind::TimedOut, ""),
        ],
        |measure| measure.timeout_ns = 4_000_000_000,
    );
}

#[test]
fn workers_that_eat_memory() {
    beside_a_good_one(
        &[
            ("memory_eater", OutcomeKind::OutOfMemory, ""),
            ("memory_eater_child", OutcomeKind::OutOfMemory, ""),
            // However short it was.
            ("memory_gulper", OutcomeKind::OutOfMemory, ""),
        ],
        |measure| measure.memory_limit_bytes = Some(256 << 20),
    );
}

#[test]
fn workers_that_leave_in_disorder_were_measured() {
    let track = Track::new();
    let cells = cells(&["ignores_bye", "fork_bomb_lite"]);
    let mut measure = measure();
    measure.blocks = 1;
    let (record, _) = track.run(&plan(measure, vec![("g", cells)]));
    let heat = track.heat(&record, 0);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
    let launch = heat.blocks[0]
        .launches
        .iter()
        .find(|launch| launch.slot == 0)
        .unwrap();
    assert!(
        launch.log.contains("photofinish: after its last steps"),
        "{}",
        launch.log
    );
    track.assert_deserted();
}

#[test]
fn a_cell_that_failed_twice_is_left_alone() {
    let track = Track::new();
    let mut measure = measure();
    measure.blocks = 4;
    let (record, _) = track.run(&plan(measure, vec![("g", cells(&["panics", "noop"]))]));
    let heat = track.heat(&record, 0);
    // It gives right outputs, and dies when it is warmed up.
    assert!(heat.reference.parity[0].is_some());
    let launches = |slot| {
        heat.blocks
            .iter()
            .flat_map(|block| &block.launches)
            .filter(move |l| l.slot == slot)
            .count()
    };
    assert_eq!((launches(0), launches(1)), (2, 4));
    assert_eq!(heat.footer.outcomes[0].kind, OutcomeKind::Crashed);
}

#[test]
fn a_heat_ends_when_no_cell_is_left() {
    let track = Track::new();
    let mut measure = measure();
    measure.blocks = 5;
    let (record, _) = track.run(&plan(measure, vec![("g", cells(&["segfault"]))]));
    let heat = track.heat(&record, 0);
    assert_eq!(heat.blocks.len(), 2);
    assert_eq!(
        heat.footer.stopped,
        "no cell could be launched after 2 of 5 blocks"
    );
    let log = &heat.blocks[0].launches[0];
    assert_eq!(log.outcome.kind, OutcomeKind::Crashed);
}

#[test]
fn a_worker_from_other_sources_is_not_measured() {
    let mut track = Track::new();
    track.workers.built_from = Some(schema::Digest::of_bytes(b"other sources"));
    let (record, _) = track.run(&plan(measure(), vec![("stale", cells(&["steady"]))]));
    let heat = track.heat(&record, 0);
    let [outcome] = heat.footer.outcomes.as_slice() else {
        panic!()
    };
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome.reason.contains("built from other sources"),
        "{}",
        outcome.reason
    );
    assert!(heat.blocks.is_empty());
    track.assert_deserted();
}
