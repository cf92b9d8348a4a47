//! Which operators are quantised, and which values have grids.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph,
    graph::{ElementType, Node, Op},
};

use super::is_product;
use crate::{ModelError, infer};

/// What is quantised of a network.
pub(super) struct Choice {
    /// Whether each node is.
    pub(super) quantised: Vec<bool>,
    /// Nodes that end what a quantised node makes: a `Relu` or `Clip` that grids can do; by the
    /// place of the quantised node.
    pub(super) tails: BTreeMap<usize, usize>,
    /// Values that have a grid, each with the value whose range decides it.
    pub(super) grids: BTreeMap<String, String>,
    /// Those of them that a quantised node makes.
    pub(super) made_on_grid: BTreeSet<String>,
    /// The values of `grids` that decide, in the order of the graph.
    order: Vec<String>,
}

/// What the choice is made from.
struct View<'a> {
    nodes: &'a [Node],
    parameters: BTreeSet<&'a str>,
    integers: BTreeSet<&'a str>,
    ranks: BTreeMap<&'a str, usize>,
    readers: BTreeMap<&'a str, Vec<usize>>,
    outputs: BTreeSet<&'a str>,
}

impl Choice {
    pub(super) fn of(graph: &Graph) -> Result<Self, ModelError> {
        let types = infer::shapes(graph)?;
        let mut view = View {
            nodes: &graph.nodes,
            parameters: graph.parameters.iter().map(|p| p.name.as_str()).collect(),
            integers: types
                .iter()
                .filter(|(_, value)| value.element == ElementType::Int64)
                .map(|(name, _)| name.as_str())
                .collect(),
            ranks: types
                .iter()
                .map(|(name, value)| (name.as_str(), value.shape.len()))
                .collect(),
            readers: BTreeMap::new(),
            outputs: graph.outputs.iter().map(String::as_str).collect(),
        };
        for (index, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                view.readers.entry(input).or_default().push(index);
            }
        }
        Ok(view.choose(graph))
    }

    /// The values whose ranges are needed.
    pub(super) fn sources(self) -> Vec<String> {
        self.order
    }
}

impl<'a> View<'a> {
    fn choose(&self, graph: &Graph) -> Choice {
        let tails = self.tails();
        let made = |index: usize| {
            let end = tails.get(&index).copied().unwrap_or(index);
            let output = self.nodes.get(end).and_then(|node| node.outputs.first());
            output.map_or("", String::as_str)
        };
        let ends: BTreeSet<usize> = tails.values().copied().collect();
        let makers: BTreeMap<&str, usize> = (0..self.nodes.len())
            .filter(|index| !ends.contains(index))
            .map(|index| (made(index), index))
            .collect();
        let quantised = self.quantised(&makers, &made);
        let is_quantised = |index: usize| quantised.get(index).copied().unwrap_or(false);

        let mut on_grid = BTreeSet::new();
        let mut made_on_grid = BTreeSet::new();
        for (index, node) in self
            .nodes
            .iter()
            .enumerate()
            .filter(|at| is_quantised(at.0))
        {
            on_grid.extend(self.activations(node).map(str::to_owned));
            let output = made(index);
            let is_read = self.readers_of(output).any(is_quantised);
            let must = matches!(node.op, Op::Conv { .. }) && !self.outputs.contains(output);
            if is_read || must {
                on_grid.insert(output.to_owned());
                made_on_grid.insert(output.to_owned());
            }
        }
        let inputs = graph.inputs.iter().map(|input| input.name.as_str());
        let values = self.nodes.iter().flat_map(|node| &node.outputs);
        let mut grids: BTreeMap<String, String> = BTreeMap::new();
        let mut order = Vec::new();
        for value in inputs.chain(values.map(String::as_str)) {
            if !on_grid.contains(value) {
                continue;
            }
            let maker = makers
                .get(value)
                .copied()
                .filter(|&maker| is_quantised(maker));
            let kept = maker
                .and_then(|maker| self.nodes.get(maker))
                .filter(|node| keeps_its_grid(&node.op))
                .and_then(|node| grids.get(node.inputs.first()?).cloned());
            let source = kept.unwrap_or_else(|| {
                order.push(value.to_owned());
                value.to_owned()
            });
            grids.insert(value.to_owned(), source);
        }
        Choice {
            quantised,
            tails,
            grids,
            made_on_grid,
            order,
        }
    }

