//! Intervals and shares in print: pages and the reasons beside them show the same digits.
//!
//! Ends are rounded outward, the low one down and the high one up, so that a printed interval
//! holds all that the interval itself holds. What a ratio is held against is printed so that
//! whoever compares the printed numbers comes to the verdict that the numbers themselves had.

use std::ops::RangeInclusive;

use crate::tables::Interval;

/// An interval in print, without a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// The estimate, for example `0.53`; `None` when it is no finite number.
    pub centre: Option<String>,
    /// The lower end, for example `0.51`; `None` when it is unbounded.
    pub low: Option<String>,
    /// The upper end.
    pub high: Option<String>,
    /// For example `[0.51, 0.55]`; `0` and `∞` stand for ends that are unbounded.
    pub range: String,
}

/// A ratio in print, with the noise floor that it is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The ratio, without a unit.
    pub ratio: Printed,
    /// For example `1.39 %`; `None` where the floor is unknown.
    pub floor: Option<String>,
}

/// What a ratio is held against, as relative differences.
///
/// A difference of `m` reaches from 1 ÷ (1 + m) to 1 + m: as far down as up in logarithms, so
/// that a pair and the same pair the other way round get opposite verdicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Smallest difference worth acting on.
    pub margin: f64,
    /// Noise between identical cells; `None` when it is unknown.
    pub floor: Option<f64>,
}

/// Significant digits of a ratio, at least.
const RATIO_DIGITS: u8 = 2;

/// Ends of a ratio outside of this are printed as unbounded: two blocks at a high confidence make
/// intervals of hundreds of orders of magnitude, whose ends mean nothing.
const TELLING_RATIOS: RangeInclusive<f64> = 1e-4..=1e6;

/// Significant digits of a noise floor, at least.
const FLOOR_DIGITS: usize = 3;

/// Significant digits of what was chosen: all that anyone writes, and fewer than the binary
/// number has, whose last ones nobody wrote.
const CHOSEN_DIGITS: usize = 12;

/// A ratio of step times. Each end has as many digits as it takes to stay on its side of every
/// limit, so that no interval seems to contradict its verdict.
#[must_use]
pub fn ratio(interval: &Interval, limits: &[f64]) -> Printed {
    scaled(&telling_ends(interval), 1.0, RATIO_DIGITS, limits)
}

/// The interval of a ratio, without the ends that mean nothing.
fn telling_ends(interval: &Interval) -> Interval {
    Interval {
        low: interval.low.filter(|low| low >= TELLING_RATIOS.start()),
        high: interval.high.filter(|high| high <= TELLING_RATIOS.end()),
        ..*interval
    }
}

/// [`ratio`] against a margin and a floor, and that floor: with as many digits as it takes to
/// stay on its side of each printed end and of the margin, which is printed by [`percent`].
#[must_use]
pub fn held(interval: &Interval, bounds: Bounds) -> Held {
    let limits = limits([bounds.margin].into_iter().chain(bounds.floor));
    let (ratio, ends) = print(&telling_ends(interval), 1.0, RATIO_DIGITS, &limits);
    let floor = bounds
        .floor
        .map(|floor| percent(telling(floor, bounds.margin, &ends)));
    Held { ratio, floor }
}

/// The shortest rounding of a floor that compares to a margin, and to printed ends, as the floor
/// itself does to the margin and to the ends themselves.
fn telling(floor: f64, margin: f64, ends: &[End]) -> f64 {
    let stays = |shown: f64| {
        shown.partial_cmp(&margin) == floor.partial_cmp(&margin)
            && ends.iter().all(|end| {
                let (shown, exact) = (sides(shown), sides(floor));
                shown.iter().zip(&exact).all(|(shown, exact)| {
                    end.shown.partial_cmp(shown) == end.exact.partial_cmp(exact)
                })
            })
    };
    (FLOOR_DIGITS..=CHOSEN_DIGITS)
        .map(|digits| significant(floor, digits))
        .find(|shown| stays(*shown))
        .unwrap_or(floor)
}

/// An interval in a unit of `scale`, with at least `digits` significant digits of its centre.
#[must_use]
pub fn scaled(interval: &Interval, scale: f64, digits: u8, limits: &[f64]) -> Printed {
    print(interval, scale, digits, limits).0
}

