//! What every part of a run needs.

use schema::{Outcome, OutcomeKind, record::HeatHeader};
use store::WriterLock;
use worker::host::Interrupt;

use crate::{Event, Observer, Options, Workers, error::Stop, graphs::Graphs};

/// The surroundings of a run.
pub(crate) struct Context<'a> {
    pub(crate) store: &'a WriterLock,
    pub(crate) workers: &'a dyn Workers,
    pub(crate) options: &'a Options,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) observer: &'a mut dyn Observer,
}

/// The surroundings of a heat.
pub(crate) struct Setting<'a> {
    pub(crate) header: &'a HeatHeader,
    pub(crate) graphs: &'a Graphs,
}

impl Context<'_> {
    pub(crate) fn tell(&mut self, event: &Event<'_>) {
        self.observer.observe(event);
    }

    /// Ends the heat if somebody asked for it.
    pub(crate) fn check_interrupt(&self) -> Result<(), Stop> {
        if self.interrupt.is_set() {
            Err(Stop::Interrupted)
        } else {
            Ok(())
        }
    }

    /// A failure of a worker, unless it failed because the run was interrupted, or because the
    /// store's disk is full: that would be kept as the engine's fault and never be tried again.
    pub(crate) fn failure(&self, outcome: Outcome) -> Result<Outcome, Stop> {
        self.check_interrupt()?;
        self.store.check_room()?;
        if outcome.kind == OutcomeKind::NotReached {
            // Only an interruption leaves a request unserved, and there was none.
            let reason = format!(
                "the worker claims `{}`: {}",
                OutcomeKind::NotReached,
                outcome.reason
            );
            return Ok(Outcome::new(OutcomeKind::Crashed, reason));
        }
        Ok(outcome)
    }
}
