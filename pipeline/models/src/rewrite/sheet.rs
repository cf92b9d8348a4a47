//! The nodes of a rewritten graph, and the constants that they need.

use std::collections::{BTreeMap, BTreeSet};

use schema::graph::{Fill, Node, Op, Parameter, Role};

/// Most operators of a rewritten graph. As JSON they are about 20 MB: a worker takes a message of
/// 64 MiB, and no engine is at its best with more.
const MOST_NODES: u64 = 100_000;

/// A graph's nodes on their way.
pub(super) struct Sheet {
    pub(super) nodes: Vec<Node>,
    /// What was added to the parameters.
    pub(super) parameters: Vec<Parameter>,
    /// Constants by the names that were wished for: all that wish the same share one.
    constants: BTreeMap<String, String>,
    names: Names,
}

/// Names that are given away once.
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    /// No name of a value or a node will be given away again.
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a String>, nodes: &'a [Node]) -> Self {
        let names = nodes.iter().map(|node| &node.name);
        Self(values.chain(names).cloned().collect())
    }

    /// The name that is wanted, or one like it.
    pub(crate) fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut count = 1;
        while !self.0.insert(name.clone()) {
            count += 1;
            name = format!("{wanted}.{count}");
        }
        name
    }
}

impl Sheet {
    /// An empty sheet on which no name of a value or a node is given away again.
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a String>, nodes: &'a [Node]) -> Self {
        Self {
            nodes: Vec::new(),
            parameters: Vec::new(),
            constants: BTreeMap::new(),
            names: Names::new(values, nodes),
        }
    }

    /// Makes sure that there is room for so many more nodes.
    pub(super) fn reserve(&self, nodes: u64) -> Result<(), String> {
        let sum = nodes.saturating_add(self.nodes.len() as u64);
        if sum <= MOST_NODES {
            return Ok(());
        }
        Err(format!(
            "spelt out, the graph has {sum} operators, and {MOST_NODES} are possible: \
             take a shorter sequence, or leave the operator fused"
        ))
    }

    /// An operator whose value bears its name.
    pub(super) fn node(&mut self, wanted: &str, op: Op, inputs: &[&str]) -> String {
        let name = self.names.fresh(wanted);
        self.push(name.clone(), op, inputs, vec![name.clone()]);
        name
    }

    /// The operator that ends what stands for `node`, and makes what `node` made.
    pub(super) fn last(&mut self, node: &Node, op: Op, inputs: &[&str]) {
        self.push(node.name.clone(), op, inputs, node.outputs.clone());
    }

    /// A constant. The name says all about it: a second wish for it is given the first.
    pub(super) fn constant(&mut self, wanted: &str, shape: &[u64], fill: Fill) -> String {
        if let Some(name) = self.constants.get(wanted) {
            return name.clone();
        }
        let name = self.names.fresh(wanted);
        self.constants.insert(wanted.to_owned(), name.clone());
        self.parameters.push(Parameter {
            name: name.clone(),
            shape: shape.to_vec(),
            role: Role::Constant,
            fill,
        });
        name
    }

    fn push(&mut self, name: String, op: Op, inputs: &[&str], outputs: Vec<String>) {
        self.nodes.push(Node {
            name,
            op,
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
            outputs,
            in_place: false,
        });
    }
}
