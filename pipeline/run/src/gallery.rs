//! Outputs for parity: each configuration is launched for them once a heat.

use std::collections::BTreeMap;

use schema::{Cell, CellId, Mode, Outcome, OutcomeKind, Precision, plan, protocol};
use tempfile::TempDir;

use crate::{
    Event, Phase,
    context::{Context, Setting},
    error::Stop,
    graphs::{Graphs, Prepared},
    launch::Worker,
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
    /// The log of each configuration's last launch; none where no worker could be started.
    logs: BTreeMap<CellId, String>,
}

/// Outputs, and the folder of the launch that wrote them; removed together.
pub(crate) struct Exhibit {
    pub(crate) outputs: Outputs,
    _folder: TempDir,
}

impl Gallery {
    /// Makes sure that the outputs of a configuration are there, or the reason for having none.
    pub(crate) fn make<'a>(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        asked: impl Into<Asked<'a>>,
    ) -> Result<(), Stop> {
        let asked = asked.into();
        let key = asked.key();
        if self.outputs.contains_key(&key) {
            return Ok(());
        }
        let outputs = self.launch(context, setting, asked)?;
        self.outputs.insert(key, outputs);
        Ok(())
    }

    /// The outputs of a configuration that was made.
    pub(crate) fn get<'a>(&self, asked: impl Into<Asked<'a>>) -> Result<&Outputs, Outcome> {
        match self.outputs.get(&asked.into().key()) {
            Some(Ok(exhibit)) => Ok(&exhibit.outputs),
            Some(Err(outcome)) => Err(outcome.clone()),
            None => Err(Outcome::new(OutcomeKind::NotReached, "it was not launched")),
        }
    }

    /// The end of the log of a configuration's last launch; `None` where no worker was started.
    pub(crate) fn log(&self, cell: &Cell) -> Option<String> {
        self.logs.get(&cell.id()).cloned()
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
    ) -> Result<Result<Exhibit, Outcome>, Stop> {
        let cell = asked.cell;
        let network = match setting.graphs.get(cell) {
            Ok(network) => network,
            Err(outcome) => return fail(context, cell, outcome, "").map(Err),
        };
        let header = setting.header;
        let is_raced = header.cells.iter().any(|planned| planned.cell == *cell);
        let measure = match is_raced {
            true => with_room_for_copies(&header.measure, cell, network),
            false => of_our_own(&header.measure),
        };
        let launched = launch(
            context,
            &measure,
            asked,
            (network, setting.graphs),
            Phase::Parity,
        )?;
        if let Some(log) = launched.log {
            self.logs.insert(cell.id(), log);
        }
        Ok(launched.exhibit)
    }
}

/// What a launch for outputs came to.
pub(crate) struct Launched {
    pub(crate) exhibit: Result<Exhibit, Outcome>,
    /// None where no worker could be started.
    pub(crate) log: Option<String>,
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

/// Settings for what vouches for others: a limit of memory is about what is raced.
pub(crate) fn of_our_own(measure: &plan::Measure) -> plan::Measure {
    plan::Measure {
        memory_limit_bytes: None,
        ..*measure
    }
}

/// Copies of the weights that a training is judged by, which no step needs: as they were, their
/// gradients, their updates, and what is on its way to the file of outputs.
const COPIES: u64 = 6;

/// Settings for the outputs of a cell that is raced: what judges a training is not to run out of a limit
/// that its steps keep to.
fn with_room_for_copies(measure: &plan::Measure, cell: &Cell, network: &Prepared) -> plan::Measure {
    let parameters = network.graph.parameters.iter();
    let weights = parameters.map(|parameter| {
        let sizes = parameter.shape.iter();
        sizes.fold(cell.precision.bytes().max(4), |product, size| {
            product.saturating_mul(*size)
        })
    });
    let weights = weights.fold(0_u64, u64::saturating_add);
    let copies = match cell.mode {
        Mode::Training => weights.saturating_mul(COPIES),
        Mode::Inference => 0,
    };
    let limit = measure.memory_limit_bytes;
    plan::Measure {
        memory_limit_bytes: limit.map(|limit| limit.saturating_add(copies)),
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
    let mut worker = match Worker::start(context, measure, cell, memory_bytes, folder.path()) {
        Ok(worker) => worker,
        Err(outcome) => {
            return Ok(Launched {
                exhibit: Err(fail(context, cell, outcome, "")?),
                log: None,
            });
        }
    };
    let path = folder.path().join("outputs");
    let request = protocol::Parity {
        path: path.clone(),
        steps: plan::PARITY_ITERATIONS,
        across_kinks,
    };
    let answer = outputs(&mut worker, cell, (network, graphs), request);
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
    request: protocol::Parity,
) -> Result<protocol::ParityOutputs, Outcome> {
    worker.hello(cell)?;
    worker.load(cell, network, graphs)?;
    worker.parity(request)
}
