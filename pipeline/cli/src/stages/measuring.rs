//! From a plan to a run record.

use std::{collections::BTreeSet, time::Duration};

use schema::{
    Digest, Plan, RunRecord,
    plan::{PlannedHeat, Status},
    record::{self, HeatEntry, HeatResult},
};
use telemetry::Sensors;

use super::{heats, is_cached, prepare, sealed};
use crate::{
    args::{Executor, Measuring},
    failure::Failure,
    progress::SweepProgress,
    session::{Session, Workers, store_failure},
};

/// What a run came to.
pub(crate) struct Measured {
    pub(crate) run: Digest,
    /// Whether the store has the record; a store that cannot be written has what it had.
    pub(crate) kept: bool,
    pub(crate) record: RunRecord,
    /// Heats measured now.
    pub(crate) measured: usize,
    /// Heats that the store had.
    pub(crate) cached: usize,
}

/// How long it is looked at what else runs before measuring begins.
const LOOK: Duration = Duration::from_millis(500);

/// Names what else keeps this machine busy, where something is to be timed.
fn look_around(session: &Session, plan: &Plan) {
    let is_watched = |heat: &PlannedHeat| {
        let job = plan.job(&heat.job);
        job.is_some_and(|job| job.measure.disturbance.is_some())
    };
    let timed = plan.heats_to_measure().filter(|heat| {
        let job = plan.job(&heat.job);
        job.is_some_and(|job| job.measure.blocks > 0)
    });
    let mut timed = timed.peekable();
    if timed.peek().is_none() {
        return;
    }
    let Some(reason) = run::look_around(LOOK) else {
        return;
    };
    let then = match timed.any(is_watched) {
        true => {
            "blocks that are disturbed are measured again, and a group that stays disturbed ends unstable"
        }
        false => "times will be too long, and nothing is measured again for that",
    };
    session
        .printer
        .note(&format!("warning: this machine is busy: {reason}; {then}"));
}

/// Plan to run record: measures what the store lacks, and keeps the record.
pub(crate) fn measure(
    session: &Session,
    plan: &Plan,
    Measuring { fresh, executor }: Measuring,
) -> Result<Measured, Failure> {
    if is_cached(plan) && !fresh {
        return Ok(found(session, plan));
    }
    let lock = session.writer()?;
    let blocks = plan
        .heats_to_measure()
        .filter_map(|heat| plan.job(&heat.job))
        .map(|job| u64::from(job.measure.first_look()))
        .sum();
    let mut progress = SweepProgress::new(session.printer, blocks);
    let record = match executor {
        Executor::Local => {
            if run::is_left_on_slurm(&lock).map_err(Failure::lacking)? {
                session.printer.note(
                    "warning: a run on a cluster left something, which may still be measured: `--executor slurm` takes it over",
                );
            }
            look_around(session, plan);
            let options = options(session, fresh, None);
            let workers = Workers(session.catalog()?);
            run::run(
                plan,
                &lock,
                &workers,
                &options,
                &session.interrupt,
                &mut progress,
            )
        }
        Executor::Slurm => {
            let program = std::env::current_exe().map_err(|error| {
                Failure::lacking(format!("cannot tell where this program is: {error}"))
            })?;
            let launching = run::Launching {
                program: &program,
                machine: &run::Machine::here(),
            };
            run::on_slurm(
                plan,
                &lock,
                &launching,
                fresh,
                &session.interrupt,
                &mut progress,
            )
        }
    };
    let record = record.map_err(Failure::lacking)?;
    let (measured, cached) = (progress.measured, progress.cached);
    drop(progress);
    if session.interrupt.is_set() && sealed(&record) < heats(&record) {
        lock.put_interrupted_run(&record).map_err(store_failure)?;
        return Err(Failure::interrupted());
    }
    let run = lock.put_run(&record).map_err(store_failure)?;
    Ok(Measured {
        run,
        kept: true,
        record,
        measured,
        cached,
    })
}

fn options(session: &Session, fresh: bool, only: Option<BTreeSet<Digest>>) -> run::Options {
    run::Options {
        sensors: Sensors::system(),
        fresh,
        tool: session.tool(),
        only,
    }
}

/// Measures a part of a plan into the session's store, and leaves word for whoever submitted it.
pub(crate) fn measure_part(session: &Session, part: &run::Part) -> Result<(), Failure> {
    let (plan, key) = part.task(&run::Machine::here()).map_err(Failure::lacking)?;
    prepare(session, &plan)?;
    let lock = session.writer()?;
    let mut progress = SweepProgress::new(session.printer, 0);
    let options = options(session, false, Some([key].into()));
    let record = run::run(
        &plan,
        &lock,
        &Workers(session.catalog()?),
        &options,
        &session.interrupt,
        &mut progress,
    )
    .map_err(Failure::lacking)?;
    drop(progress);
    if session.interrupt.is_set() {
        // Who cancelled it waits for nothing, and where Slurm puts it off it begins anew.
        return Err(Failure::interrupted());
    }
    let results = record.heats.into_iter().filter(|entry| entry.key == key);
    let result = results.map(|entry| entry.heat).next();
    let result = result.ok_or_else(|| Failure::internal("the plan lacks the part's heat"))?;
    part.finish(key, result).map_err(Failure::lacking)
}

/// The run of a plan whose every heat is in the store. Nothing needs to be written for it: a store
/// that cannot be written, or is being written by another process, serves as well.
fn found(session: &Session, plan: &Plan) -> Measured {
    let result = |heat: &PlannedHeat| match heat.status {
        Status::Cached { heat } => HeatResult::Sealed(heat),
        _ => HeatResult::NotReached("it is not in the store".to_owned()),
    };
    let entry = |heat: &PlannedHeat| HeatEntry {
        group: heat.group.clone(),
        key: heat.key,
        heat: result(heat),
    };
    let record = RunRecord {
        version: record::VERSION,
        plan: plan.clone(),
        heats: plan.all_heats().map(entry).collect(),
    };
    let kept = match session.store.latest_like(&record) {
        Ok(Some(run)) => Ok(run),
        // A latest record that cannot be read is replaced.
        _ => session.store.lock().and_then(|lock| lock.put_run(&record)),
    };
    if let Err(error) = &kept {
        session.printer.note(&format!(
            "note: that these groups belong together was not kept as a run: {error}"
        ));
    }
    Measured {
        kept: kept.is_ok(),
        run: kept.unwrap_or_else(|_| Digest::of_value(&record)),
        cached: sealed(&record),
        measured: 0,
        record,
    }
}
