//! The optimiser, with PyTorch's arithmetic: `torch::optim::SGD` and `torch::optim::Adam`, one
//! tensor after another (`foreach=False`, Python's default on a CPU).

use schema::{Optimizer as Settings, Outcome};
use tch::{
    COptimizer, TchError, Tensor,
    nn::{Adam, OptimizerConfig, Sgd},
};

use crate::failure::Fault;

/// An optimiser over a fixed list of weights. (`tch::nn::Optimizer` would panic where libtorch
/// throws.)
pub(crate) struct Optimizer(COptimizer);

impl Optimizer {
    /// A fresh optimiser: no velocity, no moments.
    pub(crate) fn new<'a>(
        settings: Settings,
        weights: impl Iterator<Item = &'a Tensor>,
    ) -> Result<Self, Outcome> {
        let build = || {
            let mut optimizer = build(settings)?;
            for weight in weights {
                optimizer.add_parameters(weight, 0)?;
            }
            Ok(Self(optimizer))
        };
        build().map_err(|error: TchError| Fault::from(error).at("optimiser"))
    }

    /// Forgets the gradients (`set_to_none=True`, the default of libtorch as of Python).
    pub(crate) fn zero_grad(&self) -> Result<(), Outcome> {
        self.0
            .zero_grad()
            .map_err(|error| Fault::from(error).at("zero_grad"))
    }

    /// Moves the weights.
    pub(crate) fn step(&self) -> Result<(), Outcome> {
        self.0
            .step()
            .map_err(|error| Fault::from(error).at("optimiser step"))
    }
}

fn build(settings: Settings) -> Result<COptimizer, TchError> {
    match settings {
        Settings::Sgd {
            learning_rate,
            momentum,
            weight_decay,
        } => Sgd {
            momentum,
            dampening: 0.0,
            wd: weight_decay,
            nesterov: false,
        }
        .build_copt(learning_rate),
        Settings::Adam {
            learning_rate,
            beta1,
            beta2,
            epsilon,
            weight_decay,
        } => Adam {
            beta1,
            beta2,
            wd: weight_decay,
            eps: epsilon,
            amsgrad: false,
        }
        .build_copt(learning_rate),
    }
}
