//! The noise that verdicts will be drawn against: that of all twins of a job, as far as they are measured.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Digest, Plan,
    plan::{Ceilings, PlannedHeat},
};

use super::Sweep;
use crate::{
    context::Context,
    heat::Assignment,
    jury::{Noise, owner},
};

impl<'a> Sweep<'a> {
    /// What the twins of a heat's job have said so far: those of the heats that are sealed, and of those
    /// under way.
    pub(super) fn noise_of(&self, of: Assignment<'_>) -> Noise {
        let job = of.job.id.as_str();
        let mut noise = self.noise.get(job).cloned().unwrap_or_default();
        // A heat of another job may answer one of this.
        let heats = self.plan.all_heats().filter(|heat| heat.job == job);
        let keys: BTreeSet<_> = heats.map(|heat| heat.key).collect();
        let open = self.open.iter();
        for heat in open.filter(|open| keys.contains(&open.assignment.heat.key)) {
            noise.join(&heat.noise());
        }
        noise
    }

    /// Tells the jobs that a heat answers what its twins say.
    pub(super) fn tell_jobs(&mut self, key: &Digest, noise: &Noise) {
        let plan = self.plan;
        let heats = plan.all_heats().filter(|heat| heat.key == *key);
        let jobs: BTreeSet<&str> = heats.map(|heat| heat.job.as_str()).collect();
        for job in jobs {
            // Who has not asked yet will find it in the store.
            if let Some(all) = self.noise.get_mut(job) {
                all.join(noise);
            }
        }
    }

    /// Reads what the twins of a job's heats say that the store had before this run, once a job. What
    /// cannot be read says nothing; whoever makes tables of it tells why.
    pub(super) fn hear(&mut self, context: &Context<'_>, of: Assignment<'a>) {
        if of.job.measure.looks().len() < 2 || self.noise.contains_key(of.job.id.as_str()) {
            return;
        }
        let mut noise = Noise::default();
        let plan = self.plan;
        let of_job = plan.all_heats().filter(|heat| heat.job == of.job.id);
        let is_twinned = |heat: &&PlannedHeat| heat.cells.iter().any(|cell| cell.twin_of.is_some());
        for heat in of_job.filter(is_twinned) {
            let sealed = self.have(&heat.key);
            let sealed = sealed.and_then(|digest| context.store.heat(&heat.key, &digest).ok());
            if let Some(sealed) = sealed {
                noise.add(&sealed.header.cells, &sealed.blocks);
            }
        }
        self.noise.insert(&of.job.id, noise);
    }
}

/// The heats of a plan with their places, ceilings first, whose blocks are spread over all that follows, then job
/// by job: first those that have twins of an engine, on a device, of which no earlier heat of the job has.
pub(super) fn in_order(plan: &Plan) -> Vec<(usize, &PlannedHeat)> {
    let mut twinned = BTreeSet::new();
    let mut heats: Vec<_> = plan
        .all_heats()
        .enumerate()
        .map(|(index, heat)| {
            let twins = heat.cells.iter().filter(|cell| cell.twin_of.is_some());
            let new = twins.filter(|cell| twinned.insert((&heat.job, owner(cell))));
            (new.count() == 0, (index, heat))
        })
        .collect();
    let mut jobs = BTreeMap::new();
    for (_, (_, heat)) in &heats {
        let next = jobs.len();
        jobs.entry(&heat.job).or_insert(next);
    }
    let place = |job: &String| (job != Ceilings::JOB, jobs.get(job).copied());
    heats.sort_by_key(|(is_late, (_, heat))| (place(&heat.job), *is_late));
    heats.into_iter().map(|(_, heat)| heat).collect()
}
