//! The A/A floor: how far apart this machine puts things that are the same.

use std::collections::BTreeMap;

use schema::{
    Plan,
    tables::{Floor, Interval},
};

use crate::{
    compare,
    group::Group,
    interval::{self, VERDICT_BLOCKS},
    number::rounded,
    slot::has_speed,
};

/// Floors by engine and variant.
pub(crate) struct Floors(BTreeMap<String, Floor>);

/// What twins of one engine and variant say.
#[derive(Default)]
struct Twins {
    pairs: u32,
    /// ln(twin ÷ original), a value per block.
    logs: Vec<f64>,
    resolution: f64,
    confidence: f64,
}

/// The floor of every engine and variant that has twins in the plan.
///
/// The logarithms of twin ÷ original of all blocks of all heats of the run make one interval,
/// blocks being independent; its confidence is the highest of the jobs that contribute. The floor
/// is the end of that interval that is farther from 1, as a relative difference counted upward
/// like the margin: exp(max(|ln low|, |ln high|)) − 1. Below 6 blocks there is none.
pub(crate) fn floors(plan: &Plan, groups: &[Group<'_>]) -> Floors {
    let mut engines: BTreeMap<String, Twins> = BTreeMap::new();
    for group in groups {
        let confidence = plan
            .job(&group.planned.job)
            .map_or(0.0, |job| job.measure.confidence);
        for (cell, original, twin) in group.twins() {
            let twins = engines.entry(cell.cell.engine.to_string()).or_default();
            twins.confidence = twins.confidence.max(confidence);
            if has_speed(original.outcome.kind) && has_speed(twin.outcome.kind) {
                let shared = compare::shared(&original.blocks, &twin.blocks);
                twins.pairs += 1;
                twins.resolution = twins.resolution.max(shared.resolution);
                twins.logs.extend(shared.logs);
            }
        }
    }
    Floors(
        engines
            .into_iter()
            .map(|(engine, twins)| (engine.clone(), floor(engine, &twins)))
            .collect(),
    )
}

fn floor(engine: String, twins: &Twins) -> Floor {
    let ratio = interval::of_logs(&twins.logs, twins.confidence, twins.resolution);
    let floor = ratio.as_ref().and_then(farther_end);
    Floor {
        engine,
        floor,
        ratio,
        pairs: twins.pairs,
    }
}

/// From the rounded ends, so that the printed interval and floor agree.
fn farther_end(ratio: &Interval) -> Option<f64> {
    if ratio.blocks < VERDICT_BLOCKS {
        return None;
    }
    let (low, high) = (ratio.low?, ratio.high?);
    let floor = rounded(high.max(1.0 / low) - 1.0);
    floor.is_finite().then_some(floor)
}

impl Floors {
    /// The floor for a pair: the larger of its two engines', unknown when either is.
    pub(crate) fn of_pair(&self, one: &str, other: &str) -> Option<f64> {
        let of = |engine: &str| self.0.get(engine)?.floor;
        Some(of(one)?.max(of(other)?))
    }

    /// In the order of engines' names.
    pub(crate) fn into_rows(self) -> Vec<Floor> {
        self.0.into_values().collect()
    }
}
