//! Training: the joint graph of forward and backward pass, compiled.

use std::collections::BTreeMap;

use schema::{Graph, Outcome};
use tch::Tensor;

use super::{Compiled, Ready, at, misfit};
use crate::{failure::unsupported, kernel::Pass, package::Package, training::Backward};

/// The compiled graph, fed.
pub(crate) struct Joint {
    package: Package,
    /// The same without dropout, where the network has dropout.
    deterministic: Option<Package>,
}

impl Joint {
    /// Gives the package what it reads and moves: `values` are the inputs of `graph`, its labels and
    /// its parameters.
    pub(crate) fn build(
        graph: &Graph,
        compiled: Compiled,
        values: &[&Tensor],
    ) -> Result<Self, Outcome> {
        // The labels come after the inputs.
        let (fed, parameters) = values.split_at(values.len().min(graph.inputs.len() + 1));
        let names = graph.parameters.iter().map(|it| it.name.as_str());
        let parameters: BTreeMap<&str, &Tensor> = names.zip(parameters.iter().copied()).collect();
        let ready = |ready: Ready| {
            let mut package = ready.package;
            let of = |names: &[String]| {
                let found = names.iter().map(|name| {
                    let parameter = parameters.get(name.as_str()).copied();
                    parameter.ok_or_else(|| misfit(&format!("`{name}` is no parameter")))
                });
                found.collect::<Result<Vec<&Tensor>, Outcome>>()
            };
            let weights = of(&ready.facts.gradients)?;
            let mut inputs = of(&ready.facts.fed)?;
            inputs.extend(fed);
            package.feed(&inputs, &weights).map_err(at)?;
            Ok(package)
        };
        Ok(Self {
            package: ready(compiled.main)?,
            deterministic: compiled.deterministic.map(ready).transpose()?,
        })
    }
}

impl Backward for Joint {
    fn run(&mut self, _values: &mut [Option<Tensor>], pass: Pass) -> Result<Tensor, Outcome> {
        let package = match (&mut self.deterministic, pass) {
            (_, Pass::AcrossKinks(_)) => {
                let reason = "derivatives were decided when the network was compiled";
                return Err(unsupported(reason));
            }
            (Some(package), Pass::Deterministic) => package,
            _ => &mut self.package,
        };
        package.differentiate().map_err(at)
    }
}
