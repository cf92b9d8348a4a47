//! The A/A floor: how far apart this machine puts things that are the same.

use schema::{plan::VERDICT_BLOCKS, tables::Interval};

use crate::{
    interval,
    number::{rounded, rounded_up},
    pair::Shared,
};

/// What pairs of identical cells say together.
#[derive(Debug, Clone, Default)]
pub struct Twins {
    /// ln(twin ÷ original), a value per block of every pair.
    logs: Vec<f64>,
    /// Centres of those, a value per pair with enough blocks.
    centres: Vec<f64>,
    resolution: f64,
}

/// The noise between identical cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Ratio between twins, with its interval.
    pub ratio: Option<Interval>,
    /// The floor as a relative difference; `None` with too few blocks.
    pub floor: Option<f64>,
    /// Standard deviation of the logarithm of a launch's time within a block, at most: twins differ by that
    /// of two launches, and by moods shorter than a block.
    pub between_launches: Option<f64>,
}

impl Twins {
    /// Takes a pair in, by its differences.
    pub fn add(&mut self, shared: &Shared) {
        self.resolution = self.resolution.max(shared.resolution);
        if shared.logs.len() >= VERDICT_BLOCKS as usize {
            self.centres.extend(interval::centre(&shared.logs));
        }
        self.logs.extend_from_slice(&shared.logs);
    }

    /// Takes in what other pairs say.
    pub fn join(&mut self, other: &Self) {
        self.resolution = self.resolution.max(other.resolution);
        self.centres.extend_from_slice(&other.centres);
        self.logs.extend_from_slice(&other.logs);
    }

    /// Whether there are blocks enough for a floor.
    #[must_use]
    pub fn are_enough(&self) -> bool {
        self.logs.len() >= VERDICT_BLOCKS as usize
    }

    /// The larger of
    /// * what twins differ by as a rule: the logarithms of twin ÷ original of all blocks of all pairs
    ///   make one interval, blocks being independent; of its ends the one farther from 1;
    /// * what a single heat shows: the root mean square, over pairs of 6 blocks and more, of the centre of
    ///   the logarithms, which is what a verdict on them would be about. Heats that put twins apart in
    ///   opposite directions cancel in the interval, and many of them make it narrow, but each comparison
    ///   has one heat only.
    ///
    /// Both as relative differences counted upward like the margin: exp(|ln ratio|) − 1. With fewer
    /// than 6 blocks in all there is no floor. It estimates what noise is typical; it bounds nothing.
    #[must_use]
    pub fn noise(&self, confidence: f64) -> Noise {
        let ratio = interval::of_logs(&self.logs, confidence, self.resolution);
        let rule = ratio.as_ref().and_then(farther_end);
        let heat = root_mean_square(&self.centres).unwrap_or(0.0) + self.resolution;
        let floor = rule.map(|rule| rule.max(rounded_up(libm::expm1(heat))));
        Noise {
            ratio,
            floor: floor.filter(|floor| floor.is_finite()),
            between_launches: root_mean_square(&self.logs)
                .map(|both| rounded(both / std::f64::consts::SQRT_2)),
        }
    }
}

/// `None` without a value.
fn root_mean_square(values: &[f64]) -> Option<f64> {
    let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
    interval::mean(&squares).map(f64::sqrt)
}

/// From the rounded ends, so that the printed interval and floor agree.
fn farther_end(ratio: &Interval) -> Option<f64> {
    if ratio.blocks < VERDICT_BLOCKS {
        return None;
    }
    let (low, high) = (ratio.low?, ratio.high?);
    Some(rounded(high.max(1.0 / low) - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few blocks in which a machine was hard on one of two twins move their mean, and no verdict's centre.
    #[test]
    fn a_heat_shows_what_its_ratio_is_about() {
        let floor = |blocks: usize| {
            let mut twins = Twins::default();
            let log = |block: usize| {
                if block.is_multiple_of(4) {
                    0.5
                } else {
                    [0.001, -0.001][block % 2]
                }
            };
            twins.add(&Shared {
                logs: (0..blocks).map(log).collect(),
                resolution: 0.0,
            });
            twins.noise(0.95).floor.unwrap()
        };
        assert!(floor(24) < 0.01, "{}", floor(24));
        assert!(floor(16) > 0.1, "{}", floor(16));
    }
}
