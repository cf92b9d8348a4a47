//! Training: forward, loss, backward, optimiser in one run of the session a step.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph, Optimizer as Settings, Outcome,
    graph::{Loss, Role},
    protocol::{Profile, Quantity},
};
use tensorflow::{DataType, FetchToken, Operation, Output, Session as TfSession, SessionRunArgs};
use worker::{ParityData, Session, Tensor, Values};

use crate::{
    builder::{Builder, narrow},
    configuration::Configuration,
    exchange::Exchange,
    failure::{Fault, failed, missing, unsupported},
    lower::{Lowered, Pass, lower},
    network::{Ground, Network, Variable},
    optimizer::Optimizer,
    tensors::{self, Float, Maker},
};

/// A network that is ready for iterations.
pub(crate) struct Training {
    network: Network,
    session: TfSession,
    ground: Ground,
    optimizer: Optimizer,
    /// The weights on which the loss depends.
    reached: Vec<String>,
    /// What a step runs: the loss before the update, there when the update is done.
    step: Output,
    exchange: Option<Exchange>,
    /// The iteration of parity, made at its first use.
    parity: Option<Iteration>,
    maker: Maker,
}

/// One iteration in the session's graph.
struct Iteration {
    /// The loss before the update, there when the update is done.
    loss: Output,
    /// The gradients of the reached weights, if asked for.
    gradients: Vec<Output>,
}

impl Training {
    /// Builds the network in its initial state.
    pub(crate) fn build(
        graph: &Graph,
        settings: Settings,
        configuration: &Configuration,
        maker: &mut Maker,
    ) -> Result<Self, Outcome> {
        if graph.loss.is_none() {
            return Err(unsupported(format!(
                "{} has no loss to train with",
                graph.name
            )));
        }
        let network = Network::new(graph, true)?;
        let mut ground = Ground::new(&network, configuration, false, maker)?;
        let reached = reached(&network);
        let optimizer = Optimizer::new(settings, &mut ground, &reached)?;
        let step = iteration(
            &network,
            &mut ground,
            &optimizer,
            &reached,
            maker,
            Pass::Training,
        )?;
        let session = ground.session(configuration)?;
        let exchange = configuration.takes_requests.then(|| ground.exchange());
        let training = Self {
            network,
            session,
            ground,
            optimizer,
            reached,
            step: step.loss,
            exchange,
            parity: None,
            maker: maker.clone(),
        };
        training.restart(maker)?;
        Ok(training)
    }

    /// Puts weights, buffers and optimiser to their first values.
    fn restart(&self, maker: &mut Maker) -> Result<(), Outcome> {
        self.ground.restart(&self.session, maker)?;
        let mut args = SessionRunArgs::new();
        for operation in &self.optimizer.clear {
            args.add_target(operation);
        }
        if self.optimizer.clear.is_empty() {
            return Ok(());
        }
        self.session
            .run(&mut args)
            .map_err(|status| failed("optimiser", &status))
    }

    /// Brings the batch from the caller's memory, where it begins there.
    fn send(&mut self) -> Result<(), Outcome> {
        match &self.exchange {
            Some(exchange) => self.ground.send(exchange),
            None => Ok(()),
        }
    }

