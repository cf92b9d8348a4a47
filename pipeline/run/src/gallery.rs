//! Outputs for parity: each configuration is launched for them once a heat.

use std::collections::BTreeMap;

use schema::{
    Cell, CellId, Mode, Outcome, OutcomeKind, Precision,
    plan::{self, PlannedCell},
    protocol::{self, Loaded},
    record::FirstStart,
};
use tempfile::TempDir;

use crate::{
    Event, Phase,
    context::{Context, Setting},
    error::Stop,
    graphs::{Graphs, Prepared},
    launch::{Kept, Worker},
    tensors::Outputs,
};

/// A launch that failed in a way that could be chance is tried this often.
const ATTEMPTS: u32 = 2;

/// What outputs are asked of.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The configuration.
    pub(crate) cell: &'a Cell,
    /// Whether with the derivatives of the other side near kinks ([`protocol::Parity::across_kinks`]).
    pub(crate) across_kinks: Option<Precision>,
}

impl<'a> From<&'a Cell> for Asked<'a> {
    fn from(cell: &'a Cell) -> Self {
        Self {
            cell,
            across_kinks: None,
        }
    }
}

impl Asked<'_> {
    fn key(self) -> (CellId, Option<Precision>) {
        (self.cell.id(), self.across_kinks)
    }
}

/// The outputs of the configurations launched so far.
#[derive(Default)]
pub(crate) struct Gallery {
    outputs: BTreeMap<(CellId, Option<Precision>), Result<Exhibit, Outcome>>,
    /// Those of what vouches for others, where a limit of memory kept it from giving any as a cell.
    unlimited: BTreeMap<(CellId, Option<Precision>), Result<Exhibit, Outcome>>,
    /// The log of each configuration's last launch; none where no worker could be started.
    logs: BTreeMap<CellId, String>,
    /// What getting ready took in the first launch of each configuration that did.
    starts: BTreeMap<CellId, FirstStart>,
}

/// Outputs, and the folder of the launch that wrote them; removed together.
pub(crate) struct Exhibit {
    pub(crate) outputs: Outputs,
    _folder: TempDir,
}

impl Gallery {
    /// Makes sure that the outputs of a cell of the heat are there, or the reason for having none.
    pub(crate) fn make(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        planned: &PlannedCell,
    ) -> Result<(), Stop> {
        let asked = Asked::from(&planned.cell);
        let key = asked.key();
        if self.outputs.contains_key(&key) {
            return Ok(());
        }
        let measure = with_room_for_copies(&setting.header.measure, planned);
        let outputs = self.launch(context, setting, asked, &measure)?;
        self.outputs.insert(key, outputs);
        Ok(())
    }

    /// Makes sure of the outputs of what vouches for others: a limit of memory is about what is
    /// measured, and not about this.
    pub(crate) fn make_standard<'a>(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        asked: impl Into<Asked<'a>>,
    ) -> Result<(), Stop> {
        let asked = asked.into();
        let key = asked.key();
        let measure = &setting.header.measure;
        let is_limited = measure.memory_limit_bytes.is_some();
        let is_there = match self.outputs.get(&key) {
            Some(made) => made.is_ok() || !is_limited,
            None => false,
        };
        if is_there || self.unlimited.contains_key(&key) {
            return Ok(());
        }
        let outputs = self.launch(context, setting, asked, &unlimited(measure))?;
        let made = match is_limited {
            true => &mut self.unlimited,
            false => &mut self.outputs,
        };
        made.insert(key, outputs);
        Ok(())
    }

    /// The outputs of a cell that was made.
    pub(crate) fn get(&self, cell: &Cell) -> Result<&Outputs, Outcome> {
        outputs_of(self.outputs.get(&Asked::from(cell).key()))
    }

    /// The outputs of what vouches for others.
    pub(crate) fn standard<'a>(&self, asked: impl Into<Asked<'a>>) -> Result<&Outputs, Outcome> {
        let key = asked.into().key();
        let as_cell = self.outputs.get(&key).filter(|made| made.is_ok());
        let unlimited = || self.unlimited.get(&key);
        outputs_of(
            as_cell
                .or_else(unlimited)
                .or_else(|| self.outputs.get(&key)),
        )
    }

    /// The end of the log of a configuration's last launch; `None` where no worker was started.
    pub(crate) fn log(&self, cell: &Cell) -> Option<String> {
        self.logs.get(&cell.id()).cloned()
    }

    /// What getting ready took in the first launch of a configuration; `None` where none got ready.
    pub(crate) fn start(&self, cell: &Cell) -> Option<FirstStart> {
        self.starts.get(&cell.id()).cloned()
    }

    /// Forgets the outputs of a configuration that is not needed any more.
    pub(crate) fn discard(&mut self, cell: &Cell) {
        self.outputs.remove(&Asked::from(cell).key());
    }

    fn launch(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        asked: Asked<'_>,
        measure: &plan::Measure,
    ) -> Result<Result<Exhibit, Outcome>, Stop> {
        let cell = asked.cell;
        let network = match setting.graphs.get(cell) {
            Ok(network) => network,
            Err(outcome) => return fail(context, cell, outcome, "").map(Err),
        };
        let launched = launch(
            context,
            measure,
            asked,
            (network, setting.graphs),
            Phase::Parity,
        )?;
        if let Some(log) = launched.log {
            self.logs.insert(cell.id(), log);
        }
        if let Some(start) = launched.start {
            self.starts.entry(cell.id()).or_insert(start);
        }
        Ok(launched.exhibit)
    }
}

