//! Node by node from ONNX's operators to those of the graph.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schema::graph::{Approximation, ElementType, Fill, Input, Op, Role};

use super::{
    File, ReadError, Reading,
    attributes::Attributes,
    fold::{self, Budget},
    fuse, linear, moves, shapes,
    tensor::{Constant, Data, Element, Kind},
    windows,
};
use crate::{
    infer::{self, ValueType},
    onnx::proto::{AttributeProto, GraphProto, NodeProto},
};

/// Largest magnitude of a mask that leaves nothing of what it is added to.
const MASKED: f32 = -1e30;

/// What a step computes: an operator of the graph, or a part of one that `fuse` looks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    Op(Op),
    Sub,
    Div,
    Pow(f64),
    Sqrt,
    Erf,
    /// Of the last axis, which stays with size 1.
    Mean,
}

/// An operator application under construction.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// ONNX's name of the operator and the node that it came from.
    pub(super) origin: (String, String),
    pub(super) work: Work,
    pub(super) inputs: Vec<String>,
    pub(super) output: String,
}

/// What a name of the file stands for.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Fixed numbers.
    Known(Constant),
    /// Something that is fed or made, by its name in the graph.
    Made(String),
}

/// A parameter of the graph.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) constant: Constant,
    pub(super) role: Role,
}

/// A model on its way to a graph.
pub(super) struct Import<'a> {
    pub(super) file: &'a File,
    nodes: &'a GraphProto,
    pub(super) steps: Vec<Step>,
    values: HashMap<String, Value>,
    pub(super) types: HashMap<String, ValueType>,
    pub(super) parameters: BTreeMap<String, Held>,
    /// Parameters by what they hold: origin, shape, role.
    known: BTreeMap<(usize, Vec<u64>, u8), String>,
    /// Names of the file's tensors by their origin.
    names: HashMap<usize, String>,
    pub(super) taken: BTreeSet<String>,
    pub(super) budget: Budget,
    inputs: Vec<Input>,
    /// Rows that exist for the inputs that are used as indices.
    rows: HashMap<String, u64>,
}

/// The node at hand.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) node: &'a NodeProto,
    pub(super) attributes: Attributes<'a>,
}

impl Here<'_> {
    fn name(&self) -> String {
        let output = || self.node.output.iter().find(|name| !name.is_empty());
        if self.node.name.is_empty() {
            output().cloned().unwrap_or_default()
        } else {
            self.node.name.clone()
        }
    }
}

impl<'a> Import<'a> {
    pub(super) fn new(file: &'a File, dims: &BTreeMap<String, u64>) -> Result<Self, ReadError> {
        let nodes = &file.nodes;
        let outputs = nodes.node.iter().flat_map(|node| &node.output);
        let names = file.initializers.keys().chain(outputs);
        let mut import = Self {
            file,
            nodes,
            steps: Vec::new(),
            values: HashMap::new(),
            types: HashMap::new(),
            parameters: BTreeMap::new(),
            known: BTreeMap::new(),
            names: HashMap::new(),
            taken: names.cloned().collect(),
            budget: Budget::new(file.bytes),
            inputs: Vec::new(),
            rows: HashMap::new(),
        };
        for (name, constant) in &file.initializers {
            import.names.insert(constant.origin(), name.clone());
            let value = Value::Known(constant.clone());
            import.values.insert(name.clone(), value);
        }
        import.feed(dims)?;
        Ok(import)
    }

