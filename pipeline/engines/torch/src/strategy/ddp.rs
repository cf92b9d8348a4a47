//! A process for each part, with PyTorch's own reducer between them.

use schema::{Graph, Outcome, graph::Role};
use tch::Tensor;

use super::{Places, at, feed, in_parts, in_share, sum};
use crate::{
    failure::Fault,
    kernel::Pass,
    ranks::{self, Exchanged, Exchanging, Group, Reducer, Team},
    tape::Tape,
    training::Backward,
};

/// The network of this rank.
pub(crate) struct Ddp {
    tape: Tape,
    places: Places,
    exchanging: Exchanging,
    /// There is one but while it is made anew. It goes before the group that it exchanges through.
    reducer: Option<Reducer>,
    group: Group,
    rank: u32,
    /// In how many parts, one after another, it runs its share of the batch.
    passes: usize,
    /// When the last backward pass began.
    backward: u64,
}

impl Ddp {
    /// `tape` is that of a pass of this rank, and `values` what it begins with: what is fed, then parameters.
    pub(crate) fn build(
        tape: Tape,
        graph: &Graph,
        values: &[&Tensor],
        team: &Team,
        exchanging: Exchanging,
        passes: u32,
    ) -> Result<Self, Outcome> {
        let mut ddp = Self {
            tape,
            places: Places::of(graph),
            exchanging,
            reducer: None,
            group: team.group()?,
            rank: team.rank(),
            passes: passes.max(1) as usize,
            backward: 0,
        };
        ddp.reduce(
            |place| values.get(place).copied().ok_or(Fault::Missing),
            false,
        )?;
        Ok(ddp)
    }

    /// Makes the reducer of the weights among values.
    fn reduce<'a>(
        &mut self,
        value: impl Fn(usize) -> Result<&'a Tensor, Fault>,
        notes: bool,
    ) -> Result<(), Outcome> {
        // Two would both be told of every gradient.
        self.reducer = None;
        let of_role = |role| {
            let found: Result<Vec<&Tensor>, Fault> = self.places.with(role).map(&value).collect();
            found.map_err(|fault| fault.at("parameters"))
        };
        let (weights, buffers) = (of_role(Role::Weight)?, of_role(Role::Buffer)?);
        let reducer = Reducer::new(&self.group, &weights, &buffers, self.exchanging, notes)?;
        self.reducer = Some(reducer);
        Ok(())
    }

    fn reducer(&mut self) -> Result<&mut Reducer, Outcome> {
        let reducer = self.reducer.as_mut();
        reducer.ok_or_else(|| Fault::Missing.at("reducer"))
    }

    /// Part after part, of which the last one's backward pass exchanges what they came to together.
    fn all(
        &mut self,
        values: &mut [Option<Tensor>],
        whole: &[Tensor],
        pass: Pass,
    ) -> Result<Tensor, Outcome> {
        let passes = self.passes;
        let mut shares = Vec::with_capacity(passes);
        for number in 0..passes {
            let (is_first, is_last) = (number == 0, number + 1 == passes);
            feed(values, whole, number, passes)?;
            self.reducer()?.before_forward(is_first, is_last)?;
            self.tape.forward(values, pass)?;
            if is_last {
                self.reducer()?.before_backward()?;
                self.backward = ranks::now();
            }
            shares.push(in_share(&self.tape, values, passes)?);
        }
        self.reducer()?.after_backward()?;
        sum(&shares)
    }
}

impl Backward for Ddp {
    fn values(&self) -> usize {
        self.tape.values()
    }

    fn settle(&self, values: &[Option<Tensor>]) -> Result<(), Outcome> {
        self.tape.settle(values)
    }

    fn run(&mut self, values: &mut [Option<Tensor>], pass: Pass) -> Result<Tensor, Outcome> {
        if self.passes > 1 {
            let places = self.places.clone();
            return in_parts(values, &places, |values, whole| {
                self.all(values, whole, pass)
            });
        }
        self.reducer()?.before_forward(true, true)?;
        self.tape.forward(values, pass)?;
        self.reducer()?.before_backward()?;
        self.backward = ranks::now();
        let loss = self.tape.backward(values)?;
        self.reducer()?.after_backward()?;
        Ok(loss)
    }

    fn align(&mut self) -> Result<(), Outcome> {
        self.group.barrier()
    }

    fn note(&mut self, values: &[Option<Tensor>], on: bool) -> Result<(), Outcome> {
        self.reduce(|place| at(values, place), on)
    }

    fn noted(&mut self) -> Result<(u64, Vec<Exchanged>), Outcome> {
        let backward = self.backward;
        Ok((backward, self.reducer()?.notes()?))
    }

    fn resize(
        &mut self,
        values: &[Option<Tensor>],
        bucket_mib: Option<u32>,
    ) -> Result<(), Outcome> {
        self.exchanging.bucket_mib = bucket_mib;
        self.reduce(|place| at(values, place), false)
    }

    fn keeps_gradients(&self) -> bool {
        self.exchanging.bucket_views
    }

    fn rank(&self) -> u32 {
        self.rank
    }
}
