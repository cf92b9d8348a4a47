//! What a graph costs at the least: arithmetic, memory traffic, memory.
//!
//! # Arithmetic
//! A multiplication, an addition, a comparison, a division, an exponential each count one
//! floating-point operation; a multiply-add counts two (published figures in multiply-adds are
//! half of ours). `cost/work.rs` holds the rule of each operator.
//!
//! Training counts the forward pass, the backward pass and the optimiser. Backward, an operator
//! with weights (convolution, linear map, matrix product) costs its forward pass twice, once for the
//! gradient of each factor, and once where the input needs no gradient (the first layer). All
//! other operators cost their forward pass again per input that needs a gradient. Normalisation
//! costs twice its forward pass. The optimiser is SGD with momentum: four operations a weight.
//!
//! # Traffic
//! Each operator reads its inputs once and writes its output once, as if nothing were fused and
//! every cache were perfect. Backward, it also reads the output's gradient and writes a gradient
//! for each input that needs one, and reads its inputs again. The optimiser reads weight, gradient
//! and momentum, and writes weight and momentum.
//!
//! # Memory
//! Inference holds all parameters and, at the worst moment, the values that are still needed.
//! Training holds parameters, gradients and momentum, all activations, and the two largest
//! gradients of activations. Workspaces and engines come on top; operators in place save some.

mod memory;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph, Mode, Precision,
    graph::{ElementType, Node, Op, Role},
};

use crate::{
    ModelError,
    infer::{self, ValueType},
};

/// Cost of one step of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: u64,
    /// Least memory traffic.
    pub bytes: u64,
    /// Elements of all weights.
    pub parameters: u64,
    /// Estimate of the memory in use at the worst moment.
    pub peak_bytes: u64,
}

/// Cost of one node in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCost {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: &'static str,
    /// Floating-point operations.
    pub flops: u64,
    /// Least memory traffic.
    pub bytes: u64,
}

/// Cost of one step in fp32.
///
/// # Errors
/// A graph that [`infer::shapes`] refuses, or whose cost does not fit 64 bits.
pub fn total(graph: &Graph, mode: Mode) -> Result<Cost, ModelError> {
    total_at(graph, mode, Precision::Fp32)
}

/// Cost of one step with floats of this precision.
///
/// # Errors
/// As [`total`].
pub fn total_at(graph: &Graph, mode: Mode, precision: Precision) -> Result<Cost, ModelError> {
    let sizes = Sizes::new(graph, precision)?;
    let (mut flops, mut bytes) = (Sum::default(), Sum::default());
    for cost in node_costs(&sizes, mode) {
        let cost = cost?;
        flops.add(cost.flops);
        bytes.add(cost.bytes);
    }
    let weights = sizes.parameters(|role| role == Role::Weight);
    if mode == Mode::Training {
        flops.add_product(&[4, weights.elements]);
        bytes.add_product(&[5, weights.bytes]);
    }
    Ok(Cost {
        flops: sizes.fits(flops)?,
        bytes: sizes.fits(bytes)?,
        parameters: weights.elements,
        peak_bytes: sizes.fits(memory::peak(&sizes, mode))?,
    })
}

/// Cost of each node, in the graph's order; the optimiser is not part of any.
///
/// # Errors
/// As [`total`].
pub fn nodes(graph: &Graph, mode: Mode, precision: Precision) -> Result<Vec<NodeCost>, ModelError> {
    node_costs(&Sizes::new(graph, precision)?, mode).collect()
}

fn node_costs<'a>(
    sizes: &'a Sizes<'a>,
    mode: Mode,
) -> impl Iterator<Item = Result<NodeCost, ModelError>> + 'a {
    let moving = match mode {
        Mode::Inference => BTreeSet::new(),
        Mode::Training => sizes.values_with_gradient(),
    };
    sizes.graph.nodes.iter().map(move |node| {
        let types: Vec<&ValueType> = node
            .inputs
            .iter()
            .filter_map(|n| sizes.types.get(n))
            .collect();
        let output = node.outputs.first().and_then(|name| sizes.types.get(name));
        let forward = work::flops(&node.op, &types, output);
        let gradients = node
            .inputs
            .iter()
            .filter(|name| moving.contains(name.as_str()))
            .collect::<Vec<_>>();

        let mut flops = forward;
        if !gradients.is_empty() {
            let passes = match node.op {
                Op::BatchNormalization { .. } | Op::LayerNormalization { .. } => 2,
                // A bias costs nothing worth counting beside the product.
                Op::Conv { .. } | Op::Linear => gradients.len().min(2) as u64,
                _ => gradients.len() as u64,
            };
            flops.add_times(forward, passes);
        }
        let mut bytes = sizes.traffic(node);
        if !gradients.is_empty() {
            bytes.add_times(bytes, 1);
            for name in gradients {
                bytes.add(sizes.bytes(name));
            }
        }
        Ok(NodeCost {
            node: node.name.clone(),
            op: node.op.name(),
            flops: sizes.fits(flops)?,
            bytes: sizes.fits(bytes)?,
        })
    })
}

