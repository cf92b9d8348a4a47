//! Node by node from ONNX's operators to those of the graph.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use schema::graph::{Approximation, ElementType, Input, Node, Op, Role};

use super::{
    File, ReadError, Reading,
    attributes::Attributes,
    fold::{self, Budget},
    fuse, linear, moves, recurrent, shapes,
    tensor::{Constant, Data, Kind},
    tidy, whole, windows,
};
use crate::{
    infer::{self, ValueType},
    onnx::proto::{AttributeProto, GraphProto, NodeProto},
};

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

impl Work {
    /// Whether it takes numbers one by one, so that an infinity of a mask is one of what it makes.
    const fn is_by_element(&self) -> bool {
        matches!(
            self,
            Self::Sub | Self::Div | Self::Op(Op::Add | Op::Mul | Op::Concat { .. })
        )
    }

    /// Whether what it makes is finite whatever it reads.
    const fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::Erf
                | Self::Op(
                    Op::Softmax { .. } | Op::Sigmoid | Op::HardSigmoid | Op::Tanh | Op::Clip { .. }
                )
        )
    }
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
    pub(super) nodes: &'a GraphProto,
    pub(super) steps: Vec<Step>,
    pub(super) values: HashMap<String, Value>,
    pub(super) types: HashMap<String, ValueType>,
    pub(super) parameters: BTreeMap<String, Held>,
    /// Parameters by what they hold: origin, shape, role.
    known: BTreeMap<(usize, Vec<u64>, u8), String>,
    /// Names of the file's tensors by their origin.
    names: HashMap<usize, String>,
    /// Values that a node reads, or that leave the model.
    used: HashSet<&'a str>,
    pub(super) taken: BTreeSet<String>,
    /// The last numbers that were put behind wanted names.
    numbered: HashMap<String, u64>,
    pub(super) budget: Budget,
    pub(super) inputs: Vec<Input>,
    /// Rows that exist for the inputs that are used as indices.
    pub(super) rows: HashMap<String, u64>,
    /// Values that may hold infinities, as a mask of them does and what it is added to.
    pub(super) infinite: HashSet<String>,
    /// Whether tensors hold infinities, by their origin, as far as that was asked.
    searched: HashMap<usize, bool>,
    /// Values that are inputs, perhaps in another shape, and which.
    pub(super) as_fed: HashMap<String, String>,
}

/// The node at hand.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) node: &'a NodeProto,
    pub(super) attributes: Attributes<'a>,
}

impl Here<'_> {
    fn name(&self) -> String {
        whole::name_of(self.node).to_owned()
    }
}

impl<'a> Import<'a> {
    pub(super) fn new(file: &'a File, dims: &BTreeMap<String, u64>) -> Result<Self, ReadError> {
        let nodes = &file.nodes;
        let outputs = nodes.node.iter().flat_map(|node| &node.output);
        let names = file.initializers.keys().chain(outputs);
        let read = nodes.node.iter().flat_map(|node| &node.input);
        let leave = nodes.output.iter().map(|output| &output.name);
        let mut import = Self {
            file,
            nodes,
            steps: Vec::new(),
            values: HashMap::new(),
            types: HashMap::new(),
            parameters: BTreeMap::new(),
            known: BTreeMap::new(),
            names: HashMap::new(),
            used: read.chain(leave).map(String::as_str).collect(),
            taken: names.cloned().collect(),
            numbered: HashMap::new(),
            budget: Budget::new(file.bytes, masks(file, dims)),
            inputs: Vec::new(),
            rows: HashMap::new(),
            infinite: HashSet::new(),
            searched: HashMap::new(),
            as_fed: HashMap::new(),
        };
        for (name, constant) in &file.initializers {
            import.names.insert(constant.origin(), name.clone());
            let value = Value::Known(constant.clone());
            import.values.insert(name.clone(), value);
        }
        import.feed(dims)?;
        Ok(import)
    }

