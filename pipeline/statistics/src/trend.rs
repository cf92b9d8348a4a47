//! How a time goes with a size: whether it falls or rises, and from where on it gains nothing more.
//!
//! *The trend* is told by Page's test (E. B. Page, "Ordered hypotheses for multiple treatments: a
//! significance test for linear ranks", JASA 58, 1963). In every block the sizes are ranked by their
//! time, and L = Σ j · (sum over blocks of the rank of the j-th size). Where sizes make no difference at all,
//! every order of a block is as likely as any other, so that the distribution of L is known, whatever that
//! of the times is; blocks are independent, and a machine's mood hits all sizes of a block alike. What the
//! test finds is told only where the largest size differs from the smallest by more than margin and
//! noise floor: small differences that last for a whole heat are in the order of every block.
//!
//! *The knee* is the smallest size whose time is within [`KNEE`] of the best of all. Every two sizes have
//! an interval of the ratio of their times, and all of them hold together. Where they do, a size is
//! beyond doubt within of the best when it is so against every other, and beyond doubt not when it is
//! not against some other; the knee lies between the first size that may be within and the first that is.
//! The noise floor is added to both ends. No interval of few blocks is narrower than what launches scatter
//! by makes it, as those of verdicts ([`crate::family::Family::ratio`]).

use std::collections::BTreeMap;

use schema::{
    Boundary,
    plan::VERDICT_BLOCKS,
    printed::Bounds,
    tables::{Direction, Interval, Knee},
};
use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::{family::confidence_each, interval, number::rounded, pair, samples::Steps};

/// How near to the best is near enough, as a relative difference.
pub const KNEE: f64 = 0.05;

/// Fewest sizes of which a trend is told.
pub const LEAST_SIZES: usize = 3;

/// Most sizes and blocks of which the distribution of L is counted out; of more it is taken for normal.
const COUNTED_SIZES: usize = 10;
const COUNTED_BLOCKS: usize = 48;

/// The sizes of one line in the blocks that measured all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Ascending.
    sizes: Vec<u64>,
    /// The steps of each size, by block.
    cells: Vec<BTreeMap<u32, Steps>>,
    /// How many blocks these are.
    blocks: usize,
    boundary: Boundary,
    /// What the logarithm of the ratio between a launch of one and a launch of another scatters by, at most.
    launches: Option<f64>,
}

/// What is said of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Trend {
    /// Whether time per sample falls as the size grows.
    pub direction: Direction,
    /// Probability of an L at least as far out, on either side, where sizes make no difference.
    pub p: f64,
    /// From where on nothing more is gained.
    pub knee: Knee,
    /// Time per sample at the largest size ÷ that at the smallest: what the direction rests on.
    pub ends: Interval,
    /// Whether that, or an interval that the knee rests on, is as wide as the scatter of launches makes it, and wider
    /// than what its own blocks scatter by does.
    pub is_widened: bool,
    /// Time per sample ÷ that at the smallest size, for every size but that: what the knee rests on.
    pub ratios: Vec<Interval>,
    /// Blocks that measured all sizes.
    pub blocks: u32,
}

impl Line {
    /// Of the step times of cells by block, in nanoseconds, each with its size: the number of samples in
    /// a step, all timed at this boundary; `launches` is what twins of such cells know of their launches ([`crate::noise::Sides::launches`]).
    /// `None` with fewer than [`LEAST_SIZES`] sizes, where one is there twice or is 0, and with
    /// fewer blocks than a verdict takes.
    #[must_use]
    pub fn new(
        cells: &[(u64, &BTreeMap<u32, Steps>)],
        boundary: Boundary,
        launches: Option<f64>,
    ) -> Option<Self> {
        let mut cells = cells.to_vec();
        cells.sort_by_key(|(size, _)| *size);
        let sizes: Vec<u64> = cells.iter().map(|(size, _)| *size).collect();
        let ascend = sizes.windows(2).all(|two| two.first() < two.last());
        if sizes.len() < LEAST_SIZES || !ascend || sizes.first() == Some(&0) {
            return None;
        }
        let is_in_all = |block: &u32| cells.iter().all(|(_, steps)| steps.contains_key(block));
        let shared: Vec<BTreeMap<u32, Steps>> = cells
            .iter()
            .map(|(_, steps)| {
                let in_all = steps.iter().filter(|(block, _)| is_in_all(block));
                in_all
                    .map(|(block, steps)| (*block, steps.clone()))
                    .collect()
            })
            .collect();
        let blocks = shared.first()?.len();
        (blocks >= VERDICT_BLOCKS as usize).then_some(Self {
            sizes,
            cells: shared,
            blocks,
            boundary,
            launches,
        })
    }