fn outputs_of(made: Option<&Result<Exhibit, Outcome>>) -> Result<&Outputs, Outcome> {
    match made {
        Some(Ok(exhibit)) => Ok(&exhibit.outputs),
        Some(Err(outcome)) => Err(outcome.clone()),
        None => Err(Outcome::new(OutcomeKind::NotReached, "it was not launched")),
    }
}

/// What a launch for outputs came to.
pub(crate) struct Launched {
    pub(crate) exhibit: Result<Exhibit, Outcome>,
    /// None where no worker could be started.
    pub(crate) log: Option<String>,
    /// `None` where it did not get ready.
    pub(crate) start: Option<FirstStart>,
}

/// Launches a cell on a network for the outputs alone, once more where it failed in a way that could
/// be chance.
pub(crate) fn launch(
    context: &mut Context<'_>,
    measure: &plan::Measure,
    asked: Asked<'_>,
    network: (&Prepared, &Graphs),
    phase: Phase,
) -> Result<Launched, Stop> {
    let mut attempt = 1;
    loop {
        let launched = launch_once(context, measure, asked, network, phase)?;
        match &launched.exhibit {
            Err(outcome) if attempt < ATTEMPTS && !outcome.kind.is_final() => attempt += 1,
            _ => return Ok(launched),
        }
    }
}

/// Settings without a limit of memory, but for the machine's.
pub(crate) fn unlimited(measure: &plan::Measure) -> plan::Measure {
    plan::Measure {
        memory_limit_bytes: None,
        ..*measure
    }
}

/// So many numbers for each of its weights a training may take that no step needs, where it is judged:
/// the gradients and the updates of all, and of the largest weight, which may be nearly all of them, its
/// update in double precision beside what that is made of.
const COPIES: u64 = 9;

/// Settings for the outputs of a cell that is measured: what judges a training is not to run out of a limit
/// that its steps keep to, as far as the machine has room.
fn with_room_for_copies(measure: &plan::Measure, planned: &PlannedCell) -> plan::Measure {
    let copies = match planned.cell.mode {
        Mode::Training => COPIES,
        Mode::Inference => 0,
    };
    let number = planned.cell.precision.bytes().max(4);
    let room = planned.parameters.saturating_mul(number * copies);
    let available = memory_bytes(&unlimited(measure)).unwrap_or(0);
    let widened = |limit: u64| limit.max(limit.saturating_add(room).min(available));
    plan::Measure {
        memory_limit_bytes: measure.memory_limit_bytes.map(widened),
        ..*measure
    }
}

/// What a worker may take where it is alone; `None` where neither the manifest nor the system says.
pub(crate) fn memory_bytes(measure: &plan::Measure) -> Option<u64> {
    measure.memory_limit_bytes.or_else(|| {
        let available = telemetry::load().available_memory_bytes / 10 * 9;
        (available > 0).then_some(available)
    })
}

