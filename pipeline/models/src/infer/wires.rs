//! A checked graph with its names resolved to places, so that its types can be worked out again at
//! other sizes without looking up a name.

use std::collections::HashMap;

use schema::{
    Graph,
    graph::{Fill, Loss, Node, Op},
};

use super::{ValueType, check_labels, check_shape, fills, moves, parameter_element, rules};
use crate::ModelError;

/// Where each node's values stand in a list of all values: inputs, labels, parameters, and then
/// what the nodes make, one value each.
#[derive(Debug)]
pub(crate) struct Wires {
    /// What each node reads.
    reads: Vec<Vec<usize>>,
    /// Of each node the place of the input or the parameter that it makes a part of.
    parts: Vec<Option<usize>>,
    /// The graph's outputs.
    outputs: Vec<usize>,
    /// Place of the labels, and of the logits that they are held against.
    loss: Option<(usize, usize)>,
    /// Place of the first parameter.
    parameters: usize,
    /// Place of what the first node makes.
    made: usize,
}

impl Wires {
    /// The wires of a graph that passed [`super::shapes`]; `None` where a name leads nowhere.
    pub(crate) fn new(graph: &Graph) -> Option<Self> {
        let labels = graph
            .loss
            .as_ref()
            .map(|Loss::CrossEntropy { labels, .. }| &labels.name);
        let fed = graph.inputs.iter().map(|input| &input.name).chain(labels);
        let parameters = graph.parameters.iter().map(|parameter| &parameter.name);
        let made = graph.nodes.iter().map(|node| node.outputs.first());
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (place, name) in fed.chain(parameters).map(Some).chain(made).enumerate() {
            places.insert(name?, place);
        }
        let place = |name: &String| places.get(name.as_str()).copied();
        let reads = graph
            .nodes
            .iter()
            .map(|node| node.inputs.iter().map(place).collect());
        let reads: Vec<Vec<usize>> = reads.collect::<Option<_>>()?;
        let loss = graph
            .loss
            .as_ref()
            .map(|Loss::CrossEntropy { logits, .. }| Some((graph.inputs.len(), place(logits)?)));
        let parameters = graph.inputs.len() + usize::from(labels.is_some());
        let made = parameters + graph.parameters.len();
        let mut parts: Vec<Option<usize>> = Vec::with_capacity(reads.len());
        for (node, reads) in graph.nodes.iter().zip(&reads) {
            let from = match reads.as_slice() {
                &[from] if moves(&node.op) => Some(from),
                _ => None,
            };
            parts.push(from.and_then(|from| match from.checked_sub(made) {
                Some(index) => parts.get(index).copied().flatten(),
                None => Some(from),
            }));
        }
        Some(Self {
            reads,
            parts,
            outputs: graph.outputs.iter().map(place).collect::<Option<_>>()?,
            loss: match loss {
                Some(loss) => Some(loss?),
                None => None,
            },
            parameters,
            made,
        })
    }

    /// Each node with the places of what it reads, and of what it makes.
    pub(crate) fn nodes<'a>(
        &'a self,
        graph: &'a Graph,
    ) -> impl ExactSizeIterator<Item = (&'a Node, &'a [usize], usize)> {
        let nodes = graph.nodes.iter().zip(&self.reads).enumerate();
        nodes.map(|(index, (node, reads))| (node, reads.as_slice(), self.made + index))
    }

    /// Places of the graph's outputs.
    pub(crate) fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// Place of the labels.
    pub(crate) fn labels(&self) -> Option<usize> {
        self.loss.map(|(labels, _)| labels)
    }

    /// Place of a parameter.
    pub(crate) fn parameter(&self, index: usize) -> usize {
        self.parameters + index
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.made + self.reads.len()
    }

    /// Types of what the graph begins with: inputs, labels, parameters.
    pub(crate) fn given(&self, graph: &Graph) -> Vec<ValueType> {
        let labels = graph
            .loss
            .as_ref()
            .map(|Loss::CrossEntropy { labels, .. }| labels);
        let fed = graph.inputs.iter().chain(labels).map(|input| ValueType {
            element: input.element,
            shape: input.shape.clone(),
        });
        let parameters = graph.parameters.iter().map(|parameter| ValueType {
            element: parameter_element(parameter),
            shape: parameter.shape.clone(),
        });
        let mut types = Vec::with_capacity(self.len());
        types.extend(fed.chain(parameters));
        types
    }

    /// Gives something that the graph begins with another shape.
    ///
    /// # Errors
    /// A shape that no value can have.
    pub(crate) fn give(
        types: &mut [ValueType],
        place: usize,
        shape: Vec<u64>,
    ) -> Result<(), String> {
        let value = types.get_mut(place).ok_or("the graph has no such value")?;
        value.shape = shape;
        check_shape(value)
    }

    /// Works out what the nodes make of `types`, which begins with what the graph is given and may
    /// hold more from an earlier call. Checks all that sizes decide, and nothing else.
    ///
    /// # Errors
    /// Sizes that the graph cannot have.
    pub(crate) fn infer(
        &self,
        graph: &Graph,
        types: &mut Vec<ValueType>,
    ) -> Result<(), ModelError> {
        types.truncate(self.made);
        let refused = |reason| ModelError::Graph {
            graph: graph.name.clone(),
            reason,
        };
        for (node, reads, _) in self.nodes(graph) {
            let inputs: Vec<&ValueType> = reads.iter().filter_map(|at| types.get(*at)).collect();
            let made = rules::output(&node.op, &inputs).and_then(|made| {
                if let (Op::Gather, [table, indices], [_, place]) =
                    (&node.op, inputs.as_slice(), reads)
                {
                    self.check_indices(graph, *place, indices, table)?;
                }
                check_shape(&made).map(|()| made)
            });
            let made = made.map_err(|reason| ModelError::Node {
                graph: graph.name.clone(),
                node: node.name.clone(),
                op: node.op.name(),
                reason,
            })?;
            types.push(made);
        }
        let (Some(Loss::CrossEntropy { labels, .. }), Some((at, logits))) =
            (&graph.loss, self.loss)
        else {
            return Ok(());
        };
        match (types.get(at), types.get(logits)) {
            (Some(given), Some(logits)) => {
                check_labels(logits, given.element, &given.shape, &labels.fill).map_err(refused)
            }
            _ => Err(refused("its loss has no logits".to_owned())),
        }
    }

    /// Whether all rows that are asked for exist.
    fn check_indices(
        &self,
        graph: &Graph,
        place: usize,
        indices: &ValueType,
        table: &ValueType,
    ) -> Result<(), String> {
        let fill = self
            .fill(graph, place)
            .ok_or("reads rows of a range that is not known")?;
        let rows = table.shape.first().copied().unwrap_or(0);
        fills::check_below(fill, &indices.shape, rows)
    }

    /// What fills an input or a parameter, or one that a value is a part of, where any part is filled as all of it.
    fn fill<'a>(&self, graph: &'a Graph, mut place: usize) -> Option<&'a Fill> {
        let part = place.checked_sub(self.made);
        if let Some(index) = part {
            place = (*self.parts.get(index)?)?;
        }
        let fill = match place.checked_sub(self.parameters) {
            Some(index) => graph.parameters.get(index).map(|given| &given.fill),
            None => graph.inputs.get(place).map(|given| &given.fill),
        }?;
        (part.is_none() || matches!(fill, Fill::Integers { .. })).then_some(fill)
    }
}
