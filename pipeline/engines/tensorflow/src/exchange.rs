//! The timing boundary `request`: numbers come from the caller's memory and go back to it.

use schema::{Outcome, OutcomeKind, protocol::Quantity};
use tensorflow::{DataType, FetchToken, SessionRunArgs, Status, Tensor, TensorType};
use worker::{Tensor as Output, Values};

use crate::{failure::failed, form::Form, tensors::Host};

/// Numbers in the order in memory, out of TensorFlow's hands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plain {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
}

impl Plain {
    /// A copy of a fetched tensor.
    pub(crate) fn fetched(
        args: &mut SessionRunArgs<'_>,
        token: FetchToken,
        name: &str,
        element: DataType,
    ) -> Result<Self, Outcome> {
        let refused = |status: Status| failed(name, &status);
        Ok(match element {
            DataType::Int64 => Self::I64(args.fetch::<i64>(token).map_err(refused)?.to_vec()),
            DataType::Double => Self::F64(args.fetch::<f64>(token).map_err(refused)?.to_vec()),
            _ => Self::F32(args.fetch::<f32>(token).map_err(refused)?.to_vec()),
        })
    }

    /// A fetched tensor of the same kind and size, copied to where the last one was.
    fn fetch_again(
        &mut self,
        args: &mut SessionRunArgs<'_>,
        token: FetchToken,
        name: &str,
    ) -> Result<(), Outcome> {
        match self {
            Self::F32(room) => refill(args, token, name, room),
            Self::F64(room) => refill(args, token, name, room),
            Self::I64(room) => refill(args, token, name, room),
        }
    }

    /// As parity wants them: in the graph's order; integers are widened.
    pub(crate) fn told(
        self,
        quantity: Quantity,
        name: &str,
        form: &Form,
    ) -> Result<Output, Outcome> {
        let values = match self {
            Self::F32(numbers) => Values::F32(form.restored(name, numbers)?),
            Self::F64(numbers) => Values::F64(form.restored(name, numbers)?),
            Self::I64(numbers) => {
                let wide = numbers.into_iter().map(|number| number as f64).collect();
                Values::F64(form.restored(name, wide)?)
            }
        };
        Ok(Output {
            quantity,
            name: name.to_owned(),
            shape: form.shape.clone(),
            values,
        })
    }
}

fn refill<T: TensorType + Copy>(
    args: &mut SessionRunArgs<'_>,
    token: FetchToken,
    name: &str,
    room: &mut [T],
) -> Result<(), Outcome> {
    let tensor = args.fetch::<T>(token);
    let tensor = tensor.map_err(|status| failed(name, &status))?;
    fill(name, &tensor, room)
}

fn fill<T: Copy>(name: &str, from: &[T], to: &mut [T]) -> Result<(), Outcome> {
    if from.len() != to.len() {
        let reason = format!(
            "{name}: {} numbers do not fit where {} go",
            from.len(),
            to.len()
        );
        return Err(Outcome::new(OutcomeKind::Crashed, reason));
    }
    to.copy_from_slice(from);
    Ok(())
}

/// The caller's memory.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    sent: Vec<Plain>,
    received: Vec<Plain>,
}

impl Exchange {
    /// Takes what `fed` holds: nothing is left of it there before it is sent.
    pub(crate) fn of<'a>(fed: impl IntoIterator<Item = &'a mut Host>) -> Self {
        fn take<T: TensorType + Copy + Default>(tensor: &mut Tensor<T>) -> Vec<T> {
            let sent = tensor.to_vec();
            tensor.fill(T::default());
            sent
        }
        let plain = |host: &mut Host| match host {
            Host::F32(tensor) => Plain::F32(take(tensor)),
            Host::F64(tensor) => Plain::F64(take(tensor)),
            Host::I64(tensor) => Plain::I64(take(tensor)),
        };
        Self {
            sent: fed.into_iter().map(plain).collect(),
            received: Vec::new(),
        }
    }

    /// Copies what is sent into `fed`, which TensorFlow is given: as many tensors, in the same order.
    pub(crate) fn send<'a>(
        &self,
        fed: impl IntoIterator<Item = &'a mut Host>,
    ) -> Result<(), Outcome> {
        fn onto<T: TensorType + Copy>(sent: &[T], tensor: &mut Tensor<T>) -> Result<(), Outcome> {
            fill("inputs", sent, tensor)
        }
        for (sent, host) in self.sent.iter().zip(fed) {
            match (sent, host) {
                (Plain::F32(sent), Host::F32(tensor)) => onto(sent, tensor)?,
                (Plain::F64(sent), Host::F64(tensor)) => onto(sent, tensor)?,
                (Plain::I64(sent), Host::I64(tensor)) => onto(sent, tensor)?,
                // Made of each other, they are of one kind.
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies the fetched output number `index` to the caller's memory, which is found at the first
    /// call. Outputs come in order.
    pub(crate) fn receive(
        &mut self,
        index: usize,
        args: &mut SessionRunArgs<'_>,
        token: FetchToken,
        name: &str,
        element: DataType,
    ) -> Result<(), Outcome> {
        match self.received.get_mut(index) {
            Some(room) => room.fetch_again(args, token, name),
            None => {
                self.received
                    .push(Plain::fetched(args, token, name, element)?);
                Ok(())
            }
        }
    }

    /// What the last step came to.
    pub(crate) fn received(&self) -> &[Plain] {
        &self.received
    }
}
