//! The A/A floor: how far apart this machine puts things that are the same.

use std::collections::BTreeMap;

use schema::{Cell, Plan, tables::Floor};
use statistics::{
    family::confidence_of_one,
    noise::{Noise, Sides, Twins},
    pair::{self, Shared},
};

use crate::{group::Group, slot::Slot};

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

/// What is known of the noise of every owner.
pub(crate) struct Floors(BTreeMap<Owner, Known>);

/// Of so many pairs of twins.
struct Known {
    noise: Noise,
    pairs: u32,
}

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
    floors_of(plan, groups, |cell, original, twin| {
        pair::shared(&original.blocks, &twin.blocks, cell.boundary)
    })
}

/// The same of whatever twins share block by block.
pub(crate) fn floors_of(
    plan: &Plan,
    groups: &[Group<'_>],
    shared: impl Fn(&Cell, &Slot, &Slot) -> Shared,
) -> Floors {
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
                said.twins.add(&shared(&cell.cell, original, twin));
            }
        }
    }
    let known = owners.into_iter().map(|(owner, said)| {
        let known = Known {
            noise: said.twins.noise(said.confidence),
            pairs: said.pairs,
        };
        (owner, known)
    });
    Floors(known.collect())
}

impl Floors {
    /// The noise of both sides of a pair of a job.
    pub(crate) fn of_pair(&self, job: &str, one: &Cell, other: &Cell) -> Sides {
        let of = |cell: &Cell| Some(self.0.get(&Owner::of(job, cell))?.noise.clone());
        Sides([of(one), of(other)])
    }

    /// In the plan's order of jobs, then by engine and device.
    pub(crate) fn into_rows(self, plan: &Plan) -> Vec<Floor> {
        let place = |job: &str| plan.jobs.iter().position(|known| known.id == job);
        let rows = self.0.into_iter().map(|(owner, known)| Floor {
            job: owner.job,
            engine: owner.engine,
            device: owner.device,
            floor: known.noise.floor,
            ratio: known.noise.ratio,
            between_launches: known.noise.between_launches,
            launch_scatter: known.noise.launch_scatter,
            pairs: known.pairs,
        });
        let mut rows: Vec<Floor> = rows.collect();
        rows.sort_by_key(|floor| place(&floor.job));
        rows
    }
}