    /// One iteration for parity: its loss, and the gradients if asked for.
    fn iterate(
        &self,
        iteration: &Iteration,
        tensors: Option<&mut Vec<Tensor>>,
    ) -> Result<f64, Outcome> {
        let mut args = SessionRunArgs::new();
        self.ground.feed_to(&mut args);
        let fetch = |args: &mut SessionRunArgs<'_>, output: &Output| {
            args.request_fetch(&output.operation, output.index)
        };
        let loss = fetch(&mut args, &iteration.loss);
        let mut tokens = BTreeMap::new();
        if tensors.is_some() {
            for (name, gradient) in self.reached.iter().zip(&iteration.gradients) {
                tokens.insert(name.as_str(), fetch(&mut args, gradient));
            }
        }
        self.session
            .run(&mut args)
            .map_err(|status| failed("step", &status))?;
        if let Some(tensors) = tensors {
            for variable in self.variables(Role::Weight) {
                let name = &variable.parameter.name;
                let gradient = match tokens.get(name.as_str()) {
                    Some(&token) => tensors::fetched(
                        &mut args,
                        token,
                        Quantity::Gradient,
                        name,
                        &variable.form,
                        self.maker.float.data_type(),
                    )?,
                    None => nothing(variable, self.maker.float),
                };
                tensors.push(gradient);
            }
        }
        tensors::number(&mut args, loss, "loss", self.maker.float)
    }

    fn variables(&self, role: Role) -> impl Iterator<Item = &Variable> {
        let variables = self.ground.variables.iter();
        variables.filter(move |variable| variable.parameter.role == role)
    }

    /// Fetches the variables of this role, in one run: TensorFlow keeps a plan for each set of what is
    /// fetched.
    fn fetch(
        &self,
        role: Role,
        args: &mut SessionRunArgs<'_>,
    ) -> Result<Vec<(&Variable, FetchToken)>, Outcome> {
        let fetch = |variable: &Variable| {
            args.request_fetch(&variable.value.operation, variable.value.index)
        };
        let tokens: Vec<FetchToken> = self.variables(role).map(fetch).collect();
        if !tokens.is_empty() {
            self.session
                .run(args)
                .map_err(|status| failed("variables", &status))?;
        }
        Ok(self.variables(role).zip(tokens).collect())
    }

    /// How far the variables of this role are from where they began.
    fn changes(
        &self,
        role: Role,
        quantity: Quantity,
        tensors: &mut Vec<Tensor>,
    ) -> Result<(), Outcome> {
        let mut args = SessionRunArgs::new();
        for (variable, token) in self.fetch(role, &mut args)? {
            let name = &variable.parameter.name;
            let element = self.maker.float.data_type();
            let after =
                tensors::fetched(&mut args, token, quantity, name, &variable.form, element)?;
            let before = self.maker.initial(&variable.parameter)?;
            tensors.push(change(after, &before));
        }
        Ok(())
    }
}

/// The weights on which the loss depends; TensorFlow refuses to differentiate by others.
fn reached(network: &Network) -> Vec<String> {
    let Some(Loss::CrossEntropy { logits, .. }) = &network.graph.loss else {
        return Vec::new();
    };
    let mut needed = BTreeSet::from([logits.as_str()]);
    for node in network.graph.nodes.iter().rev() {
        if node
            .outputs
            .iter()
            .any(|made| needed.contains(made.as_str()))
        {
            needed.extend(node.inputs.iter().map(String::as_str));
        }
    }
    network
        .graph
        .parameters
        .iter()
        .filter(|held| held.role == Role::Weight && needed.contains(held.name.as_str()))
        .map(|held| held.name.clone())
        .collect()
}

/// Adds an iteration to the session's graph. With gradients among the outputs where dropout is
/// off: for parity.
fn iteration(
    network: &Network,
    ground: &mut Ground,
    optimizer: &Optimizer,
    reached: &[String],
    maker: &mut Maker,
    pass: Pass,
) -> Result<Iteration, Outcome> {
    let shown = if pass == Pass::Deterministic {
        reached.len()
    } else {
        0
    };
    let types: Vec<DataType> = vec![maker.float.data_type(); 1 + shown];
    let body = |builder: &mut Builder, given: &BTreeMap<String, Output>| {
        let lowered = lower(builder, network, given, maker, pass)?;
        let place = |fault: Fault| fault.at("training step");
        builder.enter("loss");
        let loss = loss(builder, network, &lowered)?;
        let weights = reached
            .iter()
            .map(|name| Ok(lowered.value(name)?.output.clone()))
            .collect::<Result<Vec<_>, Outcome>>()?;
        let gradients = gradients(builder, &loss, &weights, reached)?;
        builder.enter("statistics");
        let mut updates = statistics(builder, given, &lowered).map_err(place)?;
        builder.enter("optimizer");
        let moved: Vec<_> = reached
            .iter()
            .zip(&weights)
            .zip(&gradients)
            .map(|((name, weight), gradient)| (name.clone(), weight.clone(), gradient.clone()))
            .collect();
        updates.extend(optimizer.apply(builder, given, &moved).map_err(place)?);
        let done = builder.after(&loss, &updates);
        let done = done.map_err(|status| failed("training step", &status))?;
        let mut outputs = vec![done];
        outputs.extend(gradients.into_iter().take(shown));
        Ok(outputs)
    };
    let mut outputs = ground.call(body, &types)?.into_iter();
    ground.builder.enter("");
    Ok(Iteration {
        loss: outputs.next().ok_or_else(|| missing("loss"))?,
        gradients: outputs.collect(),
    })
}