    /// Declares the inputs.
    fn feed(&mut self, dims: &BTreeMap<String, u64>) -> Result<(), ReadError> {
        let indices = indices(self.nodes);
        for fed in &self.file.inputs.fed {
            let (name, shape) = (&fed.name, fed.shape(dims));
            let refused =
                |reason: &str| ReadError::Malformed(format!("its input `{name}` {reason}"));
            if fed.kind == Kind::Bool || (fed.kind == Kind::Integer && fed.code != Element::INT64) {
                let reason = "holds booleans or narrow integers; export it with floats and int64";
                return Err(refused(reason));
            }
            let (element, fill) = match fed.kind {
                Kind::Float => {
                    // Mean 0 and variance 1, as the zoo's images.
                    let bound = 3_f32.sqrt();
                    (
                        ElementType::Float,
                        Fill::Uniform {
                            low: -bound,
                            high: bound,
                        },
                    )
                }
                _ => (ElementType::Int64, Fill::Constant { value: 1.0 }),
            };
            let value = ValueType {
                element,
                shape: shape.clone(),
            };
            infer::check_shape(&value).map_err(|reason| refused(&reason))?;
            if !self.taken.insert(name.clone()) {
                return Err(refused("has the name of another value"));
            }
            let is_known = fed.kind == Kind::Integer && !indices.contains(name.as_str());
            let value = if is_known {
                // Ones, here as for every engine.
                let one = Constant::integers(vec![1; shape.len()], vec![1]);
                let ones = self
                    .expand(&one, &shape)
                    .map_err(|reason| refused(&reason))?;
                Value::Known(ones)
            } else {
                self.types.insert(name.clone(), value);
                Value::Made(name.clone())
            };
            self.values.insert(name.clone(), value);
            self.inputs.push(Input {
                name: name.clone(),
                element,
                shape,
                fill,
            });
        }
        Ok(())
    }

    fn expand(&mut self, constant: &Constant, shape: &[u64]) -> Result<Constant, String> {
        let node = NodeProto::default();
        let spec: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let spec = Constant::integers(vec![spec.len() as u64], spec);
        let inputs = [Some(constant.clone()), Some(spec)];
        let made = fold::fold("Expand", Attributes(&node), &inputs, &mut self.budget)?;
        made.and_then(|made| made.into_iter().next())
            .ok_or_else(|| "cannot be repeated".to_owned())
    }

    /// The graph.
    pub(super) fn finish(mut self) -> Result<Reading, ReadError> {
        for node in &self.nodes.node {
            let here = Here {
                node,
                attributes: Attributes(node),
            };
            let unsupported = |reason: String| ReadError::Unsupported {
                op: node.op_type.clone(),
                node: here.name(),
                reason,
            };
            if !(node.domain.is_empty() || node.domain == "ai.onnx") {
                let reason = format!("operators of `{}` are not read", node.domain);
                return Err(unsupported(reason));
            }
            if let Some(name) = node
                .input
                .iter()
                .find(|name| !name.is_empty() && !self.values.contains_key(*name))
            {
                return Err(ReadError::Malformed(format!(
                    "its node `{}` ({}) reads `{name}`, which nothing before it makes: \
                     the nodes are in no order, or in a circle",
                    here.name(),
                    node.op_type
                )));
            }
            self.node(here).map_err(unsupported)?;
        }
        let outputs = self.outputs()?;
        fuse::fuse(&mut self, &outputs);
        let steps = fuse::lower(&mut self, &outputs)?;
        super::build(self, steps, outputs)
    }

    /// The inputs, those that are indices bounded by the rows that they are used for.
    pub(super) fn take_inputs(&mut self) -> Vec<Input> {
        let mut inputs = std::mem::take(&mut self.inputs);
        for input in &mut inputs {
            if let Some(&bound) = self.rows.get(&input.name) {
                input.fill = Fill::Integers { bound };
            }
        }
        inputs
    }

    /// Says that an input's numbers are below a table's rows.
    pub(super) fn bound(&mut self, input: &str, rows: u64) {
        let bound = self.rows.entry(input.to_owned()).or_insert(rows);
        *bound = rows.min(*bound);
    }

    fn node(&mut self, here: Here<'a>) -> Result<(), String> {
        let node = here.node;
        let has_graph =
            |attribute: &AttributeProto| attribute.g.is_some() || !attribute.graphs.is_empty();
        if node.attribute.iter().any(has_graph) {
            return Err("holds a graph of its own".to_owned());
        }
        let inputs: Vec<Option<Value>> = node
            .input
            .iter()
            .map(|name| self.values.get(name).cloned())
            .collect();
        match node.op_type.as_str() {
            "Constant" => {
                let constant = constant(here.attributes)?;
                return self.give(here, 0, Value::Known(constant));
            }
            "Shape" => {
                let shape = self.shape_of(first(&inputs)?)?;
                let constant = shape_slice(&shape, here.attributes)?;
                return self.give(here, 0, Value::Known(constant));
            }
            _ => {}
        }
        let known: Option<Vec<Option<Constant>>> = inputs
            .iter()
            .map(|input| match input {
                Some(Value::Made(_)) => None,
                Some(Value::Known(constant)) => Some(Some(constant.clone())),
                None => Some(None),
            })
            .collect();
        if let Some(known) = known
            && let Some(made) =
                fold::fold(&node.op_type, here.attributes, &known, &mut self.budget)?
        {
            for (at, constant) in made.into_iter().enumerate() {
                self.give(here, at, Value::Known(constant))?;
            }
            return Ok(());
        }
        if let Some(extra) = node.output.iter().skip(1).find(|name| !name.is_empty())
            && !matches!(node.op_type.as_str(), "Split" | "Dropout")
        {
            return Err(format!("its second output `{extra}` is not read"));
        }
        self.compute(here, &inputs)
    }

