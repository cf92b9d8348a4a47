//! The A/A floor: how far apart this machine puts things that are the same.

use std::collections::BTreeMap;

use schema::{
    Cell, Plan,
    tables::{Floor, Interval},
};

use crate::{
    compare::{self, Shared},
    group::Group,
    interval::{self, VERDICT_BLOCKS},
    number::{rounded, rounded_up},
    slot::has_speed,
};

/// Whose twins: a job's, of an engine and variant, on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    job: String,
    engine: String,
    device: String,
}

impl Owner {
    fn of(job: &str, cell: &Cell) -> Self {
        Self {
            job: job.to_owned(),
            engine: cell.engine.to_string(),
            device: cell.device.to_string(),
        }
    }
}

/// Floors by their owner.
pub(crate) struct Floors(BTreeMap<Owner, Floor>);

/// What twins of one owner say.
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

/// The floor of every engine and variant on every device that has twins in a job, from the twins
/// of that job alone: inference says nothing of the noise of training, nor one device of another.
/// It is the larger of
/// * what twins differ by as a rule: the logarithms of twin ÷ original of all blocks of all heats
///   of the job make one interval, blocks being independent, at the job's confidence; of its ends
///   the one farther from 1;
/// * what a single heat shows: the root mean square, over pairs of 6 blocks and more, of the mean
///   logarithm. Heats that put twins apart in opposite directions cancel in the interval, and
///   many of them make it narrow, but each comparison has one heat only.
///
/// Both as relative differences counted upward like the margin: exp(|ln ratio|) − 1. With fewer
/// than 6 blocks in all there is no floor. It estimates what noise is typical; it bounds nothing.
pub(crate) fn floors(plan: &Plan, groups: &[Group<'_>]) -> Floors {
    let mut owners: BTreeMap<Owner, Twins> = BTreeMap::new();
    for group in groups {
        let job = &group.planned.job;
        let confidence = plan.job(job).map_or(0.0, |job| job.measure.confidence);
        for (cell, original, twin) in group.twins() {
            let twins = owners.entry(Owner::of(job, &cell.cell)).or_default();
            twins.confidence = confidence;
            if has_speed(original.outcome.kind) && has_speed(twin.outcome.kind) {
                twins.add(compare::shared(&original.blocks, &twin.blocks));
            }
        }
    }
    let floors = owners
        .into_iter()
        .map(|(owner, twins)| (owner.clone(), twins.floor(owner)));
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

    fn floor(self, owner: Owner) -> Floor {
        let ratio = interval::of_logs(&self.logs, self.confidence, self.resolution);
        let rule = ratio.as_ref().and_then(farther_end);
        let heat = self.root_mean_square() + self.resolution;
        let floor = rule.map(|rule| rule.max(rounded_up(libm::expm1(heat))));
        Floor {
            job: owner.job,
            engine: owner.engine,
            device: owner.device,
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
    /// The floor for a pair of a job: the larger of its two sides', unknown when either is.
    pub(crate) fn of_pair(&self, job: &str, one: &Cell, other: &Cell) -> Option<f64> {
        let of = |cell: &Cell| self.0.get(&Owner::of(job, cell))?.floor;
        Some(of(one)?.max(of(other)?))
    }

    /// In the plan's order of jobs, then by engine and device.
    pub(crate) fn into_rows(self, plan: &Plan) -> Vec<Floor> {
        let place = |job: &str| plan.jobs.iter().position(|known| known.id == job);
        let mut rows: Vec<Floor> = self.0.into_values().collect();
        rows.sort_by_key(|floor| place(&floor.job));
        rows
    }
}
