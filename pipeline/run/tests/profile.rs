//! Where the time goes: launches of their own, after all is measured, that change nothing of it.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::*;
use schema::{
    Heat, OutcomeKind, Plan,
    plan::KnownState,
    record::{HeatResult, Profiled},
};

/// One group of these variants, each of which is to be profiled.
fn profiled(variants: &[&str]) -> Plan {
    let mut plan = plan(measure(), vec![("g", cells(variants))]);
    plan.jobs[0].profile = true;
    plan
}

/// How profiling each ended, and whether there is a profile.
fn told(heat: &Heat) -> Vec<(OutcomeKind, bool)> {
    let told = |profiled: &Option<Profiled>| {
        let profiled = profiled.as_ref().unwrap();
        (profiled.outcome.kind, profiled.profile.is_some())
    };
    heat.footer.profiles.iter().map(told).collect()
}

#[test]
fn what_becomes_of_a_profile_changes_nothing_that_was_measured() {
    use OutcomeKind::{Crashed, Measured, Unsupported};

    let track = Track::new();
    let plan = profiled(&["works", "noop", "strange_profile", "long_profile"]);
    let (record, diary) = track.run(&plan);
    let heat = track.heat(&record, 0);
    assert_eq!(kinds(&heat.footer.outcomes), [Measured; 4]);
    let expected = [
        (Measured, true),
        (Unsupported, false),
        (Crashed, false),
        (Crashed, false),
    ];
    assert_eq!(told(&heat), expected, "{:?}", heat.footer.profiles);
    let profile = heat.footer.profiles[0].as_ref().unwrap();
    let profile = profile.profile.as_ref().unwrap();
    // The others end with the first that is refused.
    let asked = |engine: &str| diary.count(&format!("Profile synthetic/{engine} "));
    assert_eq!(
        [asked("works"), asked("noop"), asked("long_profile")],
        [3, 1, 1]
    );
    assert!(profile.steps > 0 && profile.entries_ns() <= profile.wall_ns);
    // Both blocks were over before the first profile, and have each cell once.
    let last_block = diary.lines.iter().rposition(|line| line == "measured g");
    let first_profile = diary
        .lines
        .iter()
        .position(|line| line.starts_with("Profile"));
    assert!(
        last_block.unwrap() < first_profile.unwrap(),
        "{:?}",
        diary.lines
    );
    for block in &heat.blocks {
        assert_eq!(block.launches.len(), 4);
    }
    track.assert_deserted();
}

#[test]
fn twins_and_what_was_not_measured_are_not_profiled() {
    let track = Track::new();
    let mut plan = profiled(&["works", "unsupported"]);
    let mut twin = plan.heats[0].cells[0].clone();
    twin.twin_of = Some(0);
    plan.heats[0].cells.push(twin);
    let (record, _) = track.run(&plan);
    let profiles = track.heat(&record, 0).footer.profiles;
    assert!(
        matches!(profiles.as_slice(), [Some(_), None, None]),
        "{profiles:?}"
    );
}

#[test]
fn interrupted_while_profiling_blocks_are_kept_and_the_next_run_profiles() {
    let track = Track::new();
    let plan = profiled(&["works"]);
    let (record, _) = track.run_until(&plan, false, "Profile");
    let HeatResult::NotReached(reason) = &record.heats[0].heat else {
        panic!("{record:?}")
    };
    assert!(reason.contains("interrupted"), "{reason}");
    let known = track.store.known_heats().unwrap();
    assert_eq!(known.heats[0].state, KnownState::Open(2));
    let (record, diary) = track.run(&plan);
    assert_eq!(diary.count("block"), 0, "{:?}", diary.lines);
    assert_eq!(
        told(&track.heat(&record, 0)),
        [(OutcomeKind::Measured, true)]
    );
    track.assert_deserted();
}
