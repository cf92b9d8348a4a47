//! What a graph costs at the least: arithmetic, memory traffic, memory.
//!
//! # Arithmetic
//! A multiplication, an addition, a comparison, a division, an exponential each count one
//! floating-point operation; a multiply-add counts two (published figures in multiply-adds are
//! half of ours). `cost/work.rs` holds the rule of each operator.
//!
//! Training counts the forward pass, the backward pass and the optimiser. Backward, an operator
//! with weights (convolution, linear map, matrix product, recurrent layer) costs its forward pass twice, once for the
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

use schema::{
    Graph, Mode, Precision,
    graph::{ElementType, Node, Op, Role},
};

use crate::{
    ModelError,
    infer::{self, ValueType, Wires},
    rewrite,
};

/// How often the optimiser's numbers go between memory and processor, of each weight.
pub const OPTIMISER_TRAVERSALS: u64 = 5;

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
    /// Operators.
    pub nodes: u64,
    /// Operators where LSTM and GRU are spelt out, roughly.
    pub unrolled_nodes: u64,
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
    let (wires, types) = checked(graph)?;
    Sizes::new(graph, &wires, &types, precision).total(mode)
}

/// Cost of one step in fp32 of a graph whose types are known.
pub(crate) fn of_types(
    graph: &Graph,
    wires: &Wires,
    types: &[ValueType],
    mode: Mode,
) -> Result<Cost, ModelError> {
    Sizes::new(graph, wires, types, Precision::Fp32).total(mode)
}

/// Cost of each node, in the graph's order; the optimiser is not part of any.
///
/// # Errors
/// As [`total`].
pub fn nodes(graph: &Graph, mode: Mode, precision: Precision) -> Result<Vec<NodeCost>, ModelError> {
    let (wires, types) = checked(graph)?;
    let sizes = Sizes::new(graph, &wires, &types, precision);
    node_costs(&sizes, mode)
        .zip(&graph.nodes)
        .map(|(cost, node)| {
            let (flops, bytes) = cost?;
            Ok(NodeCost {
                node: node.name.clone(),
                op: node.op.name(),
                flops,
                bytes,
            })
        })
        .collect()
}

fn checked(graph: &Graph) -> Result<(Wires, Vec<ValueType>), ModelError> {
    infer::shapes(graph)?;
    let wires = Wires::new(graph).ok_or_else(|| ModelError::Graph {
        graph: graph.name.clone(),
        reason: "reads a value that nothing makes".to_owned(),
    })?;
    let mut types = wires.given(graph);
    wires.infer(graph, &mut types)?;
    Ok((wires, types))
}

