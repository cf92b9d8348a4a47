//! Step times as workers report them.

use schema::{
    Outcome, OutcomeKind,
    record::{Launch, Round},
};

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
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// The median step, in nanoseconds, of all samples. Pooled over rounds: it is what a reader gets from the
    /// published samples by grouping them by block, and a disturbed round, which holds fewer steps in its time, weighs
    /// less.
    pub step_ns: f64,
    /// The median step of each round, in nanoseconds and in the order in which they ran; empty where rounds were not
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

/// The steps of a cell in a block, of all its believed samples there; `None` without any. Rounds are told where those
/// of the heat `are_interleaved`, and each of them has samples: then the rounds of other cells at the same places
/// belong to the same pass.
#[must_use]
pub fn steps<'a>(
    launches: impl IntoIterator<Item = &'a Launch>,
    are_interleaved: bool,
) -> Option<Steps> {
    let believed = |launch: &&Launch| has_speed(believed(launch).kind);
    let launches = launches.into_iter().filter(believed);
    let mut rounds: Vec<&Round> = launches.flat_map(|launch| &launch.rounds).collect();
    rounds.sort_by_key(|round| round.sequence);
    let medians = rounds.iter().map(|round| median_ns([*round]));
    let rounds_ns = are_interleaved.then(|| medians.collect::<Option<_>>());
    Some(Steps {
        step_ns: median_ns(rounds.iter().copied())?,
        rounds_ns: rounds_ns.flatten().unwrap_or_default(),
    })
}

fn median_ns<'a>(rounds: impl IntoIterator<Item = &'a Round>) -> Option<f64> {
    let samples = rounds.into_iter().flat_map(|round| &round.samples_ns);
    let mut samples: Vec<u64> = samples.copied().collect();
    samples.sort_unstable();
    percentile::median(&samples)
}