fn launch_once(
    context: &mut Context<'_>,
    measure: &plan::Measure,
    Asked { cell, across_kinks }: Asked<'_>,
    (network, graphs): (&Prepared, &Graphs),
    phase: Phase,
) -> Result<Launched, Stop> {
    context.check_interrupt()?;
    context.tell(&Event::Launch { cell, phase });
    let memory_bytes = memory_bytes(measure);
    let folder = context.store.scratch()?;
    let is_cold = context.options.fresh;
    let kept = match is_cold {
        true => Kept::Nothing,
        false => Kept::All,
    };
    let started = Worker::start(context, measure, cell, memory_bytes, folder.path(), kept);
    let mut worker = match started {
        Ok(worker) => worker,
        Err(outcome) => {
            return Ok(Launched {
                exhibit: Err(fail(context, cell, outcome, "")?),
                log: None,
                start: None,
            });
        }
    };
    let path = folder.path().join("outputs");
    let request = protocol::Parity {
        path: path.clone(),
        steps: plan::PARITY_ITERATIONS,
        across_kinks,
    };
    let mut start = None;
    let answer = outputs(&mut worker, cell, (network, graphs), |start_ns, loaded| {
        start = Some(FirstStart {
            start_ns,
            loaded,
            is_cold,
        });
        request
    });
    // What a worker does after its answer is judged when it is measured.
    let ended = match &answer {
        Ok(_) => worker.leave(),
        Err(_) => worker.kill(),
    };
    context.check_interrupt()?;
    let outputs = answer.and_then(|answer| {
        Outputs::new(path, answer.tensors, answer.losses).map_err(|reason| {
            let reason = format!("its outputs cannot be read: {reason}");
            Outcome::new(OutcomeKind::Crashed, reason)
        })
    });
    let exhibit = match outputs {
        Ok(outputs) => Ok(Exhibit {
            outputs,
            _folder: folder,
        }),
        Err(outcome) => Err(fail(context, cell, outcome, &ended.log)?),
    };
    Ok(Launched {
        exhibit,
        log: Some(ended.log),
        start,
    })
}

fn fail(
    context: &mut Context<'_>,
    cell: &Cell,
    outcome: Outcome,
    log: &str,
) -> Result<Outcome, Stop> {
    let outcome = context.failure(outcome)?;
    context.tell(&Event::Failed {
        cell,
        outcome: &outcome,
        log,
    });
    Ok(outcome)
}

fn outputs(
    worker: &mut Worker,
    cell: &Cell,
    (network, graphs): (&Prepared, &Graphs),
    ready: impl FnOnce(u64, Loaded) -> protocol::Parity,
) -> Result<protocol::ParityOutputs, Outcome> {
    let (_, start_ns) = worker.hello(cell)?;
    let loaded = worker.load(cell, network, graphs)?;
    worker.parity(ready(start_ns, loaded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_training_has_room_for_what_it_is_judged_by() {
        let graph = models::sample::perceptron(1).unwrap();
        let engine = "pytorch/eager".parse().unwrap();
        let mut planned = sample::planned(Cell::plain(&graph, engine));
        planned.parameters = 1 << 10;
        let limited = |bytes| plan::Measure {
            memory_limit_bytes: bytes,
            ..sample::measure()
        };
        let room = |bytes, planned: &PlannedCell| {
            with_room_for_copies(&limited(bytes), planned).memory_limit_bytes
        };
        let limit = Some(1 << 20);
        assert_eq!(room(limit, &planned), limit);
        planned.cell.mode = Mode::Training;
        assert_eq!(room(None, &planned), None);
        assert_eq!(room(limit, &planned), Some((1 << 20) + (36 << 10)));
        planned.cell.precision = Precision::Fp64;
        assert_eq!(room(limit, &planned), Some((1 << 20) + (72 << 10)));
        // No more than there is, and no less than was given.
        planned.parameters = u64::MAX;
        assert!(room(limit, &planned) < Some(1 << 50));
        assert_eq!(room(Some(1 << 50), &planned), Some(1 << 50));
    }
}