    /// What it says at this confidence, half of whose error goes to the test, and half to the intervals.
    #[must_use]
    pub fn trend(&self, confidence: f64, bounds: Bounds) -> Option<Trend> {
        let (p, falls) = self.page()?;
        let pairs = u32::try_from(self.sizes.len() * (self.sizes.len() - 1) / 2).ok()?;
        let of_each = confidence_each(confidence, 2, pairs);
        let of_test = confidence_each(confidence, 2, 1);
        let level = 1.0 - of_test;
        let others = 1..self.sizes.len();
        let ratios = others.map(|size| Some(self.ratio(size, 0, of_each)?.0));
        let ratios: Vec<Interval> = ratios.collect::<Option<_>>()?;
        let far = bounds.floor.map(|floor| 1.0 + floor.max(bounds.margin));
        // Where a direction is told and is wrong, the truth lies within the bounds or beyond their other side,
        // and so outside of this interval: its confidence alone bounds how often, and the test makes it rarer.
        let (ends, is_widened) = self.ratio(self.sizes.len() - 1, 0, of_test)?;
        let (knee, is_wide) = self.knee(of_each, bounds.floor)?;
        let is_far = far.is_some_and(|far| {
            if falls {
                ends.high.is_some_and(|high| high < 1.0 / far)
            } else {
                ends.low.is_some_and(|low| low > far)
            }
        });
        Some(Trend {
            direction: match (p <= level, is_far, falls) {
                (false, _, _) => Direction::None,
                (true, false, _) => Direction::Unclear,
                (true, true, true) => Direction::Falls,
                (true, true, false) => Direction::Rises,
            },
            p,
            knee,
            ends,
            is_widened: is_widened || is_wide,
            ratios,
            blocks: u32::try_from(self.blocks).ok()?,
        })
    }

    /// Time per sample at one size ÷ that at another, by their places, and whether launches widened it.
    fn ratio(&self, size: usize, other: usize, confidence: f64) -> Option<(Interval, bool)> {
        let shared = pair::shared(self.cells.get(other)?, self.cells.get(size)?, self.boundary);
        let samples = libm::log(*self.sizes.get(size)? as f64 / *self.sizes.get(other)? as f64);
        let logs: Vec<f64> = shared.logs.iter().map(|log| log - samples).collect();
        interval::at_least(&logs, confidence, shared.resolution, self.launches)
    }

    /// The knee, and whether launches widened an interval that it rests on.
    fn knee(&self, confidence: f64, floor: Option<f64>) -> Option<(Knee, bool)> {
        let places = 0..self.sizes.len();
        let near = 1.0 + KNEE;
        // Without a floor nobody knows what a difference means.
        let noise = 1.0 + floor.unwrap_or(f64::INFINITY);
        // Whether each size is within of all others: perhaps, as far as is seen, and beyond doubt.
        let (mut within, mut is_wide) = (Vec::new(), false);
        for size in places.clone() {
            let others = places.clone().filter(|other| *other != size);
            let ratios = others.map(|other| self.ratio(size, other, confidence));
            let ratios: Vec<(Interval, bool)> = ratios.collect::<Option<_>>()?;
            is_wide |= ratios.iter().any(|(_, is_wide)| *is_wide);
            let ratios: Vec<Interval> = ratios.into_iter().map(|(ratio, _)| ratio).collect();
            let all = |holds: &dyn Fn(&Interval) -> bool| ratios.iter().all(holds);
            within.push([
                all(&|ratio| ratio.low.is_none_or(|low| low / noise <= near)),
                all(&|ratio| ratio.centre <= near),
                all(&|ratio| ratio.high.is_some_and(|high| high * noise <= near)),
            ]);
        }
        let first = |holds: fn(&[bool; 3]) -> bool| {
            let place = within.iter().position(holds)?;
            self.sizes.get(place).copied()
        };
        // The best of all is within of itself, whichever it is. Medians of differences may go in a circle,
        // where each size seems to lose to another: then nothing is known.
        let low = first(|[perhaps, _, _]| *perhaps).or(self.sizes.first().copied())?;
        let high = first(|[_, _, surely]| *surely).or(self.sizes.last().copied())?;
        let seen = first(|[_, seen, _]| *seen).unwrap_or(low);
        let knee = Knee {
            low,
            centre: seen.clamp(low, high.max(low)),
            high: high.max(low),
        };
        Some((knee, is_wide))
    }