    fn compute(&mut self, here: Here<'a>, inputs: &[Option<Value>]) -> Result<(), String> {
        let x = first(inputs)?;
        match here.node.op_type.as_str() {
            "Identity" | "Dropout" => {
                if let Some(mask) = here.node.output.get(1).filter(|name| !name.is_empty()) {
                    return Err(format!("its mask `{mask}` is not read"));
                }
                self.give(here, 0, x.clone())
            }
            "Cast" => self.cast(here, x),
            "Conv" => windows::conv(self, here, inputs),
            "MaxPool" | "AveragePool" => windows::pool(self, here, x),
            "GlobalAveragePool" => self.op(here, Op::GlobalAveragePool, inputs),
            "BatchNormalization" => linear::batch_norm(self, here, inputs),
            "LayerNormalization" => linear::layer_norm(self, here, inputs),
            "Gemm" => linear::gemm(self, here, inputs),
            "MatMul" => linear::matmul(self, here, inputs),
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Concat" | "Slice"
            | "Gather" | "Expand" | "Split" | "Pad" => moves::node(self, here, inputs),
            "ReduceMean" => self.mean(here, inputs),
            "Relu" => self.op(here, Op::Relu, inputs),
            "Sigmoid" => self.op(here, Op::Sigmoid, inputs),
            "Tanh" => self.op(here, Op::Tanh, inputs),
            "Add" => self.op(here, Op::Add, inputs),
            "Mul" => self.op(here, Op::Mul, inputs),
            "Softmax" => {
                let axis = here.attributes.int("axis", -1);
                self.op(here, Op::Softmax { axis }, inputs)
            }
            "Gelu" => {
                let approximate = match here.attributes.text("approximate", "none") {
                    "tanh" => Approximation::Tanh,
                    _ => Approximation::None,
                };
                self.op(here, Op::Gelu { approximate }, inputs)
            }
            "Clip" => self.clip(here, inputs),
            "Where" => self.choose(here, inputs),
            "Sub" => self.work(here, Work::Sub, inputs),
            "Div" => self.work(here, Work::Div, inputs),
            "Sqrt" => self.work(here, Work::Sqrt, inputs),
            "Erf" => self.work(here, Work::Erf, inputs),
            "Pow" => {
                let power = match inputs.get(1) {
                    Some(Some(Value::Known(power))) => power.scalar(),
                    _ => None,
                };
                let power = power.ok_or("raises to a power that is no fixed number")?;
                self.work(here, Work::Pow(power), inputs.get(..1).unwrap_or_default())
            }
            "Neg" => {
                let factor = Value::Known(self.scalar(-1.0));
                self.op(here, Op::Mul, &[Some(x.clone()), Some(factor)])
            }
            _ => Err("the graph has no such operator".to_owned()),
        }
    }

    fn cast(&mut self, here: Here<'_>, x: &Value) -> Result<(), String> {
        let to = here.attributes.int("to", 0);
        let same = match self.type_of(x)?.element {
            ElementType::Int64 => to == i64::from(Element::INT64),
            ElementType::Float => {
                let own = match self.file.precision {
                    schema::Precision::Fp16 => Element::FLOAT16,
                    schema::Precision::Bf16 => Element::BFLOAT16,
                    _ => Element::FLOAT,
                };
                to == i64::from(own)
            }
        };
        if same {
            self.give(here, 0, x.clone())
        } else {
            Err(format!("casts what is computed to element type {to}"))
        }
    }

