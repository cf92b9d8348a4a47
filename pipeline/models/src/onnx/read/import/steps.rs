//! Steps of the graph in the making, their names and what they make.

use schema::graph::{ElementType, Op, Role};

use super::{
    super::{
        SHARED,
        fold::UNREAD,
        tensor::{Constant, Kind},
    },
    Held, Here, Import, Step, Value, Work,
};
use crate::infer::{self, ValueType};

/// Elements of 8 bytes that a step takes in memory, its names aside.
const STEP: u64 = 64;

impl Import<'_> {
    /// Weights that are made of the file's: a parameter of that name, trained as the file's are.
    pub(in crate::onnx::read) fn weight(
        &mut self,
        here: Here<'_>,
        part: &str,
        weight: Constant,
    ) -> Value {
        let name = self.fresh(&format!("{}.{part}", here.name()));
        self.names.insert(weight.origin(), name);
        Value::Known(weight)
    }

    /// One number.
    pub(in crate::onnx::read) fn scalar(&self, number: f32) -> Constant {
        Constant::floats(Vec::new(), vec![number])
    }

    /// Says what an output of the node is.
    pub(in crate::onnx::read) fn give(
        &mut self,
        here: Here<'_>,
        at: usize,
        value: Value,
    ) -> Result<(), String> {
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
    pub(in crate::onnx::read) fn op(
        &mut self,
        here: Here<'_>,
        op: Op,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        self.work(here, Work::Op(op), inputs)
    }

    /// A step that makes the node's first output.
    pub(in crate::onnx::read) fn work(
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
    pub(in crate::onnx::read) fn between(
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
    pub(in crate::onnx::read) fn fresh(&mut self, wanted: &str) -> String {
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

    pub(in crate::onnx::read) fn step(
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

    /// Appends a step and works out what it makes.
    pub(in crate::onnx::read) fn push(&mut self, step: Step) -> Result<Value, String> {
        let types: Vec<&ValueType> = step
            .inputs
            .iter()
            .map(|name| self.types.get(name).ok_or("reads a value of unknown shape"))
            .collect::<Result<_, _>>()?;
        let made = made(&step.work, &types)?;
        let name = step.output.clone();
        // A node may become a step for each of its inputs, and each keeps the node's name.
        let bytes = step
            .origin
            .1
            .len()
            .saturating_add(name.len().saturating_mul(4));
        self.budget.take(STEP.saturating_add(bytes as u64 / 8))?;
        if matches!(&step.work, Work::Op(op) if infer::moves(op))
            && made.element == ElementType::Int64
            && let [from] = step.inputs.as_slice()
            && let Some(input) = self.as_fed.get(from).or_else(|| self.moved.get(from))
        {
            self.moved.insert(name.clone(), input.clone());
        }
        self.types.insert(name.clone(), made);
        self.follow(&step.work, &step.inputs, &name);
        self.steps.push(step);
        Ok(Value::Made(name))
    }

    /// The name of a value in the graph; fixed numbers become a parameter.
    pub(in crate::onnx::read) fn operand(
        &mut self,
        value: &Value,
        role: Role,
    ) -> Result<String, String> {
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
            Kind::Other => return Err(UNREAD.to_owned()),
        };
        let value = ValueType {
            element,
            shape: constant.shape.clone(),
        };
        infer::check_shape(&value)?;
        let views = self.views.entry(constant.origin()).or_default();
        *views += 1;
        if *views > SHARED {
            // Each is written on its own.
            self.budget.take(constant.elements())?;
        }
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
    pub(in crate::onnx::read) fn shape_of(&self, value: &Value) -> Result<Vec<u64>, String> {
        match value {
            Value::Known(constant) => Ok(constant.shape.clone()),
            Value::Made(_) => self.type_of(value).map(|value| value.shape.clone()),
        }
    }

    pub(in crate::onnx::read) fn type_of(&self, value: &Value) -> Result<&ValueType, String> {
        let found = match value {
            Value::Made(name) => self.types.get(name),
            Value::Known(_) => None,
        };
        found.ok_or_else(|| "reads a value of unknown shape".to_owned())
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
