//! What an interval allows to say.

use schema::{
    plan::VERDICT_BLOCKS,
    printed::{self, Bounds, percent, sides},
    tables::{Interval, Verdict},
};

/// The verdict about the contender whose time ÷ baseline's is `ratio`, and why.
///
/// Decided from the rounded numbers that are printed: an interval never contradicts its verdict.
#[must_use]
pub fn judge(ratio: &Interval, bounds: Bounds) -> (Verdict, String) {
    if ratio.blocks < VERDICT_BLOCKS {
        return (Verdict::Unclear, too_few(ratio.blocks));
    }
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        let reason = "the blocks scatter too much for an interval with two ends";
        return (Verdict::Unclear, reason.to_owned());
    };
    let margin = bounds.margin;
    let printed = printed::held(ratio, bounds);
    let interval = format!("interval {}", printed.ratio.range);
    let (Some(floor), Some(floor_text)) = (bounds.floor, printed.floor) else {
        let reason = format!(
            "{interval} cannot be held against the noise between identical cells, which was not measured in {VERDICT_BLOCKS} blocks"
        );
        return (Verdict::Unclear, reason);
    };
    let both = format!("the {} margin and the {floor_text} floor", percent(margin));
    let [faster, slower] = sides(margin.max(floor));
    let [least, greatest] = sides(margin);
    if high < faster {
        (Verdict::Faster, format!("{interval} lies outside {both}"))
    } else if low > slower {
        (Verdict::Slower, format!("{interval} lies outside {both}"))
    } else if low < least && high > greatest {
        let reason = format!(
            "{interval} is wider than the {} margin on both sides",
            percent(margin)
        );
        (Verdict::Unclear, reason)
    } else if low < least || high > greatest {
        (
            Verdict::Unclear,
            format!("{interval} is not wholly outside {both}"),
        )
    } else if floor > margin {
        let reason = format!(
            "{interval} lies inside the {} margin, but the {floor_text} floor does not",
            percent(margin)
        );
        (Verdict::Unclear, reason)
    } else {
        (
            Verdict::Same,
            format!(
                "{interval} and the {floor_text} floor lie inside the {} margin",
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::number::rounded;

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

    #[test]
    fn a_floor_has_the_digits_that_its_verdict_needs() {
        let bounds = |floor| Bounds {
            margin: 0.01,
            floor: Some(floor),
        };
        let blocks = interval(1.01388, 1.0139, 6);
        assert_eq!(
            judge(&blocks, bounds(0.01386)).1,
            "interval [1.01388, 1.01390] lies outside the 1 % margin and the 1.386 % floor"
        );
        assert_eq!(
            judge(&interval(1.013_83, 1.014, 6), bounds(0.013_849)).1,
            "interval [1.0138, 1.0140] is not wholly outside the 1 % margin and the 1.385 % floor"
        );
        assert_eq!(
            judge(&interval(0.999, 1.001, 6), bounds(0.010_001)).1,
            "interval [0.9990, 1.0010] lies inside the 1 % margin, but the 1.0001 % floor does not"
        );
    }

    /// The verdict of one who has nothing but the printed numbers, and reckons exactly.
    fn read(reason: &str) -> Verdict {
        // A decimal number, with an exponent or without, in units of 10⁻¹⁸; what is smaller is lost.
        let units = |text: &str| -> i128 {
            let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let number: i128 = format!("{whole}{fraction}").parse().unwrap();
            let places = 18 + exponent.parse::<i32>().unwrap() - fraction.len() as i32;
            let factor = 10_i128.pow(places.unsigned_abs());
            if places < 0 {
                number / factor
            } else {
                number * factor
            }
        };
        const ONE: i128 = 1_000_000_000_000_000_000;
        let (range, _) = reason
            .strip_prefix("interval [")
            .and_then(|rest| rest.split_once(']'))
            .unwrap();
        let (low, high) = range.split_once(", ").unwrap();
        let (low, high) = (units(low), units(high));
        let share = |name: &str| {
            let (before, _) = reason.split_once(&format!(" % {name}")).unwrap();
            units(before.rsplit(' ').next().unwrap()) / 100
        };
        let margin = share("margin");
        // Of an interval that is wider than the margin on both sides, the floor says nothing.
        let floor = if reason.contains("both sides") {
            0
        } else {
            share("floor")
        };
        let above = |difference: i128| ONE + difference;
        let outside = margin.max(floor);
        if high * above(outside) < ONE * ONE {
            Verdict::Faster
        } else if low > above(outside) {
            Verdict::Slower
        } else if low * above(margin) < ONE * ONE || high > above(margin) || floor > margin {
            Verdict::Unclear
        } else {
            Verdict::Same
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5 * ProptestConfig::default().cases))]

        #[test]
        fn what_is_printed_supports_the_verdict(
            margin in prop_oneof![Just(0.01), Just(0.02), Just(0.125), (1_u32..3_000).prop_map(|m| f64::from(m) / 1e4)],
            // Near the margin or not, or next to nothing, of the digits that tables have.
            floor in prop_oneof![
                0.0..0.3,
                (-0.000_2..0.000_2_f64).prop_map(|near| 1.0 + near),
                (-12.0..-3.0_f64).prop_map(|magnitude| 10_f64.powf(magnitude)),
            ],
            near in proptest::sample::select(vec![0, 1, 2, 3, 4]),
            place in -0.000_2..0.000_2_f64,
            width in prop_oneof![Just(0.0), 0.0..0.000_1, 0.0..0.1],
            mirrored in any::<bool>(),
        ) {
            let floor = rounded(if floor > 0.5 { margin * floor } else { floor });
            let [below, above] = sides(if mirrored { margin } else { floor });
            let (low, high) = match near {
                0 => (below + place - width, below + place),
                1 => (below + place, below + place + width),
                2 => (above + place - width, above + place),
                3 => (above + place, above + place + width),
                _ => (1.0 + place - width, 1.0 + place + width),
            };
            let ratio = interval(rounded(low), rounded(high), 6);
            let (verdict, reason) = judge(&ratio, Bounds { margin, floor: Some(floor) });
            prop_assert_eq!(read(&reason), verdict, "{}: {:?}, {}, {}", reason, ratio, margin, floor);
        }
    }
}
