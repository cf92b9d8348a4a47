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
//! For values that scatter symmetrically both estimate the same centre. Where they do not, the
//! interval of a few blocks holds what is typical, the median, as often as it promises, and the
//! mean less often. Shares of 20,000 simulated heats whose interval held it, below twenty blocks:
//!
//! | logarithms of block values              | centre | 95 %, n = 6 | n = 12 | 99 %, n = 6 | n = 12 |
//! |-----------------------------------------|--------|-------------|--------|-------------|--------|
//! | normal: block values are log-normal     | both   | 94.9 %      | 95.1 % | 99.0 %      | 98.9 % |
//! | skewed: themselves log-normal, σ = ½    | median | 95.1 %      | 94.4 % | 98.9 %      | 99.1 % |
//! |                                         | mean   | 91.4 %      | 92.3 % | 97.1 %      | 97.2 % |
//! | one block in ten ten widths up          | median | 96.7 %      | 95.9 % | 99.4 %      | 99.5 % |
//! |                                         | mean   | 72.7 %      | 74.6 % | 89.5 %      | 81.4 % |
//!
//! No interval of six blocks knows what happens in one block of ten: a rare disturbance that hits
//! one side alone is found by more blocks, not by a better formula.

use schema::{Boundary, tables::Interval};
use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use crate::{
    number::{self, rounded, rounded_down, rounded_up},
    percentile,
};

/// Fewest blocks for an order-statistic interval.
pub const ORDER_STATISTIC_BLOCKS: u32 = 20;

/// The resolution of the clock that times steps at this boundary, in nanoseconds.
///
/// The host's clock counts whole ones, and samples are differences of two readings. A GPU's own is that of
/// events, whose distance has "a resolution of around 0.5 microseconds" (CUDA Runtime API, section "Event
/// Management", `cudaEventElapsedTime`).
#[must_use]
pub const fn clock_ns(boundary: Boundary) -> f64 {
    match boundary {
        Boundary::Step | Boundary::Request => 1.0,
        Boundary::Device => 500.0,
    }
}

/// What the resolution of the clock at this boundary may have done to the logarithm of a time.
#[must_use]
pub fn resolution(time_ns: f64, boundary: Boundary) -> f64 {
    let clock_ns = clock_ns(boundary);
    clock_ns / time_ns.max(clock_ns)
}

/// Centre of `logs` with its interval, as factors: `exp` of both.
///
/// `resolution` is added to the interval at both ends. It is a bound on an error that all blocks
/// may share, so it does not shrink with their number; without it, blocks that agree to the
/// nanosecond would claim an interval without width. Ends are rounded outward. `None` without a value, or when one is not
/// finite.
#[must_use]
pub fn of_logs(logs: &[f64], confidence: f64, resolution: f64) -> Option<Interval> {
    let (interval, _) = at_least(logs, confidence, resolution, None)?;
    Some(interval)
}

/// [`of_logs`], where Student's interval, which is made from what `logs` scatter by, is no narrower than that of
/// as many normal values of this standard deviation; and whether it would have been. Order statistics need no
/// scatter, and are as they are.
#[must_use]
pub(crate) fn at_least(
    logs: &[f64],
    confidence: f64,
    resolution: f64,
    deviation: Option<f64>,
) -> Option<(Interval, bool)> {
    if !logs.iter().all(|log| log.is_finite()) {
        return None;
    }
    let sorted = in_order(logs);
    let (centre, half, is_widened) = match order_statistics(&sorted, confidence) {
        Some((low, centre, high)) => (centre, Some((centre - low, high - centre)), false),
        None => {
            let (centre, half) = student(&sorted, confidence)?;
            let least = deviation
                .and_then(|deviation| normal_half_width(deviation, sorted.len(), confidence));
            let own = half.map_or(f64::INFINITY, |(below, _)| below);
            match least.filter(|least| *least > own) {
                Some(least) => (centre, Some((least, least)), true),
                None => (centre, half, false),
            }
        }
    };
    let interval = as_factors(centre, half, &sorted, confidence, resolution)?;
    Some((interval, is_widened))
}

/// Mean of `logs` with Student's interval, however many they are, as factors. For values that scatter
/// lopsidedly around what their mean alone estimates, as those of a jackknife do.
#[must_use]
pub(crate) fn of_mean(logs: &[f64], confidence: f64) -> Option<Interval> {
    let sorted = in_order(logs);
    let (centre, half) = student(&sorted, confidence)?;
    as_factors(centre, half, &sorted, confidence, 0.0)
}