    /// The graph.
    pub(super) fn finish(mut self) -> Result<Reading, ReadError> {
        self.import()?;
        let outputs = self.outputs()?;
        tidy::tidy(&mut self, &outputs);
        fuse::fuse(&mut self, &outputs);
        let steps = fuse::lower(&mut self, &outputs)?;
        self.check_fed(&steps)?;
        super::build(self, steps, outputs)
    }

    /// Refuses a network of which nothing is left: it would be no network that engines are timed on.
    fn check_fed(&self, steps: &[Node]) -> Result<(), ReadError> {
        let fed: HashSet<&str> = self.inputs.iter().map(|input| &*input.name).collect();
        let mut read = steps.iter().flat_map(|step| &step.inputs);
        if read.any(|name| fed.contains(name.as_str())) {
            return Ok(());
        }
        let last = self.nodes.node.last();
        let reason = "what it makes depends on nothing that is fed; integers that are not seen to be \
                      rows of a table are fed as ones, and what follows from them is constant";
        Err(ReadError::Unsupported {
            op: last.map_or_else(String::new, |node| node.op_type.clone()),
            node: last.map_or_else(String::new, |node| whole::name_of(node).to_owned()),
            reason: reason.to_owned(),
        })
    }

    /// Every node, in the file's order.
    pub(super) fn import(&mut self) -> Result<(), ReadError> {
        for node in &self.nodes.node {
            let here = Here {
                node,
                attributes: Attributes(node),
            };
            if !(node.domain.is_empty() || node.domain == "ai.onnx") {
                let reason = format!("operators of `{}` are not read", node.domain);
                return Err(self.refused(here, reason));
            }
            if let Some(name) = node
                .input
                .iter()
                .find(|name| !name.is_empty() && !self.values.contains_key(*name))
            {
                return Err(whole::unmade(node, name));
            }
            if let Err(reason) = self.node(here) {
                return Err(self.refused(here, reason));
            }
        }
        Ok(())
    }

    /// What is said of a node that is not read: of a hostile one, or of one that no graph has.
    fn refused(&self, here: Here<'_>, reason: String) -> ReadError {
        self.refusal(here.node.op_type.clone(), here.name(), reason)
    }

    pub(super) fn refusal(&self, op: String, node: String, reason: String) -> ReadError {
        if self.budget.is_absurd() {
            ReadError::Excessive { op, node, reason }
        } else {
            ReadError::Unsupported { op, node, reason }
        }
    }

    fn node(&mut self, here: Here<'a>) -> Result<(), String> {
        let node = here.node;
        let has_graph =
            |attribute: &AttributeProto| !attribute.g.is_empty() || !attribute.graphs.is_empty();
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
        let of_other = |(_, input): &(&String, &Option<Value>)| match input {
            Some(Value::Known(constant)) if !constant.shape.is_empty() => {
                let code = constant.float_code();
                code.is_some_and(|code| code != self.file.float_code())
            }
            _ => false,
        };
        if let Some((name, _)) = node.input.iter().zip(&inputs).find(of_other)
            && node.op_type != "Cast"
        {
            let precision = self.file.precision;
            return Err(format!(
                "reads `{name}` in a model of {precision}, and it is in another precision"
            ));
        }
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
            && !matches!(node.op_type.as_str(), "Split" | "Dropout" | "LSTM" | "GRU")
        {
            return Err(format!("its second output `{extra}` is not read"));
        }
        self.compute(here, &inputs)
    }