    fn clip(&mut self, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
        let bound = |at: usize, open: f32| match inputs.get(at) {
            Some(Some(Value::Known(bound))) => bound
                .scalar()
                .map(|bound| bound as f32)
                .ok_or("has a bound that is no number"),
            Some(Some(Value::Made(_))) => Err("has a bound that is computed"),
            _ => Ok(open),
        };
        let (min, max) = (bound(1, f32::MIN)?, bound(2, f32::MAX)?);
        let (min, max) = (min.max(f32::MIN), max.min(f32::MAX));
        let op = if min == 0.0 && max == f32::MAX {
            Op::Relu
        } else {
            Op::Clip { min, max }
        };
        self.op(here, op, inputs.get(..1).unwrap_or_default())
    }

    /// A choice by a known mask: a sum with what masks everything, or a sum of two products.
    fn choose(&mut self, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
        let [Some(Value::Known(which)), Some(a), Some(b)] = inputs else {
            return Err("chooses by what is computed".to_owned());
        };
        let Data::Integers(which_data) = self.budget.data(which)? else {
            return Err("chooses by floats".to_owned());
        };
        let mask = |chosen: bool| -> Vec<f32> {
            let is = |&which: &i64| if (which != 0) == chosen { 1.0 } else { 0.0 };
            which_data.iter().map(is).collect()
        };
        let shape = which.shape.clone();
        let mut parts = Vec::new();
        for (value, chosen) in [(a, true), (b, false)] {
            let mask = Constant::floats(shape.clone(), mask(chosen));
            match value {
                Value::Known(constant) => {
                    let masked = self.masked(&mask, constant)?;
                    parts.push((Value::Known(masked.0), masked.1));
                }
                Value::Made(_) => parts.push((Value::Known(mask), false)),
            }
        }
        let [(a_part, a_masks), (b_part, b_masks)] = parts.as_slice() else {
            return Err("chooses between two values".to_owned());
        };
        match (a, b) {
            (Value::Made(_), Value::Known(_)) if *b_masks => {
                self.op(here, Op::Add, &[Some(a.clone()), Some(b_part.clone())])
            }
            (Value::Known(_), Value::Made(_)) if *a_masks => {
                self.op(here, Op::Add, &[Some(b.clone()), Some(a_part.clone())])
            }
            _ => {
                let mut term = |value: &Value, part: &Value, other: &str| match value {
                    Value::Known(_) => Ok(part.clone()),
                    Value::Made(_) => {
                        let factors = [Some(value.clone()), Some(part.clone())];
                        self.between(here, other, Work::Op(Op::Mul), &factors)
                    }
                };
                let (a, b) = (term(a, a_part, "chosen")?, term(b, b_part, "other")?);
                self.op(here, Op::Add, &[Some(a), Some(b)])
            }
        }
    }

    /// A constant where a mask is 1, 0 elsewhere; and whether what it is added to vanishes there.
    fn masked(&mut self, mask: &Constant, constant: &Constant) -> Result<(Constant, bool), String> {
        let shape = infer::broadcast(&mask.shape, &constant.shape)?;
        let (mask, constant) = (self.expand(mask, &shape)?, self.expand(constant, &shape)?);
        let (Data::Floats(mask), Data::Floats(numbers)) =
            (self.budget.data(&mask)?, self.budget.data(&constant)?)
        else {
            return Err("chooses integers by what is computed".to_owned());
        };
        let mut vanishes = true;
        let chosen = mask.into_iter().zip(numbers).map(|(mask, number)| {
            if mask == 0.0 {
                return 0.0;
            }
            vanishes &= number <= MASKED;
            number
        });
        let chosen = chosen.collect();
        Ok((Constant::floats(shape, chosen), vanishes))
    }

