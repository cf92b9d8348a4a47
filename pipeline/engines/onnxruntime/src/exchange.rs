//! The timing boundary `request`: numbers come from the caller's memory and go back to it.

use half::{bf16, f16};
use ort::{
    memory::Allocator,
    session::{IoBinding, SessionOutputs},
    value::{
        DynTensor, DynTensorValueType, DynValue, PrimitiveTensorElementType, TensorElementType,
    },
};
use schema::Outcome;

use crate::{
    failure::{failed, unsupported},
    tensors,
};

/// The caller's memory, on the host, in the session's element types.
pub(crate) struct Exchange {
    inputs: Vec<Fed>,
    received: Vec<DynTensor>,
}

/// An input.
struct Fed {
    name: String,
    /// In the caller's memory.
    sent: DynTensor,
    /// What the session reads, where it computes on the host; on a device it is bound anew in each
    /// step, which copies it there.
    bound: Option<DynTensor>,
}

impl Exchange {
    /// Sends `inputs`, by name; a session that computes on the host is bound to room for them, which
    /// holds nothing of them before they are sent.
    pub(crate) fn bind(
        inputs: impl IntoIterator<Item = (String, DynValue)>,
        on_host: bool,
        binding: &mut IoBinding,
    ) -> Result<Self, Outcome> {
        let fed = inputs.into_iter().map(|(name, sent)| {
            let fed = || -> ort::Result<_> {
                let sent = sent.downcast::<DynTensorValueType>()?;
                let bound = on_host.then(|| room_like(&sent)).transpose()?;
                binding.bind_input(&name, bound.as_ref().unwrap_or(&sent))?;
                Ok((sent, bound))
            };
            let (sent, bound) = fed().map_err(|error| failed(&name, &error))?;
            Ok(Fed { name, sent, bound })
        });
        Ok(Self {
            inputs: fed.collect::<Result<_, Outcome>>()?,
            received: Vec::new(),
        })
    }

    /// Brings the inputs to where the session reads them.
    pub(crate) fn send(&mut self, binding: &mut IoBinding) -> Result<(), Outcome> {
        let mut to_device = false;
        for Fed { name, sent, bound } in &mut self.inputs {
            match bound {
                Some(bound) => copy(name, sent, bound)?,
                None => {
                    let name = name.as_str();
                    let bound = binding.bind_input(name, sent);
                    bound.map_err(|error| failed(name, &error))?;
                    to_device = true;
                }
            }
        }
        if to_device {
            let arrived = binding.synchronize_inputs();
            arrived.map_err(|error| failed("inputs", &error))?;
        }
        Ok(())
    }

    /// Copies the outputs, which are on the host, to the caller's memory; that is found at the first
    /// call, and again where a network gives an output another size.
    pub(crate) fn receive(
        &mut self,
        names: &[String],
        outputs: &SessionOutputs<'_>,
    ) -> Result<(), Outcome> {
        for (index, name) in names.iter().enumerate() {
            let output = outputs
                .get(name.as_str())
                .ok_or_else(|| unsupported(format!("the session has no output `{name}`")))?;
            let output = tensors::tensor(name, output)?;
            let fits = |room: &DynTensor| {
                room.shape() == output.shape() && room.data_type() == output.data_type()
            };
            match self.received.get_mut(index) {
                Some(room) if fits(room) => copy(name, &output, room)?,
                Some(room) => *room = copied(name, &output)?,
                None => self.received.push(copied(name, &output)?),
            }
        }
        Ok(())
    }

    /// What the last step came to, in the order of the names that it was received by.
    pub(crate) fn received(&self) -> &[DynTensor] {
        &self.received
    }
}

/// Memory of the process's own on the host.
fn room_like(tensor: &DynTensor) -> ort::Result<DynTensor> {
    let (element, shape) = (*tensor.data_type(), tensor.shape().clone());
    DynTensor::new(&Allocator::default(), element, shape)
}

/// The same numbers in memory of their own.
fn copied(name: &str, from: &DynTensor) -> Result<DynTensor, Outcome> {
    let mut room = room_like(from).map_err(|error| failed(name, &error))?;
    copy(name, from, &mut room)?;
    Ok(room)
}

/// Copies numbers from one place on the host to another, of the same type and shape.
fn copy(name: &str, from: &DynTensor, to: &mut DynTensor) -> Result<(), Outcome> {
    let copy = match *from.data_type() {
        TensorElementType::Float64 => numbers::<f64>,
        TensorElementType::Float32 => numbers::<f32>,
        TensorElementType::Float16 => numbers::<f16>,
        TensorElementType::Bfloat16 => numbers::<bf16>,
        TensorElementType::Int64 => numbers::<i64>,
        TensorElementType::Int32 => numbers::<i32>,
        TensorElementType::Int16 => numbers::<i16>,
        TensorElementType::Int8 => numbers::<i8>,
        TensorElementType::Uint64 => numbers::<u64>,
        TensorElementType::Uint32 => numbers::<u32>,
        TensorElementType::Uint16 => numbers::<u16>,
        TensorElementType::Uint8 => numbers::<u8>,
        TensorElementType::Bool => numbers::<bool>,
        other => {
            return Err(unsupported(format!(
                "{name}: values of type {other} are not copied"
            )));
        }
    };
    copy(from, to).map_err(|error| failed(name, &error))
}

fn numbers<T: PrimitiveTensorElementType + Copy>(
    from: &DynTensor,
    to: &mut DynTensor,
) -> ort::Result<()> {
    let (_, from) = from.try_extract_tensor::<T>()?;
    let (_, to) = to.try_extract_tensor_mut::<T>()?;
    if from.len() != to.len() {
        let reason = format!("{} numbers do not fit where {} go", from.len(), to.len());
        return Err(ort::Error::new(reason));
    }
    to.copy_from_slice(from);
    Ok(())
}