/// An end of an interval, and what its printed digits say.
struct End {
    exact: f64,
    shown: f64,
}

fn print(interval: &Interval, scale: f64, digits: u8, limits: &[f64]) -> (Printed, Vec<End>) {
    let finite = |value: f64| Some(value / scale).filter(|value| value.is_finite());
    let Some(centre) = finite(interval.centre) else {
        let printed = Printed {
            centre: None,
            low: None,
            high: None,
            range: range(None, None),
        };
        return (printed, Vec::new());
    };
    let low = interval.low.and_then(finite);
    let high = interval.high.and_then(finite);
    let half = low.zip(high).map_or(0.0, |(low, high)| (high - low) / 2.0);
    let decimals = faithful(decimals(centre, half, digits), low, high, limits);
    let low_text = low.map(|low| down(low, decimals));
    let high_text = high.map(|high| up(high, decimals));
    let end = |exact: Option<f64>, text: &Option<String>| {
        let (exact, text) = (exact?, text.as_ref()?);
        let shown = text.parse().unwrap_or(exact);
        Some(End { exact, shown })
    };
    let ends = [end(low, &low_text), end(high, &high_text)];
    let printed = Printed {
        centre: Some(number(centre, decimals)),
        range: range(low_text.as_deref(), high_text.as_deref()),
        low: low_text,
        high: high_text,
    };
    (printed, ends.into_iter().flatten().collect())
}

/// The least low end and the greatest high end of several ratios, each with the digits that its
/// own [`held`] prints; `None` when there is none, or one is unbounded.
pub fn hull<'a>(
    ratios: impl IntoIterator<Item = (&'a Interval, Bounds)>,
) -> Option<(String, String)> {
    let value = |text: &str| text.parse().unwrap_or(f64::NAN);
    let mut hull: Option<(String, String)> = None;
    for (ratio, bounds) in ratios {
        let printed = held(ratio, bounds).ratio;
        let (low, high) = (printed.low?, printed.high?);
        hull = Some(match hull {
            None => (low, high),
            Some((least, greatest)) => (
                if value(&low) < value(&least) {
                    low
                } else {
                    least
                },
                if value(&high) > value(&greatest) {
                    high
                } else {
                    greatest
                },
            ),
        });
    }
    hull
}

/// No difference at all, and both sides of "no difference" at these relative differences: what a
/// ratio is held against.
#[must_use]
pub fn limits(differences: impl IntoIterator<Item = f64>) -> Vec<f64> {
    differences
        .into_iter()
        .flat_map(sides)
        .chain([1.0])
        .collect()
}

/// How far below and above 1 a relative difference reaches.
#[must_use]
pub fn sides(difference: f64) -> [f64; 2] {
    // The sum in binary may lie beside the decimal number that people add: 1 + 0.0123 is not the
    // number that is read from "1.0123".
    let above = 1.0 + difference;
    let above = format!("{above:.15}").parse().unwrap_or(above);
    [1.0 / above, above]
}

/// A number for a sentence: at most `digits` significant ones.
#[must_use]
pub fn short(value: f64, digits: usize) -> String {
    let number = significant(value, digits);
    if number.abs() >= 1e6 || (number != 0.0 && number.abs() < 1e-4) {
        format!("{number:e}")
    } else {
        number.to_string()
    }
}

/// A relative difference or a probability that was chosen, as a percentage with all of its
/// digits, for example `12.5 %`; `–` for what is no number.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.is_finite() {
        format!("{} %", short(percent, CHOSEN_DIGITS))
    } else {
        "–".to_owned()
    }
}

/// A noise floor that no ratio is held against, as a percentage of three significant digits, for
/// example `1.21 %`.
#[must_use]
pub fn floor(share: f64) -> String {
    percent(significant(share, FLOOR_DIGITS))
}

/// A number rounded to so many significant digits.
fn significant(value: f64, digits: usize) -> f64 {
    let precision = digits.saturating_sub(1);
    format!("{value:.precision$e}").parse().unwrap_or(value)
}

