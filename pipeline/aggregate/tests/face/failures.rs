//! What makes a run red.

use photofinish_aggregate::failures;
use schema::{Outcome, OutcomeKind, plan::Allow};

use crate::race::{heat, race, tables};

const EVEN: [u64; 6] = [1_000_000; 6];

#[test]
fn measured_cells_fail_nothing() {
    assert_eq!(failures(&tables(&race(&EVEN, &EVEN))), []);
}

const BASELINE: usize = 0;
const CONTENDER: usize = 1;

/// Whether the manifest allows them, of the cells that fail a race in which these sides crash and
/// these coordinates are allowed to.
fn crashed(sides: &[usize], allowed: &[&[(&str, &str)]]) -> Vec<(bool, String)> {
    let mut run = race(&EVEN, &EVEN);
    for &side in sides {
        heat(&mut run, 0).footer.outcomes[side] = Outcome::new(OutcomeKind::Crashed, "signal 11");
    }
    let allow = |coordinates: &&[(&str, &str)]| Allow {
        coordinates: coordinates
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        outcome: OutcomeKind::Crashed,
    };
    run.record.plan.jobs[0].allow = allowed.iter().map(allow).collect();
    let found = failures(&tables(&run)).into_iter();
    found
        .map(|failure| (failure.allowed, failure.name))
        .collect()
}

#[test]
fn what_is_not_allowed_fails() {
    let found = crashed(&[BASELINE, CONTENDER], &[]);
    let [(false, one), (false, other)] = found.as_slice() else {
        panic!("two failures expected: {found:?}")
    };
    assert!(one.contains("pytorch/eager") && other.contains("onnxruntime/cpu"));
}

#[test]
fn an_allowed_contender_fails_nothing() {
    assert_eq!(crashed(&[CONTENDER], &[&[]]), []);
}

#[test]
fn a_baseline_that_a_contender_lacks_fails_though_it_is_allowed() {
    // Nothing else ended badly, or what did was not allowed to.
    let baseline: &[(&str, &str)] = &[("engine", "pytorch/eager")];
    for (sides, allowed, others) in [
        (&[BASELINE][..], &[][..], 0),
        (&[BASELINE, CONTENDER], baseline, 1),
    ] {
        let found = crashed(sides, &[allowed]);
        let named =
            |(is_allowed, name): &&(bool, String)| *is_allowed && name.contains("pytorch/eager");
        assert_eq!(found.iter().filter(named).count(), 1, "{found:?}");
        assert_eq!(found.len(), 1 + others, "{found:?}");
    }
}

/// As in a manifest for a GPU whose libraries may be absent: there is nothing to compare, and it
/// says so.
#[test]
fn a_baseline_that_nothing_lacks_passes_where_all_is_allowed() {
    assert_eq!(crashed(&[BASELINE, CONTENDER], &[&[]]), []);
}