/// A sum of products of 64-bit numbers, wide enough for those of any graph that was checked, and
/// saturating beyond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Sum(u128);

impl Sum {
    fn add(&mut self, term: u64) {
        self.0 = self.0.saturating_add(u128::from(term));
    }

    fn add_product(&mut self, factors: &[u64]) {
        let product = factors
            .iter()
            .fold(1, |p: u128, &f| p.saturating_mul(u128::from(f)));
        self.0 = self.0.saturating_add(product);
    }

    fn add_times(&mut self, other: Self, times: u64) {
        self.0 = self
            .0
            .saturating_add(other.0.saturating_mul(u128::from(times)));
    }
}

/// Elements and bytes of a group of parameters.
struct Extent {
    elements: u64,
    bytes: u64,
}

/// A checked graph with the size of every value.
struct Sizes<'a> {
    graph: &'a Graph,
    types: BTreeMap<String, ValueType>,
    float_bytes: u64,
}

impl<'a> Sizes<'a> {
    fn new(graph: &'a Graph, precision: Precision) -> Result<Self, ModelError> {
        let float_bytes = match precision {
            Precision::Fp64 => 8,
            Precision::Fp32 | Precision::Tf32 => 4,
            Precision::Bf16 | Precision::Fp16 => 2,
        };
        Ok(Self {
            graph,
            types: infer::shapes(graph)?,
            float_bytes,
        })
    }

    fn bytes(&self, name: &str) -> u64 {
        self.types.get(name).map_or(0, |value| {
            let element_bytes = match value.element {
                ElementType::Float => self.float_bytes,
                ElementType::Int64 => 8,
            };
            value.elements().saturating_mul(element_bytes)
        })
    }

    /// What a node reads and writes. A gather reads only the rows it wants; operators that only
    /// rename axes move nothing.
    fn traffic(&self, node: &Node) -> Sum {
        let mut sum = Sum::default();
        let output: u64 = node
            .outputs
            .iter()
            .map(|name| self.bytes(name))
            .fold(0, u64::saturating_add);
        match node.op {
            Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. } => {}
            Op::Gather | Op::Slice { .. } => {
                sum.add_product(&[2, output]);
                for indices in node.inputs.iter().skip(1) {
                    sum.add(self.bytes(indices));
                }
            }
            _ => {
                sum.add(output);
                for input in &node.inputs {
                    sum.add(self.bytes(input));
                }
            }
        }
        sum
    }

    fn parameters(&self, wanted: impl Fn(Role) -> bool) -> Extent {
        let mut extent = Extent {
            elements: 0,
            bytes: 0,
        };
        for parameter in self.graph.parameters.iter().filter(|p| wanted(p.role)) {
            let elements = self
                .types
                .get(&parameter.name)
                .map_or(0, ValueType::elements);
            extent.elements = extent.elements.saturating_add(elements);
            extent.bytes = extent.bytes.saturating_add(self.bytes(&parameter.name));
        }
        extent
    }

    /// Weights and all values that depend on one.
    fn values_with_gradient(&self) -> BTreeSet<&'a str> {
        let weights = self
            .graph
            .parameters
            .iter()
            .filter(|p| p.role == Role::Weight);
        let mut moving: BTreeSet<&str> = weights.map(|p| p.name.as_str()).collect();
        for node in &self.graph.nodes {
            if node
                .inputs
                .iter()
                .any(|name| moving.contains(name.as_str()))
            {
                moving.extend(node.outputs.iter().map(String::as_str));
            }
        }
        moving
    }

    fn fits(&self, sum: Sum) -> Result<u64, ModelError> {
        u64::try_from(sum.0).map_err(|_| ModelError::Graph {
            graph: self.graph.name.clone(),
            reason: "its cost does not fit 64 bits".to_owned(),
        })
    }
}
