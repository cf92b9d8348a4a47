//! The parts of a batch one after another, gradients added up: what a user does whose batch does not fit, and what
//! the other strategies compute, with nothing in parallel.

use schema::{Graph, Outcome, graph::Role};
use tch::{Tensor, no_grad};

use super::{Places, at, feed, in_parts, in_share, sum};
use crate::{failure::Fault, kernel::Pass, tape::Tape, training::Backward};

/// One network that is fed part after part.
pub(crate) struct Accumulated {
    tape: Tape,
    places: Places,
    workers: usize,
    passes: usize,
}

impl Accumulated {
    /// `tape` is that of a part, of which each of the workers has so many passes.
    pub(crate) fn new(tape: Tape, graph: &Graph, workers: usize, passes: usize) -> Self {
        Self {
            tape,
            places: Places::of(graph),
            workers: workers.max(1),
            passes: passes.max(1),
        }
    }

    /// Runs all parts, the first worker's last and in their order: running statistics are to be those that it
    /// leaves, from where they were before any.
    fn all(
        &self,
        values: &mut [Option<Tensor>],
        whole: &[Tensor],
        pass: Pass,
    ) -> Result<Tensor, Outcome> {
        let before = self.buffers(values)?;
        let parts = self.workers.saturating_mul(self.passes);
        let others = self.passes..parts;
        let mut shares = Vec::with_capacity(parts);
        for number in others.chain(0..self.passes) {
            // No pass of another worker's is before the first one's.
            if number == 0 {
                self.restore(values, &before)?;
            }
            feed(values, whole, number, parts)?;
            self.tape.forward(values, pass)?;
            shares.push(in_share(&self.tape, values, parts)?);
        }
        sum(&shares)
    }

    /// What running statistics are before a step; nothing where there is one worker.
    fn buffers(&self, values: &[Option<Tensor>]) -> Result<Vec<Tensor>, Outcome> {
        if self.workers == 1 {
            return Ok(Vec::new());
        }
        let buffers = self.places.with(Role::Buffer);
        let copied = buffers.map(|place| Ok(at(values, place)?.f_detach_copy()?));
        let copied: Result<Vec<_>, Fault> = no_grad(|| copied.collect());
        copied.map_err(|fault| fault.at("buffers"))
    }

    fn restore(&self, values: &[Option<Tensor>], before: &[Tensor]) -> Result<(), Outcome> {
        let copy = || {
            for (place, before) in self.places.with(Role::Buffer).zip(before) {
                at(values, place)?.shallow_clone().f_copy_(before)?;
            }
            Ok(())
        };
        no_grad(copy).map_err(|fault: Fault| fault.at("buffers"))
    }
}

impl Backward for Accumulated {
    fn values(&self) -> usize {
        self.tape.values()
    }

    fn settle(&self, values: &[Option<Tensor>]) -> Result<(), Outcome> {
        self.tape.settle(values)
    }

    fn run(&mut self, values: &mut [Option<Tensor>], pass: Pass) -> Result<Tensor, Outcome> {
        in_parts(values, &self.places, |values, whole| {
            self.all(values, whole, pass)
        })
    }
}
