//! Estimates with their intervals, in words. What a verdict rests on is never printed without its
//! interval; descriptive figures (percentiles, rates, memory) have none.

use schema::{
    printed::{self, Bounds, Printed},
    tables::Interval,
};
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
    print(interval, printed::ratio(interval, limits), "×")
}

/// A ratio of step times, and the noise floor that it is held against.
pub(crate) fn held(interval: &Interval, bounds: Bounds) -> (Estimate, Option<String>) {
    let held = printed::held(interval, bounds);
    (print(interval, held.ratio, "×"), held.floor)
}

/// A step time.
pub(crate) fn step_time(interval: &Interval) -> Estimate {
    let (scale, unit) = units::time_unit(interval.centre);
    let printed = printed::scaled(interval, scale, 3, &[]);
    print(interval, printed, &format!("\u{a0}{unit}"))
}

/// An energy in joules.
pub(crate) fn energy(interval: &Interval) -> Estimate {
    let (scale, unit) = units::energy_unit(interval.centre);
    let printed = printed::scaled(interval, scale, 3, &[]);
    print(interval, printed, &format!("\u{a0}{unit}"))
}

/// A power in watts.
pub(crate) fn power(interval: &Interval) -> Estimate {
    print(interval, printed::scaled(interval, 1.0, 3, &[]), "\u{a0}W")
}

/// A rate in a unit, for example `84.1 GFLOP/s`.
pub(crate) fn rate(interval: &Interval, unit: &str) -> Estimate {
    let (scale, prefix) = units::prefix(interval.centre);
    let printed = printed::scaled(interval, scale, 3, &[]);
    print(interval, printed, &format!("\u{a0}{prefix}{unit}"))
}

/// A share in per cent.
pub(crate) fn share(interval: &Interval) -> Estimate {
    print(interval, printed::scaled(interval, 0.01, 3, &[]), "\u{a0}%")
}

fn print(interval: &Interval, printed: Printed, unit: &str) -> Estimate {
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
    Estimate {
        centre: printed.centre.map_or_else(
            || units::NOTHING.to_owned(),
            |centre| format!("{centre}{unit}"),
        ),
        range: printed.range,
        basis,
    }
}

/// What several intervals reach over, in words that follow a verdict, for example `with intervals
/// from 0.20× to 0.55×`: each end as its own row prints it. `None` when there is none, or an end
/// is unbounded.
pub(crate) fn reach(ratios: &[(&Interval, Bounds)]) -> Option<String> {
    let (low, high) = printed::hull(ratios.iter().copied())?;
    let intervals = match ratios {
        [_] => "an interval",
        _ => "intervals",
    };
    Some(format!("with {intervals} from {low}× to {high}×"))
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
    fn what_intervals_reach_over_is_printed_in_their_rows() {
        let bounds = Bounds {
            margin: 0.05,
            floor: Some(0.028_5),
        };
        let close = interval(Some(0.129_1), 0.135, Some(0.141_8));
        let far = interval(Some(0.668), 0.69, Some(0.714));
        let pairs = [(&close, bounds), (&far, bounds)];
        let said = reach(&pairs).unwrap();
        assert_eq!(said, "with intervals from 0.129× to 0.72×");
        assert!(held(&close, bounds).0.range.starts_with("[0.129,"));
        assert!(held(&far, bounds).0.range.ends_with(" 0.72]"));
        assert_eq!(
            reach(&pairs[..1]).unwrap(),
            "with an interval from 0.129× to 0.142×"
        );
        let open = interval(None, 0.5, None);
        assert_eq!(reach(&[(&open, bounds), (&far, bounds)]), None);
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
}
