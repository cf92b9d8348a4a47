//! The optimisers, by TensorFlow's own update operators with the graph's meaning.

use std::collections::BTreeMap;

use schema::{Optimizer as Settings, Outcome};
use tensorflow::{DataType, Operation, Output, Tensor};

use crate::{
    builder::{Builder, Made},
    failure::{Fault, failed},
    network::{Ground, assign},
    tensors::{Float, Host},
};

/// An optimiser over the weights of a session's graph.
pub(crate) struct Optimizer {
    settings: Settings,
    /// For each weight by name the names of its numbers: velocity, or both moments.
    slots: BTreeMap<String, Vec<String>>,
    /// The names of β₁ᵗ and β₂ᵗ, which are held in double precision: in single precision 1 − β₂ᵗ
    /// would lose half of its digits.
    powers: Vec<String>,
    /// Puts everything back to the beginning.
    pub(crate) clear: Vec<Operation>,
}

impl Optimizer {
    /// Makes the variables of an optimiser over the weights of these names.
    pub(crate) fn new(
        settings: Settings,
        ground: &mut Ground,
        weights: &[String],
    ) -> Result<Self, Outcome> {
        let mut optimizer = Self {
            settings,
            slots: BTreeMap::new(),
            powers: Vec::new(),
            clear: Vec::new(),
        };
        ground.builder.enter("optimizer");
        let purposes: &[&str] = match settings {
            Settings::Sgd { momentum: 0.0, .. } => &[],
            Settings::Sgd { .. } => &["velocity"],
            Settings::Adam { .. } => &["first moment", "second moment"],
        };
        let element = ground.builder.float.data_type();
        for weight in weights {
            let form = ground
                .variables
                .iter()
                .find(|variable| variable.parameter.name == *weight)
                .map(|variable| variable.form.clone());
            let Some(form) = form else { continue };
            let mut names = Vec::with_capacity(purposes.len());
            for purpose in purposes {
                let name = format!("{purpose} of {weight}");
                let (name, handle) = ground.slot(&name, element, &form.dims())?;
                let cleared = zero(&mut ground.builder, &handle, &form.dims(), element);
                let cleared = cleared.map_err(|status| failed(&name, &status))?;
                optimizer.clear.push(cleared);
                names.push(name);
            }
            optimizer.slots.insert(weight.clone(), names);
        }
        if let Settings::Adam { beta1, beta2, .. } = settings {
            let float = ground.builder.float;
            for (purpose, beta) in [("power of beta1", beta1), ("power of beta2", beta2)] {
                let (name, handle) = ground.slot(purpose, DataType::Double, &[])?;
                let cleared = start(&mut ground.builder, &handle, rounded(beta, float));
                let cleared = cleared.map_err(|status| failed(&name, &status))?;
                optimizer.clear.push(cleared);
                optimizer.powers.push(name);
            }
        }
        ground.builder.enter("");
        Ok(optimizer)
    }

    /// Moves the weights against their gradients: `(name, value, gradient)` each. `given` has all
    /// handles by name.
    pub(crate) fn apply(
        &self,
        builder: &mut Builder,
        given: &BTreeMap<String, Output>,
        moved: &[(String, Output, Output)],
    ) -> Result<Vec<Operation>, Fault> {
        match self.settings {
            Settings::Sgd {
                learning_rate,
                momentum,
                weight_decay,
            } => {
                let rate = builder.scalar(learning_rate)?;
                let share = builder.scalar(momentum)?;
                let mut updates = Vec::with_capacity(moved.len());
                for (name, weight, gradient) in moved {
                    let gradient = decayed(builder, weight, gradient, weight_decay)?;
                    let handle = named(given, name)?;
                    let update = match self.slots(name) {
                        [velocity] => builder.operation("ResourceApplyMomentum", |apply| {
                            let velocity = given.get(velocity).unwrap_or(handle);
                            for input in [handle, velocity, &rate, &gradient, &share] {
                                apply.add_input(input.clone());
                            }
                            Ok(())
                        })?,
                        _ => builder.operation("ResourceApplyGradientDescent", |apply| {
                            for input in [handle, &rate, &gradient] {
                                apply.add_input(input.clone());
                            }
                            Ok(())
                        })?,
                    };
                    updates.push(update);
                }
                Ok(updates)
            }
            Settings::Adam { weight_decay, .. } => {
                let shared = self.adam(builder, given)?;
                let mut updates = shared.powers;
                for (name, weight, gradient) in moved {
                    let gradient = decayed(builder, weight, gradient, weight_decay)?;
                    let [first, second] = self.slots(name) else {
                        return Err(Fault::Missing(format!("the moments of {name}")));
                    };
                    let inputs = [
                        named(given, name)?,
                        named(given, first)?,
                        named(given, second)?,
                        &shared.zero,
                        &shared.zero,
                        &shared.rate,
                        &shared.beta1,
                        &shared.beta2,
                        &shared.epsilon,
                        &gradient,
                    ];
                    updates.push(builder.operation("ResourceApplyAdam", |apply| {
                        for input in inputs {
                            apply.add_input(input.clone());
                        }
                        Ok(())
                    })?);
                }
                Ok(updates)
            }
        }
    }