/// Decimals that show at least `digits` significant digits of a number, and one to two digits of
/// its uncertainty.
#[must_use]
pub fn decimals(value: f64, half_width: f64, digits: u8) -> usize {
    let own = f64::from(digits) - 1.0 - magnitude(value);
    let uncertain = if half_width > 0.0 {
        -magnitude(half_width / 2.0)
    } else {
        own
    };
    own.max(uncertain).clamp(0.0, 4.0) as usize
}

/// `log10` of a number, rounded down, the same on every processor; 0 for zero and for what is no
/// number.
fn magnitude(value: f64) -> f64 {
    format!("{value:e}")
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .map_or(0.0, f64::from)
}

fn range(low: Option<&str>, high: Option<&str>) -> String {
    format!("[{}, {}]", low.unwrap_or("0"), high.unwrap_or("∞"))
}

/// The fewest decimals, from `start` on, with which both ends compare to every limit as they do
/// with all of their digits.
fn faithful(start: usize, low: Option<f64>, high: Option<f64>, limits: &[f64]) -> usize {
    let stays = |end: f64, shown: &str| {
        let shown: f64 = shown.parse().unwrap_or(end);
        limits
            .iter()
            .all(|limit| shown.partial_cmp(limit) == end.partial_cmp(limit))
    };
    (start..start + 6)
        .find(|&decimals| {
            low.is_none_or(|low| stays(low, &down(low, decimals)))
                && high.is_none_or(|high| stays(high, &up(high, decimals)))
        })
        .unwrap_or(start)
}

/// Beyond this, numbers are printed with an exponent and two digits.
const LARGE: f64 = 1e7;

