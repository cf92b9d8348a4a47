//! Inference: one forward pass a step.

use schema::{
    Boundary, Graph, Mode, Outcome,
    protocol::{Profile, Quantity},
};
use tch::Tensor;
use worker::{ParityData, Session};

use crate::{
    device::Place,
    edges::Edges,
    failure::Fault,
    kernel::Pass,
    lower::{Lowered, lower},
    parity, profile,
    shim::InferenceMode,
    values::Maker,
};

/// A network that is ready for forward passes.
pub(crate) struct Inference {
    lowered: Lowered,
    values: Vec<Option<Tensor>>,
    outputs: Vec<Made>,
    /// How many of the values are inputs; they come first.
    inputs: usize,
    edges: Edges,
    place: Place,
}

/// An output.
struct Made {
    name: String,
    index: usize,
    /// Whether a pass makes it: it may be an input or a parameter.
    by_pass: bool,
}

impl Made {
    /// The output among `values`.
    fn of<'a>(&self, values: &'a [Option<Tensor>]) -> Result<&'a Tensor, Outcome> {
        let value = values.get(self.index).and_then(Option::as_ref);
        value.ok_or_else(|| Fault::Missing.at(&self.name))
    }
}

impl Inference {
    /// Builds the network, whose steps are timed at `boundary`, and which may compute under autocast somewhere.
    pub(crate) fn build(
        graph: &Graph,
        maker: &mut Maker,
        boundary: Boundary,
        casts: Option<Place>,
    ) -> Result<Self, Outcome> {
        let mut lowered = lower(graph, Mode::Inference)?;
        lowered.program.casts = casts;
        let mut values = Vec::with_capacity(lowered.indices.len());
        for input in &graph.inputs {
            values.push(Some(maker.input(input)?));
        }
        let edges = Edges::of(boundary, maker.place, values.iter().flatten())?;
        for parameter in &graph.parameters {
            values.push(Some(maker.parameter(parameter)?));
        }
        let given = values.len();
        values.resize_with(lowered.indices.len(), || None);
        lowered.program.settle(&values)?;
        let output = |name: &String| {
            let index = lowered.indices.get(name).copied();
            let index = index.ok_or_else(|| Fault::Missing.at(name))?;
            Ok(Made {
                name: name.clone(),
                index,
                by_pass: index >= given,
            })
        };
        let outputs = graph.outputs.iter().map(output);
        let outputs = outputs.collect::<Result<_, Outcome>>()?;
        Ok(Self {
            lowered,
            values,
            outputs,
            inputs: graph.inputs.len(),
            edges,
            place: maker.place,
        })
    }

    fn run(&mut self) -> Result<(), Outcome> {
        let _mode =
            InferenceMode::enter().map_err(|error| Fault::from(error).at("inference mode"))?;
        let fed = self.values.iter_mut().take(self.inputs).flatten();
        self.edges.begin(fed)?;
        self.lowered
            .program
            .run(&mut self.values, Pass::Inference)?;
        let made = self.outputs.iter().map(|made| made.of(&self.values));
        self.edges.end(|| made.collect())?;
        self.place.synchronize()
    }

    /// Number of steps that run in place.
    pub(crate) fn in_place(&self) -> usize {
        self.lowered.program.in_place()
    }
}

/// Lets go of what a pass made, as a caller in Python does: the next finds its memory free.
fn let_go(values: &mut [Option<Tensor>], outputs: &[Made]) {
    for made in outputs.iter().filter(|made| made.by_pass) {
        if let Some(value) = values.get_mut(made.index) {
            *value = None;
        }
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        self.run()?;
        let_go(&mut self.values, &self.outputs);
        Ok(())
    }

    fn device_ns(&mut self) -> Result<Option<u64>, Outcome> {
        self.edges.device_ns()
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        self.run()?;
        let _mode =
            InferenceMode::enter().map_err(|error| Fault::from(error).at("inference mode"))?;
        let received = self.edges.received();
        let output = |(index, made): (usize, &Made)| {
            let received = received.and_then(|received| received.get(index));
            let tensor = received.map_or_else(|| made.of(&self.values), Ok)?;
            parity::output(Quantity::Output, &made.name, tensor)
        };
        let outputs = self.outputs.iter().enumerate();
        let tensors = outputs.map(output).collect::<Result<_, _>>()?;
        Ok(ParityData {
            tensors,
            losses: Vec::new(),
        })
    }

    fn profile(&mut self, steps: u64) -> Result<Profile, Outcome> {
        let Self {
            lowered,
            values,
            outputs,
            place,
            ..
        } = self;
        let program = &lowered.program;
        profile::profile(*place, &program.nodes(), steps, |recorder| {
            let _mode =
                InferenceMode::enter().map_err(|error| Fault::from(error).at("inference mode"))?;
            program.run_told(values, Pass::Inference, recorder)?;
            place.synchronize()?;
            let_go(values, outputs);
            Ok(())
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
