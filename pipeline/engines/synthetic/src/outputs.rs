//! Numbers that depend on the graph alone, so that all synthetic cells agree.

use models::{fill, infer};
use schema::{
    Graph, Mode, Outcome, OutcomeKind, Precision,
    graph::{Fill, Role},
};
use worker::{ParityData, Tensor, Values};

/// More numbers than this are not made up.
const MOST_NUMBERS: u64 = 1 << 28;

/// More iterations than this are not made up.
const MOST_STEPS: u32 = 10_000;

/// Names and shapes of what a cell must put out.
#[derive(Debug)]
pub(crate) struct Outputs {
    tensors: Vec<(String, Vec<u64>)>,
    precision: Precision,
    training: bool,
}

impl Outputs {
    /// Inference: the graph's outputs; training: its weights.
    pub(crate) fn new(graph: &Graph, mode: Mode, precision: Precision) -> Result<Self, Outcome> {
        let unsupported = |reason: String| Outcome::new(OutcomeKind::Unsupported, reason);
        let shapes = infer::shapes(graph).map_err(|error| unsupported(error.to_string()))?;
        let training = mode == Mode::Training;
        let tensors: Vec<_> = if training {
            let weights = graph
                .parameters
                .iter()
                .filter(|parameter| parameter.role == Role::Weight);
            weights
                .map(|weight| (weight.name.clone(), weight.shape.clone()))
                .collect()
        } else {
            let shape = |name: &String| Some((name.clone(), shapes.get(name)?.shape.clone()));
            graph.outputs.iter().filter_map(shape).collect()
        };
        let numbers = tensors
            .iter()
            .map(|(_, shape)| {
                shape
                    .iter()
                    .fold(1_u64, |product, &size| product.saturating_mul(size))
            })
            .fold(0_u64, u64::saturating_add);
        if numbers > MOST_NUMBERS {
            return Err(unsupported(format!(
                "{numbers} numbers are more than it makes up"
            )));
        }
        Ok(Self {
            tensors,
            precision,
            training,
        })
    }

    /// The numbers; `spoil` may change those of each tensor.
    pub(crate) fn make(
        &self,
        steps: u32,
        spoil: impl Fn(&mut Vec<f32>),
    ) -> Result<ParityData, Outcome> {
        if self.training && steps > MOST_STEPS {
            let reason = format!("{steps} iterations are more than it makes up");
            return Err(Outcome::new(OutcomeKind::Unsupported, reason));
        }
        let tensors = self.tensors.iter().map(|(name, shape)| {
            let count: u64 = shape.iter().product();
            let count = usize::try_from(count).unwrap_or_default();
            let mut values = fill::floats(
                name,
                &Fill::Uniform {
                    low: -1.0,
                    high: 1.0,
                },
                count,
            );
            spoil(&mut values);
            let values = match self.precision {
                Precision::Fp64 => Values::F64(values.into_iter().map(f64::from).collect()),
                _ => Values::F32(values),
            };
            Tensor {
                name: name.clone(),
                shape: shape.clone(),
                values,
            }
        });
        let iterations = if self.training { steps } else { 0 };
        Ok(ParityData {
            tensors: tensors.collect(),
            losses: (1..=iterations).map(|step| 1.0 / f64::from(step)).collect(),
        })
    }
}
