//! One cell in one block: its worker, and what is kept of it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use schema::{
    Cell, Outcome, OutcomeKind, Strategy,
    plan::{self, PlannedCell, rewarm_steps},
    protocol::{self, Memory},
    record::{HeatHeader, Launch, Round},
    telemetry::Energy,
};
use telemetry::{Sampler, Series};
use tempfile::TempDir;
use worker::{host::Ended, nanoseconds};

use crate::{
    Event, Phase,
    clock::own_cpu_ns,
    context::{Context, Setting},
    disturbance::Seen,
    energy::Meters,
    error::Stop,
    launch::{Kept, Worker},
};

/// Steps of a warm-up at least.
const WARM_UP_STEPS: u64 = 3;
/// Steps are not asked to be steadier than this: medians of so few scatter by as much on machines that
/// measure well.
const STEADY: f64 = 0.02;
/// Steps that are profiled last this long together, unless they are as few or as many as this.
const PROFILED: Duration = Duration::from_millis(300);
const LEAST_PROFILED: u64 = 3;
const MOST_PROFILED: u64 = 100;
/// Steps of several ranks whose exchanges are told, in each launch.
const EXCHANGE_STEPS: u64 = 5;
/// Samples of a round at most; more tell nothing new about it.
const ROUND_SAMPLES: u64 = 10_000;
/// Samples of a block and of a heat at most, so that the store can keep them.
const BLOCK_SAMPLES: u64 = 4_000_000;
const HEAT_SAMPLES: u64 = 16_000_000;

/// Steps that are asked for at once while energy is measured: their times come back in one message.
const ENERGY_STEPS: u64 = 200_000;

/// One cell in one block.
pub(crate) struct Lane<'a> {
    planned: &'a PlannedCell,
    worker: Option<Worker>,
    /// The launch's own, removed with the lane.
    folder: Option<TempDir>,
    launch: Launch,
    /// Time of a step, as the warm-up saw it.
    step_ns: u64,
    /// Time of its rounds so far, and what processor time its worker used meanwhile.
    rounds_ns: u64,
    used_ns: u64,
}

