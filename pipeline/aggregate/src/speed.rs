//! The speed of a cell, from the samples of its blocks.

use std::collections::BTreeMap;

use schema::{
    Boundary,
    plan::PlannedCell,
    tables::{Interval, LaunchRow, Speed},
};

use statistics::{interval, number::rounded, percentile, samples::has_speed};

use crate::slot::Slot;

/// The speed of a cell; `None` when its samples may not be shown.
///
/// Its interval has this `confidence`, which it shares with no other: it speaks of this cell alone, and
/// no verdict rests on it.
pub(crate) fn speed(planned: &PlannedCell, slot: &Slot, confidence: f64) -> Option<Speed> {
    if !has_speed(slot.outcome.kind) {
        return None;
    }
    let mut sorted: Vec<u64> = rounds(slot).flatten().copied().collect();
    sorted.sort_unstable();
    let step_ns = centre(slot, planned.cell.boundary, confidence)?;
    let per_second = |count: f64| rounded(count / step_ns.centre * 1e9);
    let logs = slot.logs();
    Some(Speed {
        step_ns,
        items_per_second: per_second(planned.cell.samples() as f64),
        min_ns: *sorted.first()?,
        percentiles_ns: percentiles(&sorted),
        max_ns: *sorted.last()?,
        samples: sorted.len() as u64,
        between_blocks: rounded(interval::standard_deviation(&logs)),
        between_rounds: between_rounds(slot).map(rounded),
        within_round: rounded(within_round(slot)),
        flops_per_second: per_second(planned.flops as f64),
    })
}

/// The centre of a cell's step time, in nanoseconds; `None` likewise.
pub(crate) fn step_ns(slot: &Slot) -> Option<f64> {
    if !has_speed(slot.outcome.kind) {
        return None;
    }
    let step_ns = rounded(libm::exp(interval::centre(&slot.logs())?));
    (step_ns > 0.0).then_some(step_ns)
}

/// The rounds of the blocks that count.
fn rounds(slot: &Slot) -> impl Iterator<Item = &Vec<u64>> {
    launches(slot).flat_map(|launch| &launch.rounds)
}

/// The launches of the blocks that count.
fn launches(slot: &Slot) -> impl Iterator<Item = &LaunchRow> {
    let shown = |launch: &&LaunchRow| {
        has_speed(launch.outcome.kind) && slot.blocks.contains_key(&launch.block)
    };
    slot.launches.iter().filter(shown)
}

/// Deviations of round medians from the centre of their launch, pooled over launches, in logarithms:
/// those of a launch of n rounds have n − 1 degrees of freedom.
fn between_rounds(slot: &Slot) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0);
    for launch in launches(slot) {
        let medians = launch.rounds.iter().filter_map(|round| {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            percentile::median(&sorted).map(libm::log)
        });
        let medians: Vec<f64> = medians.collect();
        let others = medians.len().saturating_sub(1);
        let deviation = interval::standard_deviation(&medians);
        squares += deviation * deviation * others as f64;
        freedom += others;
    }
    (freedom > 0).then(|| (squares / freedom as f64).sqrt())
}

/// The centre of block medians, in logarithms like that of ratios. The ratio of two centres is the centre of the ratio
/// where both cells were measured in the same blocks, fewer than twenty, and blocks are compared by their medians; that
/// of pairs of rounds, and the median of differences, need not be.
fn centre(slot: &Slot, boundary: Boundary, confidence: f64) -> Option<Interval> {
    let shortest = slot.blocks.values().map(|steps| steps.step_ns);
    let shortest = shortest.reduce(f64::min)?;
    let resolution = interval::resolution(shortest, boundary);
    interval::of_logs(&slot.logs(), confidence, resolution)
}

fn percentiles(sorted: &[u64]) -> BTreeMap<String, u64> {
    percentile::SHOWN
        .iter()
        .filter_map(|&percent| {
            Some((
                format!("p{percent}"),
                percentile::of_sorted(sorted, percent)?,
            ))
        })
        .collect()
}

/// Median over rounds of (P84 − P16) ÷ (2 · median): one standard deviation of a normal
/// distribution, in shares of the median.
fn within_round(slot: &Slot) -> f64 {
    let spreads = rounds(slot).filter_map(|round| {
        let mut sorted = round.clone();
        sorted.sort_unstable();
        let wide = percentile::of_sorted(&sorted, 84)? - percentile::of_sorted(&sorted, 16)?;
        Some(wide as f64 / (2.0 * percentile::median(&sorted)?))
    });
    percentile::middle(spreads).unwrap_or(0.0)
}
