//! Node by node from ONNX's operators to those of the graph.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use schema::{
    Precision,
    graph::{Approximation, ElementType, Input, Node, Op, Role},
};

use super::{
    File, ReadError, Reading,
    alone::Feeding,
    attributes::Attributes,
    fold::{self, Budget},
    fuse,
    given::{self, Origin},
    linear, moves, recurrent, reduce, resize, shapes, signature,
    tensor::{self, Constant, Element},
    tidy, whole, windows,
};
use crate::{
    infer::{BEYOND, ValueType},
    onnx::proto::{GraphProto, NodeProto},
};

mod numbers;
mod steps;

use numbers::Numbers;

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
    pub(super) nodes: &'a GraphProto,
    pub(super) steps: Vec<Step>,
    pub(super) values: HashMap<String, Value>,
    pub(super) types: HashMap<String, ValueType>,
    pub(super) parameters: BTreeMap<String, Held>,
    /// Parameters by what they hold: origin, shape, role.
    known: BTreeMap<(usize, Vec<u64>, u8), String>,
    /// How many there are of the same numbers.
    views: BTreeMap<usize, u64>,
    /// Names of the file's tensors by their origin.
    names: HashMap<usize, String>,
    /// Values that a node reads, and those that leave the model.
    read: HashSet<&'a str>,
    leave: HashSet<&'a str>,
    pub(super) taken: BTreeSet<String>,
    /// The last numbers that were put behind wanted names.
    numbered: HashMap<String, u64>,
    pub(super) budget: Budget,
    pub(super) inputs: Vec<Input>,
    /// Rows that exist for the inputs that are used as indices.
    pub(super) rows: HashMap<String, u64>,
    /// What is known of the numbers of values.
    numbers: HashMap<String, Numbers>,
    /// What is known of the numbers of tensors, by their origin, as far as that was asked.
    searched: HashMap<usize, Numbers>,
    /// Rows of the file's tables for inputs that are taken for places in them.
    pub(super) tables: HashMap<String, u64>,
    /// Inputs whose integers were worked with, and what they are below.
    pub(super) worked_out: HashMap<String, u64>,
    /// Known values that were worked out from those integers.
    pub(super) from_ids: HashMap<String, Origin>,
    /// Values that are inputs, perhaps in another shape, and which.
    pub(super) as_fed: HashMap<String, String>,
    /// Values that are parts of inputs of integers, or are them in another order, and of which.
    pub(super) moved: HashMap<String, String>,
    /// Inputs whose floats are not those of the model, and ONNX's number of their element type.
    pub(super) otherwise_fed: HashMap<String, i32>,
    /// How inputs are fed that are worked out while reading.
    pub(super) feeding: &'a Feeding,
    /// Values that follow from an input alone that is worked out while reading, and which.
    pub(super) alone: HashMap<String, String>,
    /// Products of such, and values that leave out all of a row.
    pub(super) products: Vec<&'a NodeProto>,
    pub(super) blinds: Vec<String>,
    /// Values by which a node takes nothing of what is fed.
    pub(super) zeroing: Vec<String>,
    /// Constants of the file that are not worked out, and whose shapes alone are known.
    pub(super) grown: HashSet<String>,
}

/// What came of a file.
pub(super) enum Finished {
    Read(Reading),
    /// Inputs that numbers have to be made of; what is said where that cannot be done.
    Lacking(BTreeSet<String>, ReadError),
}

/// What is said of an operator that is not read.
const UNKNOWN: &str = "the graph has no such operator";

/// What is said of an operator that draws numbers.
const RANDOM: &str = "draws other numbers in each step, so that nothing can be held against what it makes; feed them as \
                      an input";