/// One order whatever the order of blocks, so that sums have the same bits.
pub(crate) fn in_order(logs: &[f64]) -> Vec<f64> {
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A centre, and how far its interval reaches below and above it.
pub(crate) type Centred = (f64, Option<(f64, f64)>);

/// Mean of values in order, with Student's interval however many they are.
pub(crate) fn student(values: &[f64], confidence: f64) -> Option<Centred> {
    let centre = mean(values)?;
    let half = student_half_width(values, centre, confidence);
    Some((centre, half.map(|half| (half, half))))
}

fn as_factors(
    centre: f64,
    half: Option<(f64, f64)>,
    sorted: &[f64],
    confidence: f64,
    resolution: f64,
) -> Option<Interval> {
    let factor =
        |log: f64| Some(libm::exp(log)).filter(|factor| factor.is_finite() && *factor > 0.0);
    let low = half.and_then(|(below, _)| factor(centre - below - resolution));
    let high = half.and_then(|(_, above)| factor(centre + above + resolution));
    Some(Interval {
        low: low.map(rounded_down),
        centre: rounded(factor(centre)?),
        high: high.map(rounded_up),
        blocks: u32::try_from(sorted.len()).ok()?,
        confidence,
    })
}

/// What an interval of these logarithms is one of: their mean, or from [`ORDER_STATISTIC_BLOCKS`] on
/// their median. `None` without a value, or when one is not finite.
#[must_use]
pub fn centre(logs: &[f64]) -> Option<f64> {
    if !logs.iter().all(|log| log.is_finite()) {
        return None;
    }
    if logs.len() < ORDER_STATISTIC_BLOCKS as usize {
        return mean(&in_order(logs));
    }
    percentile::middle(logs.iter().copied()).filter(|centre| centre.is_finite())
}

/// Standard deviation of `values`, with n − 1; 0 for fewer than two, and no number where one is not finite.
#[must_use]
pub fn standard_deviation(values: &[f64]) -> f64 {
    if !values.iter().all(|value| value.is_finite()) {
        return f64::NAN;
    }
    let sorted = in_order(values);
    mean(&sorted)
        .and_then(|mean| variance(&sorted, mean))
        .map_or(0.0, f64::sqrt)
}

/// The interval of a standard deviation that so many normal values were found to have, by the distribution of χ²
/// (for instance Hahn and Meeker, "Statistical Intervals", 1991, section 4.3). `None` for fewer than two values, and
/// where the confidence is none.
#[must_use]
pub fn of_deviation(deviation: f64, values: usize, confidence: f64) -> Option<[f64; 2]> {
    let freedom = values.checked_sub(1).filter(|&freedom| freedom > 0)?;
    let tail = tail(confidence)?;
    let end = |probability: f64| {
        let squares = chi_square_quantile(probability, freedom)?;
        Some(deviation * (freedom as f64 / squares).sqrt())
    };
    Some([end(1.0 - tail)?, end(tail)?])
}

/// Arithmetic mean; `None` without a value, or when it is not finite.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
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

/// z·σ/√n: how far the interval of the mean of so many normal values reaches whose standard deviation is known.
fn normal_half_width(deviation: f64, blocks: usize, confidence: f64) -> Option<f64> {
    let quantile = -Normal::standard().inverse_cdf(tail(confidence)?);
    let half = number::portable(quantile)? * deviation / (blocks as f64).sqrt();
    half.is_finite().then_some(half)
}

/// Fewest blocks, at least two, of which Student's interval reaches no further than `half` to either side,
/// where the logarithms of blocks have this standard deviation. `None` where 131,072 are not enough, and
/// where `half` or the confidence is nothing that an interval can have.
#[must_use]
pub fn blocks_for(deviation: f64, half: f64, confidence: f64) -> Option<u32> {
    let is_enough = |blocks: u32| {
        let n = f64::from(blocks);
        student_quantile(confidence, n - 1.0).is_some_and(|t| t * deviation / n.sqrt() <= half)
    };
    let (mut few, mut enough) = (1, 2);
    while !is_enough(enough) {
        (few, enough) = (
            enough,
            enough.checked_mul(2).filter(|most| *most <= 131_072)?,
        );
    }
    // The width falls with the number of blocks.
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if is_enough(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    (half > 0.0).then_some(enough)
}

/// The t that a variable of this freedom exceeds in absolute value with probability
/// 1 − `confidence`.
fn student_quantile(confidence: f64, freedom: f64) -> Option<f64> {
    let tail = tail(confidence)?;
    let quantile = -StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(tail);
    number::portable(quantile)
}

/// The value that a χ² of this freedom stays below with this probability.
pub(crate) fn chi_square_quantile(probability: f64, freedom: usize) -> Option<f64> {
    let of_freedom = ChiSquared::new(freedom as f64).ok()?;
    number::portable(of_freedom.inverse_cdf(probability)).filter(|quantile| *quantile > 0.0)
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

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
    #[test]
    fn quantiles_are_the_published_ones() {
        let published = [
            (1.0, 0.95, 12.706),
            (2.0, 0.95, 4.303),
            (5.0, 0.90, 2.015),
            (5.0, 0.95, 2.571),
            (5.0, 0.99, 4.032),
            (5.0, 0.998, 5.893),
            (11.0, 0.95, 2.201),
            (11.0, 0.998, 4.025),
            (23.0, 0.95, 2.069),
            (1.0, 0.998, 318.309), // tan(0.499 π); the table prints 318.313
        ];
        for (freedom, confidence, expected) in published {
            let quantile = student_quantile(confidence, freedom).unwrap();
            assert!(
                (quantile - expected).abs() < 5.1e-4,
                "{freedom} {confidence}: {quantile}"
            );
        }
    }

    #[test]
    fn as_many_blocks_as_an_interval_takes() {
        // t of 5 and 4 degrees of freedom at 95 %: 2.571 / √6 = 1.05, 2.776 / √5 = 1.24.
        assert_eq!(blocks_for(0.01, 0.0106, 0.95), Some(6));
        assert_eq!(blocks_for(0.01, 0.0104, 0.95), Some(7));
        assert_eq!(blocks_for(0.0, 0.01, 0.95), Some(2));
        // Of many the normal distribution's: (1.96 · 10)².
        let many = blocks_for(0.1, 0.01, 0.95).unwrap();
        assert!((384..390).contains(&many), "{many}");
        let none = [
            blocks_for(1.0, 0.0, 0.95),
            blocks_for(1.0, 1e-9, 0.95),
            blocks_for(1.0, 0.1, 1.0),
        ];
        assert_eq!(none, [None; 3]);
        assert_eq!(blocks_for(f64::NAN, 0.1, 0.95), None);
    }

    /// NIST/SEMATECH e-Handbook, table 1.3.6.7.4: χ² of four degrees of freedom is below 0.484 in 2.5 % of all
    /// cases, and above 11.143 in as many.
    #[test]
    fn few_values_hardly_know_what_they_scatter_by() {
        let [low, high] = of_deviation(0.02, 5, 0.95).unwrap();
        let expected = [11.143_f64, 0.484].map(|squares| 0.02 * (4.0 / squares).sqrt());
        assert!((low / expected[0] - 1.0).abs() < 1e-3, "{low}");
        assert!((high / expected[1] - 1.0).abs() < 1e-3, "{high}");
        assert_eq!(of_deviation(0.02, 1, 0.95), None);
        assert_eq!(of_deviation(0.02, 5, 1.0), None);
        assert_eq!(of_deviation(0.0, 5, 0.95), Some([0.0, 0.0]));
    }

    /// Families of thousands of pairs reach far into the tail, where five degrees of freedom
    /// have a closed form (Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions",
    /// volume 2, 1995, chapter 28).
    #[test]
    fn quantiles_hold_in_the_far_tail() {
        let tail_beyond = |t: f64| {
            let theta = (t / 5_f64.sqrt()).atan();
            let cosine = theta.cos();
            let inner = theta.sin() * cosine * (1.0 + 2.0 / 3.0 * cosine * cosine);
            0.5 - (theta + inner) / std::f64::consts::PI
        };
        for family in [1, 10, 100, 10_000, 100_000] {
            let confidence = 1.0 - 0.05 / f64::from(family);
            let expected = 0.025 / f64::from(family);
            let found = tail_beyond(student_quantile(confidence, 5.0).unwrap());
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "{family}: {found} for {expected}"
            );
        }
    }

    #[test]
    fn confidences_that_are_none_give_no_ends() {
        for confidence in [0.0, 1.0, -1.0, f64::NAN] {
            let interval = of_logs(&[0.0, 0.1, 0.2], confidence, 0.0).unwrap();
            assert_eq!((interval.low, interval.high), (None, None));
        }
    }

    /// mean 3, s² 3.5, t₅ 2.5706, half-width 2.5706·√(3.5/6) = 1.96333.
    #[test]
    fn six_blocks_get_students_interval() {
        let logs: Vec<f64> = (0..6)
            .map(|block| (0.5 + f64::from(block)) / 100.0)
            .collect();
        let interval = of_logs(&logs, 0.95, 0.0).unwrap();
        assert_eq!(interval.centre, 1.030_45); // exp(0.03)
        assert_eq!(interval.low, Some(1.010_42)); // exp(0.03 − 0.0196333)
        assert_eq!(interval.high, Some(1.050_89)); // exp(0.03 + 0.0196333)
        assert_eq!(interval.blocks, 6);
    }

    /// At 95 %, the 6th and 15th of 20, the 8th and 18th of 25 values: the table in Conover,
    /// "Practical Nonparametric Statistics" (1999), binomial with p = ½.
    #[test]
    fn many_blocks_get_order_statistics() {
        let ends = |n: u32| {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            order_statistics(
                &{
                    let mut sorted = values;
                    sorted.sort_by(f64::total_cmp);
                    sorted
                },
                0.95,
            )
        };
        assert_eq!(ends(19), None);
        assert_eq!(ends(20), Some((6.0, 10.5, 15.0)));
        assert_eq!(ends(25), Some((8.0, 13.0, 18.0)));
        // 1 − 2⁻¹⁹ is what the whole range of 20 reaches.
        assert_eq!(order_statistics(&[0.0; 20], 0.999_999), None);
        assert!(order_statistics(&[0.0; 20], 0.999_998).is_some());
    }

    #[test]
    fn tens_of_thousands_of_blocks_are_no_trouble() {
        let logs: Vec<f64> = (0..30_001)
            .map(|block| f64::from(block) / 30_000.0 - 0.5)
            .collect();
        let interval = of_logs(&logs, 0.95, 0.0).unwrap();
        assert_eq!(interval.centre, 1.0);
        // Normal approximation: 1.96·√n/2 ranks either side of the middle, 170 of 30,000.
        assert!(
            (interval.high.unwrap() - 1.005_67).abs() < 1e-4,
            "{interval:?}"
        );
    }

    #[test]
    fn blocks_that_agree_to_the_nanosecond_keep_a_width() {
        let step_ns = 1_000.0;
        let resolution = 2.0 * resolution(step_ns, Boundary::Step);
        let interval = of_logs(&[0.0; 6], 0.95, resolution).unwrap();
        assert_eq!(
            (interval.low, interval.high),
            (Some(0.998_001), Some(1.002_01))
        );
    }

    /// Half a microsecond, where a GPU's events tell the time; no time is known better than that.
    #[test]
    fn events_of_a_gpu_tell_less_than_the_clock_of_the_host() {
        let of = |time_ns| {
            [Boundary::Step, Boundary::Request, Boundary::Device]
                .map(|boundary| resolution(time_ns, boundary))
        };
        assert_eq!(of(20_000.0), [5e-5, 5e-5, 0.025]);
        assert_eq!(of(100.0), [0.01, 0.01, 1.0]);
    }

    #[test]
    fn too_few_values_have_no_ends_and_absurd_ones_no_interval() {
        assert_eq!(of_logs(&[], 0.95, 0.0), None);
        let one = of_logs(&[0.0], 0.95, 0.0).unwrap();
        assert_eq!((one.low, one.centre, one.high), (None, 1.0, None));
        for absurd in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            // Of as many as have order statistics, too, whose ends are other values.
            for count in [1, 5, 24, 100] {
                let logs = [vec![0.0; count], vec![absurd]].concat();
                assert_eq!(of_logs(&logs, 0.95, 0.0), None, "{count} and {absurd}");
                assert_eq!(centre(&logs), None, "{count} and {absurd}");
                assert!(standard_deviation(&logs).is_nan(), "{count} and {absurd}");
            }
        }
        assert_eq!(of_logs(&[1e6; 6], 0.95, 0.0), None);
        let wide = of_logs(&[-300.0, 300.0], 0.999_999, 0.0).unwrap();
        assert_eq!((wide.low, wide.high), (None, None));
    }

    /// Share of 20,000 samples of `n` values whose interval holds exp of `centre`.
    fn coverage(
        n: usize,
        confidence: f64,
        (draw, centre): (fn(&mut ChaCha8Rng) -> f64, f64),
    ) -> f64 {
        const WIDTH: f64 = 0.01;
        let mut random = ChaCha8Rng::seed_from_u64(1908);
        let truth = (WIDTH * centre).exp();
        let repeats = 20_000;
        let covered = (0..repeats).filter(|_| {
            let logs: Vec<f64> = (0..n).map(|_| WIDTH * draw(&mut random)).collect();
            let interval = of_logs(&logs, confidence, 0.0).unwrap();
            interval.low.unwrap() <= truth && truth <= interval.high.unwrap()
        });
        covered.count() as f64 / f64::from(repeats)
    }

    fn uniform(random: &mut ChaCha8Rng) -> f64 {
        1.0 - random.random::<f64>()
    }

    /// Box and Muller 1958.
    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let radius = (-2.0 * uniform(random).ln()).sqrt();
        radius * (std::f64::consts::TAU * uniform(random)).cos()
    }

    /// Student's t of three degrees of freedom.
    fn heavy(random: &mut ChaCha8Rng) -> f64 {
        let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
        normal(random) / (squares / 3.0).sqrt()
    }

    /// A tenth of the values ten times as far out.
    fn contaminated(random: &mut ChaCha8Rng) -> f64 {
        let factor = if uniform(random) < 0.1 { 10.0 } else { 1.0 };
        factor * normal(random)
    }

    /// Two moods of a machine, each as likely, six of its own widths apart.
    fn moods(random: &mut ChaCha8Rng) -> f64 {
        normal(random) + if uniform(random) < 0.5 { 3.0 } else { -3.0 }
    }

    /// Skewed: the logarithms themselves are log-normal, with a shape of ½.
    fn skewed(random: &mut ChaCha8Rng) -> f64 {
        (0.5 * normal(random)).exp()
    }

    /// A tenth of the blocks disturbed in one of the two cells alone, by ten widths.
    fn spiked(random: &mut ChaCha8Rng) -> f64 {
        let spike = if uniform(random) < 0.1 { 10.0 } else { 0.0 };
        normal(random) + spike
    }

    type Draw = fn(&mut ChaCha8Rng) -> f64;

    #[test]
    fn intervals_cover_what_they_promise() {
        let laws: [(&str, Draw); 4] = [
            ("normal", normal),
            ("heavy", heavy),
            ("contaminated", contaminated),
            ("moods", moods),
        ];
        for n in [6, 12, 24] {
            for (name, draw) in laws {
                let covered = coverage(n, 0.95, (draw, 0.0));
                assert!(covered >= 0.93, "{name}, {n} blocks: {covered}");
            }
        }
        // Neither is it bought with width: Student's interval of normal values is exact.
        let exact = coverage(6, 0.95, (normal, 0.0));
        assert!((exact - 0.95).abs() < 0.006, "{exact}");
    }

    /// The table in the documentation of this module, each number less half a percent: at 95 %
    /// and 99 %, for 6 and for 12 blocks.
    #[test]
    fn one_sided_disturbances_are_covered_as_documented() {
        // e^(σ²÷2), the mean of a log-normal value; Φ⁻¹(0.5 ÷ 0.9), the median of `spiked`.
        let (mean_of_skewed, median_of_spiked) = (0.125_f64.exp(), 0.139_710);
        let table: [(&str, Draw, f64, [[f64; 2]; 2]); 5] = [
            ("normal", normal, 0.0, [[0.949, 0.951], [0.990, 0.989]]),
            (
                "skewed, median",
                skewed,
                1.0,
                [[0.951, 0.944], [0.989, 0.991]],
            ),
            (
                "skewed, mean",
                skewed,
                mean_of_skewed,
                [[0.914, 0.923], [0.971, 0.972]],
            ),
            (
                "spiked, median",
                spiked,
                median_of_spiked,
                [[0.967, 0.959], [0.994, 0.995]],
            ),
            (
                "spiked, mean",
                spiked,
                1.0,
                [[0.727, 0.746], [0.895, 0.814]],
            ),
        ];
        for (name, draw, centre, found) in table {
            for (confidence, found) in [0.95, 0.99].into_iter().zip(found) {
                for (n, found) in [6, 12].into_iter().zip(found) {
                    let covered = coverage(n, confidence, (draw, centre));
                    assert!(
                        (covered - found).abs() < 0.005,
                        "{name}, {n} blocks at {confidence}: {covered}, not {found}"
                    );
                }
            }
        }
    }
}