    fn mean(&mut self, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
        let x = first(inputs)?;
        let shape = self.shape_of(x)?;
        let axes = match (here.attributes.ints("axes"), inputs.get(1)) {
            (Some(axes), _) => axes.to_vec(),
            (None, Some(Some(Value::Known(axes)))) => self.budget.list(axes)?,
            _ => return Err("takes the mean of all axes, or of computed ones".to_owned()),
        };
        let mut axes: Vec<usize> = axes
            .iter()
            .map(|&axis| shapes::axis(axis, shape.len()))
            .collect::<Result<_, _>>()?;
        axes.sort_unstable();
        let rank = shape.len();
        let keeps = here.attributes.int("keepdims", 1) != 0;
        let work = match axes.as_slice() {
            [2, 3] if rank == 4 => Work::Op(Op::GlobalAveragePool),
            [axis] if axis + 1 == rank => Work::Mean,
            // A product with a row of 1/n from the left.
            [axis] if axis + 2 == rank => {
                let size = shape.get(*axis).copied().unwrap_or(1).max(1);
                let row = vec![1.0 / size as f32; usize::try_from(size).unwrap_or(0)];
                let row = Value::Known(Constant::floats(vec![1, size], row));
                let factors = [Some(row), Some(x.clone())];
                let made = self.between(here, "mean", Work::Op(Op::MatMul), &factors)?;
                return self.end_mean(here, made, &shape, &axes, keeps);
            }
            _ => return Err(format!("takes the mean of axes {axes:?} of {rank}")),
        };
        if keeps {
            return self.work(here, work, &[Some(x.clone())]);
        }
        let made = self.between(here, "mean", work, &[Some(x.clone())])?;
        self.end_mean(here, made, &shape, &axes, keeps)
    }

    fn end_mean(
        &mut self,
        here: Here<'_>,
        made: Value,
        shape: &[u64],
        axes: &[usize],
        keeps: bool,
    ) -> Result<(), String> {
        if keeps {
            return self.give(here, 0, made);
        }
        let kept = shape
            .iter()
            .enumerate()
            .filter(|(at, _)| !axes.contains(at));
        let shape = kept.map(|(_, &size)| size).collect();
        self.op(here, Op::Reshape { shape }, &[Some(made)])
    }

    /// One number.
    pub(super) fn scalar(&self, number: f32) -> Constant {
        Constant::floats(Vec::new(), vec![number])
    }

    /// Says what an output of the node is.
    pub(super) fn give(&mut self, here: Here<'_>, at: usize, value: Value) -> Result<(), String> {
        let Some(name) = here.node.output.get(at).filter(|name| !name.is_empty()) else {
            return if at == 0 {
                Err("makes nothing".to_owned())
            } else {
                Ok(())
            };
        };
        if self.values.insert(name.clone(), value).is_some() {
            return Err(format!("makes `{name}`, which is there already"));
        }
        Ok(())
    }

    /// A step that makes the node's first output.
    pub(super) fn op(
        &mut self,
        here: Here<'_>,
        op: Op,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        self.work(here, Work::Op(op), inputs)
    }

    /// A step that makes the node's first output.
    pub(super) fn work(
        &mut self,
        here: Here<'_>,
        work: Work,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        let output = here.node.output.first().cloned().unwrap_or_default();
        let made = self.step(here, output, work, inputs)?;
        self.give(here, 0, made)
    }

    /// A step whose value only the node knows.
    pub(super) fn between(
        &mut self,
        here: Here<'_>,
        part: &str,
        work: Work,
        inputs: &[Option<Value>],
    ) -> Result<Value, String> {
        let output = self.fresh(&format!("{}.{part}", here.name()));
        self.step(here, output, work, inputs)
    }

