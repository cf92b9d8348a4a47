//! Training: one iteration a step, in the order of PyTorch's tutorials: forget the gradients,
//! forward, loss, backward, optimiser.

use schema::{
    Boundary, Graph, Optimizer as Settings, Outcome, Precision,
    graph::{Loss, Parameter, Role},
    protocol::{BucketExchange, Profile, Quantity, StepExchanges},
};
use tch::{TchError, Tensor, no_grad};
use worker::{ParityData, Session, Tensor as Output};

use crate::{
    aot,
    device::Place,
    edges::Edges,
    failure::{Fault, unsupported},
    kernel::Pass,
    optimizer::Optimizer,
    parity, profile,
    ranks::{self, Exchanged},
    recorder::Recorder,
    shim,
    values::Maker,
};

/// Seed of dropout after every reset.
const SEED: i64 = 0;

/// Iterations before those whose exchanges are told.
const UNNOTED: usize = 2;

/// A network that is ready for iterations.
pub(crate) struct Training<B> {
    backward: B,
    /// What the graph is fed, its labels, its parameters; then what an iteration makes.
    values: Vec<Option<Tensor>>,
    /// How many of the values are fed; they come first.
    fed: usize,
    edges: Edges,
    parameters: Vec<Held>,
    settings: Settings,
    optimizer: Optimizer,
    maker: Maker,
    place: Place,
}

/// The forward and the backward pass.
pub(crate) trait Backward {
    /// How many values there are, with those that an iteration makes.
    fn values(&self) -> usize {
        0
    }

    /// Lays the parameters among all values as its operators want them.
    ///
    /// # Errors
    /// What PyTorch says.
    fn settle(&self, _values: &[Option<Tensor>]) -> Result<(), Outcome> {
        Ok(())
    }

    /// Leaves the gradients of the loss with the weights; gives the loss.
    fn run(&mut self, values: &mut [Option<Tensor>], pass: Pass) -> Result<Tensor, Outcome>;

    /// Waits until all ranks are here, where there are several.
    fn align(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    /// Begins, or ends, to note what ranks exchange, on all of them.
    fn note(&mut self, _values: &[Option<Tensor>], _on: bool) -> Result<(), Outcome> {
        Err(unsupported("one process exchanges nothing"))
    }

    /// When the last backward pass began, by [`ranks::now`], and what was noted since it was last asked for.
    fn noted(&mut self) -> Result<(u64, Vec<Exchanged>), Outcome> {
        Err(unsupported("one process exchanges nothing"))
    }

    /// Goes on with buckets of another size, on all ranks; `None` is PyTorch's own.
    fn resize(
        &mut self,
        _values: &[Option<Tensor>],
        _bucket_mib: Option<u32>,
    ) -> Result<(), Outcome> {
        Err(unsupported("one process exchanges nothing"))
    }

    /// Whether gradients live in memory of its own, which they cannot be taken from as they are from any
    /// other: libtorch's optimisers detach them first, and do not detach views.
    fn keeps_gradients(&self) -> bool {
        false
    }

    /// The number of this rank; 0 where a process is alone.
    fn rank(&self) -> u32 {
        0
    }

    /// The nodes of the places that [`run_told`](Self::run_told) speaks of; `None` where it does not.
    fn nodes(&self) -> Option<Vec<String>> {
        None
    }

    /// The same as [`run`](Self::run) in training, saying where it is.
    fn run_told(
        &mut self,
        values: &mut [Option<Tensor>],
        _recorder: &Recorder,
    ) -> Result<Tensor, Outcome> {
        self.run(values, Pass::Training)
    }
}

/// A parameter and the number of its value.
struct Held {
    parameter: Parameter,
    index: usize,
}

impl<B: Backward> Training<B> {
    /// Builds the network in its initial state; `backward` is given the values as they begin: the
    /// graph's inputs, its labels and its parameters, each in the graph's order. Steps are timed at
    /// `boundary`: at `request` each begins with a batch in the caller's memory, and ends with its loss there.
    pub(crate) fn build(
        graph: &Graph,
        settings: Settings,
        boundary: Boundary,
        maker: &mut Maker,
        backward: impl FnOnce(&[&Tensor]) -> Result<B, Outcome>,
    ) -> Result<Self, Outcome> {
        let Some(Loss::CrossEntropy { labels, .. }) = &graph.loss else {
            return Err(unsupported(format!(
                "{} has no loss to train with",
                graph.name
            )));
        };
        let mut values = Vec::new();
        for input in graph.inputs.iter().chain([labels]) {
            values.push(maker.input(input)?);
        }
        let fed = values.len();
        let edges = Edges::of(boundary, maker.place, &values)?;
        let mut parameters = Vec::with_capacity(graph.parameters.len());
        for parameter in &graph.parameters {
            let tensor = maker.parameter(parameter)?;
            let tensor =
                leaf(parameter, tensor).map_err(|error| Fault::from(error).at(&parameter.name))?;
            parameters.push(Held {
                parameter: parameter.clone(),
                index: values.len(),
            });
            values.push(tensor);
        }
        let backward = backward(&values.iter().collect::<Vec<_>>())?;
        let mut values: Vec<_> = values.into_iter().map(Some).collect();
        values.resize_with(backward.values().max(values.len()), || None);
        backward.settle(&values)?;
        let optimizer = Optimizer::new(settings, weights(&parameters, &values))?;
        seed(backward.rank());
        Ok(Self {
            backward,
            values,
            fed,
            edges,
            parameters,
            settings,
            optimizer,
            maker: maker.clone(),
            place: maker.place,
        })
    }

