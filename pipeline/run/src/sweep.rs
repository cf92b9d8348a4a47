//! A run: the heats of a plan, in order.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use schema::{
    Digest, Outcome, Plan, RunRecord,
    plan::{KnownState, PlannedHeat},
    record::{self, HeatEntry, HeatResult},
};
use store::{Fresh, WriterLock};
use worker::host::Interrupt;

use crate::{
    Event, Observer, Options, RunError, Workers,
    context::Context,
    error::Stop,
    estimate::Estimate,
    heat::{self, Assignment},
};

/// Measures the heats of a plan that the store lacks, and says for every heat of the plan which
/// artifact answers it, or why there is none.
///
/// An interruption and a used-up budget are no errors: the heats concerned are not reached, and
/// the same call goes on where this one ended. Call it from a thread that lives on: workers die
/// with the thread that started them.
///
/// # Errors
/// The store cannot be read or written, or the plan contradicts itself.
pub fn run(
    plan: &Plan,
    store: &WriterLock,
    workers: &dyn Workers,
    options: &Options,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunRecord, RunError> {
    let mut context = Context {
        store,
        workers,
        options,
        interrupt,
        observer,
    };
    let mut sweep = Sweep::begin(&mut context, plan)?;
    let mut heats = Vec::with_capacity(plan.heats.len());
    for (index, heat) in plan.heats.iter().enumerate() {
        let result = sweep.take(&mut context, index, heat)?;
        heats.push(HeatEntry {
            group: heat.group.clone(),
            key: heat.key,
            heat: result,
        });
    }
    if options.fresh && !interrupt.is_set() {
        store.end_fresh()?;
    }
    Ok(RunRecord {
        version: record::VERSION,
        plan: plan.clone(),
        heats,
    })
}

/// What a run keeps in mind from heat to heat.
struct Sweep<'a> {
    plan: &'a Plan,
    /// The newest sound heat of every key, of those that count.
    sealed: BTreeMap<Digest, Digest>,
    /// Fresh runs: what counts for them.
    fresh: Option<Fresh>,
    /// Time spent on every job.
    spent: BTreeMap<String, Duration>,
    /// The heats that were to be measured when the run began, each key once, by their place in the
    /// plan.
    wanting: Vec<bool>,
    /// The keys of which an event told that they are in the store.
    told: BTreeSet<Digest>,
    estimate: Estimate,
}

impl<'a> Sweep<'a> {
    fn begin(context: &mut Context<'_>, plan: &'a Plan) -> Result<Self, RunError> {
        let mut known = context.store.known_heats()?;
        let runs = context.store.corrupt_runs()?;
        for corrupt in known.corrupt.iter().chain(&runs) {
            if let Some(place) = context.store.set_aside(corrupt)? {
                context.tell(&Event::SetAside {
                    place: &place,
                    reason: &corrupt.reason,
                });
            }
        }
        let fresh = if context.options.fresh {
            let fresh = fresh_run(context, plan)?;
            known = context.store.known_heats_of(&fresh)?;
            Some(fresh)
        } else {
            None
        };
        let sealed = known.heats.into_iter().filter_map(|heat| match heat.state {
            KnownState::Sealed(digest) => Some((heat.key, digest)),
            KnownState::Open(_) => None,
        });
        let mut sweep = Self {
            plan,
            sealed: sealed.collect(),
            fresh,
            spent: BTreeMap::new(),
            wanting: Vec::new(),
            told: BTreeSet::new(),
            estimate: Estimate::default(),
        };
        let heats = plan.heats.iter();
        let mut seen = BTreeSet::new();
        sweep.wanting = heats
            .clone()
            .map(|heat| seen.insert(heat.key) && sweep.have(&heat.key).is_none())
            .collect();
        let wanted = heats.zip(&sweep.wanting).filter(|(_, wanting)| **wanting);
        sweep.estimate = Estimate::new(wanted.map(|(heat, _)| heat.predicted_ns));
        Ok(sweep)
    }

    fn take(
        &mut self,
        context: &mut Context<'_>,
        index: usize,
        heat: &PlannedHeat,
    ) -> Result<HeatResult, RunError> {
        let of = self.plan.heats.len();
        if self.wanting.get(index).is_some_and(|wanting| *wanting) {
            self.estimate.take(heat.predicted_ns);
        }
        if let Some(digest) = self.have(&heat.key) {
            // What an earlier group of this plan has was told with it.
            if self.told.insert(heat.key) {
                context.tell(&Event::Cached {
                    group: &heat.group,
                    index,
                    of,
                });
            }
            return Ok(HeatResult::Sealed(digest));
        }
        let job = self
            .plan
            .job(&heat.job)
            .ok_or_else(|| RunError::NoSuchJob {
                group: heat.group.clone(),
                job: heat.job.clone(),
            })?;
        if context.interrupt.is_set() {
            return Ok(not_reached(context, heat, INTERRUPTED));
        }
        let spent = self.spent.get(&job.id).copied().unwrap_or_default();
        let budget = Duration::from_nanos(job.measure.budget_ns);
        if spent >= budget {
            let reason = format!(
                "the budget of job `{}` ({:.0} s) was used up; run again to go on, or give it more",
                job.id,
                budget.as_secs_f64()
            );
            return Ok(not_reached(context, heat, &reason));
        }
        let assignment = Assignment {
            heat,
            job,
            index,
            of,
            manifests: &self.plan.manifests,
            fresh: self.fresh.as_ref(),
        };
        let began = Instant::now();
        let measured = heat::measure(context, &assignment, &self.estimate);
        let took = began.elapsed();
        *self.spent.entry(job.id.clone()).or_default() += took;
        match measured {
            Ok(sealed) => {
                // A heat in which nothing could run tells nothing about those that can.
                let is_complete = |outcome: &Outcome| outcome.kind.is_complete();
                if sealed.whole && sealed.outcomes.iter().any(is_complete) {
                    self.estimate.learn(heat.predicted_ns, took);
                }
                self.sealed.insert(heat.key, sealed.digest);
                self.told.insert(heat.key);
                context.tell(&Event::HeatFinished {
                    group: &heat.group,
                    index,
                    cells: &sealed.cells,
                    outcomes: &sealed.outcomes,
                });
                Ok(HeatResult::Sealed(sealed.digest))
            }
            Err(Stop::Interrupted) => Ok(not_reached(context, heat, INTERRUPTED)),
            Err(Stop::Later(reason)) => Ok(not_reached(context, heat, &reason)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// The heat that answers this key, if the store has one that counts.
    fn have(&self, key: &Digest) -> Option<Digest> {
        self.sealed.get(key).copied()
    }
}

const INTERRUPTED: &str = "interrupted; the same command goes on";

/// The interrupted fresh run that is gone on with, or a new one.
fn fresh_run(context: &Context<'_>, plan: &Plan) -> Result<Fresh, RunError> {
    let keys: Vec<Digest> = plan.heats.iter().map(|heat| heat.key).collect();
    match context.store.interrupted_fresh(&keys)? {
        Some(fresh) => Ok(fresh),
        None => Ok(context.store.begin_fresh(&keys)?),
    }
}

fn not_reached(context: &mut Context<'_>, heat: &PlannedHeat, reason: &str) -> HeatResult {
    context.tell(&Event::NotReached {
        group: &heat.group,
        reason,
    });
    HeatResult::NotReached(reason.to_owned())
}
