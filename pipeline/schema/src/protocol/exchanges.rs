//! What ranks exchange in a step, and when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most steps whose exchanges are told at once.
pub const MOST_EXCHANGE_STEPS: u64 = 64;

/// Most buckets of a step.
pub const MOST_BUCKETS: usize = 4096;

/// What ranks exchanged in steps. Exchanges that are noted go another way through the engine than those that
/// are not: nothing here is a measurement of speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchanges {
    /// By rank, its steps.
    pub ranks: Vec<Vec<StepExchanges>>,
}

/// A step of one rank, in nanoseconds from its beginning by that rank's own clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepExchanges {
    /// How long it took.
    pub wall_ns: u64,
    /// When the backward pass began.
    pub backward_ns: u64,
    /// The buckets of gradients that went to the other ranks and back.
    pub buckets: Vec<BucketExchange>,
}

/// A bucket on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketExchange {
    /// Its number: buckets go out in this order.
    pub bucket: u64,
    /// What goes out, in bytes, before the exchange makes of it what its algorithm needs.
    pub bytes: u64,
    /// When it was handed over.
    pub began_ns: u64,
    /// When it was back.
    pub ended_ns: u64,
}

impl StepExchanges {
    /// The time during which anything was on its way.
    #[must_use]
    pub fn communication_ns(&self) -> u64 {
        self.covered(u64::MAX)
    }

    /// As much of it as the backward pass went on meanwhile: until the last bucket was handed over, for
    /// which its last gradient had to be there.
    #[must_use]
    pub fn hidden_ns(&self) -> u64 {
        let last = self.buckets.iter().map(|bucket| bucket.began_ns).max();
        self.covered(last.unwrap_or(0))
    }

    /// All that goes out, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.buckets.iter().map(|bucket| bucket.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The time before `end` during which anything was on its way.
    fn covered(&self, end: u64) -> u64 {
        let mut spans: Vec<(u64, u64)> = self
            .buckets
            .iter()
            .map(|bucket| (bucket.began_ns.min(end), bucket.ended_ns.min(end)))
            .collect();
        spans.sort_unstable();
        let (mut covered, mut until) = (0_u64, 0_u64);
        for (began, ended) in spans {
            covered = covered.saturating_add(ended.saturating_sub(began.max(until)));
            until = until.max(ended);
        }
        covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once_and_hides_until_the_last_begins() {
        let bucket = |bucket, began_ns, ended_ns| BucketExchange {
            bucket,
            bytes: 100,
            began_ns,
            ended_ns,
        };
        let step = StepExchanges {
            wall_ns: 100,
            backward_ns: 5,
            buckets: vec![bucket(1, 20, 50), bucket(0, 10, 30), bucket(2, 60, 80)],
        };
        assert_eq!((step.communication_ns(), step.hidden_ns()), (60, 40));
        assert_eq!(step.bytes(), 300);
        // The last begins while another is on its way.
        let step = StepExchanges {
            buckets: vec![bucket(0, 10, 70), bucket(1, 60, 90)],
            ..step
        };
        assert_eq!((step.communication_ns(), step.hidden_ns()), (80, 50));
        let nothing = StepExchanges {
            buckets: Vec::new(),
            ..step
        };
        assert_eq!((nothing.communication_ns(), nothing.hidden_ns()), (0, 0));
    }
}
