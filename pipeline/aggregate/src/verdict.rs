//! What an interval allows to say.

use schema::{
    printed::{self, percent},
    tables::{Interval, Verdict},
};

use crate::interval::VERDICT_BLOCKS;

/// Bounds against which an interval is held, as relative differences.
///
/// A difference of `m` reaches from 1 ÷ (1 + m) to 1 + m: as far down as up in logarithms, so
/// that a pair and the same pair the other way round get opposite verdicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    /// Smallest difference worth acting on.
    pub(crate) margin: f64,
    /// Noise between identical cells; `None` when it is unknown.
    pub(crate) floor: Option<f64>,
}

impl Bounds {
    /// What an interval is held against in print: the same on pages.
    pub(crate) fn limits(self) -> Vec<f64> {
        printed::limits([self.margin].into_iter().chain(self.floor))
    }
}

/// The verdict about the contender whose time ÷ baseline's is `ratio`, and why.
///
/// Decided from the rounded numbers that are printed: an interval never contradicts its verdict.
#[must_use]
pub(crate) fn judge(ratio: &Interval, bounds: Bounds) -> (Verdict, String) {
    if ratio.blocks < VERDICT_BLOCKS {
        return (Verdict::Unclear, too_few(ratio.blocks));
    }
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        let reason = "the blocks scatter too much for an interval with two ends";
        return (Verdict::Unclear, reason.to_owned());
    };
    let margin = bounds.margin;
    let interval = format!("interval {}", printed::ratio(ratio, &bounds.limits()).range);
    let Some(floor) = bounds.floor else {
        let reason = format!(
            "{interval} cannot be held against the noise between identical cells, which was not measured in {VERDICT_BLOCKS} blocks"
        );
        return (Verdict::Unclear, reason);
    };
    let both = format!(
        "the {} margin and the {} floor",
        percent(margin),
        percent(floor)
    );
    let outside = margin.max(floor);
    if high < 1.0 / (1.0 + outside) {
        (Verdict::Faster, format!("{interval} lies outside {both}"))
    } else if low > 1.0 + outside {
        (Verdict::Slower, format!("{interval} lies outside {both}"))
    } else if low < 1.0 / (1.0 + margin) || high > 1.0 + margin {
        (
            Verdict::Unclear,
            format!("{interval} {}", reach(low, high, margin, &both)),
        )
    } else if floor > margin {
        let reason = format!(
            "{interval} lies inside the {} margin, but the {} floor does not",
            percent(margin),
            percent(floor)
        );
        (Verdict::Unclear, reason)
    } else {
        (
            Verdict::Same,
            format!(
                "{interval} and the {} floor lie inside the {} margin",
                percent(floor),
                percent(margin)
            ),
        )
    }
}

fn too_few(blocks: u32) -> String {
    let plural = if blocks == 1 { "" } else { "s" };
    format!(
        "only {blocks} block{plural} measured both; a verdict rests on at least {VERDICT_BLOCKS}"
    )
}

fn reach(low: f64, high: f64, margin: f64, both: &str) -> String {
    if low < 1.0 / (1.0 + margin) && high > 1.0 + margin {
        format!("is wider than the {} margin on both sides", percent(margin))
    } else {
        format!("is not wholly outside {both}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64, blocks: u32) -> Interval {
        Interval {
            low: Some(low),
            centre: (low * high).sqrt(),
            high: Some(high),
            blocks,
            confidence: 0.95,
        }
    }

    fn verdict(low: f64, high: f64, margin: f64, floor: Option<f64>) -> Verdict {
        judge(&interval(low, high, 6), Bounds { margin, floor }).0
    }

    #[test]
    fn every_zone_has_its_verdict() {
        let floor = Some(0.01);
        assert_eq!(verdict(0.51, 0.55, 0.05, floor), Verdict::Faster);
        assert_eq!(verdict(1.06, 1.20, 0.05, floor), Verdict::Slower);
        assert_eq!(verdict(0.97, 1.03, 0.05, floor), Verdict::Same);
        assert_eq!(verdict(0.90, 0.97, 0.05, floor), Verdict::Unclear);
        assert_eq!(verdict(0.80, 1.20, 0.05, floor), Verdict::Unclear);
        assert_eq!(verdict(1.01, 1.06, 0.05, floor), Verdict::Unclear);
    }

    #[test]
    fn the_floor_binds_where_it_exceeds_the_margin() {
        assert_eq!(verdict(0.90, 0.93, 0.05, Some(0.10)), Verdict::Unclear);
        assert_eq!(verdict(0.80, 0.90, 0.05, Some(0.10)), Verdict::Faster);
        assert_eq!(verdict(0.97, 1.03, 0.05, Some(0.10)), Verdict::Unclear);
        assert_eq!(verdict(0.51, 0.55, 0.05, None), Verdict::Unclear);
    }

    #[test]
    fn the_margin_is_symmetric_in_logarithms() {
        // 1 ÷ 1.05 = 0.95238…
        assert_eq!(verdict(0.952_3, 1.05, 0.05, Some(0.0)), Verdict::Unclear);
        assert_eq!(verdict(0.952_4, 1.05, 0.05, Some(0.0)), Verdict::Same);
        assert_eq!(verdict(0.90, 0.952_3, 0.05, Some(0.0)), Verdict::Faster);
    }

    #[test]
    fn few_blocks_and_missing_ends_say_so() {
        let bounds = Bounds {
            margin: 0.05,
            floor: Some(0.01),
        };
        let (verdict, reason) = judge(&interval(0.51, 0.55, 5), bounds);
        assert_eq!(verdict, Verdict::Unclear);
        assert_eq!(
            reason,
            "only 5 blocks measured both; a verdict rests on at least 6"
        );
        let endless = Interval {
            high: None,
            ..interval(0.5, 0.6, 6)
        };
        assert_eq!(judge(&endless, bounds).0, Verdict::Unclear);
    }

    #[test]
    fn reasons_name_the_numbers() {
        let (_, reason) = judge(
            &interval(0.51, 0.55, 6),
            Bounds {
                margin: 0.05,
                floor: Some(0.013),
            },
        );
        assert_eq!(
            reason,
            "interval [0.51, 0.55] lies outside the 5 % margin and the 1.3 % floor"
        );
    }
}
