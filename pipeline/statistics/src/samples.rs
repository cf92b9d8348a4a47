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

/// A cell's steps in a block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steps {
    /// The median step, in nanoseconds, of all samples. Pooled over rounds: it is what a reader gets from the
    /// published samples by grouping them by block, and a disturbed round, which holds fewer steps in its time, weighs
    /// less.
    pub step_ns: f64,
    /// The median step of each round, in nanoseconds and in the order of rounds; empty where rounds were not
    /// interleaved with those of other cells.
    pub rounds_ns: Vec<f64>,
}

impl From<f64> for Steps {
    /// Of which nothing but the median is known.
    fn from(step_ns: f64) -> Self {
        Self {
            step_ns,
            rounds_ns: Vec::new(),
        }
    }
}

/// The steps of a cell in a block, of all its believed samples there; `None` without any.
#[must_use]
pub fn steps<'a>(
    launches: impl IntoIterator<Item = &'a Launch>,
    is_interleaved: bool,
) -> Option<Steps> {
    let believed = |launch: &&Launch| has_speed(believed(launch).kind);
    let launches = launches.into_iter().filter(believed);
    let mut rounds: Vec<Vec<u64>> = launches
        .flat_map(|launch| &launch.rounds)
        .map(|round| round.samples_ns.clone())
        .collect();
    let mut all = rounds.concat();
    all.sort_unstable();
    let rounds_ns = if is_interleaved {
        for round in &mut rounds {
            round.sort_unstable();
        }
        // A round without a sample has no counterpart: then there are fewer than another cell has.
        rounds
            .iter()
            .filter_map(|round| percentile::median(round))
            .collect()
    } else {
        Vec::new()
    };
    Some(Steps {
        step_ns: percentile::median(&all)?,
        rounds_ns,
    })
}
