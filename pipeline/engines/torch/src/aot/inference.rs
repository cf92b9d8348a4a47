//! Inference: one run of the package a step.

use std::collections::BTreeMap;

use schema::{
    Boundary, Graph, Outcome,
    graph::Parameter,
    protocol::{Profile, Quantity},
};
use tch::Tensor;
use worker::{ParityData, Session};

use super::{Compiled, NO_PROFILE, at, misfit};
use crate::{
    device::Place, edges::Edges, failure::unsupported, package::Package, parity,
    shim::InferenceMode, values::Maker,
};

/// A network that is ready for forward passes.
pub(crate) struct Inference {
    package: Package,
    outputs: Vec<String>,
    /// What the package reads.
    inputs: Vec<Tensor>,
    edges: Edges,
    place: Place,
}

impl Inference {
    /// Gives the package what it reads; its runs are timed at `boundary`.
    pub(crate) fn build(
        graph: &Graph,
        compiled: Compiled,
        maker: &mut Maker,
        boundary: Boundary,
    ) -> Result<Self, Outcome> {
        let mut package = compiled.main.package;
        let parameters = graph.parameters.iter();
        let parameters: BTreeMap<&str, &Parameter> =
            parameters.map(|it| (it.name.as_str(), it)).collect();
        // Small ones, and those that nothing reads, are none of the package's constants.
        let names = package.constants().into_iter();
        let constant = |name: String| {
            let known = compiled.main.facts.constants.get(&name);
            let parameter = known
                .and_then(|known| parameters.get(known.as_str()))
                .ok_or_else(|| misfit(&format!("the constant `{name}` is no parameter")))?;
            Ok((name, maker.parameter(parameter)?))
        };
        let constants: Vec<(String, Tensor)> =
            names.map(constant).collect::<Result<_, Outcome>>()?;
        package.hold(&constants).map_err(at)?;
        let inputs = graph.inputs.iter().map(|input| maker.input(input));
        let inputs: Vec<Tensor> = inputs.collect::<Result<_, _>>()?;
        let fed: Vec<&Tensor> = inputs.iter().collect();
        package.feed(&fed, &[]).map_err(at)?;
        let edges = Edges::of(boundary, maker.place, &inputs)?;
        Ok(Self {
            package,
            outputs: graph.outputs.clone(),
            inputs,
            edges,
            place: maker.place,
        })
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        let _mode = InferenceMode::enter().map_err(at)?;
        self.edges.begin(&mut self.inputs)?;
        let outputs = if self.edges.received().is_some() {
            self.package.outputs(self.outputs.len()).map_err(at)?
        } else {
            self.package.run().map_err(at)?;
            Vec::new()
        };
        self.edges.end(|| Ok(outputs.iter().collect()))?;
        self.place.synchronize()
    }

    fn device_ns(&mut self) -> Result<Option<u64>, Outcome> {
        self.edges.device_ns()
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        let own;
        let outputs = if self.edges.received().is_some() {
            self.step()?;
            self.edges.received().unwrap_or_default()
        } else {
            let _mode = InferenceMode::enter().map_err(at)?;
            own = self.package.outputs(self.outputs.len()).map_err(at)?;
            &own
        };
        let named = self.outputs.iter().zip(outputs);
        let output = |(name, tensor): (&String, _)| parity::output(Quantity::Output, name, tensor);
        Ok(ParityData {
            tensors: named.map(output).collect::<Result<_, _>>()?,
            losses: Vec::new(),
        })
    }

    fn profile(&mut self, _steps: u64) -> Result<Profile, Outcome> {
        Err(unsupported(NO_PROFILE))
    }

    /// A forward pass changes nothing that lasts.
    fn reset(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    fn device_memory(&mut self) -> Option<(u64, u64)> {
        self.place.memory()
    }
}
