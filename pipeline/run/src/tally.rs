//! Which cells may still be launched, and how each ended.

use schema::{
    Outcome, OutcomeKind,
    record::{Block, Reference},
};
use statistics::samples::has_speed;

/// A cell that failed this often, and could end otherwise, is not launched again.
const PATIENCE: usize = 2;

/// The endings of a heat's cells so far.
pub(crate) struct Tally {
    slots: Vec<Slot>,
    /// Whether the job asks for samples at all.
    times: bool,
}

struct Slot {
    obstacle: Option<Outcome>,
    launches: Vec<Outcome>,
}

impl Tally {
    /// Of a heat that is to have `asked` blocks, and has these.
    pub(crate) fn new(reference: &Reference, asked: u32, blocks: &[Block]) -> Self {
        let slots = reference
            .obstacles
            .iter()
            .map(|obstacle| Slot {
                obstacle: obstacle.clone(),
                launches: Vec::new(),
            })
            .collect();
        let mut tally = Self {
            slots,
            times: asked > 0,
        };
        for block in blocks {
            tally.count(block);
        }
        tally
    }

    pub(crate) fn count(&mut self, block: &Block) {
        for launch in &block.launches {
            if let Some(slot) = self.slots.get_mut(launch.slot as usize) {
                slot.launches.push(launch.outcome.clone());
            }
        }
    }

    /// The slots that the next block launches.
    pub(crate) fn launchable(&self) -> Vec<u32> {
        (0_u32..)
            .zip(&self.slots)
            .filter_map(|(number, slot)| slot.is_launchable().then_some(number))
            .collect()
    }

    /// The outcome of each slot: its obstacle, or the worst of its launches. Where nothing is timed, what
    /// has no obstacle is in parity, and that is all. Launches that were disturbed count only where the
    /// heat `is_unstable`: then the machine is why there is no speed to be relied on.
    pub(crate) fn outcomes(&self, disturbed: &str, is_unstable: bool) -> Vec<Outcome> {
        let unstable = || Outcome::new(OutcomeKind::Unstable, disturbed);
        let outcome = |slot: &Slot| match (&slot.obstacle, self.times) {
            (None, false) => Outcome::verified(),
            _ if is_unstable && slot.is_disturbed() => unstable(),
            _ => slot.outcome(),
        };
        self.slots.iter().map(outcome).collect()
    }
}

impl Slot {
    fn is_launchable(&self) -> bool {
        let failures = self
            .launches
            .iter()
            .filter(|outcome| !has_speed(outcome.kind));
        self.obstacle.is_none()
            && !self.launches.iter().any(|outcome| outcome.kind.is_final())
            && failures.count() < PATIENCE
    }

    fn undisturbed(&self) -> impl Iterator<Item = &Outcome> {
        let launches = self.launches.iter();
        launches.filter(|outcome| outcome.kind != OutcomeKind::Unstable)
    }

    /// Whether nothing is wrong with it, but that it was disturbed.
    fn is_disturbed(&self) -> bool {
        self.obstacle.is_none()
            && self.undisturbed().count() < self.launches.len()
            && self.undisturbed().all(Outcome::is_measured)
    }

    fn outcome(&self) -> Outcome {
        self.obstacle
            .as_ref()
            .or_else(|| Outcome::worst_of(self.undisturbed()))
            .cloned()
            .unwrap_or_else(|| Outcome::new(OutcomeKind::NotReached, "it was never launched"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(obstacle: Option<OutcomeKind>, launches: &[OutcomeKind]) -> Tally {
        let outcome = |kind: &OutcomeKind| Outcome::new(*kind, "why");
        Tally {
            slots: vec![Slot {
                obstacle: obstacle.as_ref().map(outcome),
                launches: launches.iter().map(outcome).collect(),
            }],
            times: true,
        }
    }

    #[test]
    fn what_is_not_timed_is_verified_or_says_why_not() {
        let unavailable = Outcome::new(OutcomeKind::Unavailable, "why");
        for (obstacle, outcome) in [
            (None, Outcome::verified()),
            (Some(unavailable.clone()), unavailable),
        ] {
            let reference = Reference {
                parity: vec![None],
                obstacles: vec![obstacle],
                logs: vec![None],
                quantised: Vec::new(),
                starts: Vec::new(),
            };
            assert_eq!(
                Tally::new(&reference, 0, &[]).outcomes("", false),
                [outcome]
            );
        }
    }

    #[test]
    fn two_failures_or_a_final_one_are_enough() {
        use OutcomeKind::{Crashed, Measured, OutOfMemory, TimedOut, Unavailable};

        for (obstacle, launches, launchable, kind) in [
            (None, &[][..], true, OutcomeKind::NotReached),
            (None, &[Measured, Measured], true, Measured),
            (None, &[Measured, Crashed], true, Crashed),
            (None, &[Crashed, Measured, TimedOut], false, Crashed),
            (None, &[OutOfMemory], false, OutOfMemory),
            (Some(Unavailable), &[], false, Unavailable),
        ] {
            let tally = tally(obstacle, launches);
            assert_eq!(
                tally.launchable().len(),
                usize::from(launchable),
                "{launches:?}"
            );
            assert_eq!(tally.outcomes("", false)[0].kind, kind, "{launches:?}");
        }
    }

    #[test]
    fn disturbed_launches_count_where_the_heat_is_unstable() {
        use OutcomeKind::{Crashed, Measured, Unstable};

        for (launches, of_stable, of_unstable) in [
            (&[Measured, Unstable][..], Measured, Unstable),
            (
                &[Unstable, Unstable, Unstable],
                OutcomeKind::NotReached,
                Unstable,
            ),
            (&[Unstable, Crashed], Crashed, Crashed),
            (&[Measured, Measured], Measured, Measured),
        ] {
            let tally = tally(None, launches);
            let kind = |is_unstable| tally.outcomes("why", is_unstable)[0].kind;
            assert_eq!((kind(false), kind(true)), (of_stable, of_unstable));
            assert_eq!(tally.launchable().len(), 1, "{launches:?}");
        }
    }
}
