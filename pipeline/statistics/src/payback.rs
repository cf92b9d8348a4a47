//! After how many steps a faster engine has earned back what it takes longer to get ready.
//!
//! With readiness R and step time s, contender c and baseline b are even after n = (R_c − R_b) ÷ (s_b − s_c) steps.
//! R and s are typical ones, the exponentials of the means of the logarithms over blocks, each with Student's interval:
//! what getting ready takes is skewed, and its mean would be missed by more. From those, by the method of variance
//! estimates recovery, come
//!
//! * the intervals of both differences, the correlation of the two cells' blocks counted in (Zou and Donner,
//!   "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 27 (2008),
//!   equations 10 and 11). What they allow to say has to exclude 0: no number is told of two that may be even;
//! * that of the quotient (Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
//!   standard deviation", Statistical Methods in Medical Research 21 (2012); Newcombe, the same journal 25 (2016),
//!   calls it MOVER-R). It takes both differences as independent: a mood that slows down a block slows down both, which
//!   makes it wide rather than narrow.
//!
//! Student's however many the blocks are: a centre that went over to the median at twenty would have a wider interval
//! there than at nineteen. How often it holds, and how often there is a number, a simulation below tells.

use schema::{
    Boundary,
    tables::{FirstSteps, Interval, Payback, Verdict},
};

use crate::{
    interval::{self, in_order, student},
    number::{rounded, rounded_down, rounded_up},
};

/// The resolution of the host's clock in nanoseconds: by another one nothing here is timed.
const CLOCK_NS: f64 = interval::clock_ns(Boundary::Step);

/// Readings of the clock in a difference of two step times, and of two readinesses, which add up five times each.
const STEP_READINGS: f64 = 2.0;
const READY_READINGS: f64 = 10.0;

/// What a cell takes in a block, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// What getting ready takes, without what is the harness's. After n steps it has taken this, and n times
    /// a step.
    pub ready: f64,
    /// A step.
    pub step: f64,
}

/// The payback of a contender that this verdict speaks of, from the costs of baseline and contender in
/// the blocks that measured both, at this confidence. `None` where the verdict leaves open which of
/// them is faster, and where there is no block; unclear where the intervals do, or leave open which is ready first.
#[must_use]
pub fn payback(verdict: Verdict, blocks: &[[Cost; 2]], confidence: f64) -> Option<Payback> {
    let is_faster = is_faster(verdict)?;
    if blocks.is_empty() {
        return None;
    }
    Some(told(is_faster, blocks, confidence).unwrap_or(Payback::Unclear))
}

/// The same where getting ready takes each of them what it took once, baseline and contender: a number without an
/// interval. `None` also where blocks leave open which is faster.
#[must_use]
pub fn first(
    verdict: Verdict,
    ready: [f64; 2],
    blocks: &[[Cost; 2]],
    confidence: f64,
) -> Option<FirstSteps> {
    let is_faster = is_faster(verdict)?;
    let gained = gained(is_faster, blocks, confidence)?;
    let [slow, fast] = in_roles(is_faster, ready);
    let steps = rounded((fast - slow) / gained.centre);
    Some(match (steps > 0.0, is_faster) {
        (false, true) => FirstSteps::AtOnce,
        (false, false) => FirstSteps::Never,
        (true, true) => FirstSteps::After(steps),
        (true, false) => FirstSteps::Until(steps),
    })
}

const fn is_faster(verdict: Verdict) -> Option<bool> {
    match verdict {
        Verdict::Faster => Some(true),
        Verdict::Slower => Some(false),
        Verdict::Same | Verdict::Unclear | Verdict::NotMeasured => None,
    }
}

/// The slower first, of what is the baseline's and the contender's.
fn in_roles<T>(is_faster: bool, [baseline, contender]: [T; 2]) -> [T; 2] {
    match is_faster {
        true => [baseline, contender],
        false => [contender, baseline],
    }
}

/// `None` where it is too close to call.
fn told(is_faster: bool, blocks: &[[Cost; 2]], confidence: f64) -> Option<Payback> {
    let gained = gained(is_faster, blocks, confidence)?;
    let [slow, fast] = in_roles(is_faster, columns(blocks, |cost| cost.ready));
    let later = difference(&fast, &slow, confidence, READY_READINGS)?;
    if later.high < 0.0 {
        return Some(match is_faster {
            true => Payback::AtOnce,
            false => Payback::Never,
        });
    }
    let steps = quotient(later, gained)?;
    let steps = Interval {
        low: Some(rounded_down(steps.low)),
        centre: rounded(steps.centre),
        high: Some(rounded_up(steps.high)),
        blocks: u32::try_from(blocks.len()).ok()?,
        confidence,
    };
    Some(match is_faster {
        true => Payback::After(steps),
        false => Payback::Until(steps),
    })
}