/// Whether an operator draws numbers. A `Dropout` that does is told of by itself.
fn is_random(op: &str) -> bool {
    matches!(
        op,
        "RandomNormal"
            | "RandomNormalLike"
            | "RandomUniform"
            | "RandomUniformLike"
            | "Multinomial"
            | "Bernoulli"
    )
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
    pub(super) fn new(
        file: &'a File,
        dims: &BTreeMap<String, u64>,
        feeding: &'a Feeding,
    ) -> Result<Self, ReadError> {
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
            views: BTreeMap::new(),
            names: HashMap::new(),
            read: read
                .map(String::as_str)
                .filter(|name| !name.is_empty())
                .collect(),
            leave: leave.map(String::as_str).collect(),
            taken: names.cloned().collect(),
            numbered: HashMap::new(),
            budget: Budget::new(file.bytes, masks(file, dims)),
            inputs: Vec::new(),
            rows: HashMap::new(),
            numbers: HashMap::new(),
            searched: HashMap::new(),
            tables: given::tables(file),
            worked_out: HashMap::new(),
            from_ids: HashMap::new(),
            as_fed: HashMap::new(),
            moved: HashMap::new(),
            otherwise_fed: HashMap::new(),
            feeding,
            alone: HashMap::new(),
            products: Vec::new(),
            blinds: Vec::new(),
            zeroing: Vec::new(),
            grown: HashSet::new(),
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
    pub(super) fn finish(&mut self) -> Result<Finished, ReadError> {
        self.check_width()?;
        self.check_pixels()?;
        self.import()?;
        if let Some((numbers, refused)) = self.check_products() {
            return Ok(Finished::Lacking(numbers, refused));
        }
        let outputs = self.outputs()?;
        tidy::tidy(self, &outputs);
        fuse::fuse(self, &outputs);
        let steps = fuse::lower(self, &outputs)?;
        self.check_fed(&steps)?;
        super::build(self, steps, outputs).map(Finished::Read)
    }

    /// Refuses a model in double precision: its weights, and what follows from them while reading, are
    /// kept in binary32, which would be another model.
    fn check_width(&self) -> Result<(), ReadError> {
        if self.file.precision != Precision::Fp64 {
            return Ok(());
        }
        let is_wide = |name: &String| match self.values.get(name) {
            Some(Value::Known(constant)) => constant.float_code() == Some(Element::DOUBLE),
            Some(Value::Made(_)) => {
                let type_of = self.types.get(name);
                type_of.is_some_and(|value| value.element == ElementType::Float)
            }
            None => false,
        };
        let mut nodes = self.nodes.node.iter();
        let reader = nodes.find(|node| node.input.iter().any(is_wide));
        let node = reader.or(self.nodes.node.first());
        Err(ReadError::Unsupported {
            op: node.map_or_else(String::new, |node| node.op_type.clone()),
            node: node.map_or_else(String::new, |node| whole::name_of(node).to_owned()),
            reason: "reads floats of 64 bits, and a graph's weights have 32; engines that read ONNX run \
                     the file in fp64, for all others export it in fp32"
                .to_owned(),
        })
    }

    /// Refuses an input of small integers that are no places in a table. A mask is of truth values or wide
    /// integers; these are pixels, which as ones would be a part of the network that is worked out once.
    fn check_pixels(&self) -> Result<(), ReadError> {
        let mut fed = self.file.inputs.fed.iter();
        let is_fixed = |name: &String| matches!(self.values.get(name), Some(Value::Known(_)));
        let Some(pixels) = fed.find(|fed| fed.element.is_pixel() && is_fixed(&fed.name)) else {
            return Ok(());
        };
        let mut nodes = self.nodes.node.iter();
        let Some(reader) = nodes.find(|node| node.input.contains(&pixels.name)) else {
            return Ok(());
        };
        Err(ReadError::Unsupported {
            op: reader.op_type.clone(),
            node: whole::name_of(reader).to_owned(),
            reason: format!(
                "reads the input `{}`, small integers that are no places in a table, and a graph is fed \
                 such as floats; export it so",
                pixels.name
            ),
        })
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
            self.import_next(node)?;
        }
        Ok(())
    }

    /// A node, all those before it being imported.
    pub(super) fn import_next(&mut self, node: &'a NodeProto) -> Result<(), ReadError> {
        let absent = |name: &&String| !name.is_empty() && !self.values.contains_key(*name);
        match node.input.iter().find(absent) {
            Some(name) => Err(whole::unmade(node, name)),
            None => self.import_node(node),
        }
    }

    /// Every node as far as it goes: past what no graph has, where constants may be beyond all measure as
    /// well, and what inputs are rows of is told. What contradicts itself is refused.
    pub(super) fn survey(&mut self) -> Result<(), ReadError> {
        let mut unknown = BTreeSet::new();
        for node in &self.nodes.node {
            let is_there = |name: &String| name.is_empty() || self.values.contains_key(name);
            if !node.input.iter().all(is_there) {
                let indices = node.input.get(1).filter(|_| node.op_type == "Gather");
                let input = indices.and_then(|name| self.fed_behind(name));
                unknown.extend(input.cloned());
                continue;
            }
            let read = match self.reads_grown(node) {
                true => Ok(()),
                false => self.import_node(node),
            };
            match read {
                Ok(()) | Err(ReadError::Unsupported { .. }) => {}
                Err(error) => return Err(error),
            }
            if read.is_err()
                && let Some(reason) = self.misfit(node)
            {
                let name = whole::name_of(node).to_owned();
                return Err(self.refusal(node.op_type.clone(), name, reason));
            }
            self.grow(node)?;
        }
        // Of what else rows are taken by inputs that are not all alike: two rows are there in all likelihood.
        unknown.retain(|input| self.rows.contains_key(input));
        for input in unknown {
            let bounded = self.bound(&input, 2);
            bounded.map_err(|reason| self.refusal("Gather".to_owned(), input, reason))?;
        }
        Ok(())
    }

    fn import_node(&mut self, node: &'a NodeProto) -> Result<(), ReadError> {
        let here = Here {
            node,
            attributes: Attributes(node),
        };
        if !whole::is_onnx(&node.domain) {
            let reason = format!("operators of `{}` are not read", node.domain);
            return Err(self.refused(here, reason));
        }
        if let Err(reason) = signature::check(node, self.file.opset) {
            let (name, op) = (whole::name_of(node), &node.op_type);
            return Err(ReadError::Malformed(format!(
                "its node `{name}` ({op}) {reason}"
            )));
        }
        let origin = self
            .node(here)
            .map_err(|reason| self.refused(here, reason))?;
        self.follow_alone(here, origin);
        Ok(())
    }

    /// What is said of a node that is not read: of a hostile one, or of one that no graph has.
    fn refused(&self, here: Here<'_>, reason: String) -> ReadError {
        self.refusal(here.node.op_type.clone(), here.name(), reason)
    }

    pub(super) fn refusal(&self, op: String, node: String, reason: String) -> ReadError {
        if self.budget.is_absurd() || reason.ends_with(BEYOND) {
            ReadError::Excessive { op, node, reason }
        } else {
            ReadError::Unsupported { op, node, reason }
        }
    }

    /// Tells what the node's outputs are worked out from.
    fn node(&mut self, here: Here<'a>) -> Result<Origin, String> {
        let node = here.node;
        if node.attribute.iter().any(whole::holds_graphs) {
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
                self.give(here, 0, Value::Known(constant))?;
                return Ok(Origin::File);
            }
            "Shape" => {
                let shape = self.shape_of(first(&inputs)?)?;
                let constant = shape_slice(&shape, here.attributes)?;
                self.give(here, 0, Value::Known(constant))?;
                return Ok(Origin::File);
            }
            "Size" => {
                let shape = self.shape_of(first(&inputs)?)?;
                let count = i64::try_from(tensor::count(&shape)?).unwrap_or(i64::MAX);
                let constant = Constant::integers(Vec::new(), vec![count]);
                self.give(here, 0, Value::Known(constant))?;
                return Ok(Origin::File);
            }
            "CastLike" => {
                self.cast_like(here, &inputs)?;
                return Ok(Origin::File);
            }
            _ => {}
        }
        let known = self.known(here, &inputs)?;
        // The region and the scales of Resize are binary32 whatever its images are.
        let judged = match node.op_type.as_str() {
            "Cast" => 0,
            "Resize" => 1,
            _ => usize::MAX,
        };
        let of_other = |(name, input): &(&String, &Option<Value>)| match input {
            Some(Value::Known(constant)) if !constant.shape.is_empty() => {
                let code = constant.float_code();
                code.is_some_and(|code| code != self.file.float_code())
            }
            Some(Value::Made(_)) => self.otherwise_fed.contains_key(*name),
            _ => false,
        };
        let mut operands = node.input.iter().zip(&inputs).take(judged);
        if let Some((name, _)) = operands.find(of_other) {
            let precision = self.file.precision;
            return Err(format!(
                "reads `{name}` in a model of {precision}, and it is in another precision"
            ));
        }
        if node.op_type == "Dropout" && self.is_used(here, 1) {
            return Err("its mask is not read".to_owned());
        }
        if let Some(operands) = known.operands {
            let was_absurd = self.budget.is_absurd();
            let made = fold::fold(&node.op_type, here.attributes, &operands, &mut self.budget);
            if made.is_err() && known.origin != Origin::File {
                // Engines work it out in a step, within the memory that they have.
                self.budget.judge(was_absurd);
            }
            if let Some(made) = made? {
                self.made_of_ids(here, known.origin, &made)?;
                for (at, constant) in made.into_iter().enumerate() {
                    self.look_for_blinds(node, &constant);
                    self.give(here, at, Value::Known(constant))?;
                }
                return Ok(known.origin);
            }
        }
        if !matches!(node.op_type.as_str(), "Split" | "LSTM" | "GRU")
            && let Some(at) = (1..node.output.len()).find(|&at| self.is_used(here, at))
        {
            return Err(format!("its output {at}, beside the first, is not read"));
        }
        self.look_for_zeros(node, &inputs);
        self.compute(here, &inputs)?;
        Ok(Origin::File)
    }

    fn compute(&mut self, here: Here<'a>, inputs: &[Option<Value>]) -> Result<(), String> {
        // What makes something of nothing, and is no constant, no graph has.
        if is_random(&here.node.op_type) {
            return Err(RANDOM.to_owned());
        }
        let x = inputs
            .first()
            .ok_or(UNKNOWN)?
            .as_ref()
            .ok_or("reads nothing")?;
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
                self.give(here, 0, x.clone())
            }
            "Cast" => self.cast(here, x, here.attributes.int("to", 0)),
            "Conv" => windows::conv(self, here, inputs),
            "ConvTranspose" => windows::conv_transpose(self, here, inputs),
            "MaxPool" | "AveragePool" => windows::pool(self, here, x),
            "Resize" => resize::resize(self, here, inputs),
            "BatchNormalization" => linear::batch_norm(self, here, inputs),
            "LayerNormalization" => linear::layer_norm(self, here, inputs),
            "InstanceNormalization" => {
                let epsilon = here.attributes.float("epsilon", 1e-5);
                self.op(here, Op::InstanceNormalization { epsilon }, inputs)
            }
            "GroupNormalization" => linear::group_norm(self, here, inputs),
            "LSTM" | "GRU" => recurrent::layer(self, here, inputs),
            "Gemm" => linear::gemm(self, here, inputs),
            "MatMul" => linear::matmul(self, here, inputs),
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Concat" | "Slice"
            | "Gather" | "GatherND" | "Expand" | "Tile" | "Split" | "Pad" | "DepthToSpace"
            | "SpaceToDepth" => moves::node(self, here, inputs),
            "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceL2"
            | "GlobalAveragePool" | "GlobalMaxPool" => reduce::reduce(self, here, inputs),
            "Relu" => self.op(here, Op::Relu, inputs),
            "LeakyRelu" => {
                let alpha = here.attributes.float("alpha", 0.01);
                self.op(here, Op::LeakyRelu { alpha }, inputs)
            }
            "PRelu" => self.bent_by_channel(here, inputs),
            "Elu" => {
                let alpha = here.attributes.float("alpha", 1.0);
                self.op(here, Op::Elu { alpha }, inputs)
            }
            "Selu" => self.selu(here, x),
            "Softplus" => self.op(here, Op::Softplus, inputs),
            "Mish" => self.mish(here, x),
            "Exp" => self.op(here, Op::Exp, inputs),
            "Log" => self.op(here, Op::Log, inputs),
            "Abs" => self.op(here, Op::Abs, inputs),
            "Sin" => self.op(here, Op::Sin, inputs),
            "Cos" => self.op(here, Op::Cos, inputs),
            "Max" => self.chain(here, &Op::Max, inputs),
            "Min" => self.chain(here, &Op::Min, inputs),
            "Sum" => self.chain(here, &Op::Add, inputs),
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
            "LogSoftmax" => {
                let axis = here.attributes.int("axis", -1);
                self.op(here, Op::LogSoftmax { axis }, inputs)
            }
            "Gelu" => {
                let approximate = match here.attributes.text("approximate", "none") {
                    "none" => Approximation::None,
                    "tanh" => Approximation::Tanh,
                    other => return Err(format!("approximates by the rule `{other}`")),
                };
                self.op(here, Op::Gelu { approximate }, inputs)
            }
            "Clip" => self.clip(here, inputs),
            "Where" => self.choose(here, inputs),
            "IsNaN" => self.is_no_number(here, x),
            "Greater" => self.is_past(here, inputs),
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
            _ => Err(UNKNOWN.to_owned()),
        }
    }

    /// Whether anything needs this output of the node.
    pub(super) fn is_used(&self, here: Here<'_>, at: usize) -> bool {
        let output = here.node.output.get(at).map(String::as_str);
        output.is_some_and(|name| self.read.contains(name) || self.leave.contains(name))
    }

    /// Whether a value of the file leaves the model.
    pub(super) fn leaves(&self, name: &str) -> bool {
        self.leave.contains(name)
    }

    /// Whether the node's first output leaves the model, and no other node reads it.
    pub(super) fn only_leaves(&self, here: Here<'_>) -> bool {
        let output = here.node.output.first().map(String::as_str);
        output.is_some_and(|name| self.leave.contains(name) && !self.read.contains(name))
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

/// The first input, which a node must have.
pub(super) fn first(inputs: &[Option<Value>]) -> Result<&Value, String> {
    inputs
        .first()
        .and_then(Option::as_ref)
        .ok_or_else(|| "reads nothing".to_owned())
}

/// The two values that a node reads.
pub(super) fn pair(inputs: &[Option<Value>]) -> Result<(&Value, &Value), String> {
    match inputs {
        [Some(a), Some(b)] => Ok((a, b)),
        _ => Err("reads two values".to_owned()),
    }
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
