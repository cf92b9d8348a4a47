//! Inference: one synchronous call a step.

use openvino::{CompiledModel, InferRequest, Tensor};
use schema::{Graph, Outcome};
use worker::{ParityData, Session};

use crate::{failure::failed, network, tensors};

/// A compiled model with its inputs set.
pub(crate) struct Inference {
    // Dropped before what it was made from.
    request: InferRequest,
    _compiled: CompiledModel,
    _inputs: Vec<Tensor>,
    outputs: Vec<String>,
}

impl Inference {
    /// Sets `inputs`, by name; outputs stay in the request's own tensors.
    pub(crate) fn new(
        mut compiled: CompiledModel,
        graph: &Graph,
        inputs: Vec<(&str, Tensor)>,
    ) -> Result<Self, Outcome> {
        let mut request = compiled
            .create_infer_request()
            .map_err(|error| failed("infer request", &error))?;
        for (input, tensor) in &inputs {
            request
                .set_tensor(network::name(input)?, tensor)
                .map_err(|error| failed(input, &error))?;
        }
        for output in &graph.outputs {
            network::name(output)?;
        }
        Ok(Self {
            request,
            _compiled: compiled,
            _inputs: inputs.into_iter().map(|(_, tensor)| tensor).collect(),
            outputs: graph.outputs.clone(),
        })
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        self.request.infer().map_err(|error| failed("step", &error))
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        self.step()?;
        let read = |name: &String| {
            let tensor = self.request.get_tensor(name);
            tensors::output(name, &tensor.map_err(|error| failed(name, &error))?)
        };
        Ok(ParityData {
            tensors: self.outputs.iter().map(read).collect::<Result<_, _>>()?,
            losses: Vec::new(),
        })
    }

    /// A call changes nothing that lasts.
    fn reset(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    /// The CPU has no memory of its own.
    fn device_memory(&mut self) -> Option<(u64, u64)> {
        None
    }
}
