//! Operators that take numbers one by one.

use std::collections::HashMap;

use schema::graph::{ElementType, Op};

use super::{
    arithmetic,
    fold::UNREAD,
    given::Origin,
    import::{Here, Import, Value, Work, pair},
    tensor::{Constant, Data, Element, Kind},
};
use crate::{infer, onnx::proto::NodeProto};

/// Largest number of a mask that leaves nothing of what it is added to.
const MASKED: f32 = -1e30;

const COMPARES: &str = "compares what is computed, which a graph has for no more than the threshold of a \
                        Softplus";

impl Import<'_> {
    /// To the element type of a value, whatever that holds.
    pub(super) fn cast_like(
        &mut self,
        here: Here<'_>,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        let (x, like) = pair(inputs)?;
        let own = self.file.float_code();
        let code = match like {
            Value::Known(constant) => constant.code(own).ok_or(UNREAD)?,
            Value::Made(_) if self.type_of(like)?.element == ElementType::Int64 => Element::INT64,
            Value::Made(_) => {
                let name = here.node.input.get(1);
                let fed = name.and_then(|name| self.otherwise_fed.get(name));
                fed.copied().unwrap_or(own)
            }
        };
        match x {
            Value::Known(constant) if constant.kind == Kind::Other => Err(UNREAD.to_owned()),
            Value::Known(constant) => {
                let read = here.node.input.first();
                let origin = read.and_then(|name| self.from_ids.get(name)).copied();
                let origin = origin.unwrap_or(Origin::File);
                origin.check_cast(code)?;
                let made = arithmetic::cast(constant, code, &mut self.budget)?;
                self.made_of_ids(here, origin, std::slice::from_ref(&made))?;
                self.give(here, 0, Value::Known(made))
            }
            Value::Made(_) => self.cast(here, x, i64::from(code)),
        }
    }

    pub(super) fn cast(&mut self, here: Here<'_>, x: &Value, to: i64) -> Result<(), String> {
        let own = self.file.float_code();
        let widened = |code: i32| [Element::FLOAT, Element::DOUBLE].contains(&code);
        // By its name in the file: what is cast goes by the input's own.
        let read = here.node.input.first();
        let from = read.and_then(|name| self.otherwise_fed.get(name).copied());
        let same = match (self.type_of(x)?.element, from) {
            // What is fed are rows of tables, and no number of them is too large for 32 bits.
            (ElementType::Int64, _) => [Element::INT64, Element::INT32]
                .map(i64::from)
                .contains(&to),
            (ElementType::Float, None) if to == i64::from(own) => true,
            // What leaves the model is widened, and else the same.
            (ElementType::Float, None) => {
                let code = i32::try_from(to).unwrap_or(0);
                widened(code) && own != Element::DOUBLE && self.only_leaves(here)
            }
            // What is fed are numbers of binary32, whatever they come in; in fewer bits they are others.
            (ElementType::Float, Some(from)) => to == i64::from(own) && widened(from),
        };
        if same {
            self.give(here, 0, x.clone())
        } else {
            Err(format!("casts what is computed to element type {to}"))
        }
    }

    pub(super) fn clip(&mut self, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
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
        if (min, max) == (f32::MIN, f32::MAX) {
            let x = inputs.first().and_then(Option::as_ref);
            return self.give(here, 0, x.ok_or("reads nothing")?.clone());
        }
        let op = if min == 0.0 && max == f32::MAX {
            Op::Relu
        } else {
            Op::Clip { min, max }
        };
        self.op(here, op, inputs.get(..1).unwrap_or_default())
    }

    /// Which elements are no numbers: none are. PyTorch's exporters ask it of the weights of attention, for
    /// rows that are masked whole: where there are such, nothing can be judged by the reference, which
    /// has them as they are. Read where it says no more than which of two values to take, the value
    /// itself among them.
    pub(super) fn is_no_number(&mut self, here: Here<'_>, x: &Value) -> Result<(), String> {
        if self.numbers_of(x).is_wild {
            return Err("asks for what is no number, of what may be none".to_owned());
        }
        let asked = here.node.input.first();
        let others = |node: &NodeProto| {
            let others = node.input.get(1..).unwrap_or_default();
            others.iter().any(|other| Some(other) == asked)
        };
        self.budget.take(self.nodes.node.len() as u64)?;
        if !self.only_chooses(here, others) {
            return Err(
                "asks for what is no number, and more than a choice depends on it".to_owned(),
            );
        }
        self.never(here, x)
    }

    /// Which elements are past the threshold of PyTorch's `softplus`, which gives these as they are: its
    /// newer exporter writes that out. `ln(1 + e^x)` is `x` in binary32 from where `ln(1 + e^-x) < x/2^25`,
    /// so that what `Softplus` gives is the choice already.
    pub(super) fn is_past(
        &mut self,
        here: Here<'_>,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        let [Some(x @ Value::Made(asked)), Some(Value::Known(threshold))] = inputs else {
            return Err(COMPARES.to_owned());
        };
        let nodes = self.steps.len().saturating_add(self.nodes.node.len());
        self.budget.take(nodes as u64)?;
        let is_past = threshold.scalar().is_some_and(|number| number >= 15.0)
            && threshold.shape.len() <= self.shape_of(x)?.len();
        let (wholes, softened) = self.softened(asked);
        let scale =
            |scales: &HashMap<String, f64>, name: Option<&String>| match self.values.get(name?) {
                Some(Value::Made(name)) => scales.get(name).copied(),
                _ => None,
            };
        let chooses = |node: &NodeProto| {
            let below = scale(&softened, node.input.get(2));
            below.is_some() && scale(&wholes, node.input.get(1)) == below
        };
        if !is_past || !self.only_chooses(here, chooses) {
            return Err(COMPARES.to_owned());
        }
        self.never(here, x)
    }

    /// What `asked` is a number times of, and what its `Softplus` is over a number, with these numbers.
    fn softened(&self, asked: &String) -> (HashMap<String, f64>, HashMap<String, f64>) {
        let fixed = |name: &String| {
            let number = self.parameters.get(name)?.constant.scalar();
            number.filter(|number| number.is_finite())
        };
        let mut wholes = HashMap::from([(asked.clone(), 1.0)]);
        let mut softened = HashMap::new();
        for step in &self.steps {
            match (&step.work, step.inputs.as_slice()) {
                (Work::Op(Op::Mul), [a, b]) if step.output == *asked => {
                    let times = [(a, fixed(b)), (b, fixed(a))];
                    let times = times
                        .into_iter()
                        .filter_map(|(of, by)| Some((of.clone(), by?)));
                    wholes.extend(times);
                }
                (Work::Op(Op::Softplus), [of]) if of == asked => {
                    softened.insert(step.output.clone(), 1.0);
                }
                (Work::Div, [of, by]) if softened.get(of) == Some(&1.0) => {
                    softened.extend(fixed(by).map(|by| (step.output.clone(), by)));
                }
                _ => {}
            }
        }
        (wholes, softened)
    }

    /// Whether all that depends on what a node tells are choices by it, such as these.
    fn only_chooses(&self, here: Here<'_>, chosen: impl Fn(&NodeProto) -> bool) -> bool {
        let Some(told) = here.node.output.first() else {
            return false;
        };
        let mut readers = (self.nodes.node.iter()).filter(|node| node.input.contains(told));
        let chooses = |node: &NodeProto| {
            node.op_type == "Where" && node.input.first() == Some(told) && chosen(node)
        };
        !self.leaves(told) && readers.all(chooses)
    }

    /// Tells of every element of `x` that it is not so.
    fn never(&mut self, here: Here<'_>, x: &Value) -> Result<(), String> {
        let shape = vec![1; self.shape_of(x)?.len()];
        let none = Constant::new(Kind::Bool, shape, Data::Integers(vec![0]));
        self.give(here, 0, Value::Known(none))
    }

    /// A choice by a known mask: a sum with what masks everything, or a sum of two products. An infinity
    /// that is not chosen would make either no number, and so would what is none.
    pub(super) fn choose(
        &mut self,
        here: Here<'_>,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        let [Some(Value::Known(which)), Some(a), Some(b)] = inputs else {
            return Err("chooses by what is computed".to_owned());
        };
        let Data::Integers(which_data) = self.budget.data(which)? else {
            return Err("chooses by floats".to_owned());
        };
        let is_all = |chosen: bool| which_data.iter().all(|&which| (which != 0) == chosen);
        let only = if is_all(true) {
            Some(a)
        } else if is_all(false) {
            Some(b)
        } else {
            None
        };
        if let Some(only) = only {
            let (a, b) = (self.shape_of(a)?, self.shape_of(b)?);
            let whole = infer::broadcast(&infer::broadcast(&which.shape, &a)?, &b)?;
            if self.shape_of(only)? == whole {
                if let Value::Known(only) = only {
                    self.look_for_blinds(here.node, only);
                }
                return self.give(here, 0, only.clone());
            }
        }
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
                    self.look_for_blinds(here.node, &masked.0);
                    parts.push((Value::Known(masked.0), masked.1));
                }
                Value::Made(_) => parts.push((Value::Known(mask), f32::INFINITY)),
            }
        }
        let [(a_part, a_largest), (b_part, b_largest)] = parts.as_slice() else {
            return Err("chooses between two values".to_owned());
        };
        // What is not chosen is taken times zero, or a mask is added to it.
        if [a, b]
            .into_iter()
            .any(|value| self.numbers_of(value).is_wild)
        {
            return Err(
                "chooses, by a fixed mask, from what may be infinite or no number".to_owned(),
            );
        }
        let is_infinite = |value: &Value| self.numbers_of(value).is_infinite;
        // Negative infinities may meet: what was masked before may be masked again.
        let masks = |largest: f32, value: &Value| {
            largest <= MASKED && (largest == f32::NEG_INFINITY || !is_infinite(value))
        };
        match (a, b) {
            (Value::Made(_), Value::Known(_)) if masks(*b_largest, a) => {
                self.masked_out(here, a, b_part)
            }
            (Value::Known(_), Value::Made(_)) if masks(*a_largest, b) => {
                self.masked_out(here, b, a_part)
            }
            _ if [a, b].into_iter().any(is_infinite) => {
                Err("chooses, by a fixed mask, from what may be infinite".to_owned())
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

    /// The sum with a mask. Another like it would make an infinity of two large numbers.
    fn masked_out(&mut self, here: Here<'_>, x: &Value, mask: &Value) -> Result<(), String> {
        self.op(here, Op::Add, &[Some(x.clone()), Some(mask.clone())])?;
        if let Some(made) = here.node.output.first() {
            self.masks(made);
        }
        Ok(())
    }

    /// A constant where a mask is 1, 0 elsewhere; and the largest number there.
    fn masked(&mut self, mask: &Constant, constant: &Constant) -> Result<(Constant, f32), String> {
        let shape = infer::broadcast(&mask.shape, &constant.shape)?;
        let (mask, constant) = (
            self.budget.expanded(mask, &shape)?,
            self.budget.expanded(constant, &shape)?,
        );
        let (Data::Floats(mask), Data::Floats(numbers)) =
            (self.budget.data(&mask)?, self.budget.data(&constant)?)
        else {
            return Err("chooses integers by what is computed".to_owned());
        };
        let mut largest = f32::NEG_INFINITY;
        let chosen = mask.into_iter().zip(numbers).map(|(mask, number)| {
            if mask == 0.0 {
                return 0.0;
            }
            largest = largest.max(if number.is_nan() {
                f32::INFINITY
            } else {
                number
            });
            number
        });
        let chosen = chosen.collect();
        Ok((Constant::floats(shape, chosen), largest))
    }

    /// `min(max(alpha·x + beta, 0), 1)`.
    pub(super) fn hard_sigmoid(&mut self, here: Here<'_>, x: &Value) -> Result<(), String> {
        let alpha = here.attributes.float("alpha", 0.2);
        let beta = here.attributes.float("beta", 0.5);
        if (alpha - 1.0 / 6.0).abs() < 1e-6 && beta == 0.5 {
            return self.op(here, Op::HardSigmoid, &[Some(x.clone())]);
        }
        let (alpha, beta) = (self.scalar(alpha), self.scalar(beta));
        let operands = [Some(x.clone()), Some(Value::Known(alpha))];
        let scaled = self.between(here, "scaled", Work::Op(Op::Mul), &operands)?;
        let operands = [Some(scaled), Some(Value::Known(beta))];
        let shifted = self.between(here, "shifted", Work::Op(Op::Add), &operands)?;
        self.op(here, Op::Clip { min: 0.0, max: 1.0 }, &[Some(shifted)])
    }

    /// `gamma · max(x, 0) + gamma · alpha · (e^min(x, 0) − 1)`.
    pub(super) fn selu(&mut self, here: Here<'_>, x: &Value) -> Result<(), String> {
        // ONNX's defaults, those of Klambauer et al. 2017.
        let alpha = here.attributes.float("alpha", 1.673_263_2);
        let gamma = self.scalar(here.attributes.float("gamma", 1.050_701));
        let bent = Work::Op(Op::Elu { alpha });
        let bent = self.between(here, "bent", bent, &[Some(x.clone())])?;
        self.op(here, Op::Mul, &[Some(bent), Some(Value::Known(gamma))])
    }

    /// PReLU, whose slopes may have an axis for the batch as well.
    pub(super) fn bent_by_channel(
        &mut self,
        here: Here<'_>,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        let (x, slope) = pair(inputs)?;
        let rank = self.shape_of(x)?.len();
        let slope = match (slope, self.shape_of(slope)?.as_slice()) {
            (Value::Known(slopes), [1, behind @ ..]) if rank > 1 && behind.len() + 1 == rank => {
                Value::Known(slopes.with_shape(behind.to_vec()))
            }
            _ => slope.clone(),
        };
        self.op(here, Op::PRelu, &[Some(x.clone()), Some(slope)])
    }

    /// `x · tanh(ln(1 + e^x))`.
    pub(super) fn mish(&mut self, here: Here<'_>, x: &Value) -> Result<(), String> {
        let bent = Work::Op(Op::Softplus);
        let bent = self.between(here, "softplus", bent, &[Some(x.clone())])?;
        let gate = self.between(here, "gate", Work::Op(Op::Tanh), &[Some(bent)])?;
        self.op(here, Op::Mul, &[Some(x.clone()), Some(gate)])
    }

    /// An operator of two values over as many as there are.
    pub(super) fn chain(
        &mut self,
        here: Here<'_>,
        op: &Op,
        inputs: &[Option<Value>],
    ) -> Result<(), String> {
        let given: Vec<&Value> = inputs.iter().flatten().collect();
        let Some((last, before)) = given.split_last() else {
            return Err("reads nothing".to_owned());
        };
        let Some((first, between)) = before.split_first() else {
            return self.give(here, 0, (*last).clone());
        };
        let mut made = (*first).clone();
        for value in between {
            let operands = [Some(made), Some((*value).clone())];
            made = self.between(here, "part", Work::Op(op.clone()), &operands)?;
        }
        self.op(here, op.clone(), &[Some(made), Some((*last).clone())])
    }
}
