//! A network before quantisation: without what inference leaves out, batch normalisations folded
//! into the convolutions before them.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph,
    graph::{Fill, Node, Op, Parameter, Role},
};

use crate::{ModelError, Numbers, infer, rewrite::sheet::Names};

/// The network, and what its folded parameters are to be computed from.
pub(super) struct Tidy {
    pub(super) graph: Graph,
    /// By the name of the folded weight.
    pub(super) folds: BTreeMap<String, Fold>,
}

/// A convolution and the normalisation that was behind it.
pub(super) struct Fold {
    /// The folded bias.
    pub(super) bias_name: String,
    weight: Parameter,
    bias: Option<Parameter>,
    /// Scale, bias, mean and variance.
    norm: [Parameter; 4],
    epsilon: f32,
}

/// Numbers of a folded convolution.
pub(super) struct Folded {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Tidy {
    pub(super) fn of(graph: &Graph) -> Result<Self, ModelError> {
        let types = infer::shapes(graph)?;
        let mut names = Names::new(types.keys(), &graph.nodes);
        let kept: BTreeSet<&str> = graph.outputs.iter().map(String::as_str).collect();
        let nodes = without_dropout(graph, &kept);
        let parameters: BTreeMap<&str, &Parameter> = graph
            .parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter))
            .collect();
        let mut readers: BTreeMap<&str, usize> = BTreeMap::new();
        for input in nodes.iter().flat_map(|node| &node.inputs) {
            *readers.entry(input).or_default() += 1;
        }
        let convolutions: BTreeMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| matches!(node.op, Op::Conv { .. }))
            .filter_map(|(index, node)| Some((node.outputs.first()?.as_str(), index)))
            .filter(|(output, _)| readers.get(output) == Some(&1) && !kept.contains(output))
            .collect();
        let mut tidied = nodes.clone();
        let mut folds = BTreeMap::new();
        let mut added = Vec::new();
        let mut dropped = BTreeSet::new();
        for (index, node) in nodes.iter().enumerate() {
            let convolution = node
                .inputs
                .first()
                .and_then(|x| convolutions.get(x.as_str()));
            let Some((&place, fold)) = convolution.and_then(|place| {
                let fold = Fold::of(nodes.get(*place)?, node, &parameters, &mut names)?;
                Some((place, fold))
            }) else {
                continue;
            };
            let name = names.fresh(&format!("{}.folded", fold.weight.name));
            if let Some(convolution) = tidied.get_mut(place) {
                convolution.inputs.truncate(1);
                convolution
                    .inputs
                    .extend([name.clone(), fold.bias_name.clone()]);
                convolution.outputs.clone_from(&node.outputs);
            }
            dropped.insert(index);
            added.extend(fold.parameters(&name));
            folds.insert(name, fold);
        }
        let mut index = 0;
        tidied.retain(|_| {
            index += 1;
            !dropped.contains(&(index - 1))
        });
        let mut tidy = Graph {
            parameters: graph.parameters.iter().cloned().chain(added).collect(),
            nodes: tidied,
            loss: None,
            ..graph.clone()
        };
        drop_unread(&mut tidy);
        Ok(Self { graph: tidy, folds })
    }
}

/// Leaves out parameters that nothing reads.
pub(super) fn drop_unread(graph: &mut Graph) {
    let read: BTreeSet<&String> = graph.nodes.iter().flat_map(|node| &node.inputs).collect();
    graph
        .parameters
        .retain(|parameter| read.contains(&parameter.name));
}

/// The nodes, those behind a dropout reading what it reads.
fn without_dropout(graph: &Graph, kept: &BTreeSet<&str>) -> Vec<Node> {
    let mut aliases: BTreeMap<String, String> = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in &graph.nodes {
        let mut node = node.clone();
        for input in &mut node.inputs {
            if let Some(value) = aliases.get(input) {
                input.clone_from(value);
            }
        }
        match (&node.op, node.inputs.first(), node.outputs.first()) {
            (Op::Dropout { .. }, Some(input), Some(output)) if !kept.contains(output.as_str()) => {
                aliases.insert(output.clone(), input.clone());
            }
            _ => nodes.push(node),
        }
    }
    nodes
}

impl Fold {
    fn of(
        convolution: &Node,
        norm: &Node,
        parameters: &BTreeMap<&str, &Parameter>,
        names: &mut Names,
    ) -> Option<Self> {
        let Op::BatchNormalization { epsilon, .. } = norm.op else {
            return None;
        };
        let parameter = |name: &String| parameters.get(name.as_str()).map(|&found| found.clone());
        let [_, weight, bias @ ..] = convolution.inputs.as_slice() else {
            return None;
        };
        let weight = parameter(weight)?;
        let bias = match bias.first() {
            Some(bias) => Some(parameter(bias)?),
            None => None,
        };
        let [_, scale, shift, mean, variance] = norm.inputs.as_slice() else {
            return None;
        };
        let norm = [
            parameter(scale)?,
            parameter(shift)?,
            parameter(mean)?,
            parameter(variance)?,
        ];
        let bias_name = names.fresh(&format!("{}.folded_bias", convolution.name));
        Some(Self {
            bias_name,
            weight,
            bias,
            norm,
            epsilon,
        })
    }

    /// The folded parameters; their numbers are still to be computed.
    fn parameters(&self, name: &str) -> [Parameter; 2] {
        let made = |name: &str, shape: &[u64]| Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
            role: Role::Weight,
            fill: Fill::Constant { value: 0.0 },
        };
        let outputs = self.weight.shape.get(..1).unwrap_or_default();
        [
            made(name, &self.weight.shape),
            made(&self.bias_name, outputs),
        ]
    }

    /// `w·γ/√(σ² + ε)` and `(b − μ)·γ/√(σ² + ε) + β`, computed in binary64.
    pub(super) fn numbers(&self, numbers: &Numbers) -> Result<Folded, ModelError> {
        let mut weight = numbers.floats(&self.weight)?;
        let own_bias = self
            .bias
            .as_ref()
            .map(|bias| numbers.floats(bias))
            .transpose()?;
        let [scale, shift, mean, variance] = &self.norm;
        let (scale, shift) = (numbers.floats(scale)?, numbers.floats(shift)?);
        let (mean, variance) = (numbers.floats(mean)?, numbers.floats(variance)?);
        let channels = scale.len().max(1);
        let taps = (weight.len() / channels).max(1);
        let mut bias = Vec::with_capacity(channels);
        let at = |values: &[f32], channel: usize| {
            f64::from(values.get(channel).copied().unwrap_or_default())
        };
        for (channel, weights) in weight.chunks_mut(taps).enumerate() {
            let deviation = (at(&variance, channel) + f64::from(self.epsilon)).sqrt();
            let factor = at(&scale, channel) / deviation;
            for weight in weights {
                *weight = (f64::from(*weight) * factor) as f32;
            }
            let own = own_bias.as_ref().map_or(0.0, |bias| at(bias, channel));
            bias.push(((own - at(&mean, channel)) * factor + at(&shift, channel)) as f32);
        }
        Ok(Folded { weight, bias })
    }
}
