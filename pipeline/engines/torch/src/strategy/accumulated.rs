//! The parts of a batch one after another, gradients added up: what the other strategies compute, with
//! nothing in parallel.

use schema::{Graph, Outcome, graph::Role};
use tch::{TchError, Tensor, no_grad};

use super::{Places, at, in_parts, part};
use crate::{failure::Fault, kernel::Pass, tape::Tape, training::Backward};

/// One network that is fed part after part.
pub(crate) struct Accumulated {
    tape: Tape,
    places: Places,
    parts: usize,
}

impl Accumulated {
    /// `tape` is that of a part.
    pub(crate) fn new(tape: Tape, graph: &Graph, parts: usize) -> Self {
        Self {
            tape,
            places: Places::of(graph),
            parts: parts.max(1),
        }
    }

    /// Runs all parts, the first one last: running statistics are to be those that the first leaves, from
    /// where they were before any.
    fn all(
        &self,
        values: &mut [Option<Tensor>],
        whole: &[Tensor],
        pass: Pass,
    ) -> Result<Tensor, Outcome> {
        let before = self.buffers(values)?;
        let mut sum: Option<Tensor> = None;
        for number in (0..self.parts).rev() {
            if number + 1 < self.parts {
                self.restore(values, &before)?;
            }
            for (value, whole) in values.iter_mut().zip(whole) {
                let fed = part(whole, number, self.parts).map_err(|fault| fault.at("inputs"))?;
                *value = Some(fed);
            }
            self.tape.forward(values, pass)?;
            let loss = self.tape.loss(values)?;
            let add = || {
                let share = loss.f_div_scalar(self.parts as i64)?;
                share.f_backward()?;
                let share = share.f_detach()?;
                match &sum {
                    None => Ok(share),
                    Some(sum) => sum.f_add(&share),
                }
            };
            let added = add().map_err(|error: TchError| Fault::from(error).at("backward"))?;
            sum = Some(added);
        }
        sum.ok_or_else(|| Fault::Missing.at("loss"))
    }

    fn buffers(&self, values: &[Option<Tensor>]) -> Result<Vec<Tensor>, Outcome> {
        if self.parts == 1 {
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
