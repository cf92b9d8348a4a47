//! How much of a network is quantised. It is what the graph says: which kernels an engine takes for it
//! is the engine's.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Cell, Digest, Graph, Precision,
    graph::{Node, Op},
};

use super::{CALIBRATION, CALIBRATION_INPUTS, MINMAX, is_product};

/// A count of products.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Convolutions, linear maps and products of matrices whose operands are on grids.
    pub quantised: usize,
    /// All of them; attention that is not spelt out and recurrent layers count as one each.
    pub products: usize,
}

/// Counts the products of a graph.
#[must_use]
pub fn census(graph: &Graph) -> Census {
    let on_grid: BTreeSet<&String> = graph
        .nodes
        .iter()
        .filter(|node| {
            matches!(
                node.op,
                Op::QuantizeDequantize { .. } | Op::DynamicQuantizeDequantize
            )
        })
        .flat_map(|node| &node.outputs)
        .collect();
    let is_quantised = |node: &&Node| {
        let mut operands = node.inputs.iter().take(2);
        is_product(&node.op) && operands.all(|operand| on_grid.contains(operand))
    };
    let multiplies = |node: &&Node| {
        is_product(&node.op)
            || matches!(
                node.op,
                Op::Attention { .. } | Op::Lstm { .. } | Op::Gru { .. }
            )
    };
    Census {
        quantised: graph.nodes.iter().filter(is_quantised).count(),
        products: graph.nodes.iter().filter(multiplies).count(),
    }
}

/// What a page tells of a quantised network: how many of its products have operands on grids, how
/// ranges were found, and the digest of the graph with all grids of activations. Empty for cells
/// of other precisions.
#[must_use]
pub fn settings(cell: &Cell, graph: &Graph) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    if !cell.precision.is_int8() {
        return settings;
    }
    let Census {
        quantised,
        products,
    } = census(graph);
    let mut tell = |name: &str, value: String| settings.insert(name.to_owned(), value);
    tell(
        "products on grids",
        format!("{quantised} of {products}; the others in floats"),
    );
    let digest = Digest::of_value(graph).short();
    tell("quantised graph", digest);
    let ranges = match cell.factors.get(CALIBRATION) {
        Some(method) => format!("{method} over {CALIBRATION_INPUTS} generated inputs"),
        None if cell.precision == Precision::Int8Static => {
            format!("{MINMAX} over {CALIBRATION_INPUTS} generated inputs")
        }
        None => "found in every step".to_owned(),
    };
    tell("ranges of activations", ranges);
    settings
}