    /// Goes on with buckets of another size, in steps that are alike.
    pub(crate) fn resize(&mut self, bucket_mib: Option<u32>) -> Result<(), Outcome> {
        self.backward.resize(&self.values, bucket_mib)?;
        self.become_usual()
    }

    /// Bytes of the gradients of all weights.
    pub(crate) fn gradient_bytes(&self) -> Result<u64, Outcome> {
        let bytes = self.held(Role::Weight).map(|held| {
            let weight = self.value(held)?;
            Ok((weight.numel() * weight.kind().elt_size_in_bytes()) as u64)
        });
        bytes.sum()
    }

    /// The iterations that are not as all later ones: buckets are made anew after the first.
    fn become_usual(&mut self) -> Result<(), Outcome> {
        for _ in 0..UNNOTED {
            self.step()?;
        }
        Ok(())
    }

    fn iterate(&mut self, pass: Pass) -> Result<Tensor, Outcome> {
        let fed = self.values.iter_mut().take(self.fed).flatten();
        self.edges.begin(fed)?;
        self.zero_grad()?;
        let loss = self.backward.run(&mut self.values, pass)?;
        self.optimizer.step()?;
        self.edges.end(|| Ok(vec![&loss]))?;
        match self.edges.received() {
            None => Ok(loss),
            Some(received) => {
                let received = received.first().map(Tensor::shallow_clone);
                received.ok_or_else(|| Fault::Missing.at("loss"))
            }
        }
    }

    /// Forgets all gradients.
    fn zero_grad(&self) -> Result<(), Outcome> {
        if !self.backward.keeps_gradients() {
            return self.optimizer.zero_grad();
        }
        for held in self.held(Role::Weight) {
            let forgotten = shim::forget_gradient(self.value(held)?);
            forgotten.map_err(|error| Fault::from(error).at("zero_grad"))?;
        }
        Ok(())
    }

