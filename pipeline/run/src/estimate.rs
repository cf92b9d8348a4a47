//! How long a run will still take: the plan's prediction, corrected by what was seen.

use std::time::Duration;

use worker::nanoseconds;

/// Predictions are rough; a correction beyond this would be one of a freak.
const CORRECTION: std::ops::RangeInclusive<f64> = 0.1..=10.0;

/// A heat starts workers: less than this each is not to be hoped for, however fast others were.
const HEAT_FLOOR_NS: u64 = 1_000_000_000;

/// Predicted and real times of the heats of a run.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    /// Predicted for the heats that have not begun.
    ahead_ns: u64,
    /// How many of them have anything to measure.
    ahead: u32,
    /// Predicted, and real, for the heats that this run measured.
    predicted_ns: u64,
    real_ns: u64,
}

impl Estimate {
    pub(crate) fn new(predictions: impl Iterator<Item = u64>) -> Self {
        predictions.fold(Self::default(), |sum, predicted_ns| Self {
            ahead_ns: sum.ahead_ns.saturating_add(predicted_ns),
            ahead: sum.ahead.saturating_add(u32::from(predicted_ns > 0)),
            ..sum
        })
    }

    /// A heat begins, or is found to have been measured meanwhile.
    pub(crate) fn take(&mut self, predicted_ns: u64) {
        self.ahead_ns = self.ahead_ns.saturating_sub(predicted_ns);
        self.ahead = self.ahead.saturating_sub(u32::from(predicted_ns > 0));
    }

    /// A heat of which this run measured all is complete.
    pub(crate) fn learn(&mut self, predicted_ns: u64, real: Duration) {
        self.predicted_ns = self.predicted_ns.saturating_add(predicted_ns);
        self.real_ns = self.real_ns.saturating_add(nanoseconds(real));
    }

    /// What the heats take that have not begun.
    pub(crate) fn ahead(&self) -> Duration {
        let least = Duration::from_nanos(HEAT_FLOOR_NS).saturating_mul(self.ahead);
        self.corrected(self.ahead_ns).max(least)
    }

    /// What so long a prediction has to be taken for.
    pub(crate) fn corrected(&self, predicted_ns: u64) -> Duration {
        // Beyond 584 years nothing needs to be exact.
        Duration::from_nanos((predicted_ns as f64 * self.correction()) as u64)
    }

    fn correction(&self) -> f64 {
        if self.predicted_ns == 0 || self.real_ns == 0 {
            return 1.0;
        }
        let ratio = self.real_ns as f64 / self.predicted_ns as f64;
        ratio.clamp(*CORRECTION.start(), *CORRECTION.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_corrects_what_was_predicted() {
        let second = 1_000_000_000;
        let mut estimate = Estimate::new([10 * second, 20 * second].into_iter());
        assert_eq!(estimate.ahead(), Duration::from_secs(30));
        estimate.take(10 * second);
        assert_eq!(estimate.ahead(), Duration::from_secs(20));
        estimate.learn(10 * second, Duration::from_secs(20));
        assert_eq!(estimate.ahead(), Duration::from_secs(40));
        assert_eq!(estimate.corrected(second), Duration::from_secs(2));
        estimate.learn(1, Duration::from_secs(1 << 20));
        assert_eq!(estimate.corrected(second), Duration::from_secs(10));
        assert_eq!(estimate.corrected(u64::MAX), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn no_heat_ahead_is_promised_for_nothing() {
        let second = 1_000_000_000;
        let mut estimate = Estimate::new([2 * second, 2 * second, 0, second / 2].into_iter());
        estimate.take(2 * second);
        // The first took a hundredth of what was predicted.
        estimate.learn(2 * second, Duration::from_millis(20));
        assert_eq!(estimate.ahead(), Duration::from_secs(2));
        estimate.take(2 * second);
        assert_eq!(estimate.ahead(), Duration::from_secs(1));
        // In the third nothing can run.
        estimate.take(0);
        assert_eq!(estimate.ahead(), Duration::from_secs(1));
        estimate.take(second / 2);
        assert_eq!(estimate.ahead(), Duration::ZERO);
    }
}