    /// A name that nothing has yet.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{wanted}.{count}");
        }
        name
    }

    pub(super) fn step(
        &mut self,
        here: Here<'_>,
        output: String,
        work: Work,
        inputs: &[Option<Value>],
    ) -> Result<Value, String> {
        let inputs: Vec<String> = inputs
            .iter()
            .flatten()
            .map(|input| self.operand(input, Role::Weight))
            .collect::<Result<_, _>>()?;
        let origin = (here.node.op_type.clone(), here.name());
        self.push(Step {
            origin,
            work,
            inputs,
            output,
        })
    }

    /// Appends a step and works out what it makes.
    pub(super) fn push(&mut self, step: Step) -> Result<Value, String> {
        let types: Vec<&ValueType> = step
            .inputs
            .iter()
            .map(|name| self.types.get(name).ok_or("reads a value of unknown shape"))
            .collect::<Result<_, _>>()?;
        let made = made(&step.work, &types)?;
        let name = step.output.clone();
        self.types.insert(name.clone(), made);
        self.steps.push(step);
        Ok(Value::Made(name))
    }

    /// The name of a value in the graph; fixed numbers become a parameter.
    pub(super) fn operand(&mut self, value: &Value, role: Role) -> Result<String, String> {
        let constant = match value {
            Value::Made(name) => return Ok(name.clone()),
            Value::Known(constant) => constant,
        };
        let is_own = self.names.contains_key(&constant.origin());
        let role = match (role, constant.kind) {
            (Role::Buffer, _) => Role::Buffer,
            (_, Kind::Float) if is_own && !constant.shape.is_empty() => role,
            _ => Role::Constant,
        };
        let key = (constant.origin(), constant.shape.clone(), role as u8);
        if let Some(name) = self.known.get(&key) {
            return Ok(name.clone());
        }
        let element = match constant.kind {
            Kind::Float => ElementType::Float,
            Kind::Integer => ElementType::Int64,
            Kind::Bool => return Err("computes with truth values".to_owned()),
        };
        let value = ValueType {
            element,
            shape: constant.shape.clone(),
        };
        infer::check_shape(&value)?;
        let own = self.names.get(&constant.origin()).cloned();
        let name = match own.filter(|name| !self.parameters.contains_key(name)) {
            Some(name) => name,
            None => self.fresh("constant"),
        };
        self.types.insert(name.clone(), value);
        let held = Held {
            constant: constant.clone(),
            role,
        };
        self.parameters.insert(name.clone(), held);
        self.known.insert(key, name.clone());
        Ok(name)
    }

    /// The shape of a value.
    pub(super) fn shape_of(&self, value: &Value) -> Result<Vec<u64>, String> {
        match value {
            Value::Known(constant) => Ok(constant.shape.clone()),
            Value::Made(_) => self.type_of(value).map(|value| value.shape.clone()),
        }
    }

    fn type_of(&self, value: &Value) -> Result<&ValueType, String> {
        let found = match value {
            Value::Made(name) => self.types.get(name),
            Value::Known(_) => None,
        };
        found.ok_or_else(|| "reads a value of unknown shape".to_owned())
    }

    /// Names of the outputs, each made by a step of its own name.
    fn outputs(&mut self) -> Result<Vec<String>, ReadError> {
        let mut names = Vec::new();
        for output in &self.nodes.output {
            let name = &output.name;
            let wrong =
                |reason: String| ReadError::Malformed(format!("its output `{name}` {reason}"));
            let value = self.values.get(name).cloned();
            let value = value.ok_or_else(|| wrong("is made by nothing".to_owned()))?;
            let shape = self.shape_of(&value).map_err(wrong)?;
            check_declared(output, &shape).map_err(wrong)?;
            if !self.is_made_as(&value, name) {
                let node = NodeProto {
                    op_type: "Identity".to_owned(),
                    ..NodeProto::default()
                };
                let here = Here {
                    node: &node,
                    attributes: Attributes(&node),
                };
                self.step(
                    here,
                    name.clone(),
                    Work::Op(Op::Reshape { shape }),
                    &[Some(value)],
                )
                .map_err(wrong)?;
            }
            names.push(name.clone());
        }
        Ok(names)
    }
}

impl Import<'_> {
    /// Whether a step makes the value by this name; a value that only copies of it lead out of the
    /// model gets the name.
    fn is_made_as(&mut self, value: &Value, name: &str) -> bool {
        let Value::Made(made) = value else {
            return false;
        };
        let is_step = self.steps.iter().any(|step| step.output == *made);
        let is_output = self.nodes.output.iter().any(|output| output.name == *made);
        if !is_step || made == name || is_output || self.types.contains_key(name) {
            return is_step && made == name;
        }
        if let Some(value) = self.types.remove(made) {
            self.types.insert(name.to_owned(), value);
        }
        for step in &mut self.steps {
            let named = step.inputs.iter_mut().chain([&mut step.output]);
            named
                .filter(|used| *used == made)
                .for_each(|used| name.clone_into(used));
        }
        for value in self.values.values_mut() {
            if let Value::Made(used) = value
                && used == made
            {
                name.clone_into(used);
            }
        }
        true
    }
}

