//! One error for all that a job's page asserts.

use schema::{Measure, tables::Interval};

use crate::{interval, pair::Shared};

/// Confidence of each of `family` intervals that hold together with `confidence`, whichever of `looks`
/// looks at them ends the measuring: Bonferroni over both, in the form of Dunn, "Multiple comparisons
/// among means", JASA 56 (1961). An interval that holds at every look with the rest of the error holds
/// at the one that a rule picks by what it sees, whatever the rule.
pub(crate) fn confidence_each(confidence: f64, family: u32, looks: u32) -> f64 {
    let parts = f64::from(family.max(1)) * f64::from(looks.max(1));
    let each = 1.0 - (1.0 - confidence) / parts;
    // 0.05 has no finite binary form: twelve digits print what was meant.
    let printed = format!("{each:.12}").parse().unwrap_or(each);
    let sharpest = 1.0 - f64::EPSILON;
    if printed < sharpest {
        printed
    } else {
        each.min(sharpest)
    }
}

/// Confidence of an interval that no other shares its error with, of a cell's step time say: it holds
/// with the job's confidence, whichever look ended the measuring. That between twins, which pools heats
/// of several looks, is made at the same and holds about as often.
#[must_use]
pub fn confidence_of_one(measure: &Measure) -> f64 {
    confidence_each(measure.confidence, 1, looks(measure))
}

/// The verdicts of a job, which share its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// How many they are: the plan decides, and nothing that was measured.
    pub verdicts: u32,
    /// Confidence of each of their intervals.
    pub confidence_each: f64,
}

/// What is said of a ratio of step times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio, with the interval that its verdict is drawn from.
    pub interval: Interval,
    /// Whether that is as wide as the scatter of launches makes it, and wider than what its own blocks scatter by
    /// does.
    pub is_widened: bool,
}

impl Family {
    /// So many verdicts of a job.
    #[must_use]
    pub fn of(measure: &Measure, verdicts: u32) -> Self {
        Self {
            verdicts,
            confidence_each: confidence_each(measure.confidence, verdicts, looks(measure)),
        }
    }

    /// The ratio of a pair to `times`, by its differences; `None` without one.
    ///
    /// Student's interval is made from what the blocks scatter by, and where launches have two humps a few of them
    /// may all be of one, or all but one of them: of many verdicts that share an error, some are. What twins say
    /// knows better ([`crate::noise::Sides::launches`]): no such interval is narrower than that of as many normal
    /// values that scatter by `launches`. Order statistics, from [`interval::ORDER_STATISTIC_BLOCKS`] blocks on, need
    /// no scatter.
    #[must_use]
    pub fn ratio(&self, pair: &Shared, times: f64, launches: Option<f64>) -> Option<Ratio> {
        let times = libm::log(times);
        let logs: Vec<f64> = pair.logs.iter().map(|log| log - times).collect();
        let (interval, is_widened) =
            interval::at_least(&logs, self.confidence_each, pair.resolution, launches)?;
        Some(Ratio {
            interval,
            is_widened,
        })
    }
}

/// Confidence of what is said about each of so many lines ([`crate::trend`]), which share the error of a
/// job among themselves and with no verdict.
#[must_use]
pub fn confidence_of_line(measure: &Measure, lines: u32) -> f64 {
    confidence_each(measure.confidence, lines, looks(measure))
}

fn looks(measure: &Measure) -> u32 {
    u32::try_from(measure.looks().len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(verdicts: u32) -> Family {
        Family {
            verdicts,
            confidence_each: confidence_each(0.95, verdicts, 1),
        }
    }

    /// Blocks that agree within a thousandth.
    fn agreeing(blocks: usize) -> Shared {
        Shared {
            logs: (0..blocks).map(|block| [0.1, 0.101][block % 2]).collect(),
            resolution: 0.0,
        }
    }

    #[test]
    fn few_blocks_have_no_narrower_an_interval_than_launches_make() {
        let ends = |verdicts, blocks, launches| {
            let ratio = family(verdicts).ratio(&agreeing(blocks), 1.0, launches);
            let Ratio {
                interval,
                is_widened,
            } = ratio.unwrap();
            let half = libm::log(interval.high.unwrap() / interval.low.unwrap()) / 2.0;
            (half, is_widened)
        };
        let (plain, is_widened) = ends(2, 6, None);
        assert!(plain < 0.01 && !is_widened, "{plain}");
        // The normal quantiles at 95 % and 97.5 %.
        for (verdicts, quantile) in [(1, 1.959_964), (2, 2.241_403)] {
            for blocks in [6, 12, 19] {
                let (wide, is_widened) = ends(verdicts, blocks, Some(0.03));
                let half = quantile * 0.03 / (blocks as f64).sqrt();
                assert!((wide - half).abs() < 1e-5 && is_widened, "{wide}, {half}");
            }
        }
        assert!(!ends(1, 20, Some(0.03)).1);
        // What scatters as much by itself is as it was, to the last digit.
        let agree = Shared {
            logs: vec![libm::log(1.0 / 3.0); 6],
            resolution: 1e-6,
        };
        let ratio = |launches| family(2).ratio(&agree, 1.0, launches);
        assert_eq!(ratio(Some(0.0)), ratio(None));
        assert_eq!(ends(2, 6, Some(1e-4)), (plain, false));
    }

    #[test]
    fn a_ratio_is_held_against_what_was_claimed() {
        let of = |times| family(1).ratio(&agreeing(6), times, None).unwrap();
        let (once, twice) = (of(1.0).interval, of(2.0).interval);
        assert!((once.centre / twice.centre - 2.0).abs() < 1e-5, "{twice:?}");
    }

    #[test]
    fn the_error_is_shared_and_never_vanishes() {
        assert_eq!(confidence_each(0.95, 0, 0), 0.95);
        assert_eq!(confidence_each(0.95, 1, 1), 0.95);
        assert_eq!(confidence_each(0.95, 12, 1), 0.995_833_333_333);
        assert_eq!(confidence_each(0.95, 3, 4), 0.995_833_333_333);
        let sharp = confidence_each(1.0 - f64::EPSILON / 2.0, u32::MAX, 4);
        assert!(sharp < 1.0, "{sharp}");
        let ratio = interval::of_logs(&[0.0, 0.01, 0.02, 0.0, 0.01, 0.02], sharp, 0.0).unwrap();
        assert!(ratio.low.is_some() && ratio.high.is_some(), "{ratio:?}");
    }
}