/// Operations and bytes of each node.
fn node_costs<'a>(
    sizes: &'a Sizes<'a>,
    mode: Mode,
) -> impl Iterator<Item = Result<(u64, u64), ModelError>> + 'a {
    let moving = match mode {
        Mode::Inference => vec![false; sizes.wires.len()],
        Mode::Training => sizes.values_with_gradient(),
    };
    let mut types: Vec<&ValueType> = Vec::new();
    sizes
        .wires
        .nodes(sizes.graph)
        .map(move |(node, reads, made)| {
            types.clear();
            types.extend(reads.iter().filter_map(|place| sizes.types.get(*place)));
            let forward = work::flops(&node.op, &types, sizes.types.get(made));
            let gradients = || {
                let moves = |place: &&usize| moving.get(**place).copied().unwrap_or(false);
                reads.iter().filter(moves)
            };

            let mut flops = forward;
            let count = gradients().count() as u64;
            if count > 0 {
                let passes = match node.op {
                    Op::BatchNormalization { .. } | Op::LayerNormalization { .. } => 2,
                    // A bias costs nothing worth counting beside the product.
                    Op::Conv { .. } | Op::Linear | Op::Gemm | Op::Lstm { .. } | Op::Gru { .. } => {
                        count.min(2)
                    }
                    _ => count,
                };
                flops.add_times(forward, passes);
            }
            let mut bytes = sizes.traffic(node, reads, made);
            if count > 0 {
                bytes.add_times(bytes, 1);
                for place in gradients() {
                    bytes.add(sizes.bytes(*place));
                }
            }
            Ok((sizes.fits(flops)?, sizes.fits(bytes)?))
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

    fn add_product<'f>(&mut self, factors: impl IntoIterator<Item = &'f u64>) {
        let product = factors
            .into_iter()
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
    wires: &'a Wires,
    types: &'a [ValueType],
    /// Bytes of every value.
    bytes: Vec<u64>,
}

impl<'a> Sizes<'a> {
    fn new(
        graph: &'a Graph,
        wires: &'a Wires,
        types: &'a [ValueType],
        precision: Precision,
    ) -> Self {
        let float_bytes = match precision {
            Precision::Fp64 => 8,
            Precision::Fp32 | Precision::Tf32 => 4,
            Precision::Bf16 | Precision::Fp16 => 2,
            Precision::Int8Dynamic | Precision::Int8Static => 1,
        };
        let bytes = types.iter().map(|value| {
            let element_bytes = match value.element {
                ElementType::Float => float_bytes,
                ElementType::Int64 => 8,
            };
            value.elements().saturating_mul(element_bytes)
        });
        Self {
            graph,
            wires,
            types,
            bytes: bytes.collect(),
        }
    }

    fn total(&self, mode: Mode) -> Result<Cost, ModelError> {
        let (mut flops, mut bytes) = (Sum::default(), Sum::default());
        for cost in node_costs(self, mode) {
            let cost = cost?;
            flops.add(cost.0);
            bytes.add(cost.1);
        }
        let weights = self.parameters(|role| role == Role::Weight);
        if mode == Mode::Training {
            flops.add_product(&[4, weights.elements]);
            bytes.add_product(&[OPTIMISER_TRAVERSALS, weights.bytes]);
        }
        Ok(Cost {
            flops: self.fits(flops)?,
            bytes: self.fits(bytes)?,
            parameters: weights.elements,
            peak_bytes: self.fits(memory::peak(self, mode))?,
            nodes: self.graph.nodes.len() as u64,
            unrolled_nodes: self.unrolled_nodes(),
        })
    }

    fn unrolled_nodes(&self) -> u64 {
        let nodes = self.wires.nodes(self.graph).map(|(node, reads, _)| {
            let input = reads.first().and_then(|place| self.types.get(*place));
            match (&node.op, input.map(|value| value.shape.as_slice())) {
                (Op::Lstm { .. } | Op::Gru { .. }, Some(&[_, positions, _])) => {
                    rewrite::unrolled_nodes(node, positions)
                }
                _ => 1,
            }
        });
        nodes.fold(0, u64::saturating_add)
    }

    /// Bytes of the value at a place.
    fn bytes(&self, place: usize) -> u64 {
        self.bytes.get(place).copied().unwrap_or(0)
    }

    /// What a node reads and writes. A gather reads only the rows it wants; operators that only
    /// rename or repeat axes move nothing.
    fn traffic(&self, node: &Node, reads: &[usize], made: usize) -> Sum {
        let mut sum = Sum::default();
        let output = self.bytes(made);
        match node.op {
            Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. } | Op::Expand { .. } => {}
            Op::Gather | Op::Slice { .. } => {
                sum.add_product(&[2, output]);
                for indices in reads.iter().skip(1) {
                    sum.add(self.bytes(*indices));
                }
            }
            _ => {
                sum.add(output);
                for input in reads {
                    sum.add(self.bytes(*input));
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
        for (index, parameter) in self.graph.parameters.iter().enumerate() {
            if wanted(parameter.role) {
                let place = self.wires.parameter(index);
                let elements = self.types.get(place).map_or(0, ValueType::elements);
                extent.elements = extent.elements.saturating_add(elements);
                extent.bytes = extent.bytes.saturating_add(self.bytes(place));
            }
        }
        extent
    }

    /// For each value whether it is a weight or depends on one.
    fn values_with_gradient(&self) -> Vec<bool> {
        let mut moving = vec![false; self.wires.len()];
        for (index, parameter) in self.graph.parameters.iter().enumerate() {
            if let Some(moves) = moving.get_mut(self.wires.parameter(index)) {
                *moves = parameter.role == Role::Weight;
            }
        }
        for (_, reads, made) in self.wires.nodes(self.graph) {
            let moves = reads
                .iter()
                .any(|place| moving.get(*place).copied().unwrap_or(false));
            if let Some(slot) = moving.get_mut(made) {
                *slot = moves;
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