/// What the work makes of values of these types.
fn made(work: &Work, inputs: &[&ValueType]) -> Result<ValueType, String> {
    let first = inputs.first().ok_or("reads nothing")?;
    if !matches!(work, Work::Op(_))
        && inputs
            .iter()
            .any(|input| input.element != ElementType::Float)
    {
        return Err("computes with integers that are fed".to_owned());
    }
    match (work, inputs) {
        (Work::Op(op), _) => infer::made(op, inputs),
        (Work::Sub | Work::Div, [a, b]) => infer::made(&Op::Add, &[a, b]),
        (Work::Sub | Work::Div, _) => Err("reads two values".to_owned()),
        (Work::Mean, _) => {
            let mut shape = first.shape.clone();
            *shape.last_mut().ok_or("takes the mean of a scalar")? = 1;
            Ok(ValueType {
                element: ElementType::Float,
                shape,
            })
        }
        (Work::Pow(_) | Work::Sqrt | Work::Erf, _) => Ok((*first).clone()),
    }
}

/// The first input, which a node must have.
pub(super) fn first(inputs: &[Option<Value>]) -> Result<&Value, String> {
    inputs
        .first()
        .and_then(Option::as_ref)
        .ok_or_else(|| "reads nothing".to_owned())
}

/// Inputs that some node takes rows by, casts and copies in between.
fn indices(graph: &GraphProto) -> BTreeSet<&str> {
    let mut copies: HashMap<&str, &str> = HashMap::new();
    let mut found = BTreeSet::new();
    for node in &graph.node {
        let root = |name: &String| copies.get(name.as_str()).copied();
        match (
            node.op_type.as_str(),
            node.input.as_slice(),
            node.output.as_slice(),
        ) {
            ("Identity" | "Cast", [input, ..], [output, ..]) => {
                let input = root(input).unwrap_or(input);
                copies.insert(output, input);
            }
            ("Gather", [_, indices, ..], _) => {
                found.insert(root(indices).unwrap_or(indices));
            }
            _ => {}
        }
    }
    found
}

/// What a `Constant` node holds.
fn constant(attributes: Attributes<'_>) -> Result<Constant, String> {
    let nowhere = &mut |_: &str| Err("its numbers lie beside the model".to_owned());
    if let Some(tensor) = attributes.tensor("value") {
        return Constant::read(tensor, nowhere);
    }
    if attributes.has("value_float") {
        let number = attributes.float("value_float", 0.0);
        return Ok(Constant::floats(Vec::new(), vec![number]));
    }
    if attributes.has("value_int") {
        let number = attributes.int("value_int", 0);
        return Ok(Constant::integers(Vec::new(), vec![number]));
    }
    if let Some(numbers) = attributes
        .floats("value_floats")
        .filter(|list| !list.is_empty())
    {
        let shape = vec![numbers.len() as u64];
        return Ok(Constant::floats(shape, numbers.to_vec()));
    }
    if let Some(numbers) = attributes.ints("value_ints") {
        let shape = vec![numbers.len() as u64];
        return Ok(Constant::integers(shape, numbers.to_vec()));
    }
    Err("holds neither a tensor nor numbers".to_owned())
}

/// Part of a shape, as a list.
fn shape_slice(shape: &[u64], attributes: Attributes<'_>) -> Result<Constant, String> {
    let end = attributes.int("end", i64::MAX);
    let kept = shapes::sliced(shape.len() as u64, attributes.int("start", 0), end, 1)?;
    let sizes: Vec<i64> = kept
        .into_iter()
        .filter_map(|at| shape.get(at as usize).map(|&size| size as i64))
        .collect();
    Ok(Constant::integers(vec![sizes.len() as u64], sizes))
}

/// Whether an output has the shape that the file declares, where it declares one.
fn check_declared(
    output: &crate::onnx::proto::ValueInfoProto,
    shape: &[u64],
) -> Result<(), String> {
    let tensor = output
        .r#type
        .as_ref()
        .and_then(|of| of.tensor_type.as_ref());
    let Some(declared) = tensor.and_then(|tensor| tensor.shape.as_ref()) else {
        return Ok(());
    };
    let agrees = |(dim, size): (&crate::onnx::proto::DimensionProto, &u64)| {
        dim.dim_value
            .is_none_or(|declared| u64::try_from(declared) == Ok(*size))
    };
    if declared.dim.len() == shape.len() && declared.dim.iter().zip(shape).all(agrees) {
        Ok(())
    } else {
        Err(format!(
            "comes out as {shape:?}, which is not what the file declares"
        ))
    }
}
