//! Training: one iteration a step, in the order of PyTorch's tutorials: forget the gradients,
//! forward, loss, backward, optimiser.

use schema::{
    Graph, Mode, Optimizer as Settings, Outcome,
    graph::{Loss, Parameter, Role},
    protocol::Quantity,
};
use tch::{Reduction, TchError, Tensor, no_grad};
use worker::{ParityData, Session, Tensor as Output};

use crate::{
    device::Place,
    failure::{Fault, unsupported},
    kernel::Pass,
    lower::lower,
    optimizer::Optimizer,
    parity,
    program::Program,
    values::Maker,
};

/// Seed of dropout after every reset.
const SEED: i64 = 0;

/// A class number that the loss would leave out; no label has it.
const NO_CLASS: i64 = -100;

/// A network that is ready for iterations.
pub(crate) struct Training {
    program: Program,
    values: Vec<Option<Tensor>>,
    parameters: Vec<Held>,
    logits: usize,
    labels: usize,
    settings: Settings,
    optimizer: Optimizer,
    maker: Maker,
    place: Place,
}

/// A parameter and the number of its value.
struct Held {
    parameter: Parameter,
    index: usize,
}

impl Training {
    /// Builds the network in its initial state.
    pub(crate) fn build(
        graph: &Graph,
        settings: Settings,
        maker: &mut Maker,
    ) -> Result<Self, Outcome> {
        let Some(Loss::CrossEntropy { logits, labels }) = &graph.loss else {
            return Err(unsupported(format!(
                "{} has no loss to train with",
                graph.name
            )));
        };
        let lowered = lower(graph, Mode::Training)?;
        let find = |name: &String| {
            lowered
                .indices
                .get(name)
                .copied()
                .ok_or_else(|| unsupported(format!("the graph has no value `{name}`")))
        };
        let mut values = Vec::with_capacity(lowered.indices.len());
        for input in graph.inputs.iter().chain([labels]) {
            values.push(Some(maker.input(input)?));
        }
        let mut parameters = Vec::with_capacity(graph.parameters.len());
        for parameter in &graph.parameters {
            let tensor = maker.parameter(parameter)?;
            let tensor =
                leaf(parameter, tensor).map_err(|error| Fault::from(error).at(&parameter.name))?;
            parameters.push(Held {
                parameter: parameter.clone(),
                index: values.len(),
            });
            values.push(Some(tensor));
        }
        let (logits, labels) = (find(logits)?, find(&labels.name)?);
        values.resize_with(lowered.indices.len(), || None);
        let optimizer = Optimizer::new(settings, weights(&parameters, &values))?;
        tch::manual_seed(SEED);
        Ok(Self {
            program: lowered.program,
            values,
            parameters,
            logits,
            labels,
            settings,
            optimizer,
            maker: maker.clone(),
            place: maker.place,
        })
    }

    /// Number of steps that run in place.
    pub(crate) fn in_place(&self) -> usize {
        self.program.in_place()
    }

    fn iterate(&mut self, pass: Pass) -> Result<Tensor, Outcome> {
        self.optimizer.zero_grad()?;
        self.program.run(&mut self.values, pass)?;
        let loss = self.loss().map_err(|fault| fault.at("loss"))?;
        loss.f_backward()
            .map_err(|error| Fault::from(error).at("backward"))?;
        self.optimizer.step()?;
        Ok(loss)
    }

    /// The mean over all positions of the cross-entropy over the last axis.
    fn loss(&self) -> Result<Tensor, Fault> {
        let value = |index: usize| {
            self.values
                .get(index)
                .and_then(Option::as_ref)
                .ok_or(Fault::Missing)
        };
        let (logits, labels) = (value(self.logits)?, value(self.labels)?);
        let entropy = |logits: &Tensor, labels: &Tensor| {
            logits.f_cross_entropy_loss(labels, None::<&Tensor>, Reduction::Mean, NO_CLASS, 0.0)
        };
        Ok(if logits.dim() > 2 {
            entropy(&logits.f_flatten(0, -2)?, &labels.f_flatten(0, -1)?)?
        } else {
            entropy(logits, labels)?
        })
    }

