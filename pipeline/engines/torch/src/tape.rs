//! The forward pass node by node, and autograd's way back.

use schema::{Graph, Mode, Outcome, graph::Loss};
use tch::{Reduction, Tensor};

use crate::{
    device::Place,
    failure::{Fault, unsupported},
    kernel::Pass,
    lower::lower,
    profile,
    program::Program,
    recorder::Recorder,
    shim::Autocast,
    training::Backward,
};

/// A class number that the loss would leave out; no label has it.
const NO_CLASS: i64 = -100;

/// A network whose operators autograd records.
pub(crate) struct Tape {
    program: Program,
    count: usize,
    logits: usize,
    labels: usize,
}

impl Tape {
    /// Lowers the network, which may compute under autocast somewhere.
    pub(crate) fn build(graph: &Graph, casts: Option<Place>) -> Result<Self, Outcome> {
        let Some(Loss::CrossEntropy { logits, labels }) = &graph.loss else {
            return Err(unsupported(format!(
                "{} has no loss to train with",
                graph.name
            )));
        };
        let mut lowered = lower(graph, Mode::Training)?;
        lowered.program.casts = casts;
        let find = |name: &String| {
            lowered
                .indices
                .get(name)
                .copied()
                .ok_or_else(|| unsupported(format!("the graph has no value `{name}`")))
        };
        Ok(Self {
            count: lowered.indices.len(),
            logits: find(logits)?,
            labels: find(&labels.name)?,
            program: lowered.program,
        })
    }

    /// Number of steps that run in place.
    pub(crate) fn in_place(&self) -> usize {
        self.program.in_place()
    }

    /// Autocast, where it is on, until this is dropped.
    pub(crate) fn casting(&self) -> Result<Option<Autocast>, Outcome> {
        self.program.casting()
    }

    /// The mean over all positions of the cross-entropy over the last axis.
    pub(crate) fn entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, Fault> {
        let entropy = |logits: &Tensor, labels: &Tensor| {
            logits.f_cross_entropy_loss(labels, None::<&Tensor>, Reduction::Mean, NO_CLASS, 0.0)
        };
        Ok(if logits.dim() > 2 {
            entropy(&logits.f_flatten(0, -2)?, &labels.f_flatten(0, -1)?)?
        } else {
            entropy(logits, labels)?
        })
    }

    /// The forward pass, up to what the loss is of.
    pub(crate) fn forward(&self, values: &mut [Option<Tensor>], pass: Pass) -> Result<(), Outcome> {
        match pass {
            Pass::AcrossKinks(precision) => self.program.run_across_kinks(values, precision),
            _ => self.program.run(values, pass),
        }
    }

    /// What the loss is of, once the forward pass has run.
    pub(crate) fn logits<'a>(&self, values: &'a [Option<Tensor>]) -> Result<&'a Tensor, Fault> {
        value(values, self.logits)
    }

    /// The loss, once the forward pass has run.
    pub(crate) fn loss(&self, values: &[Option<Tensor>]) -> Result<Tensor, Outcome> {
        let _casting = self.casting()?;
        let loss = || Self::entropy(self.logits(values)?, value(values, self.labels)?);
        loss().map_err(|fault| fault.at("loss"))
    }

    /// The backward pass, after the forward pass; gives the loss.
    pub(crate) fn backward(&self, values: &[Option<Tensor>]) -> Result<Tensor, Outcome> {
        let loss = self.loss(values)?;
        loss.f_backward()
            .map_err(|error| Fault::from(error).at("backward"))?;
        Ok(loss)
    }
}

fn value(values: &[Option<Tensor>], index: usize) -> Result<&Tensor, Fault> {
    values
        .get(index)
        .and_then(Option::as_ref)
        .ok_or(Fault::Missing)
}

impl Backward for Tape {
    fn values(&self) -> usize {
        self.count
    }

    fn settle(&self, values: &[Option<Tensor>]) -> Result<(), Outcome> {
        self.program.settle(values)
    }

    fn run(&mut self, values: &mut [Option<Tensor>], pass: Pass) -> Result<Tensor, Outcome> {
        self.forward(values, pass)?;
        self.backward(values)
    }

    fn nodes(&self) -> Option<Vec<String>> {
        let nodes = self.program.nodes().into_iter();
        Some(nodes.map(str::to_owned).collect())
    }

    fn run_told(
        &mut self,
        values: &mut [Option<Tensor>],
        recorder: &Recorder,
    ) -> Result<Tensor, Outcome> {
        self.program.run_told(values, Pass::Training, recorder)?;
        recorder.at(profile::loss(self.program.steps.len()));
        self.backward(values)
    }
}