/// What is noted while rounds are measured.
pub(crate) struct Meter {
    pub(crate) supervisor_ns: u64,
    pub(crate) measuring_ns: u64,
    /// What the machine did while rounds ran.
    pub(crate) rounds: Seen,
    pub(crate) sampler: Sampler,
    /// Where energy is asked for.
    pub(crate) energy: Option<Meters>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(slot: u32, planned: &'a PlannedCell) -> Self {
        let launch = Launch {
            slot,
            outcome: Outcome::measured(),
            versions: BTreeMap::new(),
            start_ns: None,
            loaded: None,
            warm_up: None,
            rounds: Vec::new(),
            exchanges: None,
            memory: None,
            cpu_ns: None,
            log: String::new(),
            telemetry: None,
            energy: None,
        };
        Self {
            planned,
            worker: None,
            folder: None,
            launch,
            step_ns: 1,
            rounds_ns: 0,
            used_ns: 0,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.worker.is_some()
    }

    /// Starts the worker, loads the network and warms it up.
    pub(crate) fn prepare(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        memory_bytes: Option<u64>,
    ) -> Result<(), Stop> {
        let cell = &self.planned.cell;
        context.tell(&Event::Launch {
            cell,
            phase: Phase::Start,
        });
        let folder = context.store.scratch()?;
        let started = Worker::start(
            context,
            &setting.header.measure,
            cell,
            memory_bytes,
            folder.path(),
            Kept::All,
        );
        self.folder = Some(folder);
        match started {
            Ok(worker) => self.worker = Some(worker),
            Err(outcome) => return self.fail(context, outcome),
        }
        let Some((hello, start_ns)) = self.attempt(context, |worker| worker.hello(cell))? else {
            return Ok(());
        };
        self.launch.versions = hello.versions;
        self.launch.start_ns = Some(start_ns);
        context.tell(&Event::Launch {
            cell,
            phase: Phase::Load,
        });
        let network = setting.graphs.get(cell);
        let load = |worker: &mut Worker| worker.load(cell, network?, setting.graphs);
        let Some(loaded) = self.attempt(context, load)? else {
            return Ok(());
        };
        self.step_ns = loaded.first_step_ns.max(1);
        self.launch.loaded = Some(loaded);
        context.tell(&Event::Launch {
            cell,
            phase: Phase::WarmUp,
        });
        let limits = protocol::WarmUp {
            min_steps: WARM_UP_STEPS,
            max_ns: setting.header.measure.warm_up_ns,
            tolerance: setting.header.measure.target.max(STEADY),
        };
        if let Some(done) = self.attempt(context, |worker| worker.warm_up(limits))? {
            if let Some(step_ns) = done.total_ns.checked_div(done.steps) {
                self.step_ns = step_ns.max(1);
            }
            self.launch.warm_up = Some(done);
        }
        Ok(())
    }

    /// Stops the worker until its next round.
    pub(crate) fn pause(&mut self, context: &mut Context<'_>) -> Result<(), Stop> {
        self.attempt(context, Worker::pause).map(drop)
    }

    /// Lets the worker go on.
    pub(crate) fn resume(&mut self, context: &mut Context<'_>) -> Result<(), Stop> {
        self.attempt(context, Worker::resume).map(drop)
    }

    /// Measures a round.
    pub(crate) fn round(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        sequence: u32,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let request = request(setting, self.step_ns);
        let device = self.planned.cell.device;
        let used_before = self.worker.as_ref().map(Worker::used_ns);
        let machine_before = telemetry::times();
        let (began, cpu_before) = (Instant::now(), own_cpu_ns());
        let (slot, sampler) = (self.launch.slot, &mut meter.sampler);
        let samples = self.attempt(context, |worker| {
            sampler.begin(Some(slot), device);
            let told = worker.measure(request);
            sampler.rest();
            match sampler.lost(device) {
                Some(why) => Err(Outcome::new(OutcomeKind::Unavailable, why)),
                None => told,
            }
        });
        let own_ns = own_cpu_ns().saturating_sub(cpu_before);
        meter.supervisor_ns += own_ns;
        let took_ns = nanoseconds(began.elapsed());
        meter.measuring_ns += took_ns;
        if let Some(samples) = samples? {
            let machine_after = telemetry::times();
            let used_after = self.worker.as_ref().map(Worker::used_ns);
            if let Some((before, after)) = used_before.zip(used_after) {
                let used_ns = after.saturating_sub(before);
                self.rounds_ns += took_ns;
                self.used_ns += used_ns;
                let ours_ns = used_ns.saturating_add(own_ns);
                if let Some((before, after)) = machine_before.zip(machine_after) {
                    meter.rounds.add(took_ns, before, after, ours_ns);
                }
            }
            self.launch.rounds.push(Round {
                sequence,
                samples_ns: samples.samples_ns,
            });
        }
        Ok(())
    }

    /// Runs for the energy that steps take. What was measured before stands where no sensor tells it.
    pub(crate) fn energy(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        meter: &mut Meter,
    ) -> Result<(), Stop> {
        let Some(meters) = meter.energy.as_ref().filter(|_| self.is_running()) else {
            return Ok(());
        };
        let device = self.planned.cell.device;
        let mut stretch = match meters.stretch(device) {
            Ok(stretch) => stretch,
            Err(reason) => {
                self.launch.energy = Some(Energy::Unavailable(reason));
                return Ok(());
            }
        };
        context.tell(&Event::Launch {
            cell: &self.planned.cell,
            phase: Phase::Energy,
        });
        while let Some(left) = stretch.left() {
            context.check_interrupt()?;
            // Nothing is discarded: every step that runs takes energy, and is counted.
            let request = protocol::Measure {
                discard: 0,
                min_steps: 1,
                min_ns: nanoseconds(left),
                max_steps: ENERGY_STEPS,
            };
            let Some(worker) = &mut self.worker else {
                return Ok(());
            };
            // Others on a GPU count here, too; what its sensors tell is of no round.
            meter.sampler.begin(None, device);
            let told = worker.measure(request);
            meter.sampler.rest();
            match told {
                Ok(samples) => stretch.count(samples.samples_ns.len()),
                // Weights that are no numbers speak of what was measured before, and without a GPU there is none.
                Err(outcome)
                    if outcome.kind == OutcomeKind::ParityFailed
                        || context.options.sensors.lost(device).is_some() =>
                {
                    return self.fail(context, outcome);
                }
                Err(outcome) => {
                    // What was measured before stands, as where no sensor tells.
                    let reason = format!("{}: {}", outcome.kind, outcome.reason);
                    self.launch.energy = Some(Energy::Unavailable(reason));
                    self.part(setting, None);
                    return context.check_interrupt();
                }
            }
        }
        self.launch.energy = Some(stretch.end());
        Ok(())
    }

    /// Has the steps of some time profiled; `None` where the launch has failed.
    pub(crate) fn profile(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<Option<Result<protocol::Profile, Outcome>>, Stop> {
        let steps = nanoseconds(PROFILED) / self.step_ns;
        let steps = steps.clamp(LEAST_PROFILED, MOST_PROFILED);
        context.tell(&Event::Launch {
            cell: &self.planned.cell,
            phase: Phase::Profile,
        });
        self.attempt(context, |worker| worker.profile(steps))
    }

    /// Asks for memory and then, as that takes some more, for what ranks exchange, and lets the worker leave. How it
    /// leaves changes nothing about what was measured before; a disorderly leave is noted in its log.
    pub(crate) fn leave(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
    ) -> Result<(), Stop> {
        let told = self.attempt(context, Worker::memory)?.flatten();
        if self.planned.cell.strategy == Strategy::Ddp {
            let told = self.attempt(context, |worker| worker.exchanges(EXCHANGE_STEPS))?;
            self.launch.exchanges = told.flatten();
        }
        self.part(setting, told.as_ref());
        context.check_interrupt()
    }

    /// Has the worker leave, if there still is one.
    fn part(&mut self, setting: &Setting<'_>, told: Option<&Memory>) {
        if let Some(worker) = self.worker.take() {
            let ended = worker.leave();
            let device_bytes = device_bytes(setting.header, &self.planned.cell);
            self.launch.memory = memory(told, &ended, device_bytes);
            self.launch.cpu_ns = ended.cpu_ns;
            self.launch.log = ended.log;
            if let Some(outcome) = ended.outcome {
                let note = format!("photofinish: after its last steps: {}\n", outcome.reason);
                if !self.launch.log.is_empty() && !self.launch.log.ends_with('\n') {
                    self.launch.log.push('\n');
                }
                self.launch.log.push_str(&note);
                // But for what it held meanwhile, which was more than it may.
                if outcome.kind == OutcomeKind::OutOfMemory && self.launch.outcome.is_measured() {
                    self.launch.outcome = outcome;
                }
            }
        }
    }

    pub(crate) fn cell(&self) -> &'a Cell {
        &self.planned.cell
    }

    /// What is kept, with what sensors saw, where they looked.
    pub(crate) fn into_launch(mut self, seen: Option<&Series>) -> Launch {
        if let Some(seen) = seen.filter(|_| !self.launch.rounds.is_empty()) {
            let cpus = self.used_ns as f64 / self.rounds_ns.max(1) as f64;
            let cpus = Some(cpus).filter(|_| self.rounds_ns > 0);
            let device = self.planned.cell.device;
            self.launch.telemetry = Some(seen.telemetry(self.launch.slot, device, cpus));
        }
        self.launch
    }

    /// Does something with the worker, if there still is one; its failure is the launch's.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        action: impl FnOnce(&mut Worker) -> Result<T, Outcome>,
    ) -> Result<Option<T>, Stop> {
        let Some(worker) = &mut self.worker else {
            return Ok(None);
        };
        match action(worker) {
            Ok(value) => Ok(Some(value)),
            Err(outcome) => self.fail(context, outcome).map(|()| None),
        }
    }

