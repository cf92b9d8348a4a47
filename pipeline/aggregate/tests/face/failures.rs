//! What makes a run red.

use photofinish_aggregate::failures;
use schema::{Outcome, OutcomeKind, plan::Allow};

use crate::race::{heat, race, tables};

const EVEN: [u64; 6] = [1_000_000; 6];

#[test]
fn measured_cells_fail_nothing() {
    assert_eq!(failures(&tables(&race(&EVEN, &EVEN))), []);
}

#[test]
fn allowed_outcomes_pass_but_for_baselines() {
    let mut run = race(&EVEN, &EVEN);
    for slot in [0, 1] {
        heat(&mut run, 0).footer.outcomes[slot] = Outcome::new(OutcomeKind::Crashed, "signal 11");
    }
    let found = failures(&tables(&run));
    assert_eq!(
        found
            .iter()
            .map(|failure| failure.allowed)
            .collect::<Vec<_>>(),
        [false, false]
    );

    run.record.plan.jobs[0].allow = vec![Allow {
        coordinates: [].into(),
        outcome: OutcomeKind::Crashed,
    }];
    let found = failures(&tables(&run));
    let [only] = found.as_slice() else {
        panic!("one failure expected: {found:?}")
    };
    assert!(only.allowed && only.name.contains("pytorch/eager"));
}