    /// The time of one sample in nanoseconds: a row a block, a number a size.
    fn times(&self) -> impl Iterator<Item = Vec<f64>> {
        let numbers = self.cells.iter().take(1).flat_map(BTreeMap::keys);
        numbers.map(|block| {
            let cells = self.cells.iter().zip(&self.sizes);
            let times =
                cells.filter_map(|(steps, size)| Some(steps.get(block)?.step_ns / *size as f64));
            times.collect()
        })
    }

    /// Page's test: its p-value on both sides, and whether times fall.
    fn page(&self) -> Option<(f64, bool)> {
        let k = self.sizes.len();
        let l: f64 = self.times().map(|block| weighted_ranks(&block)).sum();
        let mean = self.blocks as f64 * expected(k);
        // L is as likely as its mirror image. Where equals share their ranks it may be a half: then the
        // whole number next to it on the mean's side.
        let above = (mean + (l - mean).abs()).floor();
        let tail = if k <= COUNTED_SIZES && self.blocks <= COUNTED_BLOCKS {
            counted_tail(k, self.blocks, above)
        } else {
            normal_tail(k, self.blocks, above)?
        };
        let p = rounded((2.0 * tail).min(1.0));
        p.is_finite().then_some((p, l < mean))
    }
}

/// Σ j · rank of the j-th, from 1; equals share the mean of their ranks.
fn weighted_ranks(times: &[f64]) -> f64 {
    let rank = |time: &f64| {
        let below = times.iter().filter(|other| *other < time).count();
        let equal = times.iter().filter(|other| *other == time).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    let weighted = times.iter().zip(1_u32..);
    weighted
        .map(|(time, place)| f64::from(place) * rank(time))
        .sum()
}

/// The mean of that over all orders of `k`: k (k + 1)² ÷ 4.
fn expected(k: usize) -> f64 {
    let k = k as f64;
    k * (k + 1.0) * (k + 1.0) / 4.0
}

/// P(L ≥ `l`) for so many independent blocks, every order of which is as likely: counted.
fn counted_tail(k: usize, blocks: usize, l: f64) -> f64 {
    let of_one = orders(k);
    let mut sum = vec![1.0];
    for _ in 0..blocks {
        let mut next = vec![0.0; sum.len() + of_one.len() - 1];
        for (at, have) in sum.iter().enumerate() {
            for (to, share) in next.iter_mut().skip(at).zip(&of_one) {
                *to += have * share;
            }
        }
        sum = next;
    }
    // Sums begin at the reversed order in every block.
    let least = (blocks * least(k)) as f64;
    sum.iter()
        .enumerate()
        .rev()
        .take_while(|(at, _)| *at as f64 + least >= l)
        .map(|(_, share)| share)
        .sum()
}

/// The least Σ j · π(j) over all orders π of 1 … `k`, that of the reversed one: k (k + 1) (k + 2) ÷ 6.
const fn least(k: usize) -> usize {
    k * (k + 1) * (k + 2) / 6
}

/// The distribution of Σ j · π(j) over all orders π of 1 … `k`, from its least value on. Orders are
/// counted place by place, by the set of ranks that are given away.
fn orders(k: usize) -> Vec<f64> {
    let most = k * (k + 1) * (2 * k + 1) / 6;
    let sets = 1_usize << k;
    let mut counts = vec![vec![0.0; most + 1]; sets];
    if let Some(none) = counts.first_mut().and_then(|sums| sums.first_mut()) {
        *none = 1.0;
    }
    for set in 0..sets {
        let Some(sums) = counts.get_mut(set).map(std::mem::take) else {
            continue;
        };
        if set + 1 == sets {
            let all: f64 = sums.iter().sum();
            let reached = sums.iter().skip(least(k));
            return reached.map(|count| count / all).collect();
        }
        let place = set.count_ones() as usize + 1;
        for rank in (1..=k).filter(|rank| set & (1 << (rank - 1)) == 0) {
            if let Some(next) = counts.get_mut(set | (1 << (rank - 1))) {
                for (to, count) in next.iter_mut().skip(place * rank).zip(&sums) {
                    *to += count;
                }
            }
        }
    }
    Vec::new()
}

/// The same for a normal L, half a step taken off; its variance is n k² (k + 1)² (k − 1) ÷ 144.
fn normal_tail(k: usize, blocks: usize, l: f64) -> Option<f64> {
    let (size, blocks) = (k as f64, blocks as f64);
    let variance = blocks * (size * (size + 1.0)).powi(2) * (size - 1.0) / 144.0;
    let beyond = l - 0.5 - blocks * expected(k);
    let deviate = beyond.max(0.0) / variance.sqrt();
    Some(Normal::new(0.0, 1.0).ok()?.sf(deviate))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// The smallest L that is significant at 5 %, 1 % and 0.1 %, one-sided: Page's own table.
    #[test]
    fn the_distribution_is_the_published_one() {
        for (k, blocks, critical) in [
            (3, 2, [Some(28.0), None, None]),
            (3, 3, [Some(41.0), Some(42.0), None]),
            (3, 6, [Some(79.0), Some(81.0), Some(83.0)]),
            (4, 2, [Some(58.0), Some(60.0), None]),
            (4, 6, [Some(163.0), Some(167.0), Some(172.0)]),
            (5, 6, [Some(291.0), Some(299.0), Some(307.0)]),
        ] {
            for (level, l) in [0.05, 0.01, 0.001].into_iter().zip(critical) {
                let tail = |l: f64| counted_tail(k, blocks, l);
                let Some(l) = l else { continue };
                assert!(tail(l) <= level, "{k} {blocks} {l}: {}", tail(l));
                assert!(tail(l - 1.0) > level, "{k} {blocks} {l}: {}", tail(l - 1.0));
            }
        }
    }

    #[test]
    fn every_order_is_counted_once() {
        for k in 3..=COUNTED_SIZES {
            let shares = orders(k);
            let all: f64 = shares.iter().sum();
            assert!((all - 1.0).abs() < 1e-12, "{k}: {all}");
            let factorial: f64 = (1..=k).map(|i| i as f64).product();
            // One order has the least sum, one the largest.
            assert!((shares[0] * factorial - 1.0).abs() < 1e-9);
            assert!((shares.last().unwrap() * factorial - 1.0).abs() < 1e-9);
        }
        // Where counting ends, the normal distribution goes on: within a tenth at one in a thousand.
        let deviation = (24.0 * 110_f64.powi(2) * 9.0 / 144.0).sqrt();
        let l = (24.0 * expected(10) + 3.09 * deviation).round();
        let [counted, normal] = [counted_tail(10, 24, l), normal_tail(10, 24, l).unwrap()];
        assert!((counted / normal - 1.0).abs() < 0.1, "{counted} {normal}");
    }

    /// Step times of cells of these sizes, per sample as given, scattering from block to block.
    fn line(per_sample: &[(u64, f64)], blocks: u32, spread: f64, seed: u64) -> Option<Line> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let cells: Vec<(u64, BTreeMap<u32, Steps>)> = per_sample
            .iter()
            .map(|&(size, time)| {
                let steps = (0..blocks).map(|block| {
                    let noise: f64 = (0..12).map(|_| random.random::<f64>() - 0.5).sum();
                    (
                        block,
                        (1e6 * size as f64 * time * (spread * noise).exp()).into(),
                    )
                });
                (size, steps.collect())
            })
            .collect();
        let borrowed: Vec<_> = cells.iter().map(|(size, steps)| (*size, steps)).collect();
        Line::new(&borrowed, Boundary::Step, None)
    }

    const BOUNDS: Bounds = Bounds {
        margin: 0.02,
        floor: Some(0.001),
    };

    const FALLING: [(u64, f64); 5] = [(1, 2.0), (2, 1.5), (4, 1.2), (8, 1.02), (16, 1.0)];

    #[test]
    fn what_falls_to_a_limit_has_a_knee() {
        let trend = line(&FALLING, 6, 0.002, 1)
            .unwrap()
            .trend(0.95, BOUNDS)
            .unwrap();
        assert_eq!(trend.direction, Direction::Falls);
        assert!(trend.p < 1e-6, "{trend:?}");
        assert_eq!(
            trend.knee,
            Knee {
                low: 8,
                centre: 8,
                high: 8
            }
        );
        assert_eq!((trend.ratios.len(), trend.blocks), (4, 6));
        let [.., half] = trend.ratios.as_slice() else {
            panic!("every size but the first has a ratio")
        };
        assert!(half.low.unwrap() < 0.5 && half.high.unwrap() > 0.5);
        // One interval need not be as wide as ten that hold together.
        assert_eq!(
            (trend.ends.centre, trend.ends.confidence),
            (half.centre, 0.975)
        );
        assert!(trend.ends.low > half.low && trend.ends.high < half.high);
    }

    #[test]
    fn what_rises_is_told_and_its_knee_is_the_smallest() {
        let rising: Vec<(u64, f64)> = FALLING
            .iter()
            .map(|&(size, time)| (size, 1.0 / time))
            .collect();
        let trend = line(&rising, 6, 0.002, 2)
            .unwrap()
            .trend(0.95, BOUNDS)
            .unwrap();
        assert_eq!(trend.direction, Direction::Rises);
        assert_eq!((trend.knee.low, trend.knee.high), (1, 1));
    }

    #[test]
    fn noise_widens_a_knee_and_hides_a_trend() {
        let trend = line(&FALLING, 6, 0.1, 3)
            .unwrap()
            .trend(0.95, BOUNDS)
            .unwrap();
        assert!(trend.knee.low < 8 && trend.knee.high == 16, "{trend:?}");
        let flat = [(1, 1.0), (2, 1.0), (4, 1.0)];
        let trend = line(&flat, 12, 0.1, 4)
            .unwrap()
            .trend(0.95, BOUNDS)
            .unwrap();
        assert_eq!(trend.direction, Direction::None);
    }

    #[test]
    fn launches_that_scatter_widen_what_few_blocks_say() {
        let of = |blocks, launches| {
            let agreeing = line(&FALLING, blocks, 0.002, 1).unwrap();
            let trend = Line {
                launches,
                ..agreeing
            };
            trend.trend(0.95, BOUNDS).unwrap()
        };
        let half = |ends: Interval| libm::log(ends.high.unwrap() / ends.low.unwrap()) / 2.0;
        let [plain, wide] = [None, Some(0.05)].map(|launches| of(6, launches));
        assert!(!plain.is_widened && wide.is_widened);
        // The normal quantile at 97.5 %, since half of the error is the test's.
        let expected = 2.241_403 * 0.05 / 6.0_f64.sqrt();
        assert!((half(wide.ends) - expected).abs() < 1e-5, "{wide:?}");
        assert_eq!((plain.knee.low, plain.knee.high), (8, 8));
        assert_eq!((wide.knee.low, wide.knee.high), (8, 16));
        // What the order of blocks says needs no width, and of many blocks intervals are by their order, too.
        assert_eq!((wide.p, wide.direction), (plain.p, Direction::Falls));
        assert_eq!(of(24, Some(0.05)), of(24, None));
    }

    #[test]
    fn what_is_within_margin_or_floor_is_no_trend_worth_telling() {
        let slight = [(1, 1.0), (2, 0.995), (4, 0.99)];
        let line = line(&slight, 6, 0.0001, 6).unwrap();
        let of = |margin, floor| line.trend(0.95, Bounds { margin, floor }).unwrap();
        assert_eq!(of(0.005, Some(0.001)).direction, Direction::Falls);
        assert_eq!(of(0.02, Some(0.001)).direction, Direction::Unclear);
        assert_eq!(of(0.005, Some(0.03)).direction, Direction::Unclear);
        assert_eq!(of(0.005, None).direction, Direction::Unclear);
        // Nor is a knee known better than that.
        assert_eq!(of(0.005, Some(0.001)).knee.high, 1);
        assert_eq!(of(0.005, Some(0.06)).knee.high, 4);
        assert_eq!(of(0.005, None).knee.high, 4);
    }

    #[test]
    fn too_little_is_no_line() {
        assert_eq!(line(&FALLING[..2], 6, 0.01, 5), None);
        assert_eq!(line(&FALLING, 5, 0.01, 5), None);
        assert_eq!(line(&[(1, 1.0), (1, 1.0), (2, 1.0)], 6, 0.01, 5), None);
        assert_eq!(line(&[(0, 1.0), (1, 1.0), (2, 1.0)], 6, 0.01, 5), None);
        // A block that lacks one size says nothing about the others.
        let steps = |blocks: u32| -> BTreeMap<u32, Steps> {
            (0..blocks).map(|block| (block, 1e6.into())).collect()
        };
        let (steps, short) = (steps(6), steps(5));
        assert_eq!(
            Line::new(
                &[(1, &steps), (2, &short), (4, &steps)],
                Boundary::Step,
                None
            ),
            None
        );
    }

    /// Each size takes its tenth more of a sample in every pass, on a machine that is slow for one size alone in a pass.
    #[test]
    fn sizes_are_compared_by_pairs_of_rounds() {
        let cells = [(1, 1.0), (2, 1.1), (4, 1.2)].map(|(size, time)| {
            let rounds = (0..3).map(|pass| if size == 1 << pass { 2.0 } else { 1.0 });
            let rounds_ns: Vec<f64> = rounds.map(|mood| 1e6 * size as f64 * time * mood).collect();
            let steps = Steps {
                // As if the machine had been slow for most of the steps of the smallest.
                step_ns: rounds_ns[0],
                rounds_ns,
            };
            let blocks: BTreeMap<u32, Steps> = (0..6).map(|block| (block, steps.clone())).collect();
            (size, blocks)
        });
        let borrowed: Vec<_> = cells.iter().map(|(size, steps)| (*size, steps)).collect();
        let line = Line::new(&borrowed, Boundary::Step, None).unwrap();
        let ratios = line.trend(0.95, BOUNDS).unwrap().ratios;
        let centres: Vec<f64> = ratios.iter().map(|ratio| ratio.centre).collect();
        assert_eq!(centres, [1.1, 1.2]);
    }

    #[test]
    fn equal_times_are_no_trend() {
        let steps: Vec<BTreeMap<u32, Steps>> = [1.0, 2.0, 4.0]
            .map(|size| (0..6).map(|block| (block, (1e6 * size).into())).collect())
            .into();
        let cells: Vec<_> = [1, 2, 4].into_iter().zip(&steps).collect();
        let trend = Line::new(&cells, Boundary::Step, None)
            .unwrap()
            .trend(0.95, BOUNDS)
            .unwrap();
        assert_eq!((trend.direction, trend.p), (Direction::None, 1.0));
        assert_eq!((trend.knee.low, trend.knee.high), (1, 1));
    }

    /// Whatever the truth, the knee's interval holds it, and a trend is seen in what has none, no more
    /// often than is promised together.
    #[test]
    fn what_is_said_holds_as_often_as_it_promises() {
        let (mut wrong, lines) = (0, 2000);
        for seed in 0..lines {
            let mut random = ChaCha8Rng::seed_from_u64(1000 + seed);
            let mut truth: Vec<f64> = (0..5).map(|_| 1.0 + 0.1 * random.random::<f64>()).collect();
            truth.shuffle(&mut random);
            let best = truth.iter().copied().fold(f64::INFINITY, f64::min);
            let sizes: Vec<(u64, f64)> = (0..5).map(|at| (1 << at, truth[at])).collect();
            let at = truth
                .iter()
                .position(|time| *time <= best * (1.0 + KNEE))
                .unwrap();
            let knee = line(&sizes, 6, 0.01, seed)
                .unwrap()
                .trend(0.95, BOUNDS)
                .unwrap()
                .knee;
            let holds = (knee.low..=knee.high).contains(&(1 << at));
            wrong += u64::from(!holds);
        }
        assert!(wrong * 40 <= lines, "{wrong} of {lines} knees");
        let flat: Vec<(u64, f64)> = (0..5).map(|at| (1 << at, 1.0)).collect();
        let seen = (0..lines).filter(|&seed| {
            let trend = line(&flat, 6, 0.01, 7000 + seed)
                .unwrap()
                .trend(0.90, BOUNDS)
                .unwrap();
            trend.p <= 0.05
        });
        let seen = seen.count() as u64;
        // A level of 5 %, within three standard deviations, and not much below: the test can find something.
        assert!((50..=129).contains(&seen), "{seen} of {lines} trends");
    }
}
