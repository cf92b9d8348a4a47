//! How long a target takes: comparisons measured until they say enough, beside a design that is fixed
//! beforehand, as `cargo xtask experiment length` writes them down.

use serde::{Deserialize, Serialize};

/// A comparison by both designs: a line of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Length {
    /// The processor that it ran on.
    pub machine: String,
    /// The revision that measured.
    pub revision: String,
    /// The job that it is of.
    pub job: String,
    /// What both sides have in common, in words.
    pub setting: String,
    /// Blocks that ours took.
    pub our_blocks: u32,
    /// Half of the width of its interval, relative: 0.01 is 1 %.
    pub our_half_width: f64,
    /// Seconds of its launches and those of its twins, from their start to the end of their rounds. Steps that rounds
    /// discard are in it as so many median steps, since nobody keeps how long they took.
    pub our_seconds: f64,
    /// Seconds of the whole run that it is of, of wall time: parity, canaries and pauses between blocks too.
    pub our_run_seconds: f64,
    /// How ratios of the fixed design scatter from one repetition to the next: standard deviation of their
    /// logarithm.
    pub fixed_spread: f64,
    /// Repetitions that it takes until Student's interval is as narrow: extrapolated from that scatter.
    pub fixed_repetitions: u32,
    /// Fewest that it takes, where repetitions scatter as little as the interval of their scatter allows (95 %).
    pub fixed_repetitions_low: u32,
    /// Most, likewise; absent where no number that anybody would measure is enough.
    pub fixed_repetitions_high: Option<u32>,
    /// Seconds of all these, of launches alone, counted as ours are.
    pub fixed_seconds: f64,
    /// Seconds of a whole run that repeats all comparisons alike, as often as the one that needs most, of wall time:
    /// those of the run that was made, by as many times as that is more.
    pub fixed_run_seconds: f64,
}

/// What all comparisons take together, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum {
    /// Launches of ours.
    pub ours: f64,
    /// Whole runs of ours; the longest where lines tell several.
    pub our_run: f64,
    /// Launches of the fixed design, where each comparison is repeated as often as it needs.
    pub fixed: f64,
    /// Whole runs of the fixed design, which repeats all alike; the longest where lines tell several.
    pub fixed_run: f64,
}

impl Sum {
    /// Of these comparisons.
    #[must_use]
    pub fn of(lengths: &[Length]) -> Self {
        let add = |sum: Self, it: &Length| Self {
            ours: sum.ours + it.our_seconds,
            our_run: sum.our_run.max(it.our_run_seconds),
            fixed: sum.fixed + it.fixed_seconds,
            fixed_run: sum.fixed_run.max(it.fixed_run_seconds),
        };
        lengths.iter().fold(Self::default(), add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{read, write};

    fn length(fixed_repetitions: u32, fixed_seconds: f64) -> Length {
        Length {
            machine: "One, of two cores".to_owned(),
            revision: "abc".to_owned(),
            job: "inference".to_owned(),
            setting: "batch 1, model bert_tiny".to_owned(),
            our_blocks: 6,
            our_half_width: 0.01,
            our_seconds: 60.0,
            our_run_seconds: 300.0,
            fixed_spread: 0.02,
            fixed_repetitions,
            fixed_repetitions_low: 2,
            fixed_repetitions_high: Some(90).filter(|_| fixed_repetitions < 10),
            fixed_seconds,
            fixed_run_seconds: 900.5,
        }
    }

    #[test]
    fn lines_come_back_and_add_up() {
        let lengths = [length(3, 30.0), length(12, 240.0)];
        let text = write(&lengths).unwrap();
        assert_eq!(read::<Length>(&text).unwrap(), lengths);
        assert!(read::<Length>("nonsense\n1\n").is_err());
        let sum = Sum {
            ours: 120.0,
            our_run: 300.0,
            fixed: 270.0,
            fixed_run: 900.5,
        };
        assert_eq!(Sum::of(&lengths), sum);
    }
}