fn number(value: f64, decimals: usize) -> String {
    if value.abs() >= LARGE {
        format!("{value:.1e}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// The largest printed number that is not above `value`.
fn down(value: f64, decimals: usize) -> String {
    let near = number(value, decimals);
    let below = |text: &str| text.parse::<f64>().is_ok_and(|shown| shown <= value);
    if below(&near) || !value.is_finite() {
        return near;
    }
    let unit = if value.abs() >= LARGE {
        let exponent = near.split_once('e').map_or("0", |(_, exponent)| exponent);
        let tenth: f64 = format!("1e{exponent}").parse().unwrap_or(0.0);
        tenth / 10.0
    } else {
        format!("1e-{decimals}").parse().unwrap_or(0.0)
    };
    let shown: f64 = near.parse().unwrap_or(value);
    number(shown - unit, decimals)
}

/// The smallest printed number that is not below `value`.
fn up(value: f64, decimals: usize) -> String {
    let mirrored = down(-value, decimals);
    mirrored
        .strip_prefix('-')
        .map_or_else(|| mirrored.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, centre: f64, high: f64) -> Interval {
        Interval {
            low: Some(low),
            centre,
            high: Some(high),
            blocks: 6,
            confidence: 0.95,
        }
    }

    fn shown(low: f64, centre: f64, high: f64, limits: &[f64]) -> String {
        ratio(&interval(low, centre, high), limits).range
    }

    #[test]
    fn ends_are_rounded_outward() {
        assert_eq!(shown(0.278, 0.298, 0.319, &[]), "[0.27, 0.32]");
        assert_eq!(shown(0.9991, 1.0002, 1.0013, &[]), "[0.9991, 1.0013]");
        assert_eq!(shown(0.499_998, 0.5, 0.500_002, &[]), "[0.4999, 0.5001]");
        assert_eq!(shown(11.81, 12.5, 13.41, &[]), "[11.8, 13.5]");
        assert_eq!(shown(1.0, 1.0, 1.0, &[]), "[1.0, 1.0]");
        let time = |low, centre, high| scaled(&interval(low, centre, high), 1.0, 2, &[]).range;
        assert_eq!(time(1.23e9, 1.5e9, 1.76e9), "[1.2e9, 1.8e9]");
        assert_eq!(time(1.21e9, 1.5e9, 1.71e9), "[1.2e9, 1.8e9]");
    }

    #[test]
    fn what_is_printed_holds_the_interval() {
        for step in 1..2_000_u32 {
            let low = f64::from(step) * 0.003_17;
            let high = low * (1.0 + f64::from(step % 97) * 0.001_3);
            let text = shown(low, f64::midpoint(low, high), high, &limits([0.05]));
            let (left, right) = text.trim_matches(['[', ']']).split_once(", ").unwrap();
            let ends: (f64, f64) = (left.parse().unwrap(), right.parse().unwrap());
            assert!(ends.0 <= low && high <= ends.1, "{text}: {low} {high}");
        }
    }

    #[test]
    fn no_interval_seems_to_cross_a_limit_that_it_does_not() {
        let limits = limits([0.05]);
        // 1 ÷ 1.05 is 0.95238: with two or three decimals the high end would lie beyond it.
        assert_eq!(shown(0.80, 0.88, 0.9523, &limits), "[0.8000, 0.9523]");
        assert_eq!(shown(0.80, 0.88, 0.953, &limits), "[0.80, 0.96]");
        assert_eq!(shown(1.0002, 1.02, 1.04, &limits), "[1.0002, 1.0400]");
        assert_eq!(shown(0.80, 0.88, 0.93, &limits), "[0.80, 0.93]");
    }

    #[test]
    fn what_is_no_number_is_not_printed() {
        let odd = ratio(&interval(f64::NAN, f64::NAN, f64::INFINITY), &[]);
        assert_eq!((odd.centre, odd.range.as_str()), (None, "[0, ∞]"));
        let open = Interval {
            low: None,
            high: None,
            ..interval(0.5, 0.5, 0.5)
        };
        assert_eq!(ratio(&open, &[]).range, "[0, ∞]");
    }

    #[test]
    fn ends_that_mean_nothing_are_printed_as_unbounded() {
        assert_eq!(shown(1.3e-162, 0.002, 1.1e159, &[]), "[0, ∞]");
        assert_eq!(shown(2e-5, 0.5, 0.7, &limits([0.05])), "[0, 0.70]");
        assert_eq!(shown(0.3, 40.0, 5185.8, &[]), "[0, 5186]");
        let bounds = Bounds {
            margin: 0.05,
            floor: None,
        };
        let wide = interval(0.5, 1.0, 1e7);
        assert_eq!(held(&wide, bounds).ratio.range, "[0.5, ∞]");
        assert_eq!(hull([(&wide, bounds)]), None);
    }

    #[test]
    fn a_hull_has_the_digits_of_its_rows() {
        let bounds = Bounds {
            margin: 0.05,
            floor: Some(0.028_5),
        };
        let close = interval(0.129_1, 0.135, 0.141_8);
        let far = interval(0.668, 0.69, 0.714);
        assert_eq!(held(&close, bounds).ratio.range, "[0.129, 0.142]");
        assert_eq!(held(&far, bounds).ratio.range, "[0.66, 0.72]");
        let both = || [(&far, bounds), (&close, bounds)];
        let ends = ("0.129".to_owned(), "0.72".to_owned());
        assert_eq!(hull(both()), Some(ends));
        let open = Interval {
            high: None,
            ..close
        };
        assert_eq!(hull(both().into_iter().chain([(&open, bounds)])), None);
        assert_eq!(hull([]), None);
    }

    #[test]
    fn sentences_get_short_numbers() {
        assert_eq!(short(0.512_34, 3), "0.512");
        assert_eq!(short(12.0, 3), "12");
        assert_eq!(percent(0.05), "5 %");
        assert_eq!(percent(0.012_96), "1.296 %");
        assert_eq!(percent(0.125), "12.5 %");
        assert_eq!(percent(0.07), "7 %");
        assert_eq!(percent(f64::MAX), "–");
        assert_eq!(percent(0.999), "99.9 %");
        assert_eq!(floor(0.012_96), "1.3 %");
        assert_eq!(short(1.5e-7, 3), "1.5e-7");
        assert_eq!(short(f64::INFINITY, 3), "inf");
    }

    #[test]
    fn decimals_follow_the_uncertainty() {
        assert_eq!(decimals(0.53, 0.02, 2), 2);
        assert_eq!(decimals(0.53, 0.012, 2), 3);
        assert_eq!(decimals(14.5, 3.0, 3), 1);
        assert_eq!(decimals(1.02, 0.000_01, 2), 4);
        assert_eq!(decimals(0.0, 0.0, 2), 1);
    }
}
