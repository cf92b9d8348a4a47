//! Factors that are decided in the graph: an operator as one kernel of the engine, or spelt out in
//! elementary operators, which every engine has.
//!
//! `recurrent: unrolled` makes an LSTM or GRU a chain of products and gates, position by position;
//! `attention: plain` makes attention products, a mask and a softmax; `dropout: off` has dropout in
//! training drop nothing. A cell's graph is rewritten
//! where it is resolved; the plan names the graph as the model has it, and the reference of parity
//! runs that one, so that each rewriting is verified with the cell that uses it.
//!
//! Other words (`fused`, or whatever an engine of the user's may know) leave the graph to the engine.

mod attention;
mod recurrent;
pub(crate) mod sheet;

use std::collections::BTreeMap;

use schema::{
    Graph,
    graph::{Node, Op},
};

use crate::{ModelError, infer};
pub(crate) use recurrent::unrolled_nodes;
use sheet::Sheet;

/// The factor that decides about [`Op::Lstm`] and [`Op::Gru`].
pub const RECURRENT: &str = "recurrent";

/// The factor that decides about [`Op::Attention`].
pub const ATTENTION: &str = "attention";

/// The factor that decides about [`Op::Dropout`], in training.
pub const DROPOUT: &str = "dropout";

/// The value of [`DROPOUT`] that trains as published.
pub const ON: &str = "on";

/// The value of [`DROPOUT`] that has it drop nothing. The operator stays, as a user turns it off.
pub const OFF: &str = "off";

/// The value of [`RECURRENT`] that spells out.
pub const UNROLLED: &str = "unrolled";

/// The value of [`ATTENTION`] that spells out.
pub const PLAIN: &str = "plain";

/// Either factor's value that leaves the operator to a kernel of the engine's.
pub const FUSED: &str = "fused";

/// Whether a factor is about operators that only some networks have.
#[must_use]
pub fn is_about_operators(factor: &str) -> bool {
    [RECURRENT, ATTENTION, DROPOUT].contains(&factor)
}

/// Whether a factor decides about an operator.
#[must_use]
pub fn decides(factor: &str, op: &Op) -> bool {
    match op {
        Op::Lstm { .. } | Op::Gru { .. } => factor == RECURRENT,
        Op::Attention { .. } => factor == ATTENTION,
        Op::Dropout { .. } => factor == DROPOUT,
        _ => false,
    }
}

/// What is spelt out of a graph, or turned off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rewriting {
    recurrent: bool,
    attention: bool,
    no_dropout: bool,
}

impl Rewriting {
    /// What a cell's factors ask for.
    #[must_use]
    pub fn asked_by(factors: &BTreeMap<String, String>) -> Self {
        let asks = |factor, value| factors.get(factor).is_some_and(|asked| asked == value);
        Self {
            recurrent: asks(RECURRENT, UNROLLED),
            attention: asks(ATTENTION, PLAIN),
            no_dropout: asks(DROPOUT, OFF),
        }
    }

    /// The graph with these operators spelt out or turned off. All other values, inputs, outputs and parameters
    /// keep their names; constants are added behind the parameters.
    ///
    /// # Errors
    /// A graph that [`infer::shapes`] refuses, or one that becomes too large: see the message.
    pub fn apply(self, graph: Graph) -> Result<Graph, ModelError> {
        if !graph.nodes.iter().any(|node| self.changes(&node.op)) {
            return Ok(graph);
        }
        let types = infer::shapes(&graph)?;
        let shape = |name: &str| types.get(name).map_or(&[][..], |value| &value.shape);
        let mut sheet = Sheet::new(types.keys(), &graph.nodes);
        for node in &graph.nodes {
            let written = match node.op {
                Op::Attention { heads, causal } if self.attention => {
                    attention::spell_out(&mut sheet, node, heads, causal, shape)
                }
                Op::Lstm { .. } | Op::Gru { .. } if self.recurrent => {
                    recurrent::unroll(&mut sheet, node, shape)
                }
                Op::Dropout { .. } if self.no_dropout => {
                    sheet.nodes.push(Node {
                        op: Op::Dropout { ratio: 0.0 },
                        ..node.clone()
                    });
                    Ok(())
                }
                _ => {
                    sheet.nodes.push(node.clone());
                    Ok(())
                }
            };
            written.map_err(|reason| ModelError::Node {
                graph: graph.name.clone(),
                node: node.name.clone(),
                op: node.op.name(),
                reason,
            })?;
        }
        let mut parameters = graph.parameters;
        parameters.append(&mut sheet.parameters);
        Ok(Graph {
            parameters,
            nodes: sheet.nodes,
            ..graph
        })
    }

    const fn changes(self, op: &Op) -> bool {
        match op {
            Op::Lstm { .. } | Op::Gru { .. } => self.recurrent,
            Op::Attention { .. } => self.attention,
            Op::Dropout { .. } => self.no_dropout,
            _ => false,
        }
    }
}
