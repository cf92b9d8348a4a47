//! The timing boundary `request`: numbers come from the caller's memory and go back to it.

use schema::Outcome;
use tch::{Device, TchError, Tensor, no_grad};

use crate::failure::Fault;

/// The caller's memory: pageable, on the host, each tensor as it lies on the device.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    sent: Vec<Tensor>,
    received: Vec<Tensor>,
}

impl Exchange {
    /// Takes what `fed` holds: nothing is left of it there before it is sent.
    pub(crate) fn of<'a>(fed: impl IntoIterator<Item = &'a Tensor>) -> Result<Self, Outcome> {
        let take = |fed: &Tensor| {
            let sent = copied(fed)?;
            // Ids that are zero are ids.
            let _ = fed.shallow_clone().f_zero_()?;
            Ok(sent)
        };
        let sent = fed.into_iter().map(take).collect::<Result<_, TchError>>();
        Ok(Self {
            sent: sent.map_err(|error| Fault::from(error).at("inputs"))?,
            received: Vec::new(),
        })
    }

    /// Copies what is sent into `fed`, which PyTorch reads: as many tensors, in the same order.
    pub(crate) fn send<'a>(
        &self,
        fed: impl IntoIterator<Item = &'a mut Tensor>,
    ) -> Result<(), Outcome> {
        let mut pairs = self.sent.iter().zip(fed);
        no_grad(|| pairs.try_for_each(|(sent, fed)| fed.f_copy_(sent).map(drop)))
            .map_err(|error| Fault::from(error).at("inputs"))
    }

    /// Copies `outputs` to the caller's memory, which is found at the first call; from a device it
    /// returns when they are there.
    pub(crate) fn receive<'a>(
        &mut self,
        outputs: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<(), Outcome> {
        let mut outputs = outputs.into_iter().enumerate();
        let mut take = |(index, output): (usize, &Tensor)| match self.received.get_mut(index) {
            Some(room) => room.f_copy_(output).map(drop),
            None => copied(output).map(|room| self.received.push(room)),
        };
        no_grad(|| outputs.try_for_each(&mut take))
            .map_err(|error| Fault::from(error).at("outputs"))
    }

    /// What the last step came to.
    pub(crate) fn received(&self) -> &[Tensor] {
        &self.received
    }
}

/// The numbers of a tensor in memory of its own, on the host, in the same order.
fn copied(tensor: &Tensor) -> Result<Tensor, TchError> {
    let tensor = tensor.f_detach()?;
    let mut room = tensor.f_to_device(Device::Cpu)?.f_empty_like()?;
    room.f_copy_(&tensor)?;
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways_and_share_no_memory() {
        let numbers = |tensor: &Tensor| Vec::<f32>::try_from(tensor).expect("it has one axis");
        let mut fed = Tensor::from_slice(&[1.0_f32, 2.0]);
        let mut exchange = Exchange::of([&fed]).expect("it is on the host");
        assert_eq!(numbers(&fed), [0.0, 0.0]);
        exchange.send([&mut fed]).expect("it is as large");
        assert_eq!(numbers(&fed), [1.0, 2.0]);

        for made in [[3.0_f32, 4.0], [5.0, 6.0]] {
            let output = Tensor::from_slice(&made);
            exchange.receive([&output]).expect("it is as large");
            let [received] = exchange.received() else {
                panic!("there is one output")
            };
            assert_eq!(numbers(received), made);
            assert_ne!(received.data_ptr(), output.data_ptr());
        }
    }

    #[test]
    fn images_keep_their_layout() {
        let image = Tensor::zeros([1, 3, 4, 4], (tch::Kind::Float, Device::Cpu));
        let image = image
            .permute([0, 2, 3, 1])
            .contiguous()
            .permute([0, 3, 1, 2]);
        let exchange = Exchange::of([&image]).expect("it is on the host");
        assert_eq!(
            exchange.sent.first().map(Tensor::stride),
            Some(image.stride())
        );
    }
}
