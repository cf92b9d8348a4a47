//! Outputs for parity: each configuration is launched for them once a heat.

use std::collections::BTreeMap;

use schema::{Cell, CellId, Outcome, OutcomeKind, protocol};

use crate::{
    Event, Phase,
    context::{Context, Setting},
    error::Stop,
    launch::Worker,
    tensors::Outputs,
};

/// Iterations of training before weights are compared.
const STEPS: u32 = 3;
/// A launch that failed in a way that could be chance is tried this often.
const ATTEMPTS: u32 = 2;
/// Logs that are kept, in bytes.
const LOG_BYTES: usize = 64 << 10;

/// The outputs of the configurations launched so far.
#[derive(Default)]
pub(crate) struct Gallery {
    outputs: BTreeMap<CellId, Result<Outputs, Outcome>>,
    /// Logs of launches that failed, each under a heading.
    pub(crate) log: String,
    launches: u32,
}

impl Gallery {
    /// Makes sure that the outputs of a configuration are there, or the reason for having none.
    pub(crate) fn make(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        cell: &Cell,
    ) -> Result<(), Stop> {
        let id = cell.id();
        if self.outputs.contains_key(&id) {
            return Ok(());
        }
        let mut attempt = 1;
        let outputs = loop {
            match self.launch(context, setting, cell)? {
                Err(outcome) if attempt < ATTEMPTS && !outcome.kind.is_final() => attempt += 1,
                ended => break ended,
            }
        };
        self.outputs.insert(id, outputs);
        Ok(())
    }

    /// The outputs of a configuration that was made.
    pub(crate) fn get(&self, cell: &Cell) -> Result<&Outputs, Outcome> {
        match self.outputs.get(&cell.id()) {
            Some(Ok(outputs)) => Ok(outputs),
            Some(Err(outcome)) => Err(outcome.clone()),
            None => Err(Outcome::new(OutcomeKind::NotReached, "it was not launched")),
        }
    }

    /// Forgets the outputs of a configuration that is not needed any more.
    pub(crate) fn discard(&mut self, cell: &Cell) {
        if let Some(Ok(outputs)) = self.outputs.remove(&cell.id()) {
            outputs.discard();
        }
    }

    fn launch(
        &mut self,
        context: &mut Context<'_>,
        setting: &Setting<'_>,
        cell: &Cell,
    ) -> Result<Result<Outputs, Outcome>, Stop> {
        context.check_interrupt()?;
        context.tell(&Event::Launch {
            cell,
            phase: Phase::Parity,
        });
        let memory_bytes = setting.header.measure.memory_limit_bytes.or_else(|| {
            let available = telemetry::load().available_memory_bytes / 10 * 9;
            (available > 0).then_some(available)
        });
        let mut worker = match Worker::start(context, setting, cell, memory_bytes)? {
            Ok(worker) => worker,
            Err(outcome) => return self.fail(context, cell, outcome, ""),
        };
        self.launches += 1;
        let path = setting.scratch.join(format!("parity-{}", self.launches));
        let request = protocol::Parity {
            path: path.clone(),
            steps: STEPS,
        };
        match outputs(&mut worker, setting, cell, request) {
            Ok(answer) => {
                // What it does after its answer is judged when it is measured.
                let _ = worker.leave();
                context.check_interrupt()?;
                match Outputs::new(path, answer.tensors, answer.losses) {
                    Ok(outputs) => Ok(Ok(outputs)),
                    Err(reason) => {
                        let reason = format!("its outputs cannot be read: {reason}");
                        let outcome = Outcome::new(OutcomeKind::ParityFailed, reason);
                        self.fail(context, cell, outcome, "")
                    }
                }
            }
            Err(outcome) => {
                let ended = worker.kill();
                let _ = std::fs::remove_file(path);
                self.fail(context, cell, outcome, &ended.log)
            }
        }
    }

    fn fail(
        &mut self,
        context: &mut Context<'_>,
        cell: &Cell,
        outcome: Outcome,
        log: &str,
    ) -> Result<Result<Outputs, Outcome>, Stop> {
        let outcome = context.failure(outcome)?;
        context.tell(&Event::Failed {
            cell,
            outcome: &outcome,
        });
        let entry = format!(
            "== {}\n{}: {}\n{}{}",
            cell.describe(),
            outcome.kind,
            outcome.reason,
            log,
            if log.is_empty() || log.ends_with('\n') {
                ""
            } else {
                "\n"
            },
        );
        if self.log.len().saturating_add(entry.len()) <= LOG_BYTES {
            self.log.push_str(&entry);
        }
        Ok(Err(outcome))
    }
}

fn outputs(
    worker: &mut Worker,
    setting: &Setting<'_>,
    cell: &Cell,
    request: protocol::Parity,
) -> Result<protocol::ParityOutputs, Outcome> {
    worker.hello(cell)?;
    worker.load(cell, setting.graphs.get(cell)?)?;
    worker.parity(request)
}
