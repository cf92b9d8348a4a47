//! One process: in every iteration the network is replicated, the batch scattered, the replicas run by a
//! thread each, their outputs gathered, and gradients flow back to the one network. It is what
//! `torch.nn.DataParallel` does, in its order; libtorch's own is a template over `torch::nn::Module`, which
//! these networks are not.
//!
//! The backward pass is one graph from the gathered outputs: autograd runs it with one thread a device, so that on
//! a CPU replicas come one after another there.

use std::thread;

use schema::{Graph, Outcome, graph::Role};
use tch::{Device, Tensor, no_grad};

use super::{Places, at, in_parts, part};
use crate::{failure::Fault, kernel::Pass, tape::Tape, training::Backward};

/// One network and its replicas.
pub(crate) struct DataParallel {
    tape: Tape,
    places: Places,
    /// Where each replica runs.
    devices: Vec<Device>,
    /// Threads of an operator, which PyTorch keeps for each thread.
    threads: i32,
}

impl DataParallel {
    /// `tape` is that of a replica; the first device is the network's own.
    pub(crate) fn new(tape: Tape, graph: &Graph, devices: Vec<Device>, threads: i32) -> Self {
        Self {
            tape,
            places: Places::of(graph),
            devices,
            threads,
        }
    }

    /// The values of each replica before it runs: its part of what is fed, and parameters. The first has the
    /// network's own; its running statistics are therefore those that are kept.
    fn replicate(
        &self,
        values: &[Option<Tensor>],
        whole: &[Tensor],
    ) -> Result<Vec<Vec<Option<Tensor>>>, Fault> {
        let parts = self.devices.len();
        let mut replicas = Vec::with_capacity(parts);
        for (number, &device) in self.devices.iter().enumerate() {
            let mut own: Vec<Option<Tensor>> = Vec::with_capacity(values.len());
            for whole in whole {
                let fed = part(whole, number, parts)?.f_to_device(device)?;
                own.push(Some(fed));
            }
            for (place, &role) in (self.places.fed..).zip(&self.places.roles) {
                let parameter = at(values, place)?;
                let replica = match (number, role) {
                    (0, _) => parameter.shallow_clone(),
                    (_, Role::Weight) => copied(parameter, device)?,
                    (_, Role::Buffer | Role::Constant) => no_grad(|| copied(parameter, device))?,
                };
                own.push(Some(replica));
            }
            own.resize_with(values.len(), || None);
            replicas.push(own);
        }
        Ok(replicas)
    }

    /// The outputs of all replicas, each on its own device.
    fn apply(
        &self,
        replicas: &mut [Vec<Option<Tensor>>],
        pass: Pass,
    ) -> Result<Vec<Tensor>, Outcome> {
        let (tape, threads) = (&self.tape, self.threads);
        let run = |values: &mut Vec<Option<Tensor>>| {
            tape.forward(values, pass)?;
            let logits = tape.logits(values).map(Tensor::shallow_clone);
            logits.map_err(|fault| fault.at("outputs"))
        };
        if let [alone] = replicas {
            return Ok(vec![run(alone)?]);
        }
        thread::scope(|scope| {
            let started: Vec<_> = replicas
                .iter_mut()
                .map(|values| {
                    scope.spawn(move || {
                        tch::set_num_threads(threads);
                        run(values)
                    })
                })
                .collect();
            let ended = started.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            ended.collect()
        })
    }

    fn all(
        &self,
        values: &mut [Option<Tensor>],
        whole: &[Tensor],
        pass: Pass,
    ) -> Result<Tensor, Outcome> {
        let replicas = self.replicate(values, whole);
        let mut replicas = replicas.map_err(|fault| fault.at("replicas"))?;
        let outputs = self.apply(&mut replicas, pass)?;
        let labels = whole.last().ok_or_else(|| Fault::Missing.at("labels"))?;
        let casting = self.tape.casting()?;
        let back = || {
            let outputs: Result<Vec<_>, _> = outputs
                .iter()
                .map(|output| output.f_to_device(labels.device()))
                .collect();
            let gathered = Tensor::f_cat(&outputs?, 0)?;
            let loss = Tape::entropy(&gathered, labels)?;
            drop(casting);
            loss.f_backward()?;
            Ok(loss)
        };
        back().map_err(|fault: Fault| fault.at("backward"))
    }
}

/// A copy on a device, through which gradients flow back.
fn copied(parameter: &Tensor, device: Device) -> Result<Tensor, Fault> {
    Ok(parameter.f_to_device_(device, parameter.kind(), false, true)?)
}

impl Backward for DataParallel {
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