    fn fail(&mut self, context: &mut Context<'_>, mut outcome: Outcome) -> Result<(), Stop> {
        // Whatever a worker says of a GPU that is gone, it is not its fault.
        let device = self.planned.cell.device;
        if outcome.kind != OutcomeKind::Unavailable
            && let Some(why) = context.options.sensors.lost(device)
        {
            let reason = format!("{why}; the worker's end: {}", outcome.reason);
            outcome = Outcome::new(OutcomeKind::Unavailable, reason);
        }
        if let Some(worker) = self.worker.take() {
            let ended = worker.kill();
            self.launch.cpu_ns = ended.cpu_ns;
            self.launch.log = ended.log;
        }
        self.launch.outcome = context.failure(outcome)?;
        context.tell(&Event::Failed {
            cell: &self.planned.cell,
            outcome: &self.launch.outcome,
            log: &self.launch.log,
        });
        Ok(())
    }
}

/// What the largest device of the machine has, for a cell that runs on one.
pub(crate) fn device_bytes(header: &HeatHeader, cell: &Cell) -> Option<u64> {
    let gpus = header.environment.fingerprint.gpus.iter();
    let bytes = gpus.map(|gpu| gpu.memory_bytes).max();
    bytes.filter(|_| !cell.device.is_cpu())
}

