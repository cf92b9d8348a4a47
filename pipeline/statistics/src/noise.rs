//! The A/A floor: how far apart this machine puts things that are the same.

use std::f64::consts::SQRT_2;

use schema::{plan::VERDICT_BLOCKS, tables::Interval};

use crate::{
    interval::{self, chi_square_quantile, in_order},
    number::{rounded, rounded_up},
    pair::Shared,
};

/// Confidence of the upper limit of what launches scatter by, which gives intervals their least width. What comes of
/// it [`crate::coverage::OF_TWELVE`] tells.
pub const SCATTER_CONFIDENCE: f64 = 0.8;

/// What pairs of identical cells say together.
#[derive(Debug, Clone, Default)]
pub struct Twins {
    /// ln(twin ÷ original), a value per block of every pair.
    logs: Vec<f64>,
    /// Centres of those, a value per pair with enough blocks.
    centres: Vec<f64>,
    /// Sums of the squares of what those are off the mean of their pair, a value per pair, and how many of the
    /// differences are free.
    squares: Vec<f64>,
    freedom: usize,
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
    /// of two launches, and by moods shorter than a pass over the cells of a block, or than the block where rounds are no
    /// pairs.
    pub between_launches: Option<f64>,
    /// The upper limit, at [`SCATTER_CONFIDENCE`], of the standard deviation by which launches scatter from block
    /// to block, where twins do not differ in all blocks alike; `None` with too few blocks.
    pub launch_scatter: Option<f64>,
}

/// The noise of both sides of a pair; `None` of a side no twin of which has told.
#[derive(Debug, Clone, PartialEq)]
pub struct Sides(pub [Option<Noise>; 2]);

impl Sides {
    /// The larger floor; unknown when either is.
    #[must_use]
    pub fn floor(&self) -> Option<f64> {
        let [one, other] = self.floors();
        Some(one?.max(other?))
    }

    /// The larger of the floors that are known.
    #[must_use]
    pub fn floor_so_far(&self) -> Option<f64> {
        self.floors().into_iter().flatten().reduce(f64::max)
    }

    fn floors(&self) -> [Option<f64>; 2] {
        self.0.each_ref().map(|noise| noise.as_ref()?.floor)
    }

    /// The standard deviation of the logarithm of the ratio between a launch of the one and a launch of the
    /// other, at most, as far as it is known.
    #[must_use]
    pub fn launches(&self) -> Option<f64> {
        let known = self.0.iter().flatten();
        known
            .filter_map(|noise| noise.launch_scatter)
            .reduce(libm::hypot)
    }
}

impl Twins {
    /// Takes a pair in, by its differences.
    pub fn add(&mut self, shared: &Shared) {
        self.resolution = self.resolution.max(shared.resolution);
        if shared.logs.len() >= VERDICT_BLOCKS as usize {
            self.centres.extend(interval::centre(&shared.logs));
        }
        self.logs.extend_from_slice(&shared.logs);
        if let Some(freedom) = shared.logs.len().checked_sub(1) {
            let deviation = interval::standard_deviation(&shared.logs);
            self.squares.push(deviation * deviation * freedom as f64);
            self.freedom += freedom;
        }
    }

    /// Takes in what other pairs say.
    pub fn join(&mut self, other: &Self) {
        self.resolution = self.resolution.max(other.resolution);
        self.centres.extend_from_slice(&other.centres);
        self.logs.extend_from_slice(&other.logs);
        self.squares.extend_from_slice(&other.squares);
        self.freedom += other.freedom;
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
            between_launches: root_mean_square(&self.logs).map(|both| rounded(both / SQRT_2)),
            launch_scatter: self.are_enough().then(|| self.launch_scatter()).flatten(),
        }
    }

    /// The upper limit of the standard deviation of a launch: that of the logarithms around the mean of their
    /// pair by the distribution of χ² (for instance Hahn and Meeker, "Statistical Intervals", 1991,
    /// section 4.3), over √2. That is of normal values; how it fares with humps, simulations tell
    /// ([`crate::coverage::OF_TWELVE`]). What a pair is apart in all of its blocks the floor has.
    fn launch_scatter(&self) -> Option<f64> {
        let squares: f64 = in_order(&self.squares).iter().sum();
        let least = chi_square_quantile(1.0 - SCATTER_CONFIDENCE, self.freedom)?;
        let both = (squares / least).sqrt();
        let launches = rounded_up(both / SQRT_2);
        launches.is_finite().then_some(launches)
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

    #[test]
    fn what_launches_scatter_by_has_an_upper_limit() {
        let mut twins = Twins::default();
        let pair = |logs: &[f64]| Shared {
            logs: logs.to_vec(),
            resolution: 0.0,
        };
        // A pair that is apart in all blocks alike, and scatters around that.
        twins.add(&pair(&[0.52, 0.48, 0.52, 0.48]));
        assert_eq!(twins.noise(0.95).launch_scatter, None);
        twins.add(&pair(&[0.02, -0.02, 0.02, -0.02]));
        // The 20th percentile of χ² with 6 degrees of freedom is 3.070088.
        let limit = 0.02 * (8.0_f64 / 3.070_088 / 2.0).sqrt();
        let found = twins.noise(0.95).launch_scatter.unwrap();
        assert!((found / limit - 1.0).abs() < 1e-4, "{found}, {limit}");
        assert_eq!(Twins::default().noise(0.95).launch_scatter, None);
    }

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
