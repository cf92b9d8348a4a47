//! From a plan to a run record.

use std::{collections::BTreeSet, time::Duration};

use schema::{
    Device, Digest, Plan, RunRecord,
    plan::{PlannedHeat, Status},
    record::{self, HeatEntry, HeatResult},
};
use telemetry::{GpuState, Sensors};

use super::{heats, is_cached, prepare, sealed};
use crate::{
    args::{Executor, Measuring},
    commands::doctor::gpus::others,
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
    let timed: Vec<&PlannedHeat> = timed.collect();
    if timed.is_empty() {
        return;
    }
    let cells = timed.iter().flat_map(|heat| &heat.cells);
    let devices: BTreeSet<Device> = cells.map(|planned| planned.cell.device).collect();
    let on_gpus = match devices.iter().any(|device| *device != Device::Cpu) {
        true => in_company(&Sensors::system().gpus(), &devices),
        false => Vec::new(),
    };
    let reasons: Vec<String> = run::look_around(LOOK).into_iter().chain(on_gpus).collect();
    if reasons.is_empty() {
        return;
    }
    let reason = reasons.join("; ");
    let then = match timed.into_iter().any(is_watched) {
        true => {
            "blocks that are disturbed are measured again, and a group that stays disturbed ends unstable"
        }
        false => "times will be too long, and nothing is measured again for that",
    };
    session
        .printer
        .note(&format!("warning: this machine is busy: {reason}; {then}"));
}

/// Who else computes on GPUs that are to be measured.
fn in_company(gpus: &[GpuState], devices: &BTreeSet<Device>) -> Vec<String> {
    let measured = gpus.iter().filter(|gpu| devices.contains(&gpu.device));
    measured.filter_map(others).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_named_on_gpus_that_are_measured() {
        let gpu = |cuda, processes: &[u32]| GpuState {
            device: Device::Cuda(cuda),
            persistent: None,
            clock: None,
            limit_watts: None,
            processes: Some(processes.to_vec()),
        };
        let ours = std::process::id();
        let gpus = [
            gpu(0, &[ours]),
            gpu(1, &[ours, u32::MAX]),
            gpu(2, &[u32::MAX]),
        ];
        let devices = [Device::Cpu, Device::Cuda(0), Device::Cuda(1)].into();
        let said = "others compute on cuda:1: a process outside this container";
        assert_eq!(in_company(&gpus, &devices), [said]);
    }
}
