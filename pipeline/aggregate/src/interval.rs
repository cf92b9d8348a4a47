//! The interval of the centre of independent values: one per block, in logarithms.
//!
//! Two kinds, and the choice between them looks at the number of blocks and the confidence
//! alone, never at the values, so that it cannot bend the coverage:
//!
//! * below [`ORDER_STATISTIC_BLOCKS`] blocks, Student's t around the mean. At the confidences
//!   that a family of verdicts leaves to each of its pairs, an order-statistic interval of so few
//!   blocks is their whole range, or does not exist (6 blocks reach 96.9 %);
//! * from there on, order statistics around the median, which assume nothing of the distribution:
//!   a machine's moods make it two-humped, and t intervals of such values are needlessly wide.
//!   Where even the whole range does not reach the confidence, t again.
//!
//! For values that scatter symmetrically both estimate the same centre.

use schema::tables::Interval;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use crate::number::rounded;

/// Fewest blocks that a verdict, or a noise floor, may rest on.
pub const VERDICT_BLOCKS: u32 = 6;

/// Fewest blocks for an order-statistic interval.
pub const ORDER_STATISTIC_BLOCKS: u32 = 20;

/// The resolution of the clock in nanoseconds: samples are whole ones, differences of two readings.
const CLOCK_NS: f64 = 1.0;

/// What rounding to whole nanoseconds may have done to the logarithm of a time.
#[must_use]
pub(crate) fn resolution(time_ns: f64) -> f64 {
    CLOCK_NS / time_ns.max(CLOCK_NS)
}

/// Centre of `logs` with its interval, as factors: `exp` of both.
///
/// `resolution` is added to the interval at both ends. It is a bound on an error that all blocks
/// may share, so it does not shrink with their number; without it, blocks that agree to the
/// nanosecond would claim an interval without width. `None` without a value, or when one is not
/// finite.
#[must_use]
pub(crate) fn of_logs(logs: &[f64], confidence: f64, resolution: f64) -> Option<Interval> {
    let mut sorted = logs.to_vec();
    // One order whatever the order of blocks, so that sums have the same bits.
    sorted.sort_by(f64::total_cmp);
    let (centre, half) = match order_statistics(&sorted, confidence) {
        Some((low, centre, high)) => (centre, Some((centre - low, high - centre))),
        None => {
            let centre = mean(&sorted)?;
            let half = student_half_width(&sorted, centre, confidence);
            (centre, half.map(|half| (half, half)))
        }
    };
    let factor = |log: f64| {
        let factor = rounded(libm::exp(log));
        (factor.is_finite() && factor > 0.0).then_some(factor)
    };
    Some(Interval {
        low: half.and_then(|(below, _)| factor(centre - below - resolution)),
        centre: factor(centre)?,
        high: half.and_then(|(_, above)| factor(centre + above + resolution)),
        blocks: u32::try_from(sorted.len()).ok()?,
        confidence,
    })
}

/// Standard deviation of `values`, with n − 1; 0 for fewer than two.
#[must_use]
pub(crate) fn standard_deviation(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    mean(&sorted)
        .and_then(|mean| variance(&sorted, mean))
        .map_or(0.0, f64::sqrt)
}

fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

fn variance(values: &[f64], mean: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    Some(squares / freedom as f64)
}

/// t·s/√n: Student, "The probable error of a mean", Biometrika 6 (1908).
fn student_half_width(values: &[f64], mean: f64, confidence: f64) -> Option<f64> {
    let spread = variance(values, mean)?.sqrt();
    let n = values.len() as f64;
    let half = student_quantile(confidence, n - 1.0)? * spread / n.sqrt();
    half.is_finite().then_some(half)
}

/// The t that a variable of this freedom exceeds in absolute value with probability
/// 1 − `confidence`.
fn student_quantile(confidence: f64, freedom: f64) -> Option<f64> {
    let tail = tail(confidence)?;
    let quantile = -StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(tail);
    quantile.is_finite().then_some(quantile)
}

/// Low, median and high: the narrowest symmetric pair of order statistics whose exact confidence,
/// 1 − 2·P(Binomial(n, ½) < k), reaches the wanted one (David and Nagaraja, "Order Statistics",
/// 2003, section 7.1).
fn order_statistics(sorted: &[f64], confidence: f64) -> Option<(f64, f64, f64)> {
    let n = sorted.len();
    if n < ORDER_STATISTIC_BLOCKS as usize {
        return None;
    }
    let tail = tail(confidence)?;
    let below = Binomial::new(0.5, n as u64).ok()?;
    // The largest k with P(B ≤ k − 1) ≤ tail; the probability grows with k.
    let (mut reached, mut beyond) = (0_u64, n as u64 / 2 + 1);
    while beyond - reached > 1 {
        let k = reached.midpoint(beyond);
        if below.cdf(k - 1) <= tail {
            reached = k;
        } else {
            beyond = k;
        }
    }
    let k = usize::try_from(reached).ok()?;
    let low = *sorted.get(k.checked_sub(1)?)?;
    let high = *sorted.get(n - k)?;
    let centre = (sorted.get((n - 1) / 2)? + sorted.get(n / 2)?) / 2.0;
    (low.is_finite() && high.is_finite()).then_some((low, centre, high))
}

fn tail(confidence: f64) -> Option<f64> {
    (confidence > 0.0 && confidence < 1.0).then_some((1.0 - confidence) / 2.0)
}