/// What the faster one gains in a step; `None` where that may be nothing.
fn gained(is_faster: bool, blocks: &[[Cost; 2]], confidence: f64) -> Option<Estimate> {
    let [slow, fast] = in_roles(is_faster, columns(blocks, |cost| cost.step));
    let gained = difference(&slow, &fast, confidence, STEP_READINGS)?;
    (gained.low > 0.0).then_some(gained)
}

/// Logarithms, a value per block: the baseline's and the contender's.
fn columns(blocks: &[[Cost; 2]], of: fn(&Cost) -> f64) -> [Vec<f64>; 2] {
    let log = |cost: &Cost| libm::log(of(cost).max(CLOCK_NS));
    [
        blocks.iter().map(|[baseline, _]| log(baseline)).collect(),
        blocks.iter().map(|[_, contender]| log(contender)).collect(),
    ]
}

/// A number with its interval.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    low: f64,
    centre: f64,
    high: f64,
}

impl Estimate {
    fn finite(self) -> Option<Self> {
        let numbers = [self.low, self.centre, self.high];
        numbers
            .iter()
            .all(|number| number.is_finite())
            .then_some(self)
    }
}

/// What is typical, from logarithms.
fn typical(logs: &[f64], confidence: f64) -> Option<Estimate> {
    let (centre, half) = student(&in_order(logs), confidence)?;
    let (below, above) = half?;
    let estimate = Estimate {
        low: libm::exp(centre - below),
        centre: libm::exp(centre),
        high: libm::exp(centre + above),
    };
    estimate.finite()
}

/// The difference of what is typical, from logarithms block by block, with as many readings of the clock in it.
fn difference(from: &[f64], less: &[f64], confidence: f64, readings: f64) -> Option<Estimate> {
    let (one, other) = (typical(from, confidence)?, typical(less, confidence)?);
    let together = correlation(from, less);
    let reach = |one: f64, other: f64| {
        let square = one * one + other * other - 2.0 * together * one * other;
        square.max(0.0).sqrt() + readings * CLOCK_NS
    };
    let centre = one.centre - other.centre;
    let difference = Estimate {
        low: centre - reach(one.centre - one.low, other.high - other.centre),
        centre,
        high: centre + reach(one.high - one.centre, other.centre - other.low),
    };
    difference.finite()
}

/// Pearson's; 0 where one does not scatter.
fn correlation(ones: &[f64], others: &[f64]) -> f64 {
    let (Some(one), Some(other)) = (interval::mean(ones), interval::mean(others)) else {
        return 0.0;
    };
    let off = ones.iter().zip(others);
    let off = off.map(|(value, beside)| (value - one, beside - other));
    let sums = off.fold([0.0; 3], |[one, both, other], (value, beside)| {
        [
            one + value * value,
            both + value * beside,
            other + beside * beside,
        ]
    });
    let [one, both, other] = sums;
    let correlation = both / (one * other).sqrt();
    match correlation.is_finite() {
        true => correlation.clamp(-1.0, 1.0),
        false => 0.0,
    }
}

