//! Inference: one run of the session a step.

use schema::{Graph, Outcome, protocol::Quantity};
use tensorflow::{DataType, Operation, Output, Session as TfSession, SessionRunArgs};
use worker::{ParityData, Session};

use crate::{
    configuration::{Compilation, Configuration, Weights},
    export::GraphFile,
    failure::{failed, unsupported},
    form::Form,
    lower::{Pass, lower},
    network::{Ground, Network},
    tensors::{self, Maker},
};

/// A graph is a protobuf message, which holds less than 2 GiB.
const LARGEST_GRAPH_BYTES: u64 = 1_900_000_000;

/// A network that is ready for forward passes.
pub(crate) struct Inference {
    session: TfSession,
    ground: Ground,
    outputs: Vec<Fetch>,
    frozen: bool,
}

/// An output of the network.
struct Fetch {
    name: String,
    output: Output,
    form: Form,
    element: DataType,
}

impl Inference {
    /// Builds the network.
    pub(crate) fn build(
        graph: &Graph,
        configuration: &Configuration,
        maker: &mut Maker,
    ) -> Result<Self, Outcome> {
        let network = Network::new(graph, false)?;
        let frozen = frozen(graph, configuration)?;
        let mut ground = Ground::new(&network, configuration, frozen, maker)?;
        let names = &graph.outputs;
        let types: Vec<DataType> = names
            .iter()
            .map(|name| network.data_type(name, configuration))
            .collect();
        let mut forms = Vec::with_capacity(names.len());
        let outputs = ground.call(
            |builder, given| {
                let lowered = lower(builder, &network, given, maker, Pass::Inference)?;
                let mut outputs = Vec::with_capacity(names.len());
                for name in names {
                    let value = lowered.value(name)?;
                    forms.push(value.form.clone());
                    // TensorFlow fetches no placeholder that it is fed, and nothing twice.
                    let output = builder.after(&value.output, &[]);
                    outputs.push(output.map_err(|status| failed(name, &status))?);
                }
                Ok(outputs)
            },
            &types,
        )?;
        let session = ground.session(configuration)?;
        ground.restart(&session, maker)?;
        let outputs = names.iter().zip(outputs).zip(forms).zip(types);
        let outputs = outputs.map(|(((name, output), form), element)| Fetch {
            name: name.clone(),
            output,
            form,
            element,
        });
        Ok(Self {
            session,
            ground,
            outputs: outputs.collect(),
            frozen,
        })
    }

    /// Whether the weights are constants.
    pub(crate) const fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The graph, and where it begins and ends.
    pub(crate) fn file(&self) -> Result<GraphFile, Outcome> {
        let name = |operation: &Operation| {
            operation
                .name()
                .map_err(|error| unsupported(format!("an operation of the graph: {error}")))
        };
        let fetches = self.outputs.iter().map(|fetch| &fetch.output.operation);
        let graph = &self.ground.builder.graph;
        Ok(GraphFile {
            graph: graph
                .graph_def()
                .map_err(|status| failed("graph", &status))?,
            feeds: self
                .ground
                .placeholders()
                .map(name)
                .collect::<Result<_, _>>()?,
            fetches: fetches.map(name).collect::<Result<_, _>>()?,
        })
    }

    /// One run. The outputs are TensorFlow's own memory, handed over and given back.
    fn run<T>(
        &self,
        read: impl FnOnce(&mut SessionRunArgs<'_>, &[tensorflow::FetchToken]) -> Result<T, Outcome>,
    ) -> Result<T, Outcome> {
        let mut args = SessionRunArgs::new();
        self.ground.feed_to(&mut args);
        let tokens: Vec<_> = self
            .outputs
            .iter()
            .map(|fetch| args.request_fetch(&fetch.output.operation, fetch.output.index))
            .collect();
        self.session
            .run(&mut args)
            .map_err(|status| failed("step", &status))?;
        read(&mut args, &tokens)
    }
}

/// Whether the weights become constants.
fn frozen(graph: &Graph, configuration: &Configuration) -> Result<bool, Outcome> {
    let elements = graph.parameters.iter().fold(0_u64, |sum, parameter| {
        let elements = parameter
            .shape
            .iter()
            .fold(1, |n: u64, &s| n.saturating_mul(s));
        sum.saturating_add(elements)
    });
    let bytes = elements.saturating_mul(configuration.float.bytes());
    let fits = bytes <= LARGEST_GRAPH_BYTES;
    match configuration.weights {
        // XLA compiles constants into its program: GPT-2's took more than 13 GiB.
        Weights::Auto => Ok(fits && configuration.compilation == Compilation::None),
        Weights::Variables => Ok(false),
        Weights::Frozen if fits => Ok(true),
        Weights::Frozen => Err(unsupported(format!(
            "weights of {bytes} bytes do not fit into TensorFlow's graph, which holds less than 2 GiB; ask for `weights: variables`"
        ))),
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        self.run(|_, _| Ok(()))
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        let tensors = self.run(|args, tokens| {
            let outputs = self.outputs.iter().zip(tokens);
            outputs
                .map(|(fetch, &token)| {
                    let Fetch {
                        name,
                        form,
                        element,
                        ..
                    } = fetch;
                    tensors::fetched(args, token, Quantity::Output, name, form, *element)
                })
                .collect::<Result<_, _>>()
        })?;
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
        None
    }
}
