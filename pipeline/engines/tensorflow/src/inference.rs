//! Inference: one run of the session a step.

use std::{collections::BTreeMap, time::Instant};

use schema::{
    Graph, Outcome,
    protocol::{Profile, Quantity},
};
use tensorflow::{DataType, Operation, Output, Session as TfSession, SessionRunArgs};
use worker::{ParityData, Session};

use crate::{
    configuration::{Compilation, Configuration, Weights},
    exchange::Exchange,
    export::GraphFile,
    failure::{failed, unsupported},
    form::Form,
    lower::{Pass, lower},
    network::{Ground, Network},
    profile::{self, Asked, Told},
    tensors::{self, Maker},
    trace,
};

/// A graph is a protobuf message, which holds less than 2 GiB.
const LARGEST_GRAPH_BYTES: u64 = 1_900_000_000;

/// A network that is ready for forward passes.
pub(crate) struct Inference {
    session: TfSession,
    ground: Ground,
    outputs: Vec<Fetch>,
    frozen: bool,
    exchange: Option<Exchange>,
    /// The network, whose nodes a profile speaks of.
    graph: Graph,
    compilation: Compilation,
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
        let exchange = configuration.takes_requests.then(|| ground.exchange());
        Ok(Self {
            session,
            ground,
            outputs: outputs.collect(),
            frozen,
            exchange,
            graph: graph.clone(),
            compilation: configuration.compilation,
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

    /// One run as [`run`](Self::run) runs it, with what was asked for.
    fn traced(&self, asked: Asked) -> Result<Told, Outcome> {
        let start = Instant::now();
        let mut args = SessionRunArgs::new();
        args.set_run_options(&trace::options(asked));
        args.set_request_metadata(true);
        self.ground.feed_to(&mut args);
        for fetch in &self.outputs {
            args.request_fetch(&fetch.output.operation, fetch.output.index);
        }
        self.session
            .run(&mut args)
            .map_err(|status| failed("profiled step", &status))?;
        let took = start.elapsed();
        let metadata = args.get_metadata().unwrap_or_default().to_vec();
        Ok(Told { metadata, took })
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

    /// A step at the boundary `request`.
    fn serve(&mut self, exchange: &mut Exchange) -> Result<(), Outcome> {
        self.ground.send(exchange)?;
        self.run(|args, tokens| {
            let outputs = self.outputs.iter().zip(tokens).enumerate();
            for (index, (fetch, &token)) in outputs {
                exchange.receive(index, args, token, &fetch.name, fetch.element)?;
            }
            Ok(())
        })
    }
}

/// Whether the weights become constants.
fn frozen(graph: &Graph, configuration: &Configuration) -> Result<bool, Outcome> {
    let width = configuration.float.bytes();
    let sizes: BTreeMap<&str, u64> = graph
        .parameters
        .iter()
        .map(|parameter| {
            let elements = parameter.shape.iter();
            let bytes = elements.fold(width, |n: u64, &s| n.saturating_mul(s));
            (parameter.name.as_str(), bytes)
        })
        .collect();
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0_u64, u64::saturating_add);
    let bytes = sum(&mut sizes.values().copied());
    let fits = bytes <= LARGEST_GRAPH_BYTES;
    match configuration.weights {
        // XLA compiles constants into its program: GPT-2's took more than 13 GiB.
        Weights::Auto if configuration.compilation != Compilation::None => Ok(false),
        Weights::Auto => {
            // oneDNN keeps what an operator multiplies by in an order of its own, once for each
            // operator where it is constant: a speech network spelt out over 128 frames took
            // 16 GiB, and minutes to its first step.
            let read = graph.nodes.iter().flat_map(|node| &node.inputs);
            let applied = sum(&mut read.filter_map(|name| sizes.get(name.as_str()).copied()));
            Ok(fits && applied <= LARGEST_GRAPH_BYTES)
        }
        Weights::Variables => Ok(false),
        Weights::Frozen if fits => Ok(true),
        Weights::Frozen => Err(unsupported(format!(
            "weights of {bytes} bytes do not fit into TensorFlow's graph, which holds less than 2 GiB; ask for `weights: variables`"
        ))),
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        let Some(mut exchange) = self.exchange.take() else {
            return self.run(|_, _| Ok(()));
        };
        let served = self.serve(&mut exchange);
        self.exchange = Some(exchange);
        served
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        if self.exchange.is_some() {
            self.step()?;
        }
        if let Some(exchange) = &self.exchange {
            let received = self.outputs.iter().zip(exchange.received());
            let told = received.map(|(fetch, received)| {
                let received = received.clone();
                received.told(Quantity::Output, &fetch.name, &fetch.form)
            });
            return Ok(ParityData {
                tensors: told.collect::<Result<_, _>>()?,
                losses: Vec::new(),
            });
        }
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

    fn profile(&mut self, steps: u64) -> Result<Profile, Outcome> {
        if self.compilation != Compilation::None {
            return Err(unsupported(
                "XLA compiles nodes into programs of its own, whose parts TensorFlow's trace does not tell"
                    .to_owned(),
            ));
        }
        let GraphFile { graph, feeds, .. } = self.file()?;
        profile::profile(&self.graph, &graph, &feeds, steps, |asked| {
            self.traced(asked)
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

#[cfg(test)]
mod tests {
    use models::{
        rewrite::{RECURRENT, Rewriting, UNROLLED},
        zoo,
    };

    use super::*;
    use crate::tensors::Float;

    #[test]
    fn weights_that_are_applied_hundreds_of_times_are_no_constants() {
        let is_frozen = |name: &str, dims: &[(&str, u64)], compilation, weights| {
            let dims = dims.iter().map(|(name, size)| ((*name).to_owned(), *size));
            let graph = zoo::build(name, &dims.collect()).expect("it is of the zoo");
            let spelt_out = [(RECURRENT.to_owned(), UNROLLED.to_owned())];
            let rewrite = Rewriting::asked_by(&spelt_out.into());
            let graph = rewrite.apply(graph).expect("it can be spelt out");
            let configuration = Configuration {
                compilation,
                float: Float::F32,
                mixes_precision: false,
                threads: 1,
                weights,
                optimizer: None,
                takes_requests: false,
            };
            frozen(&graph, &configuration).expect("it is known")
        };
        let (none, auto) = (Compilation::None, Weights::Auto);
        assert!(is_frozen("resnet18", &[("image", 64)], none, auto));
        assert!(is_frozen("gpt2", &[("seq", 8)], none, auto));
        assert!(is_frozen("lstm_lm", &[("seq", 35)], none, auto));
        let long: &[(&str, u64)] = &[("frames", 128)];
        assert!(!is_frozen("deepspeech2", long, none, auto));
        assert!(is_frozen("deepspeech2", long, none, Weights::Frozen));
        assert!(!is_frozen("resnet18", &[], Compilation::Whole, auto));
    }
}
