//! What must hold whatever is measured.

use proptest::prelude::*;
use schema::tables::{ComparisonRow, Verdict};

use crate::race::{heat, only_row, race, tables};

fn times() -> impl Strategy<Value = Vec<(u64, u64)>> {
    (10_000_u64..100_000_000, 50_u64..200, 1_u64..10).prop_flat_map(|(base, percent, noise)| {
        let around = move |centre: u64| {
            let spread = (centre / 1_000 * noise).max(1);
            centre.saturating_sub(spread).max(1)..=centre + spread
        };
        let contender = base / 100 * percent;
        proptest::collection::vec((around(base), around(contender)), 1..30)
    })
}

fn row(times: &[(u64, u64)]) -> ComparisonRow {
    let (baseline, contender): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
    only_row(&tables(&race(&baseline, &contender))).clone()
}

fn close(one: f64, other: f64, tolerance: f64) -> bool {
    (one / other - 1.0).abs() <= tolerance
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    #[test]
    fn the_interval_holds_its_centre(times in times()) {
        let ratio = row(&times).ratio.unwrap();
        prop_assert!(ratio.low.is_none_or(|low| low < ratio.centre));
        prop_assert!(ratio.high.is_none_or(|high| ratio.centre < high));
        prop_assert_eq!(ratio.low.is_some(), times.len() > 1);
    }

    #[test]
    fn swapping_the_pair_turns_ratio_and_verdict_round(times in times()) {
        let there = row(&times);
        let swapped: Vec<_> = times.iter().map(|&(baseline, contender)| (contender, baseline)).collect();
        let back = row(&swapped);
        let (one, other) = (there.ratio.unwrap(), back.ratio.unwrap());
        prop_assert!(close(one.centre * other.centre, 1.0, 2e-5));
        if let (Some(low), Some(high)) = (one.low, other.high) {
            prop_assert!(close(low * high, 1.0, 2e-5));
        }
        let opposite = match there.verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        prop_assert_eq!(back.verdict, opposite);
    }

    #[test]
    fn the_order_of_blocks_and_launches_changes_nothing(times in times(), turn in 0_usize..30) {
        let (baseline, contender): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
        let mut run = race(&baseline, &contender);
        let before = serde_json::to_string(&tables(&run)).unwrap();
        let blocks = &mut heat(&mut run, 0).blocks;
        let turn = turn % blocks.len();
        blocks.rotate_left(turn);
        for block in blocks {
            block.launches.reverse();
        }
        prop_assert_eq!(serde_json::to_string(&tables(&run)).unwrap(), before);
    }

    #[test]
    fn which_block_measured_what_changes_no_ratio(times in times(), turn in 0_usize..30) {
        let before = row(&times);
        let mut turned = times.clone();
        turned.rotate_left(turn % times.len());
        prop_assert_eq!(row(&turned), before);
    }

    #[test]
    fn a_slower_clock_scales_times_and_not_ratios(times in times(), factor in 2_u64..50) {
        let scaled: Vec<_> = times.iter().map(|&(one, other)| (one * factor, other * factor)).collect();
        let (before, after) = (row(&times).ratio.unwrap(), row(&scaled).ratio.unwrap());
        prop_assert!(close(before.centre, after.centre, 2e-6));
        // The clock's resolution, at most 1/5,000 of the shortest time here, weighs less and less.
        if let (Some(one), Some(other)) = (before.high, after.high) {
            prop_assert!(other <= one * (1.0 + 2e-6) && close(one, other, 5e-4));
        }
    }
}
