//! The A/A floor: how far apart this machine puts things that are the same.

use std::collections::BTreeMap;

use schema::{
    Plan,
    tables::{Floor, Interval},
};

use crate::{
    compare::{self, Shared},
    group::Group,
    interval::{self, VERDICT_BLOCKS},
    number::{rounded, rounded_up},
    slot::has_speed,
};

/// Floors by engine and variant.
pub(crate) struct Floors(BTreeMap<String, Floor>);

/// What twins of one engine and variant say.
#[derive(Default)]
struct Twins {
    pairs: u32,
    /// ln(twin ÷ original), a value per block of every pair.
    logs: Vec<f64>,
    /// Centres of those, a value per pair with enough blocks.
    centres: Vec<f64>,
    resolution: f64,
    confidence: f64,
}

/// The floor of every engine and variant that has twins in the plan: the larger of
/// * what twins differ by as a rule: the logarithms of twin ÷ original of all blocks of all heats
///   of the run make one interval, blocks being independent, at the highest confidence of the
///   jobs that contribute; of its ends the one farther from 1;
/// * what a single heat shows: the root mean square, over pairs of 6 blocks and more, of the mean
///   logarithm. Heats that put twins apart in opposite directions cancel in the interval, and
///   many of them make it narrow, but each comparison has one heat only.
///
/// Both as relative differences counted upward like the margin: exp(|ln ratio|) − 1. With fewer
/// than 6 blocks in all there is no floor.
pub(crate) fn floors(plan: &Plan, groups: &[Group<'_>]) -> Floors {
    let mut engines: BTreeMap<String, Twins> = BTreeMap::new();
    for group in groups {
        let job = plan.job(&group.planned.job);
        let confidence = job.map_or(0.0, |job| job.measure.confidence);
        for (cell, original, twin) in group.twins() {
            let twins = engines.entry(cell.cell.engine.to_string()).or_default();
            twins.confidence = twins.confidence.max(confidence);
            if has_speed(original.outcome.kind) && has_speed(twin.outcome.kind) {
                twins.add(compare::shared(&original.blocks, &twin.blocks));
            }
        }
    }
    let floors = engines
        .into_iter()
        .map(|(engine, twins)| (engine.clone(), twins.floor(engine)));
    Floors(floors.collect())
}

impl Twins {
    fn add(&mut self, shared: Shared) {
        self.pairs += 1;
        self.resolution = self.resolution.max(shared.resolution);
        if shared.logs.len() >= VERDICT_BLOCKS as usize {
            self.centres.extend(interval::mean(&shared.logs));
        }
        self.logs.extend(shared.logs);
    }

    fn floor(self, engine: String) -> Floor {
        let ratio = interval::of_logs(&self.logs, self.confidence, self.resolution);
        let rule = ratio.as_ref().and_then(farther_end);
        let heat = self.root_mean_square() + self.resolution;
        let floor = rule.map(|rule| rule.max(rounded_up(libm::expm1(heat))));
        Floor {
            engine,
            floor: floor.filter(|floor| floor.is_finite()),
            ratio,
            pairs: self.pairs,
        }
    }

    fn root_mean_square(&self) -> f64 {
        let squares: Vec<f64> = self.centres.iter().map(|centre| centre * centre).collect();
        interval::mean(&squares).map_or(0.0, f64::sqrt)
    }
}

/// From the rounded ends, so that the printed interval and floor agree.
fn farther_end(ratio: &Interval) -> Option<f64> {
    if ratio.blocks < VERDICT_BLOCKS {
        return None;
    }
    let (low, high) = (ratio.low?, ratio.high?);
    Some(rounded(high.max(1.0 / low) - 1.0))
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
