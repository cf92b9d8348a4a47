//! Numbers that depend on the graph alone, so that all synthetic cells agree.

use std::collections::BTreeMap;

use models::{fill, infer};
use schema::{
    Graph, Mode, Outcome, OutcomeKind, Precision,
    graph::{Fill, Role},
    protocol::Quantity,
};
use worker::{ParityData, Tensor, Values};

/// More numbers than this are not made up.
const MOST_NUMBERS: u64 = 1 << 28;

/// More iterations than this are not made up.
const MOST_STEPS: u32 = 10_000;

/// Kinds, names and shapes of what a cell must put out.
#[derive(Debug)]
pub(crate) struct Outputs {
    tensors: Vec<(Quantity, String, Vec<u64>)>,
    precision: Precision,
    training: bool,
}

impl Outputs {
    /// Inference: the graph's outputs; training: what becomes of its weights and buffers.
    pub(crate) fn new(graph: &Graph, mode: Mode, precision: Precision) -> Result<Self, Outcome> {
        let unsupported = |reason: String| Outcome::new(OutcomeKind::Unsupported, reason);
        let shapes = if graph.is_outline() {
            BTreeMap::new()
        } else {
            infer::shapes(graph).map_err(|error| unsupported(error.to_string()))?
        };
        let training = mode == Mode::Training;
        let tensors: Vec<_> = if training {
            let told = |role| match role {
                Role::Weight => &[Quantity::Gradient, Quantity::Update][..],
                Role::Buffer => &[Quantity::Movement],
                Role::Constant => &[],
            };
            let parameters = graph.parameters.iter();
            parameters
                .flat_map(|parameter| {
                    told(parameter.role).iter().map(|&quantity| {
                        (quantity, parameter.name.clone(), parameter.shape.clone())
                    })
                })
                .collect()
        } else {
            let output = |name: &String| {
                // Nobody knows what an outline's outputs are like: any shape will do.
                let shape = shapes
                    .get(name)
                    .map_or(vec![2], |value| value.shape.clone());
                (Quantity::Output, name.clone(), shape)
            };
            graph.outputs.iter().map(output).collect()
        };
        let numbers = tensors
            .iter()
            .map(|(_, _, shape)| {
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
        let tensors = self.tensors.iter().map(|(quantity, name, shape)| {
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
                quantity: *quantity,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use models::zoo;

    use super::*;

    fn graph() -> Graph {
        let dims = zoo::resolve_dims("bert_tiny", &BTreeMap::new()).unwrap();
        zoo::build("bert_tiny", &dims).unwrap()
    }

    fn make(mode: Mode, precision: Precision, steps: u32) -> ParityData {
        let outputs = Outputs::new(&graph(), mode, precision).unwrap();
        outputs.make(steps, |_| ()).unwrap()
    }

    #[test]
    fn precisions_agree() {
        let (wide, narrow) = (
            make(Mode::Inference, Precision::Fp64, 0),
            make(Mode::Inference, Precision::Fp32, 0),
        );
        let names: Vec<_> = wide.tensors.iter().map(|tensor| &tensor.name).collect();
        assert_eq!(names, graph().outputs.iter().collect::<Vec<_>>());
        for (wide, narrow) in wide.tensors.iter().zip(&narrow.tensors) {
            let (Values::F64(wide), Values::F32(narrow)) = (&wide.values, &narrow.values) else {
                panic!("each has the width of its precision");
            };
            assert!(!wide.is_empty());
            assert!(
                wide.iter()
                    .copied()
                    .eq(narrow.iter().map(|&value| f64::from(value)))
            );
        }
    }

    #[test]
    fn training_moves_every_weight() {
        let data = make(Mode::Training, Precision::Fp32, 3);
        let graph = graph();
        let weights = graph
            .parameters
            .iter()
            .filter(|parameter| parameter.role == Role::Weight);
        let count = |quantity| {
            let told = data.tensors.iter();
            told.filter(|tensor| tensor.quantity == quantity).count()
        };
        assert_eq!(count(Quantity::Update), weights.clone().count());
        assert_eq!(count(Quantity::Gradient), weights.count());
        assert_eq!(data.losses.len(), 3);
        assert!(data.losses.is_sorted_by(|earlier, later| earlier > later));
        let outputs = Outputs::new(&graph, Mode::Training, Precision::Fp32).unwrap();
        let error = outputs.make(u32::MAX, |_| ()).unwrap_err();
        assert_eq!(error.kind, OutcomeKind::Unsupported);
    }
}