    fn slots(&self, weight: &str) -> &[String] {
        self.slots.get(weight).map_or(&[], Vec::as_slice)
    }

    /// What all weights share in an iteration of Adam.
    ///
    /// TensorFlow's operator divides by `√v + ε'`, where the paper and PyTorch divide by
    /// `√(v/(1 − β₂ᵗ)) + ε` (Kingma and Ba 2015, the note after algorithm 1): the same for
    /// `ε' = ε·√(1 − β₂ᵗ)` and the rate `α·√(1 − β₂ᵗ)/(1 − β₁ᵗ)`. The rate is computed here, and the
    /// operator is told of powers of 0, with which it leaves it as it is.
    fn adam(
        &self,
        builder: &mut Builder,
        given: &BTreeMap<String, Output>,
    ) -> Result<Shared, Fault> {
        let Settings::Adam {
            learning_rate,
            beta1,
            beta2,
            epsilon,
            ..
        } = self.settings
        else {
            return Err(Fault::Missing("Adam's settings".to_owned()));
        };
        let [first, second] = &self.powers[..] else {
            return Err(Fault::Missing("Adam's powers".to_owned()));
        };
        let (first, second) = (named(given, first)?, named(given, second)?);
        let float = builder.float;
        let mut powers = Vec::with_capacity(2);
        let mut complements = Vec::with_capacity(2);
        let one = double(builder, 1.0)?;
        for (handle, beta) in [(first, beta1), (second, beta2)] {
            let power = builder.read(handle, DataType::Double)?;
            complements.push(builder.op("Sub", &[&one, &power])?);
            let beta = double(builder, rounded(beta, float))?;
            let next = builder.op("Mul", &[&power, &beta])?;
            powers.push(assign(builder, handle, &next, DataType::Double)?);
        }
        let [first, second] = &complements[..] else {
            return Err(Fault::Missing("Adam's corrections".to_owned()));
        };
        let root = builder.op("Sqrt", &[second])?;
        let rate = double(builder, learning_rate)?;
        let scaled = builder.op("Mul", &[&rate, &root])?;
        let rate = builder.op("RealDiv", &[&scaled, first])?;
        let epsilon = double(builder, epsilon)?;
        let epsilon = builder.op("Mul", &[&epsilon, &root])?;
        Ok(Shared {
            rate: cast(builder, &rate)?,
            epsilon: cast(builder, &epsilon)?,
            beta1: builder.scalar(beta1)?,
            beta2: builder.scalar(beta2)?,
            zero: builder.scalar(0.0)?,
            powers,
        })
    }
}

/// What all weights share in an iteration of Adam.
struct Shared {
    rate: Output,
    epsilon: Output,
    beta1: Output,
    beta2: Output,
    zero: Output,
    powers: Vec<Operation>,
}

/// A factor as the weights' type has it, so that `1 − β` means the same in the moments, which are
/// computed in that type, and in their corrections.
fn rounded(beta: f64, float: Float) -> f64 {
    match float {
        Float::F32 => f64::from(beta as f32),
        Float::F64 => beta,
    }
}

fn named<'a>(given: &'a BTreeMap<String, Output>, name: &str) -> Result<&'a Output, Fault> {
    given
        .get(name)
        .ok_or_else(|| Fault::Missing(name.to_owned()))
}

/// The gradient with that of the L2 penalty.
fn decayed(builder: &mut Builder, weight: &Output, gradient: &Output, decay: f64) -> Made<Output> {
    if decay == 0.0 {
        return Ok(gradient.clone());
    }
    let decay = builder.scalar(decay)?;
    let penalty = builder.op("Mul", &[&decay, weight])?;
    builder.op("AddV2", &[gradient, &penalty])
}

fn double(builder: &mut Builder, value: f64) -> Made<Output> {
    builder.constant(Host::F64(Tensor::from(value)))
}

/// A double in the type of the weights.
fn cast(builder: &mut Builder, value: &Output) -> Made<Output> {
    let element = builder.float.data_type();
    builder.with("Cast", &[value], |cast| {
        Ok(cast.set_attr_type("DstT", element)?)
    })
}

fn zero(
    builder: &mut Builder,
    handle: &Output,
    dims: &[u64],
    element: DataType,
) -> Made<Operation> {
    let dims = builder.integers(&crate::builder::narrow(dims)?)?;
    let nothing = builder.scalar(0.0)?;
    let zeros = builder.op("Fill", &[&dims, &nothing])?;
    assign(builder, handle, &zeros, element)
}

fn start(builder: &mut Builder, handle: &Output, value: f64) -> Made<Operation> {
    let value = double(builder, value)?;
    assign(builder, handle, &value, DataType::Double)
}
