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

/// A ratio of step times.
pub(crate) fn ratio(interval: &Interval) -> Estimate {
    print(interval, 1.0, "×", 2)
}

/// A step time.
pub(crate) fn step_time(interval: &Interval) -> Estimate {
    let (scale, unit) = units::time_unit(interval.centre);
    print(interval, scale, &format!("\u{a0}{unit}"), 3)
}

fn print(interval: &Interval, scale: f64, unit: &str, digits: u8) -> Estimate {
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
    if !interval.centre.is_finite() {
        return Estimate {
            centre: units::NOTHING.to_owned(),
            range: "[unbounded]".to_owned(),
            basis,
        };
    }
    let [low, high] = [interval.low, interval.high].map(|end| end.filter(|end| end.is_finite()));
    let half = match (low, high) {
        (Some(low), Some(high)) => (high - low) / 2.0 / scale,
        _ => 0.0,
    };
    let centre = interval.centre / scale;
    let decimals = units::decimals(centre, half, digits);
    let number = |value: f64| match value / scale {
        huge if huge.abs() >= 1e7 => format!("{huge:.1e}"),
        value => format!("{value:.decimals$}"),
    };
    let range = match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", number(low), number(high)),
        (Some(low), None) => format!("[{}, unbounded]", number(low)),
        (None, Some(high)) => format!("[unbounded, {}]", number(high)),
        (None, None) => "[unbounded]".to_owned(),
    };
    Estimate {
        centre: format!("{}{unit}", number(interval.centre)),
        range,
        basis,
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
        let estimate = ratio(&interval(Some(0.51), 0.53, Some(0.55)));
        assert_eq!(
            (estimate.centre.as_str(), estimate.range.as_str()),
            ("0.53×", "[0.51, 0.55]")
        );
        assert_eq!(estimate.basis, "95 % confidence over 6 blocks");
        assert_eq!(
            ratio(&interval(Some(0.9991), 1.0002, Some(1.0013))).range,
            "[0.9991, 1.0013]"
        );
        assert_eq!(
            ratio(&interval(Some(11.8), 12.5, Some(13.4))).range,
            "[11.8, 13.4]"
        );
        assert_eq!(ratio(&interval(None, 0.5, None)).range, "[unbounded]");
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
        let estimate = ratio(&interval(Some(f64::NAN), f64::NAN, Some(f64::INFINITY)));
        assert_eq!(
            (estimate.centre.as_str(), estimate.range.as_str()),
            ("–", "[unbounded]")
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