    /// The gradients of the last iteration.
    fn gradients(&self, tensors: &mut Vec<Output>) -> Result<(), Outcome> {
        for held in self.held(Role::Weight) {
            let (name, weight) = (&held.parameter.name, self.value(held)?);
            let gradient = || {
                let gradient = weight.f_grad()?;
                if gradient.defined() {
                    return Ok(gradient);
                }
                weight.f_detach()?.f_zeros_like()
            };
            let gradient = gradient().map_err(|error: TchError| Fault::from(error).at(name))?;
            tensors.push(parity::output(Quantity::Gradient, name, &gradient)?);
        }
        Ok(())
    }

    /// How far the parameters of this role are from where they began.
    fn changes(
        &self,
        role: Role,
        quantity: Quantity,
        tensors: &mut Vec<Output>,
    ) -> Result<(), Outcome> {
        let mut maker = self.maker.clone();
        for held in self.held(role) {
            let before = maker.parameter(&held.parameter)?;
            let (name, after) = (&held.parameter.name, self.value(held)?);
            let change = || parity::change(quantity, name, after, &before);
            tensors.push(no_grad(change)?);
        }
        Ok(())
    }

    fn held(&self, role: Role) -> impl Iterator<Item = &Held> {
        let held = self.parameters.iter();
        held.filter(move |held| held.parameter.role == role)
    }

    fn value(&self, held: &Held) -> Result<&Tensor, Outcome> {
        let value = self.values.get(held.index).and_then(Option::as_ref);
        value.ok_or_else(|| Fault::Missing.at(&held.parameter.name))
    }
}

/// The tensor as autograd's leaf, if the optimiser moves it.
fn leaf(parameter: &Parameter, tensor: Tensor) -> Result<Tensor, TchError> {
    match parameter.role {
        Role::Weight => tensor.f_detach()?.f_set_requires_grad(true),
        Role::Buffer | Role::Constant => Ok(tensor),
    }
}

/// The tensors that the optimiser moves.
fn weights<'a>(
    parameters: &'a [Held],
    values: &'a [Option<Tensor>],
) -> impl Iterator<Item = &'a Tensor> {
    parameters
        .iter()
        .filter(|held| held.parameter.role == Role::Weight)
        .filter_map(|held| values.get(held.index)?.as_ref())
}

impl Session for Training {
    fn step(&mut self) -> Result<(), Outcome> {
        drop(self.iterate(Pass::Training)?);
        self.place.synchronize()
    }

    fn parity(&mut self, steps: u32) -> Result<ParityData, Outcome> {
        self.reset()?;
        let (mut losses, mut tensors) = (Vec::new(), Vec::new());
        for iteration in 0..steps {
            let loss = self.iterate(Pass::Deterministic)?;
            let loss = loss
                .f_double_value(&[])
                .map_err(|error| Fault::from(error).at("loss"))?;
            losses.push(loss);
            if iteration == 0 {
                // The optimiser leaves the gradients as they are.
                self.gradients(&mut tensors)?;
                self.changes(Role::Buffer, Quantity::Movement, &mut tensors)?;
            }
        }
        self.changes(Role::Weight, Quantity::Update, &mut tensors)?;
        self.reset()?;
        Ok(ParityData { tensors, losses })
    }

    fn reset(&mut self) -> Result<(), Outcome> {
        self.optimizer.zero_grad()?;
        let mut maker = self.maker.clone();
        for held in &self.parameters {
            if held.parameter.role == Role::Constant {
                continue;
            }
            let initial = maker.parameter(&held.parameter)?;
            let mut value = self.value(held)?.shallow_clone();
            no_grad(|| value.f_copy_(&initial))
                .map_err(|error| Fault::from(error).at(&held.parameter.name))?;
        }
        self.optimizer = Optimizer::new(self.settings, weights(&self.parameters, &self.values))?;
        tch::manual_seed(SEED);
        Ok(())
    }

    fn device_memory(&mut self) -> Option<(u64, u64)> {
        self.place.memory()
    }
}