/// The mean over all positions of the cross-entropy over the last axis. (TensorFlow's C library
/// knows the gradient of the operator that wants distributions, not of that which wants labels.)
fn loss(builder: &mut Builder, network: &Network, lowered: &Lowered) -> Result<Output, Outcome> {
    let Some(Loss::CrossEntropy { logits, labels }) = &network.graph.loss else {
        return Err(missing("loss"));
    };
    let (logits, labels) = (lowered.value(logits)?, lowered.value(&labels.name)?);
    let mut make = || {
        let (&classes, positions) = logits
            .form
            .shape
            .split_last()
            .ok_or_else(|| Fault::Missing("classes".to_owned()))?;
        let count = positions.iter().product();
        let scores = builder.reshape(&logits.output, &[count, classes])?;
        let labels = builder.reshape(&labels.output, &[count])?;
        let depth = narrow(&[classes])?.first().copied().unwrap_or(0);
        let (depth, on, off) = (
            builder.integer(depth)?,
            builder.scalar(1.0)?,
            builder.scalar(0.0)?,
        );
        let wanted = builder.op("OneHot", &[&labels, &depth, &on, &off])?;
        let losses = match builder.float {
            Float::F32 => builder.op("SoftmaxCrossEntropyWithLogits", &[&scores, &wanted])?,
            // Its gradient holds constants of single precision.
            Float::F64 => {
                let shares = builder.op("LogSoftmax", &[&scores])?;
                let picked = builder.op("Mul", &[&shares, &wanted])?;
                let axis = builder.integers(&[1])?;
                let sum = builder.op("Sum", &[&picked, &axis])?;
                builder.op("Neg", &[&sum])?
            }
        };
        Ok(builder.mean(&losses, &[0], false)?)
    };
    make().map_err(|fault: Fault| fault.at("loss"))
}

fn gradients(
    builder: &mut Builder,
    loss: &Output,
    weights: &[Output],
    names: &[String],
) -> Result<Vec<Output>, Outcome> {
    if weights.is_empty() {
        return Ok(Vec::new());
    }
    let found = builder
        .graph
        // With gradients of the loss given, the crate hands TensorFlow memory that it has freed.
        .add_gradients(None, std::slice::from_ref(loss), weights, None)
        .map_err(|status| failed("gradients", &status))?;
    found
        .into_iter()
        .zip(names)
        .map(|(gradient, name)| {
            gradient.ok_or_else(|| unsupported(format!("TensorFlow has no gradient by {name}")))
        })
        .collect()
}

/// Moves the running statistics towards the batch's.
fn statistics(
    builder: &mut Builder,
    given: &BTreeMap<String, Output>,
    lowered: &Lowered,
) -> Result<Vec<Operation>, Fault> {
    let element = builder.float.data_type();
    let mut updates = Vec::with_capacity(lowered.statistics.len());
    for statistic in &lowered.statistics {
        let absent = || Fault::Missing(statistic.buffer.clone());
        let handle = given.get(&statistic.buffer).ok_or_else(absent)?;
        let running = lowered.values.get(&statistic.buffer).ok_or_else(absent)?;
        let distance = builder.op("Sub", &[&running.output, &statistic.batch])?;
        let momentum = builder.scalar(statistic.momentum)?;
        let step = builder.op("Mul", &[&distance, &momentum])?;
        updates.push(builder.operation("AssignSubVariableOp", |update| {
            update.add_input(handle.clone());
            update.add_input(step);
            Ok(update.set_attr_type("dtype", element)?)
        })?);
    }
    Ok(updates)
}

