//! The time between two blocks of a heat that no others fill.

use std::time::{Duration, Instant};

use super::Sweep;
use crate::{Event, context::Context, heat::Running};

impl<'a> Sweep<'a> {
    /// Measures nothing until the first of the heats under way may go on, or somebody interrupts. The time
    /// is its job's.
    pub(super) fn rest(&mut self, context: &mut Context<'a>) {
        let left = self.left();
        let resting = self.open.iter().filter(|heat| !heat.waits);
        let Some(first) = resting.min_by_key(|heat| heat.rests()) else {
            return;
        };
        let (assignment, time) = (first.assignment, first.rests());
        context.tell(&Event::Rests {
            group: &assignment.heat.group,
            time,
            left,
        });
        let began = Instant::now();
        context.interrupt.wait(time);
        self.spend(assignment, began.elapsed());
    }

    /// What of the time between two blocks of a heat the others under way leave empty.
    pub(super) fn pause(&self, heat: &Running<'_>) -> Duration {
        let key = heat.assignment.heat.key;
        let others = self.open.iter();
        let others = others.filter(|other| !other.waits && other.assignment.heat.key != key);
        let filled: Duration = others.map(|other| other.block_takes(&self.estimate)).sum();
        heat.apart().saturating_sub(filled)
    }
}