    /// What parity asks for, from the initial state and back to it.
    fn outputs(&mut self, steps: u32, pass: Pass) -> Result<ParityData, Outcome> {
        self.reset()?;
        let (mut losses, mut tensors) = (Vec::new(), Vec::new());
        for iteration in 0..steps {
            let loss = self.iterate(pass)?;
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

/// What dropout drops is another thing on every rank.
fn seed(rank: u32) {
    tch::manual_seed(SEED + i64::from(rank));
}

/// The tensor as autograd's leaf, if the optimiser moves it.
fn leaf(parameter: &Parameter, tensor: Tensor) -> Result<Tensor, TchError> {
    match parameter.role {
        Role::Weight => tensor.f_detach()?.f_set_requires_grad(true),
        Role::Buffer | Role::Constant => Ok(tensor),
    }
}

/// Whether the largest size of a number is finite, which NaN is larger than any. Asking each number would
/// take memory beside the weight.
fn is_finite(weight: &Tensor) -> Result<bool, TchError> {
    let weight = weight.f_detach()?;
    if weight.numel() == 0 {
        return Ok(true);
    }
    let axes: Vec<i64> = (0..weight.dim() as i64).collect();
    let largest = weight.f_norm_scalaropt_dim(f64::INFINITY, axes, false)?;
    Ok(largest.f_double_value(&[])?.is_finite())
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

impl<B: Backward> Session for Training<B> {
    fn step(&mut self) -> Result<(), Outcome> {
        drop(self.iterate(Pass::Training)?);
        self.place.synchronize()
    }

    fn align(&mut self) -> Result<(), Outcome> {
        self.backward.align()
    }

    fn exchanges(&mut self, steps: u64) -> Result<Vec<StepExchanges>, Outcome> {
        self.backward.note(&self.values, true)?;
        self.become_usual()?;
        self.backward.noted()?;
        let mut told = Vec::new();
        for _ in 0..steps {
            self.align()?;
            let began = ranks::now();
            self.step()?;
            let wall_ns = ranks::now().saturating_sub(began);
            let (backward, exchanged) = self.backward.noted()?;
            let since = |time: u64| time.saturating_sub(began).min(wall_ns);
            told.push(StepExchanges {
                wall_ns,
                backward_ns: since(backward),
                buckets: exchanged
                    .into_iter()
                    .map(|exchanged| BucketExchange {
                        bucket: exchanged.bucket,
                        bytes: exchanged.bytes,
                        began_ns: since(exchanged.began_ns),
                        ended_ns: since(exchanged.ended_ns),
                    })
                    .collect(),
            });
        }
        self.backward.note(&self.values, false)?;
        self.become_usual()?;
        Ok(told)
    }

    fn device_ns(&mut self) -> Result<Option<u64>, Outcome> {
        self.edges.device_ns()
    }

    fn parity(&mut self, steps: u32) -> Result<ParityData, Outcome> {
        self.outputs(steps, Pass::Deterministic)
    }

    fn parity_across_kinks(
        &mut self,
        steps: u32,
        precision: Precision,
    ) -> Result<ParityData, Outcome> {
        self.outputs(steps, Pass::AcrossKinks(precision))
    }

    fn diverged(&mut self) -> Result<Option<String>, Outcome> {
        for held in self.held(Role::Weight) {
            let (name, weight) = (&held.parameter.name, self.value(held)?);
            if !is_finite(weight).map_err(|error| Fault::from(error).at(name))? {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    fn profile(&mut self, steps: u64) -> Result<Profile, Outcome> {
        let Some(nodes) = self.backward.nodes() else {
            return Err(unsupported(aot::NO_PROFILE));
        };
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let Self {
            backward,
            values,
            optimizer,
            place,
            ..
        } = self;
        profile::profile(*place, &nodes, steps, |recorder| {
            recorder.at(profile::optimizer(nodes.len()));
            optimizer.zero_grad()?;
            drop(backward.run_told(values, recorder)?);
            recorder.at(profile::optimizer(nodes.len()));
            optimizer.step()?;
            recorder.nowhere();
            place.synchronize()
        })
    }

    fn reset(&mut self) -> Result<(), Outcome> {
        self.zero_grad()?;
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
        seed(self.backward.rank());
        Ok(())
    }

    fn device_memory(&mut self) -> Option<(u64, u64)> {
        self.place.memory()
    }
}
