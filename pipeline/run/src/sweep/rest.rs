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
        let resting = resting.map(|heat| (self.rests(heat), heat.assignment));
        let Some((time, assignment)) = resting.min_by_key(|(time, _)| *time) else {
            return;
        };
        context.tell(&Event::Rests {
            group: &assignment.heat.group,
            time,
            left,
        });
        let began = Instant::now();
        context.interrupt.wait(time);
        self.spend(assignment, began.elapsed());
    }

    /// How long a heat under way is not to go on yet: what is left of the time between two of its blocks, and of a
    /// ceiling until the next part of what the run still takes. Blocks of ceilings are so spread over the run, and
    /// fall into what others leave empty where they leave anything.
    pub(super) fn rests(&self, heat: &Running<'a>) -> Duration {
        let apart = heat.rests(heat.apart());
        if !heat.is_ceiling() {
            return apart;
        }
        let part = self.left_of_asked().checked_div(heat.blocks_ahead());
        apart.max(heat.rests(part.unwrap_or_default()))
    }

    /// What of the time between two blocks of a heat the others under way leave empty; those of ceilings, which
    /// are few, fill none.
    pub(super) fn pause(&self, heat: &Running<'_>) -> Duration {
        let key = heat.assignment.heat.key;
        let others = self.asked();
        let others = others.filter(|other| !other.waits && other.assignment.heat.key != key);
        let filled: Duration = others.map(|other| other.block_takes(&self.estimate)).sum();
        heat.apart().saturating_sub(filled)
    }
}
