//! Inference: one bound call a step.

use models::infer;
use ort::{
    memory::{AllocationDevice, MemoryInfo},
    session::{IoBinding, Session as OrtSession, SessionOutputs},
    value::DynValue,
};
use schema::{Graph, Outcome, OutcomeKind, protocol::Profile};
use worker::{ParityData, Session};

use crate::{
    configuration::Configuration,
    exchange::Exchange,
    failure::{failed, unsupported},
    profile::Profiler,
    provider, tensors,
};

/// A session with everything bound.
pub(crate) struct Inference {
    /// `None` where it made room for one to be profiled, which then failed.
    bound: Option<Bound>,
    outputs: Vec<String>,
    on_host: bool,
    exchange: Option<Exchange>,
    /// What a session of its own is made from, to be profiled.
    pub(crate) profiler: Option<Profiler>,
}

struct Bound {
    // Dropped before the session: it refers to it.
    binding: IoBinding,
    session: OrtSession,
    /// Outputs of which the file declares another shape than they have. ONNX Runtime makes room for them in each step:
    /// what it made in one it would take for ours in the next, and hold it against what is declared.
    loose: Vec<String>,
    /// Outputs whose shape is seen once they are made, and what the file declares of it.
    unseen: Vec<(String, Vec<i64>)>,
    memory: MemoryInfo<'static>,
}

impl Bound {
    /// One call; the outputs stay in their bound place. `run_binding` returns when the provider's
    /// work is done, on a device as well (`synchronize_outputs` would wait for it a second time).
    fn call(&mut self) -> Result<SessionOutputs<'_>, Outcome> {
        for name in &self.loose {
            let bound = self.binding.bind_output_to_device(name, &self.memory);
            bound.map_err(|error| failed(name, &error))?;
        }
        let outputs = self
            .session
            .run_binding(&self.binding)
            .map_err(|error| failed("step", &error))?;
        for (name, declared) in self.unseen.drain(..) {
            let made = outputs.get(&name);
            let made = made.and_then(|made| made.dtype().tensor_shape());
            if made.is_some_and(|made| !tensors::fits(&declared, made)) {
                self.loose.push(name);
            }
        }
        Ok(outputs)
    }
}

/// The session, if it is still there.
fn there(bound: &mut Option<Bound>) -> Result<&mut Bound, Outcome> {
    let reason = "the session made room for one to be profiled, which failed";
    bound
        .as_mut()
        .ok_or_else(|| Outcome::new(OutcomeKind::Crashed, reason))
}

impl Inference {
    /// Binds `inputs` (in the graph's order) and room for the outputs, where the provider
    /// computes; or, where each step begins and ends in the caller's memory, room for both.
    pub(crate) fn bind(
        session: OrtSession,
        graph: &Graph,
        inputs: Vec<DynValue>,
        configuration: &Configuration,
    ) -> Result<Self, Outcome> {
        let types = match graph.is_outline() {
            true => None,
            false => Some(infer::shapes(graph).map_err(|error| unsupported(error.to_string()))?),
        };
        let mut binding = session
            .create_binding()
            .map_err(|error| failed("binding", &error))?;
        let device = configuration.provider.memory()?;
        let named = graph.inputs.iter().map(|input| input.name.clone());
        let named = named.zip(inputs);
        let mut exchange = None;
        if configuration.takes_requests {
            exchange = Some(Exchange::bind(named, device.is_none(), &mut binding)?);
        } else {
            for (name, value) in named {
                let bound = binding.bind_input(&name, &value);
                bound.map_err(|error| failed(&name, &error))?;
            }
        }
        // Results that are asked for on the host are copied there by ONNX Runtime itself.
        let device = device.filter(|_| exchange.is_none());
        let is_on_host = device.is_none();
        let memory = match device {
            Some(device) => device,
            None => provider::host_memory()?,
        };
        let (mut loose, mut unseen) = (Vec::new(), Vec::new());
        for name in &graph.outputs {
            let declared = tensors::declared(name, &session);
            let Some(types) = &types else {
                // What an outline's outputs are like, only ONNX Runtime knows.
                let bound = binding.bind_output_to_device(name, &memory);
                bound.map_err(|error| failed(name, &error))?;
                unseen.push((name.clone(), declared));
                continue;
            };
            let value = types
                .get(name)
                .ok_or_else(|| unsupported(format!("the graph has no value `{name}`")))?;
            let sizes = tensors::sizes(name, &value.shape)?;
            let fits = tensors::fits(&declared, &sizes);
            if !fits {
                loose.push(name.clone());
            }
            let bound = match is_on_host && fits {
                true => binding.bind_output(name, tensors::room(name, sizes, &session)?),
                false => binding.bind_output_to_device(name, &memory),
            };
            bound.map_err(|error| failed(name, &error))?;
        }
        // Copies of inputs to a device may still be under way.
        binding
            .synchronize_inputs()
            .map_err(|error| failed("inputs", &error))?;
        Ok(Self {
            bound: Some(Bound {
                binding,
                session,
                loose,
                unseen,
                memory,
            }),
            outputs: graph.outputs.clone(),
            on_host: is_on_host,
            exchange,
            profiler: None,
        })
    }