    fn compute(&mut self, here: Here<'a>, inputs: &[Option<Value>]) -> Result<(), String> {
        let x = first(inputs)?;
        match here.node.op_type.as_str() {
            "Identity" => self.give(here, 0, x.clone()),
            "Dropout" => {
                match inputs.get(2) {
                    Some(Some(Value::Known(training))) => fold::check_dropout(training)?,
                    Some(Some(Value::Made(_))) => {
                        return Err("drops or not, by what is computed".to_owned());
                    }
                    _ => {}
                }
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
            "LSTM" | "GRU" => recurrent::layer(self, here, inputs),
            "Gemm" => linear::gemm(self, here, inputs),
            "MatMul" => linear::matmul(self, here, inputs),
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Concat" | "Slice"
            | "Gather" | "Expand" | "Split" | "Pad" => moves::node(self, here, inputs),
            "ReduceMean" | "ReduceSum" => self.reduce(here, inputs),
            "Relu" => self.op(here, Op::Relu, inputs),
            "Sigmoid" => self.op(here, Op::Sigmoid, inputs),
            "HardSigmoid" => self.hard_sigmoid(here, x),
            "HardSwish" => self.op(here, Op::HardSwish, inputs),
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
            "Reciprocal" => {
                let one = Value::Known(self.scalar(1.0));
                self.work(here, Work::Div, &[Some(one), Some(x.clone())])
            }
            "Erf" => self.work(here, Work::Erf, inputs),
            "Pow" => {
                let rank = self.shape_of(x)?.len();
                let power = match inputs.get(1) {
                    Some(Some(Value::Known(power))) if power.shape.len() <= rank => power.scalar(),
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

    /// Whether anything needs this output of the node.
    pub(super) fn is_used(&self, here: Here<'_>, at: usize) -> bool {
        let output = here.node.output.get(at).map(String::as_str);
        output.is_some_and(|name| self.used.contains(name))
    }

    /// Weights that are made of the file's: a parameter of that name, trained as the file's are.
    pub(super) fn weight(&mut self, here: Here<'_>, part: &str, weight: Constant) -> Value {
        let name = self.fresh(&format!("{}.{part}", here.name()));
        self.names.insert(weight.origin(), name);
        Value::Known(weight)
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
        if self.taken.insert(wanted.to_owned()) {
            return wanted.to_owned();
        }
        let last = self.numbered.entry(wanted.to_owned()).or_insert(1);
        loop {
            *last += 1;
            let name = format!("{wanted}.{last}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    pub(super) fn step(
        &mut self,
        here: Here<'_>,
        output: String,
        work: Work,
        inputs: &[Option<Value>],
    ) -> Result<Value, String> {
        let mut names = Vec::new();
        for input in inputs.iter().flatten() {
            let name = self.operand(input, Role::Weight)?;
            if let Value::Known(constant) = input
                && work.is_by_element()
            {
                self.search(&name, constant)?;
            }
            names.push(name);
        }
        let inputs = names;
        let origin = (here.node.op_type.clone(), here.name());
        self.push(Step {
            origin,
            work,
            inputs,
            output,
        })
    }

    /// Notes whether a parameter holds an infinity.
    fn search(&mut self, name: &str, constant: &Constant) -> Result<(), String> {
        let origin = constant.origin();
        let is_infinite = match self.searched.get(&origin) {
            Some(&known) => known,
            None => match self.budget.data(constant)? {
                Data::Floats(numbers) => numbers.iter().any(|number| number.is_infinite()),
                Data::Integers(_) => false,
            },
        };
        self.searched.insert(origin, is_infinite);
        if is_infinite {
            self.infinite.insert(name.to_owned());
        }
        Ok(())
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
        let is_infinite = |name: &String| self.infinite.contains(name);
        if !step.work.is_bounded() && step.inputs.iter().any(is_infinite) {
            self.infinite.insert(name.clone());
        }
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

    pub(super) fn type_of(&self, value: &Value) -> Result<&ValueType, String> {
        let found = match value {
            Value::Made(name) => self.types.get(name),
            Value::Known(_) => None,
        };
        found.ok_or_else(|| "reads a value of unknown shape".to_owned())
    }
}

/// Elements of masks over pairs of positions, as they follow from what is fed.
fn masks(file: &File, dims: &BTreeMap<String, u64>) -> u64 {
    let of = |shape: Vec<u64>| {
        let longest = shape.iter().copied().max().unwrap_or(1);
        shape.into_iter().fold(longest, u64::saturating_mul)
    };
    let fed = file.inputs.fed.iter().map(|fed| of(fed.shape(dims)));
    fed.fold(0, u64::saturating_add)
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
