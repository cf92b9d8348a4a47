//! The A/A floor: how far apart this machine puts things that are the same.

use std::collections::BTreeMap;

use schema::{Cell, Plan, tables::Floor};
use statistics::{
    family::confidence_of_one,
    noise::{Noise, Twins},
    pair,
};

use crate::group::Group;

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
struct Said {
    pairs: u32,
    twins: Twins,
    confidence: f64,
}

/// The floor of every engine and variant on every device that has twins in a job, from the twins
/// of that job alone: inference says nothing of the noise of training, nor one device of another. How,
/// [`Twins::noise`] says. The interval between twins describes: it pools heats that ended at looks of
/// their own, and no verdict rests on its confidence.
pub(crate) fn floors(plan: &Plan, groups: &[Group<'_>]) -> Floors {
    let mut owners: BTreeMap<Owner, Said> = BTreeMap::new();
    for group in groups {
        let job = &group.planned.job;
        let confidence = plan
            .job(job)
            .map_or(0.0, |job| confidence_of_one(&job.measure));
        for (cell, original, twin) in group.twins() {
            let said = owners.entry(Owner::of(job, &cell.cell)).or_default();
            said.confidence = confidence;
            // Those of a heat that stayed disturbed say what disturbed it.
            if original.outcome.is_measured() && twin.outcome.is_measured() {
                said.pairs += 1;
                let shared = pair::shared(&original.blocks, &twin.blocks);
                said.twins.add(&shared);
            }
        }
    }
    let floors = owners.into_iter().map(|(owner, said)| {
        let Noise {
            ratio,
            floor,
            between_launches,
        } = said.twins.noise(said.confidence);
        let row = Floor {
            job: owner.job.clone(),
            engine: owner.engine.clone(),
            device: owner.device.clone(),
            floor,
            ratio,
            between_launches,
            pairs: said.pairs,
        };
        (owner, row)
    });
    Floors(floors.collect())
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