    /// One call, as [`Bound::call`].
    pub(crate) fn call(&mut self) -> Result<SessionOutputs<'_>, Outcome> {
        there(&mut self.bound)?.call()
    }

    /// Ends the profile that its session was made to write; gives the place of the file.
    pub(crate) fn end_profiling(&mut self) -> Result<String, Outcome> {
        there(&mut self.bound)?
            .session
            .end_profiling()
            .map_err(|error| failed("profile", &error))
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        let bound = there(&mut self.bound)?;
        let Some(exchange) = &mut self.exchange else {
            return bound.call().map(drop);
        };
        exchange.send(&mut bound.binding)?;
        exchange.receive(&self.outputs, &bound.call()?)
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        if self.exchange.is_some() {
            self.step()?;
        }
        if let Some(exchange) = &self.exchange {
            let received = self.outputs.iter().zip(exchange.received());
            let read = received.map(|(name, tensor)| tensors::read(name, tensor));
            return Ok(ParityData {
                tensors: read.collect::<Result<_, _>>()?,
                losses: Vec::new(),
            });
        }
        let on_host = self.on_host;
        let names = self.outputs.clone();
        let outputs = self.call()?;
        let read = |name: String| {
            let value = outputs
                .get(name.as_str())
                .ok_or_else(|| unsupported(format!("the session has no output `{name}`")))?;
            let tensor = tensors::tensor(&name, value)?;
            if on_host {
                return tensors::read(&name, &tensor);
            }
            let copied = tensor.to(AllocationDevice::CPU, 0);
            tensors::read(&name, &copied.map_err(|error| failed(&name, &error))?)
        };
        let tensors = names.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(ParityData {
            tensors,
            losses: Vec::new(),
        })
    }

    /// The session makes room for the one that is profiled, which takes its place: weights lie in
    /// memory once, and the caches are not shared with what does not run.
    fn profile(&mut self, steps: u64) -> Result<Profile, Outcome> {
        let profiler = self.profiler.take();
        let profiler = profiler.ok_or_else(|| unsupported("there is nothing to profile"))?;
        let told = profiler.begin().and_then(|traced| {
            self.bound = None;
            profiler.profile(&traced, steps)
        });
        let told = told.map(|(profile, profiled)| {
            *self = profiled;
            profile
        });
        self.profiler = Some(profiler);
        told
    }

    /// A call changes nothing that lasts.
    fn reset(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    /// ONNX Runtime does not tell what its providers' arenas hold.
    fn device_memory(&mut self) -> Option<(u64, u64)> {
        None
    }
}
