//! Inference: one synchronous call a step.

use openvino::{CompiledModel, InferRequest, Tensor};
use schema::{Graph, Outcome};
use worker::{ParityData, Session};

use crate::{exchange::Exchange, failure::failed, integers, network, tensors};

/// A compiled model with its inputs set.
pub(crate) struct Inference {
    // Dropped before what it was made from.
    request: InferRequest,
    _compiled: CompiledModel,
    inputs: Vec<Tensor>,
    outputs: Vec<String>,
    exchange: Option<Exchange>,
}

impl Inference {
    /// Sets `inputs`, by name; outputs stay in the request's own tensors. With `takes_requests`, each
    /// step begins and ends in the caller's memory.
    pub(crate) fn new(
        mut compiled: CompiledModel,
        graph: &Graph,
        inputs: Vec<(&str, Tensor)>,
        takes_requests: bool,
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
        let mut inputs: Vec<Tensor> = inputs.into_iter().map(|(_, tensor)| tensor).collect();
        let exchange = takes_requests.then(|| Exchange::of(&mut inputs));
        let exchange = exchange.transpose()?;
        Ok(Self {
            request,
            _compiled: compiled,
            inputs,
            outputs: graph.outputs.clone(),
            exchange,
        })
    }

    /// What the compiled model is computed in, whose graph has so many products.
    pub(crate) fn arithmetic(&self, products: usize) -> String {
        integers::arithmetic(&self.request, products)
    }
}

impl Session for Inference {
    fn step(&mut self) -> Result<(), Outcome> {
        if let Some(exchange) = &self.exchange {
            exchange.send(&mut self.inputs)?;
        }
        self.request
            .infer()
            .map_err(|error| failed("step", &error))?;
        if let Some(exchange) = &mut self.exchange {
            exchange.receive(&self.outputs, &mut self.request)?;
        }
        Ok(())
    }

    fn parity(&mut self, _steps: u32) -> Result<ParityData, Outcome> {
        self.step()?;
        let read = |name: &String| {
            let tensor = self.request.get_tensor(name);
            let mut tensor = tensor.map_err(|error| failed(name, &error))?;
            if let Some(exchange) = &self.exchange {
                exchange.give(name, &mut tensor)?;
            }
            tensors::output(name, &tensor)
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