/// The gradient of a weight on which the loss does not depend.
fn nothing(variable: &Variable, float: Float) -> Tensor {
    let parameter = &variable.parameter;
    // As many as the weight has, which is in memory.
    let count = parameter.shape.iter().product::<u64>() as usize;
    Tensor {
        quantity: Quantity::Gradient,
        name: parameter.name.clone(),
        shape: parameter.shape.clone(),
        values: match float {
            Float::F32 => Values::F32(vec![0.0; count]),
            Float::F64 => Values::F64(vec![0.0; count]),
        },
    }
}

/// `after − before`, computed in double precision.
fn change(after: Tensor, before: &[f32]) -> Tensor {
    let before = before.iter().map(|&value| f64::from(value));
    let values = match &after.values {
        Values::F32(values) => {
            let pairs = values.iter().zip(before);
            Values::F32(pairs.map(|(&a, b)| (f64::from(a) - b) as f32).collect())
        }
        Values::F64(values) => Values::F64(values.iter().zip(before).map(|(a, b)| a - b).collect()),
    };
    Tensor { values, ..after }
}

impl Session for Training {
    fn step(&mut self) -> Result<(), Outcome> {
        self.send()?;
        let mut args = SessionRunArgs::new();
        self.ground.feed_to(&mut args);
        let Some(exchange) = &mut self.exchange else {
            args.add_target(&self.step.operation);
            let done = self.session.run(&mut args);
            return done.map_err(|status| failed("step", &status));
        };
        let loss = args.request_fetch(&self.step.operation, self.step.index);
        self.session
            .run(&mut args)
            .map_err(|status| failed("step", &status))?;
        let element = self.maker.float.data_type();
        exchange.receive(0, &mut args, loss, "loss", element)
    }

    fn profile(&mut self, _steps: u64) -> Result<Profile, Outcome> {
        Err(unsupported(
            "operators of gradients do not bear the names of the nodes that they are of, in TensorFlow's \
             C library"
                .to_owned(),
        ))
    }

    fn parity(&mut self, steps: u32) -> Result<ParityData, Outcome> {
        self.reset()?;
        self.send()?;
        let made = match self.parity.take() {
            Some(made) => made,
            None => iteration(
                &self.network,
                &mut self.ground,
                &self.optimizer,
                &self.reached,
                &mut self.maker,
                Pass::Deterministic,
            )?,
        };
        let (mut losses, mut tensors) = (Vec::new(), Vec::new());
        for step in 0..steps {
            if step == 0 {
                losses.push(self.iterate(&made, Some(&mut tensors))?);
                self.changes(Role::Buffer, Quantity::Movement, &mut tensors)?;
            } else {
                losses.push(self.iterate(&made, None)?);
            }
        }
        self.changes(Role::Weight, Quantity::Update, &mut tensors)?;
        self.parity = Some(made);
        self.reset()?;
        Ok(ParityData { tensors, losses })
    }

    fn diverged(&mut self) -> Result<Option<String>, Outcome> {
        let mut args = SessionRunArgs::new();
        for (variable, token) in self.fetch(Role::Weight, &mut args)? {
            let name = &variable.parameter.name;
            if !tensors::is_finite(&mut args, token, name, self.maker.float)? {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    fn reset(&mut self) -> Result<(), Outcome> {
        let mut maker = self.maker.clone();
        self.restart(&mut maker)
    }

    fn device_memory(&mut self) -> Option<(u64, u64)> {
        None
    }
}
