//! Inference: one forward pass a step.

use schema::{Graph, Mode, Outcome, protocol::Quantity};
use tch::Tensor;
use worker::{ParityData, Session};

use crate::{
    device::Place,
    failure::Fault,
    kernel::Pass,
    lower::{Lowered, lower},
    parity,
    shim::InferenceMode,
    values::Maker,
};

/// A network that is ready for forward passes.
pub(crate) struct Inference {
    lowered: Lowered,
    values: Vec<Option<Tensor>>,
    outputs: Vec<String>,
    place: Place,
}

impl Inference {
    /// Builds the network.
    pub(crate) fn build(graph: &Graph, maker: &mut Maker) -> Result<Self, Outcome> {
        let lowered = lower(graph, Mode::Inference)?;
        let mut values = Vec::with_capacity(lowered.indices.len());
        for input in &graph.inputs {
            values.push(Some(maker.input(input)?));
        }
        for parameter in &graph.parameters {
            values.push(Some(maker.parameter(parameter)?));
        }
        values.resize_with(lowered.indices.len(), || None);
        Ok(Self {
            lowered,
            values,
            outputs: graph.outputs.clone(),
            place: maker.place,
        })
    }

    /// Number of steps that run in place.
    pub(crate) fn in_place(&self) -> usize {
        self.lowered.program.in_place()
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        let _mode = InferenceMode::enter();
        self.lowered
            .program
            .run(&mut self.values, Pass::Inference)?;
        self.place.synchronize()
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        self.step()?;
        let _mode = InferenceMode::enter();
        let output = |name: &String| {
            let index = self.lowered.indices.get(name);
            let tensor = index.and_then(|&index| self.values.get(index)?.as_ref());
            parity::output(
                Quantity::Output,
                name,
                tensor.ok_or_else(|| Fault::Missing.at(name))?,
            )
        };
        let tensors = self.outputs.iter().map(output).collect::<Result<_, _>>()?;
        Ok(ParityData {
            tensors,
            losses: Vec::new(),
        })
    }

    /// A forward pass changes nothing that lasts.
    fn reset(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    fn device_memory(&mut self) -> Option<(u64, u64)> {
        self.place.memory()
    }
}
