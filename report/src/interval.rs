//! Estimates with their intervals, in words. A number is never printed without its interval.

use schema::tables::Interval;
use serde::Serialize;

use crate::units;

/// An estimate as it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Estimate {
    /// For example `0.53×` or `14.5 ms`.
    pub(crate) centre: String,
    /// For example `[0.51, 0.55]`; says so where an end is unbounded.
    pub(crate) range: String,
    /// For example `95 % over 6 blocks`.
    pub(crate) basis: String,
}

/// A ratio of step times. Each end is printed with as many digits as it takes to stay on its side
/// of every limit, so that no interval seems to contradict its verdict.
pub(crate) fn ratio(interval: &Interval, limits: &[f64]) -> Estimate {
    print(interval, 1.0, "×", 2, limits)
}

/// A step time.
pub(crate) fn step_time(interval: &Interval) -> Estimate {
    let (scale, unit) = units::time_unit(interval.centre);
    print(interval, scale, &format!("\u{a0}{unit}"), 3, &[])
}

/// Both sides of "no difference" at these relative differences.
pub(crate) fn limits(differences: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let sides = |difference: f64| [1.0 / (1.0 + difference), 1.0 + difference];
    differences
        .into_iter()
        .flat_map(sides)
        .chain([1.0])
        .collect()
}

fn print(interval: &Interval, scale: f64, unit: &str, digits: u8, limits: &[f64]) -> Estimate {
    let basis = format!(
        "{} confidence over {} {}",
        units::confidence(interval.confidence),
        interval.blocks,
        if interval.blocks == 1 {
            "block"
        } else {
            "blocks"
        }
    );
    let finite = |value: f64| Some(value / scale).filter(|value| value.is_finite());
    let Some(centre) = finite(interval.centre) else {
        return Estimate {
            centre: units::NOTHING.to_owned(),
            range: "[0, ∞]".to_owned(),
            basis,
        };
    };
    let (low, high) = (
        interval.low.and_then(finite),
        interval.high.and_then(finite),
    );
    let half = low.zip(high).map_or(0.0, |(low, high)| (high - low) / 2.0);
    let ends: Vec<f64> = low.into_iter().chain(high).collect();
    let decimals = faithful(units::decimals(centre, half, digits), &ends, limits);
    let end = |end: Option<f64>, unbounded: &str| {
        end.map_or_else(|| unbounded.to_owned(), |end| number(end, decimals))
    };
    Estimate {
        centre: format!("{}{unit}", number(centre, decimals)),
        range: format!("[{}, {}]", end(low, "0"), end(high, "∞")),
        basis,
    }
}

/// The extent of several ratios in words, for example `between 0.20× and 0.55×`; `None` when an
/// end is unbounded.
pub(crate) fn between(low: f64, high: f64, limits: &[f64]) -> Option<String> {
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let decimals = faithful(
        units::decimals(low, (high - low) / 2.0, 2),
        &[low, high],
        limits,
    );
    Some(format!(
        "between {}× and {}×",
        number(low, decimals),
        number(high, decimals)
    ))
}

/// The fewest decimals, from `start` on, with which every end compares to every limit as it does
/// with all of its digits.
fn faithful(start: usize, ends: &[f64], limits: &[f64]) -> usize {
    let stays = |decimals: usize| {
        ends.iter().all(|end| {
            let shown: f64 = number(*end, decimals).parse().unwrap_or(*end);
            limits
                .iter()
                .all(|limit| shown.partial_cmp(limit) == end.partial_cmp(limit))
        })
    };
    (start..start + 6)
        .find(|decimals| stays(*decimals))
        .unwrap_or(start)
}

fn number(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e7 {
        format!("{value:.1e}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// The ends that hold for all of several intervals: the least low and the greatest high.
pub(crate) fn hull<'a>(
    intervals: impl IntoIterator<Item = &'a Interval>,
) -> Option<(Option<f64>, Option<f64>)> {
    intervals
        .into_iter()
        .map(|interval| (interval.low, interval.high))
        .reduce(|all, next| {
            let low = all.0.zip(next.0).map(|(a, b)| a.min(b));
            let high = all.1.zip(next.1).map(|(a, b)| a.max(b));
            (low, high)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: Option<f64>, centre: f64, high: Option<f64>) -> Interval {
        Interval {
            low,
            centre,
            high,
            blocks: 6,
            confidence: 0.95,
        }
    }

    #[test]
    fn ratios_carry_their_interval() {
        let estimate = ratio(&interval(Some(0.51), 0.53, Some(0.55)), &[]);
        assert_eq!(
            (estimate.centre.as_str(), estimate.range.as_str()),
            ("0.53×", "[0.51, 0.55]")
        );
        assert_eq!(estimate.basis, "95 % confidence over 6 blocks");
        assert_eq!(
            ratio(&interval(Some(0.9991), 1.0002, Some(1.0013)), &[]).range,
            "[0.9991, 1.0013]"
        );
        assert_eq!(
            ratio(&interval(Some(11.8), 12.5, Some(13.4)), &[]).range,
            "[11.8, 13.4]"
        );
        assert_eq!(ratio(&interval(None, 0.5, None), &[]).range, "[0, ∞]");
    }

    #[test]
    fn no_interval_seems_to_cross_a_limit_that_it_does_not() {
        let limits = limits([0.05]);
        let print =
            |low, centre, high| ratio(&interval(Some(low), centre, Some(high)), &limits).range;
        // 1 ÷ 1.05 is 0.95238: with two decimals both would print as 0.95.
        assert_eq!(print(0.80, 0.88, 0.9523), "[0.80, 0.95]");
        assert_eq!(print(0.80, 0.88, 0.953), "[0.800, 0.953]");
        assert_eq!(print(1.0002, 1.02, 1.04), "[1.0002, 1.0400]");
        assert_eq!(print(0.80, 0.88, 0.93), "[0.80, 0.93]");
        assert_eq!(
            between(0.2, 0.953, &limits).unwrap(),
            "between 0.200× and 0.953×"
        );
        assert_eq!(between(0.2, f64::INFINITY, &limits), None);
    }

    #[test]
    fn times_share_one_unit() {
        let estimate = step_time(&interval(Some(9.9e5), 1.01e6, Some(1.03e6)));
        assert_eq!(
            (estimate.centre.as_str(), estimate.range.as_str()),
            ("1.01\u{a0}ms", "[0.99, 1.03]")
        );
    }

    #[test]
    fn what_is_no_number_is_not_printed() {
        let estimate = ratio(
            &interval(Some(f64::NAN), f64::NAN, Some(f64::INFINITY)),
            &[],
        );
        assert_eq!(
            (estimate.centre.as_str(), estimate.range.as_str()),
            ("–", "[0, ∞]")
        );
    }

    #[test]
    fn a_hull_is_as_wide_as_its_widest() {
        let (a, b) = (
            interval(Some(0.5), 0.6, Some(0.7)),
            interval(Some(0.4), 0.5, None),
        );
        assert_eq!(hull([&a, &b]), Some((Some(0.4), None)));
        assert_eq!(hull([]), None);
    }
}
