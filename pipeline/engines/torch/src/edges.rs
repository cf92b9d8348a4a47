//! What a step begins and ends with besides its work: its timing boundary.

use schema::{Boundary, Outcome};
use tch::Tensor;

use crate::{
    device::Place,
    events::Events,
    exchange::Exchange,
    failure::{Fault, unsupported},
    shim::ShimError,
};

/// Both ends of a step.
#[derive(Debug)]
pub(crate) enum Edges {
    /// At the boundary `step`: nothing.
    Bare,
    /// At the boundary `device`: events.
    Events(Events),
    /// At the boundary `request`: copies.
    Exchange(Exchange),
}

impl Edges {
    /// Those of steps at `boundary`, which read what `fed` holds.
    pub(crate) fn of<'a>(
        boundary: Boundary,
        place: Place,
        fed: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<Self, Outcome> {
        match (boundary, place) {
            (Boundary::Step, _) => Ok(Self::Bare),
            (Boundary::Request, _) => Exchange::of(fed).map(Self::Exchange),
            (Boundary::Device, Place::Cuda(index)) => {
                Events::of(index).map(Self::Events).map_err(untimed)
            }
            (Boundary::Device, Place::Cpu) => Err(unsupported("a CPU has no events")),
        }
    }

    /// Before the work, which reads `fed`.
    #[inline]
    pub(crate) fn begin<'a>(
        &mut self,
        fed: impl IntoIterator<Item = &'a mut Tensor>,
    ) -> Result<(), Outcome> {
        match self {
            Self::Bare => Ok(()),
            Self::Events(events) => events.before().map_err(untimed),
            Self::Exchange(exchange) => exchange.send(fed),
        }
    }

    /// After the work, which made `outputs`; the device may still be at it.
    #[inline]
    pub(crate) fn end<'a>(
        &mut self,
        outputs: impl FnOnce() -> Result<Vec<&'a Tensor>, Outcome>,
    ) -> Result<(), Outcome> {
        match self {
            Self::Bare => Ok(()),
            Self::Events(events) => events.after().map_err(untimed),
            Self::Exchange(exchange) => exchange.receive(outputs()?),
        }
    }

    /// What the last step came to in the caller's memory, where outputs go there.
    pub(crate) fn received(&self) -> Option<&[Tensor]> {
        match self {
            Self::Bare | Self::Events(_) => None,
            Self::Exchange(exchange) => Some(exchange.received()),
        }
    }

    /// What the last step took by the device's own clock, where that is its sample. The device must be done.
    pub(crate) fn device_ns(&self) -> Result<Option<u64>, Outcome> {
        match self {
            Self::Bare | Self::Exchange(_) => Ok(None),
            Self::Events(events) => events.nanoseconds().map(Some).map_err(untimed),
        }
    }
}

fn untimed(error: ShimError) -> Outcome {
    Fault::from(error).at("events")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_boundary_has_its_own() {
        let edges = |boundary| Edges::of(boundary, Place::Cpu, []);
        let mut bare = edges(Boundary::Step).expect("there is nothing to make");
        bare.begin([]).expect("there is nothing to do");
        bare.end(|| Err(unsupported("nobody looks at them")))
            .expect("there is nothing to do");
        assert_eq!(bare.device_ns(), Ok(None));
        assert!(bare.received().is_none());
        let exchange = edges(Boundary::Request).expect("nothing is fed");
        assert_eq!(exchange.device_ns(), Ok(None));
        assert!(exchange.received().is_some_and(<[_]>::is_empty));
        let refused = edges(Boundary::Device).expect_err("a CPU has none");
        assert_eq!(refused.kind, schema::OutcomeKind::Unsupported);
    }
}