/// Of two that are both above 0; `None` where one may not be.
fn quotient(above: Estimate, below: Estimate) -> Option<Estimate> {
    if above.low <= 0.0 || below.low <= 0.0 {
        return None;
    }
    let product = above.centre * below.centre;
    // Of an end: the end times what lies as far on the other side of the centre.
    let mirrored = |centre: f64, end: f64| end * (2.0 * centre - end);
    let root = |above: f64, below: f64| (product * product - above * below).max(0.0).sqrt();
    let (least, most) = (
        mirrored(above.centre, above.low),
        mirrored(above.centre, above.high),
    );
    let (fewest, greatest) = (
        mirrored(below.centre, below.low),
        mirrored(below.centre, below.high),
    );
    let quotient = Estimate {
        // The lower root of the same equation, without a difference of two that are nearly equal.
        low: least / (product + root(least, greatest)),
        centre: above.centre / below.centre,
        high: (product + root(most, fewest)) / fewest,
    };
    quotient.finite()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Box and Muller, "A note on the generation of random normal deviates", 1958.
    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let (radius, angle): (f64, f64) = (random.random(), random.random());
        (-2.0 * libm::log(1.0 - radius)).sqrt() * libm::cos(std::f64::consts::TAU * angle)
    }

    fn cost(ready: f64, step: f64) -> Cost {
        Cost { ready, step }
    }

    fn of(verdict: Verdict, baseline: Cost, contender: Cost) -> Option<Payback> {
        payback(verdict, &[[baseline, contender]; 6], 0.95)
    }

    #[test]
    fn what_is_ready_later_must_be_faster_to_pay() {
        let baseline = cost(1e9, 1e7);
        assert_eq!(
            of(Verdict::Faster, baseline, cost(9e8, 5e6)),
            Some(Payback::AtOnce)
        );
        assert_eq!(
            of(Verdict::Slower, baseline, cost(2e9, 2e7)),
            Some(Payback::Never)
        );
        // 500 ms more, 5 ms less each step.
        let Some(Payback::After(steps)) = of(Verdict::Faster, baseline, cost(1.5e9, 5e6)) else {
            panic!("it pays after some steps")
        };
        assert_eq!((steps.centre, steps.blocks), (100.0, 6));
        // Blocks that agree leave what the clock hides: 10 ns of one difference, 2 ns of the other.
        let (low, high) = (steps.low.unwrap(), steps.high.unwrap());
        assert_eq!((low, high), (99.9999, 100.001));
        let Some(Payback::Until(steps)) = of(Verdict::Slower, baseline, cost(4e8, 1.2e7)) else {
            panic!("it is ahead for some steps")
        };
        assert_eq!(steps.centre, 300.0);
    }

    #[test]
    fn the_first_start_counts_once() {
        let blocks = [[cost(1e9, 1e7), cost(1e9, 5e6)]; 6];
        let of = |verdict, ready| first(verdict, ready, &blocks, 0.95);
        let faster = |ready| of(Verdict::Faster, ready);
        assert_eq!(faster([2e9, 3e9]), Some(FirstSteps::After(200.0)));
        assert_eq!(faster([2e9, 2e9]), Some(FirstSteps::AtOnce));
        assert_eq!(of(Verdict::Unclear, [2e9, 3e9]), None);
        // Blocks know better which is faster.
        assert_eq!(of(Verdict::Slower, [3e9, 2e9]), None);
        let turned = blocks.map(|[baseline, contender]| [contender, baseline]);
        let slower = |ready| first(Verdict::Slower, ready, &turned, 0.95);
        assert_eq!(slower([3e9, 2e9]), Some(FirstSteps::Until(200.0)));
        assert_eq!(slower([2e9, 3e9]), Some(FirstSteps::Never));
    }

    #[test]
    fn it_is_unclear_where_an_interval_is() {
        let unclear = Some(Payback::Unclear);
        let baseline = cost(1e9, 1e7);
        assert_eq!(of(Verdict::Unclear, baseline, cost(1.5e9, 5e6)), None);
        assert_eq!(payback(Verdict::Faster, &[], 0.95), None);
        // Ready at the same time, to what the clock can tell; and as fast.
        assert_eq!(of(Verdict::Faster, baseline, cost(1e9 + 9.0, 5e6)), unclear);
        assert_eq!(of(Verdict::Faster, baseline, cost(2e9, 1e7 - 1.0)), unclear);
        // A verdict that these blocks do not bear out; one block.
        assert_eq!(of(Verdict::Slower, baseline, cost(1.5e9, 5e6)), unclear);
        let one = [[baseline, cost(1.5e9, 5e6)]];
        assert_eq!(payback(Verdict::Faster, &one, 0.95), unclear);
        let blocks = [[baseline, cost(9e8, 5e6)], [baseline, cost(1.1e9, 5e6)]];
        assert_eq!(payback(Verdict::Faster, &blocks, 0.95), unclear);
        // Of many, one that disagrees does not matter.
        let mut blocks = [[baseline, cost(1.5e9, 5e6)]; 24];
        blocks[7][1] = cost(9e8, 5e6);
        let told = payback(Verdict::Faster, &blocks, 0.95);
        assert!(matches!(told, Some(Payback::After(_))), "{told:?}");
        let nothing = cost(0.0, 5e6);
        assert_eq!(
            of(Verdict::Faster, baseline, nothing),
            Some(Payback::AtOnce)
        );
    }

    #[test]
    fn intervals_by_hand() {
        let above = Estimate {
            low: 8.0,
            centre: 10.0,
            high: 13.0,
        };
        let below = Estimate {
            low: 4.0,
            centre: 5.0,
            high: 7.0,
        };
        let found = quotient(above, below).unwrap();
        // (50 − √(2500 − 96·21)) ÷ 21 and (50 + √(2500 − 91·24)) ÷ 24.
        let (low, high) = (
            (50.0 - 484_f64.sqrt()) / 21.0,
            (50.0 + 316_f64.sqrt()) / 24.0,
        );
        assert!((found.low - low).abs() < 1e-12 && (found.high - high).abs() < 1e-12);
        assert_eq!(found.centre, 2.0);
        let open = Estimate { low: 0.0, ..below };
        assert!(quotient(above, open).is_none() && quotient(open, below).is_none());
        let logs = [0.0, 1.0, 2.0, 3.0];
        assert_eq!(correlation(&logs, &logs.map(|log| -2.0 * log)), -1.0);
        assert_eq!(correlation(&logs, &[1.0; 4]), 0.0);
        // What goes up and down together cancels, but for the clock.
        let doubled = logs.map(|log| log + 2_f64.ln());
        let found = difference(&doubled, &logs, 0.5, 2.0).unwrap();
        let (one, other) = (
            typical(&doubled, 0.5).unwrap(),
            typical(&logs, 0.5).unwrap(),
        );
        assert!((found.centre - other.centre).abs() < 1e-12);
        let low = (one.centre - one.low - (other.high - other.centre)).abs();
        assert!((found.centre - found.low - low - 2.0).abs() < 1e-12);
    }

    const HEATS: u32 = 1000;

    /// How many of so many heats have a number, and of how many number or order leave the truth out, where a contender
    /// takes `ready` times as long to get ready and `speed` times as long for a step, which scatter by `steps` and
    /// with a `mood` of the block's that both share.
    fn simulated(
        normal: &mut impl FnMut() -> f64,
        (ready, speed, steps, mood): (f64, f64, f64, f64),
        blocks: usize,
    ) -> (u32, u32) {
        let deviation = 1.25_f64.ln().sqrt();
        let truth = (ready - 1.0) * 1e9 / ((1.0 - speed) * 1e7);
        let (mut numbers, mut wrong) = (0, 0);
        for _ in 0..HEATS {
            let block = |_| {
                let mood = libm::exp(mood * normal());
                let mut cost = |ready: f64, step: f64| Cost {
                    ready: ready * 1e9 * mood * libm::exp(deviation * normal()),
                    step: step * 1e7 * mood * libm::exp(steps * normal()),
                };
                [cost(1.0, 1.0), cost(ready, speed)]
            };
            let heat: Vec<[Cost; 2]> = (0..blocks).map(block).collect();
            match payback(Verdict::Faster, &heat, 0.95) {
                Some(Payback::After(steps)) => {
                    numbers += 1;
                    let (low, high) = (steps.low.unwrap(), steps.high.unwrap());
                    wrong += u32::from(!(low..=high).contains(&truth));
                }
                Some(Payback::AtOnce) => wrong += 1,
                _ => {}
            }
        }
        (numbers, wrong)
    }

    /// Of two that are ready after nearly the same time few have a number, and these are too large: the method page
    /// tells how often.
    #[test]
    fn numbers_of_what_is_nearly_even_overstate() {
        let mut random = ChaCha8Rng::seed_from_u64(20_261_127);
        let mut normal = move || normal(&mut random);
        let found = simulated(&mut normal, (1.2, 0.5, 0.02, 0.0), 6);
        assert_eq!(found, (79, 31), "the method page is old");
    }

    /// Readiness that scatters by half of itself, steps by 1 to 5 %, by themselves and with a mood of the block's that
    /// both share: seldom is anything told that is wrong, and more blocks give no fewer numbers.
    #[test]
    fn little_is_told_that_is_wrong_and_more_blocks_tell_more() {
        let mut random = ChaCha8Rng::seed_from_u64(20_261_127);
        let mut normal = move || normal(&mut random);
        for (ready, speed, steps, mood) in [
            (20.0, 0.5, 0.01, 0.0),
            (3.0, 0.9, 0.02, 0.0),
            (3.0, 0.5, 0.05, 0.3),
            (1.5, 0.9, 0.05, 0.0),
            (1.5, 0.5, 0.01, 0.3),
        ] {
            let mut before = 0;
            for blocks in [6, 12, 24, 48] {
                let (numbers, wrong) = simulated(&mut normal, (ready, speed, steps, mood), blocks);
                let case = format!("{ready}, {speed}, {steps}, {mood}, {blocks}");
                assert!(wrong * 100 <= 6 * HEATS, "{case}: {wrong} of {HEATS} wrong");
                // To what a simulation can tell.
                let told = numbers + HEATS / 100 >= before;
                assert!(told, "{case}: {numbers} numbers after {before}");
                before = numbers;
            }
        }
    }
}