/// Memory of a worker that left: on the host as the supervisor saw it, whatever the worker says;
/// on the device, which only the engine knows, as it says, where the device has that much.
pub(crate) fn memory(
    told: Option<&Memory>,
    ended: &Ended,
    device_bytes: Option<u64>,
) -> Option<Memory> {
    let peak_resident_bytes = ended.peak_resident_bytes?;
    let on_device = told
        .and_then(|told| Some((told.device_bytes?, told.peak_device_bytes?)))
        .filter(|(now, peak)| now <= peak && device_bytes.is_some_and(|most| *peak <= most));
    Some(Memory {
        resident_bytes: ended.resident_bytes?.min(peak_resident_bytes),
        peak_resident_bytes,
        device_bytes: on_device.map(|(now, _)| now),
        peak_device_bytes: on_device.map(|(_, peak)| peak),
        other_ranks: told.map_or_else(Vec::new, |told| told.other_ranks.clone()),
    })
}

/// What a round asks for.
fn request(setting: &Setting<'_>, step_ns: u64) -> protocol::Measure {
    let measure = &setting.header.measure;
    let most = most_samples(measure, setting.header.cells.len());
    protocol::Measure {
        discard: rewarm_steps(step_ns),
        min_steps: measure.round_steps.min(most),
        min_ns: measure.round_ns,
        max_steps: most,
    }
}

fn most_samples(measure: &plan::Measure, cells: usize) -> u64 {
    let in_block = u64::from(measure.rounds)
        .saturating_mul(cells as u64)
        .max(1);
    let repeats = measure.disturbance.map_or(0, |limits| limits.repeats);
    let blocks = measure.blocks.saturating_add(repeats).max(1);
    let in_heat = in_block.saturating_mul(u64::from(blocks));
    ROUND_SAMPLES
        .min(BLOCK_SAMPLES / in_block)
        .min(HEAT_SAMPLES / in_heat)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_supervisor_saw() {
        let ended = Ended {
            outcome: None,
            log: String::new(),
            cpu_ns: None,
            resident_bytes: Some(40),
            peak_resident_bytes: Some(50),
        };
        let told = |device_bytes, peak_device_bytes| Memory {
            resident_bytes: u64::MAX,
            peak_resident_bytes: 0,
            device_bytes,
            peak_device_bytes,
            other_ranks: Vec::new(),
        };
        let seen = Memory {
            resident_bytes: 40,
            peak_resident_bytes: 50,
            device_bytes: None,
            peak_device_bytes: None,
            other_ranks: Vec::new(),
        };
        // It did not answer, or lied.
        assert_eq!(memory(None, &ended, None), Some(seen.clone()));
        for impossible in [
            told(None, None),
            told(Some(u64::MAX), Some(u64::MAX)),
            told(Some(9), Some(8)),
        ] {
            let kept = memory(Some(&impossible), &ended, Some(100));
            assert_eq!(kept, Some(seen.clone()));
        }
        let possible = told(Some(8), Some(9));
        assert_eq!(memory(Some(&possible), &ended, None), Some(seen));
        let kept = memory(Some(&possible), &ended, Some(100)).unwrap();
        assert_eq!(
            (kept.device_bytes, kept.peak_device_bytes),
            (Some(8), Some(9))
        );
        assert_eq!(kept.resident_bytes, 40);
    }

    #[test]
    fn samples_of_a_heat_fit_into_the_store() {
        let mut measure = crate::sample::measure();
        (measure.blocks, measure.rounds) = (6, 5);
        assert_eq!(most_samples(&measure, 3), ROUND_SAMPLES);
        for (blocks, rounds, cells) in [(48, 5, 40), (1, 1000, 100), (u32::MAX, u32::MAX, 9)] {
            (measure.blocks, measure.rounds) = (blocks, rounds);
            let most = most_samples(&measure, cells);
            let launches = u64::from(rounds).saturating_mul(cells as u64);
            assert!(most == 1 || most * launches <= BLOCK_SAMPLES);
            assert!(most == 1 || most * launches * u64::from(blocks) <= HEAT_SAMPLES);
        }
        (measure.blocks, measure.rounds) = (0, 0);
        assert_eq!(most_samples(&measure, 0), ROUND_SAMPLES);
    }
}
