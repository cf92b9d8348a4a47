//! Step times as workers report them.

use schema::{Outcome, OutcomeKind, record::Launch};

use crate::percentile;

/// The longest step that is believed, in nanoseconds: 2⁵³, 104 days, beyond which a time is no
/// longer exact in binary64 and no heat can have waited for it.
const LONGEST_STEP_NS: u64 = 1 << 53;

/// Whether samples of this ending may be shown.
#[must_use]
pub const fn has_speed(kind: OutcomeKind) -> bool {
    matches!(kind, OutcomeKind::Measured | OutcomeKind::Unstable)
}

/// The launch's outcome, unless its samples are impossible.
#[must_use]
pub fn believed(launch: &Launch) -> Outcome {
    if !has_speed(launch.outcome.kind) {
        return launch.outcome.clone();
    }
    let samples = || launch.rounds.iter().flat_map(|round| &round.samples_ns);
    let impossible = samples().find(|&&sample| sample == 0 || sample > LONGEST_STEP_NS);
    match impossible {
        Some(sample) => Outcome::new(
            OutcomeKind::Crashed,
            format!("its worker reported a step of {sample} ns, which cannot be"),
        ),
        // What failed in a disturbed block has none either.
        None if samples().next().is_none() && launch.outcome.is_measured() => {
            Outcome::new(OutcomeKind::Crashed, "its worker reported no step times")
        }
        None => launch.outcome.clone(),
    }
}

/// The median step of a cell in a block, in nanoseconds, of all its believed samples there; `None`
/// without any. Pooled over rounds: it is what a reader gets from the published samples by grouping
/// them by block, and a disturbed round, which holds fewer steps in its time, weighs less.
#[must_use]
pub fn step_ns<'a>(launches: impl IntoIterator<Item = &'a Launch>) -> Option<f64> {
    let believed = |launch: &&Launch| has_speed(believed(launch).kind);
    let rounds = launches.into_iter().filter(believed);
    let rounds = rounds.flat_map(|launch| &launch.rounds);
    let mut samples: Vec<u64> = rounds
        .flat_map(|round| &round.samples_ns)
        .copied()
        .collect();
    samples.sort_unstable();
    percentile::median(&samples)
}
