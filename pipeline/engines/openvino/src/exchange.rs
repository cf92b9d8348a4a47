//! The timing boundary `request`: numbers come from the caller's memory and go back to it.

use std::collections::BTreeMap;

use openvino::{InferRequest, InferenceError, Tensor};
use schema::{Outcome, OutcomeKind};

use crate::{failure::failed, tensors};

/// The caller's memory: bytes in the model's element types.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    sent: Vec<Vec<u8>>,
    received: BTreeMap<String, Vec<u8>>,
}

impl Exchange {
    /// Takes what `inputs` hold: nothing is left of it there before it is sent.
    pub(crate) fn of(inputs: &mut [Tensor]) -> Result<Self, Outcome> {
        let take = |input: &mut Tensor| {
            let held = tensors::bytes_mut(input)?;
            let sent = held.to_vec();
            held.fill(0);
            Ok(sent)
        };
        let sent = inputs.iter_mut().map(take);
        let sent = sent.collect::<Result<_, InferenceError>>();
        Ok(Self {
            sent: sent.map_err(|error| failed("inputs", &error))?,
            received: BTreeMap::new(),
        })
    }

    /// Copies what is sent into `inputs`, which OpenVINO reads: as many tensors, in the same order.
    pub(crate) fn send(&self, inputs: &mut [Tensor]) -> Result<(), Outcome> {
        for (sent, input) in self.sent.iter().zip(inputs) {
            fill("inputs", input, sent)?;
        }
        Ok(())
    }

    /// Copies the outputs of `request` called `names` to the caller's memory, which is found at the
    /// first call.
    pub(crate) fn receive(
        &mut self,
        names: &[String],
        request: &mut InferRequest,
    ) -> Result<(), Outcome> {
        for name in names {
            let refused = |error: InferenceError| failed(name, &error);
            let tensor = request.get_tensor(name).map_err(refused)?;
            let made = tensors::bytes(&tensor).map_err(refused)?;
            match self.received.get_mut(name) {
                Some(room) if room.len() == made.len() => room.copy_from_slice(made),
                _ => {
                    self.received.insert(name.clone(), made.to_vec());
                }
            }
        }
        Ok(())
    }

    /// Writes what was received as `name` back into its tensor, so that it is looked at in its stead.
    pub(crate) fn give(&self, name: &str, tensor: &mut Tensor) -> Result<(), Outcome> {
        match self.received.get(name) {
            Some(received) => fill(name, tensor, received),
            None => Err(misfit(name, 0)),
        }
    }
}

fn fill(name: &str, tensor: &mut Tensor, bytes: &[u8]) -> Result<(), Outcome> {
    let room = tensors::bytes_mut(tensor);
    let room = room.map_err(|error| failed(name, &error))?;
    if room.len() != bytes.len() {
        return Err(misfit(name, bytes.len()));
    }
    room.copy_from_slice(bytes);
    Ok(())
}

fn misfit(name: &str, bytes: usize) -> Outcome {
    let reason = format!("{name}: the caller holds {bytes} bytes, and the tensor another number");
    Outcome::new(OutcomeKind::Crashed, reason)
}
