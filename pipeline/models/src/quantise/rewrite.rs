//! The network with its grids written into it.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph,
    graph::{ElementType, Fill, GridElement, Node, Op, Parameter, Role},
};

use super::{
    Form, Grids, Range, Sink, WeightBits,
    choose::Choice,
    grid::{self, Bias, Grid},
    tidy::{self, Tidy},
};
use crate::{ModelError, Numbers, infer, rewrite::sheet::Names};

/// Writes grids into a tidy network.
pub(super) struct Rewriter<'a> {
    tidy: Tidy,
    form: Form,
    weight_bits: WeightBits,
    numbers: &'a Numbers,
    sink: Sink<'a>,
    choice: Choice,
    names: Names,
    nodes: Vec<Node>,
    /// Behind the parameters that are there.
    added: Vec<Parameter>,
    /// The numbers of folded biases, until they are used.
    biases: BTreeMap<String, Vec<f32>>,
    /// Grids of activations by the value that decides them, each with its scale's name.
    grids: BTreeMap<String, (Grid, String)>,
    /// The names of values on their grids.
    on_grid: BTreeMap<String, String>,
    weights: BTreeMap<(String, u64), Weight>,
}

/// A weight on its grids.
#[derive(Clone)]
struct Weight {
    name: String,
    scales: Vec<f32>,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        tidy: Tidy,
        Grids { form, weights }: Grids,
        numbers: &'a Numbers,
        sink: Sink<'a>,
    ) -> Result<Self, ModelError> {
        let types = infer::shapes(&tidy.graph)?;
        let choice = Choice::of(&tidy.graph)?;
        Ok(Self {
            names: Names::new(types.keys(), &tidy.graph.nodes),
            tidy,
            form,
            weight_bits: weights,
            numbers,
            sink,
            choice,
            nodes: Vec::new(),
            added: Vec::new(),
            biases: BTreeMap::new(),
            grids: BTreeMap::new(),
            on_grid: BTreeMap::new(),
            weights: BTreeMap::new(),
        })
    }

    pub(super) fn rewrite(mut self, ranges: &BTreeMap<String, Range>) -> Result<Graph, ModelError> {
        let graph = self.tidy.graph.clone();
        if self.form != Form::Dynamic {
            self.find_grids(ranges)?;
            for input in &graph.inputs {
                if self.choice.grids.contains_key(&input.name) {
                    self.put_on_grid(&input.name);
                }
            }
        }
        let absorbed = self.absorbed(&graph);
        let dropped: BTreeSet<usize> = absorbed.values().copied().collect();
        for (index, node) in graph.nodes.iter().enumerate() {
            if dropped.contains(&index) {
                continue;
            }
            let mut node = node.clone();
            let end = absorbed.get(&index).and_then(|end| graph.nodes.get(*end));
            if let Some(end) = end {
                node.outputs.clone_from(&end.outputs);
            }
            let is_quantised = self.choice.quantised.get(index).copied().unwrap_or(false);
            if self.form == Form::Dynamic {
                if is_quantised {
                    self.quantise_in_steps(&mut node)?;
                }
                self.nodes.push(node);
                continue;
            }
            if is_quantised {
                self.quantise(&mut node)?;
            }
            for input in &mut node.inputs {
                let is_read = is_quantised || self.choice.made_on_grid.contains(input);
                if let Some(name) = self.on_grid.get(input).filter(|_| is_read) {
                    input.clone_from(name);
                }
            }
            let output = node.outputs.first().cloned().unwrap_or_default();
            self.nodes.push(node);
            if self.choice.grids.contains_key(&output) {
                self.put_on_grid(&output);
            }
        }
        self.finish(graph)
    }

    /// The tails that grids stand for, by the node whose result they end.
    fn absorbed(&self, graph: &Graph) -> BTreeMap<usize, usize> {
        let is_absorbed = |&(index, tail): &(usize, usize)| {
            let output = graph.nodes.get(tail).and_then(|node| node.outputs.first());
            self.form == Form::Asymmetric
                && self.choice.quantised.get(index) == Some(&true)
                && output.is_some_and(|output| {
                    self.choice.made_on_grid.contains(output) && !graph.outputs.contains(output)
                })
        };
        let tails = self
            .choice
            .tails
            .iter()
            .map(|(&index, &tail)| (index, tail));
        tails.filter(is_absorbed).collect()
    }

    /// The grid of each value that decides one, its scale a parameter.
    fn find_grids(&mut self, ranges: &BTreeMap<String, Range>) -> Result<(), ModelError> {
        let sources: BTreeSet<String> = self.choice.grids.values().cloned().collect();
        for source in sources {
            let range = ranges.get(&source).copied();
            let grid = range
                .ok_or_else(|| "its range is not known".to_owned())
                .and_then(|range| match self.form {
                    Form::Symmetric => Grid::symmetric(range),
                    Form::Asymmetric | Form::Dynamic => Grid::asymmetric(range),
                })
                .map_err(|reason| self.value_error(&source, reason))?;
            let name = self.names.fresh(&format!("{source}.scale"));
            self.added.push(Parameter {
                name: name.clone(),
                shape: Vec::new(),
                role: Role::Constant,
                fill: Fill::Constant { value: grid.scale },
            });
            self.grids.insert(source, (grid, name));
        }
        Ok(())
    }

    fn grid_of(&self, value: &str) -> Option<&(Grid, String)> {
        self.grids.get(self.choice.grids.get(value)?)
    }

    /// Rounds a value behind what makes it.
    fn put_on_grid(&mut self, value: &str) {
        let Some((grid, scale)) = self.grid_of(value).cloned() else {
            return;
        };
        let op = Op::QuantizeDequantize {
            axis: None,
            zero_point: grid.zero_point,
            element: grid.element,
        };
        let name = self.push(&format!("{value}.quantized"), op, &[value, &scale]);
        self.on_grid.insert(value.to_owned(), name);
    }

    /// Puts the weight and the bias of a product on their grids. Other operators have none.
    fn quantise(&mut self, node: &mut Node) -> Result<(), ModelError> {
        let Some(axis) = self.weight_axis(node) else {
            return Ok(());
        };
        let [x, weight, bias @ ..] = node.inputs.as_slice() else {
            return Ok(());
        };
        let has_integers = self.form == Form::Asymmetric;
        let operand_scale = self.grid_of(x).map(|(grid, _)| grid.scale);
        let (x_scale, bias) = match (operand_scale, bias.first()) {
            (Some(scale), Some(bias)) if has_integers => (scale, Some(bias.clone())),
            _ => (1.0, None),
        };
        let weight = weight.clone();
        let numbers = match &bias {
            Some(bias) => Some(self.floats(bias)?),
            None => None,
        };
        let quantised = self.weight(&weight, axis, numbers.as_deref(), x_scale)?;
        if let Some(slot) = node.inputs.get_mut(1) {
            slot.clone_from(&quantised.name);
        }
        if let (Some(bias), Some(numbers)) = (bias, numbers) {
            let scales: Vec<f32> = quantised
                .scales
                .iter()
                .map(|scale| scale * x_scale)
                .collect();
            let fits = numbers.iter().zip(&scales).all(|(number, &scale)| {
                scale >= f32::MIN_POSITIVE
                    && (f64::from(*number) / f64::from(scale)).abs() < f64::from(i32::MAX)
            });
            // Of a weight that several products share only the first bias decides.
            if fits {
                let scale = format!("{}.bias_scale", node.name);
                let scale = self.stored(&scale, &[scales.len() as u64], &scales)?;
                let op = Op::QuantizeDequantize {
                    axis: Some(0),
                    zero_point: 0,
                    element: GridElement::Int32,
                };
                let name = format!("{}.bias_quantized", node.name);
                let name = self.push(&name, op, &[&bias, &scale]);
                if let Some(slot) = node.inputs.get_mut(2) {
                    *slot = name;
                }
            }
        }
        Ok(())
    }

    /// As [`quantise`](Self::quantise), the activation rounded to a grid of the step's.
    fn quantise_in_steps(&mut self, node: &mut Node) -> Result<(), ModelError> {
        let Some(axis) = self.weight_axis(node) else {
            return Ok(());
        };
        let [x, weight, ..] = node.inputs.as_slice() else {
            return Ok(());
        };
        let (x, weight) = (x.clone(), weight.clone());
        let rounded = match self.on_grid.get(&x) {
            Some(name) => name.clone(),
            None => {
                let op = Op::DynamicQuantizeDequantize;
                let name = self.push(&format!("{x}.quantized"), op, &[&x]);
                self.on_grid.insert(x, name.clone());
                name
            }
        };
        let weight = self.weight(&weight, axis, None, 1.0)?.name;
        for (slot, name) in node.inputs.iter_mut().zip([rounded, weight]) {
            *slot = name;
        }
        Ok(())
    }

    /// The axis of a product's weight that has the outputs; `None` where there is no weight.
    fn weight_axis(&self, node: &Node) -> Option<u64> {
        let weight = node.inputs.get(1)?;
        self.parameter(weight)?;
        match node.op {
            Op::Conv { .. } | Op::Linear => Some(0),
            Op::Gemm | Op::MatMul => Some(1),
            _ => None,
        }
    }

    /// A weight on grids along `axis`, the same for all who read it.
    fn weight(
        &mut self,
        name: &str,
        axis: u64,
        bias: Option<&[f32]>,
        operand_scale: f32,
    ) -> Result<Weight, ModelError> {
        let key = (name.to_owned(), axis);
        if let Some(weight) = self.weights.get(&key) {
            return Ok(weight.clone());
        }
        let numbers = self.floats(name)?;
        let shape = self.parameter(name).map(|found| found.shape.clone());
        let shape = shape.unwrap_or_default();
        let bias = bias.map(|numbers| Bias {
            numbers,
            operand_scale,
        });
        let most = self.weight_bits.largest();
        let scales = grid::weight_scales(&numbers, &shape, axis as usize, most, bias.as_ref())
            .map_err(|reason| self.value_error(name, reason))?;
        let scale = self.stored(&format!("{name}.scale"), &[scales.len() as u64], &scales)?;
        let op = Op::QuantizeDequantize {
            axis: Some(axis),
            zero_point: 0,
            element: GridElement::Int8,
        };
        let name = self.push(&format!("{name}.quantized"), op, &[name, &scale]);
        let weight = Weight { name, scales };
        self.weights.insert(key, weight.clone());
        Ok(weight)
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        let mut parameters = self.tidy.graph.parameters.iter();
        parameters.find(|parameter| parameter.name == name)
    }

    /// The numbers of a parameter. Folded ones are computed and put down when they are first asked
    /// for: the weight, and with it its bias.
    fn floats(&mut self, name: &str) -> Result<Vec<f32>, ModelError> {
        if let Some(bias) = self.biases.get(name) {
            return Ok(bias.clone());
        }
        let mut folds = self.tidy.folds.iter();
        let weight = folds.find(|(weight, fold)| *weight == name || fold.bias_name == name);
        let Some((weight, fold)) = weight else {
            let parameter = self.parameter(name).cloned();
            let parameter =
                parameter.ok_or_else(|| self.value_error(name, "is no parameter".to_owned()))?;
            return self.numbers.floats(&parameter);
        };
        let (weight, bias_name) = (weight.clone(), fold.bias_name.clone());
        let folded = fold.numbers(self.numbers)?;
        let is_bias = name == bias_name;
        if !self.biases.contains_key(&bias_name) {
            let places = [(&weight, &folded.weight), (&bias_name, &folded.bias)];
            for (name, numbers) in places {
                let fill = self.write(numbers)?;
                let mut parameters = self.tidy.graph.parameters.iter_mut();
                if let Some(slot) = parameters.find(|parameter| parameter.name == *name) {
                    slot.fill = fill;
                }
            }
            self.biases.insert(bias_name, folded.bias.clone());
        }
        Ok(if is_bias { folded.bias } else { folded.weight })
    }

    /// A constant whose numbers are put down.
    fn stored(
        &mut self,
        wanted: &str,
        shape: &[u64],
        numbers: &[f32],
    ) -> Result<String, ModelError> {
        let fill = self.write(numbers)?;
        let name = self.names.fresh(wanted);
        self.added.push(Parameter {
            name: name.clone(),
            shape: shape.to_vec(),
            role: Role::Constant,
            fill,
        });
        Ok(name)
    }

    fn write(&mut self, numbers: &[f32]) -> Result<Fill, ModelError> {
        let offset = self.sink.bytes;
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.sink
            .out
            .write_all(&bytes)
            .map_err(|error| ModelError::Graph {
                graph: self.tidy.graph.name.clone(),
                reason: format!("its quantised weights cannot be put down: {error}"),
            })?;
        self.sink.bytes += bytes.len() as u64;
        Ok(Fill::Stored {
            element: ElementType::Float,
            offset,
        })
    }

    fn push(&mut self, wanted: &str, op: Op, inputs: &[&str]) -> String {
        let name = self.names.fresh(wanted);
        self.nodes.push(Node {
            name: name.clone(),
            op,
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
            outputs: vec![name.clone()],
            in_place: false,
        });
        name
    }

    fn finish(mut self, graph: Graph) -> Result<Graph, ModelError> {
        // Folded convolutions that no grid asked for are there all the same.
        let folds: Vec<String> = self.tidy.folds.keys().cloned().collect();
        for weight in folds {
            let written = self.parameter(&weight).map(|found| found.fill);
            if !matches!(written, Some(Fill::Stored { .. })) {
                self.floats(&weight)?;
            }
        }
        let mut parameters = self.tidy.graph.parameters;
        parameters.append(&mut self.added);
        let mut graph = Graph {
            parameters,
            nodes: self.nodes,
            ..graph
        };
        tidy::drop_unread(&mut graph);
        infer::shapes(&graph)?;
        Ok(graph)
    }

    fn value_error(&self, value: &str, reason: String) -> ModelError {
        ModelError::Value {
            graph: self.tidy.graph.name.clone(),
            value: value.to_owned(),
            reason,
        }
    }
}