    /// Products, and what joins them: an operator whose operands are on grids without it, and whose
    /// result another quantised operator reads.
    fn quantised(
        &self,
        makers: &BTreeMap<&str, usize>,
        made: &impl Fn(usize) -> &'a str,
    ) -> Vec<bool> {
        let products: Vec<bool> = self
            .nodes
            .iter()
            .map(|node| self.multiplies(node))
            .collect();
        let is_product = |index: usize| products.get(index).copied().unwrap_or(false);
        let mut quantised: Vec<bool> = self
            .nodes
            .iter()
            .zip(&products)
            .map(|(node, product)| *product || self.may_join(node))
            .collect();
        loop {
            let is_quantised = |index: usize| quantised.get(index).copied().unwrap_or(false);
            let stays = |(index, node): (usize, &Node)| {
                let is_on_grid = |value: &str| {
                    makers.get(value).copied().is_some_and(is_quantised)
                        || self.readers_of(value).any(is_product)
                };
                is_quantised(index)
                    && (is_product(index)
                        || (self.activations(node).all(is_on_grid)
                            && self.readers_of(made(index)).any(is_quantised)))
            };
            let next: Vec<bool> = self.nodes.iter().enumerate().map(stays).collect();
            if next == quantised {
                return quantised;
            }
            quantised = next;
        }
    }

    /// A `Relu` or `Clip` that alone reads what a product or a sum makes. The ends of a grid do the
    /// same, since its range is that of what comes out.
    fn tails(&self) -> BTreeMap<usize, usize> {
        let tail = |(index, node): (usize, &Node)| {
            if !(self.multiplies(node) || matches!(node.op, Op::Add)) {
                return None;
            }
            let output = node.outputs.first()?.as_str();
            let [reader] = self.readers.get(output)?.as_slice() else {
                return None;
            };
            let clips = match self.nodes.get(*reader)?.op {
                Op::Relu => true,
                Op::Clip { min, max } => min <= 0.0 && max >= 0.0,
                _ => false,
            };
            (clips && !self.outputs.contains(output)).then_some((index, *reader))
        };
        self.nodes.iter().enumerate().filter_map(tail).collect()
    }

    fn multiplies(&self, node: &Node) -> bool {
        let is_weight = |position: usize| {
            let name = node.inputs.get(position).map(String::as_str);
            name.is_some_and(|name| self.parameters.contains(name))
        };
        let rank = |position: usize| {
            let name = node.inputs.get(position).map(String::as_str);
            name.and_then(|name| self.ranks.get(name)).copied()
        };
        let operands = match node.op {
            // A weight of more axes would want a scale for each matrix.
            Op::MatMul => !is_weight(1) || rank(1) == Some(2),
            _ => is_weight(1),
        };
        let bias = node.inputs.len() < 3 || is_weight(2);
        is_product(&node.op) && !is_weight(0) && operands && bias
    }

    /// Whether an operator can stand between products.
    fn may_join(&self, node: &Node) -> bool {
        let has_form = keeps_its_grid(&node.op)
            || matches!(
                node.op,
                Op::Add | Op::Concat { .. } | Op::AveragePool { .. } | Op::GlobalAveragePool
            );
        let is_activation = |input: &String| {
            !self.parameters.contains(input.as_str()) && !self.integers.contains(input.as_str())
        };
        has_form && node.inputs.iter().all(is_activation)
    }

    /// The values that a node reads and that are no parameters.
    fn activations<'n>(&'n self, node: &'n Node) -> impl Iterator<Item = &'n str> {
        node.inputs
            .iter()
            .map(String::as_str)
            .filter(|input| !self.parameters.contains(input))
    }

    fn readers_of(&self, value: &str) -> impl Iterator<Item = usize> {
        self.readers.get(value).into_iter().flatten().copied()
    }
}

/// Whether what an operator makes consists of numbers that it reads.
const fn keeps_its_grid(op: &Op) -> bool {
    matches!(
        op,
        Op::MaxPool { .. }
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Squeeze { .. }
    )
}
