//! What exporters take apart is put together again: layer normalisation, GELU, SiLU, the hard forms of
//! a sigmoid, and the bias of a product.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Precision,
    graph::{Approximation, Node, Op, Role},
};

use super::{
    ReadError,
    import::{Import, Step, Value, Work},
    tensor::{Constant, Data},
};

/// How far a constant may be from the number that it stands for, as a share of it: it was rounded to
/// binary32, or to as few digits as that tells apart, and to bfloat16 or binary16 in a model of those.
const fn nearness(precision: Precision) -> f64 {
    match precision {
        Precision::Bf16 => 4e-3,
        Precision::Fp16 => 6e-4,
        _ => 1e-6,
    }
}

/// How deep products are looked into, and how many factors they may have.
const DEEP: usize = 8;

/// Who makes each value, and who reads it.
struct Wiring {
    made_by: BTreeMap<String, usize>,
    /// Of each value the number of its readers, outputs of the model included, and the last of them.
    readers: BTreeMap<String, (usize, usize)>,
}

impl Wiring {
    fn of(steps: &[Step], outputs: &[String]) -> Self {
        let mut readers = BTreeMap::new();
        let of_steps = steps.iter().enumerate();
        let of_steps =
            of_steps.flat_map(|(at, step)| step.inputs.iter().map(move |name| (at, name)));
        for (at, name) in of_steps.chain(outputs.iter().map(|name| (usize::MAX, name))) {
            let (count, last) = readers.entry(name.clone()).or_insert((0, at));
            *count += 1;
            *last = at;
        }
        let made_by = steps.iter().enumerate();
        Self {
            made_by: made_by
                .map(|(at, step)| (step.output.clone(), at))
                .collect(),
            readers,
        }
    }
}

/// A look at the steps.
struct Look<'a, 'b> {
    import: &'a Import<'b>,
    wiring: &'a Wiring,
}

/// A product: what is fixed, and what is not.
#[derive(Debug, Default)]
struct Product {
    factor: f64,
    of: Vec<String>,
}

impl Look<'_, '_> {
    fn near(&self, a: f64, b: f64) -> bool {
        let precision = match half::bf16::from_f64(b).to_f64() == b {
            // No precision rounds it.
            true => Precision::Fp32,
            false => self.import.file.precision(),
        };
        (a - b).abs() <= nearness(precision) * b.abs()
    }

    fn step(&self, value: &str) -> Option<&Step> {
        self.import.steps.get(*self.wiring.made_by.get(value)?)
    }

    fn scalar(&self, value: &str) -> Option<f64> {
        self.import.parameters.get(value)?.constant.scalar()
    }

    /// The operands of the step that makes a value, if its work is this.
    fn operands(&self, value: &str, work: &Work) -> Option<&[String]> {
        self.step(value)
            .filter(|step| step.work == *work)
            .map(|step| step.inputs.as_slice())
    }

    /// A sum with one number: the other operand, and the number.
    fn sum(&self, value: &str) -> Option<(&str, f64)> {
        let [a, b] = self.operands(value, &Work::Op(Op::Add))? else {
            return None;
        };
        match (self.scalar(a), self.scalar(b)) {
            (None, Some(number)) => Some((a, number)),
            (Some(number), None) => Some((b, number)),
            _ => None,
        }
    }

    fn product(&self, value: &str) -> Product {
        self.product_within(value, DEEP)
    }

    /// A product, its factors taken apart so many times.
    fn product_within(&self, value: &str, depth: usize) -> Product {
        let mut product = Product {
            factor: 1.0,
            of: Vec::new(),
        };
        self.multiply(value, &mut product, depth);
        product.of.sort_unstable();
        product
    }

    fn multiply(&self, value: &str, product: &mut Product, depth: usize) {
        if let Some(number) = self.scalar(value) {
            product.factor *= number;
            return;
        }
        let step = self
            .step(value)
            .filter(|_| depth > 0 && product.of.len() < DEEP);
        match step.map(|step| (&step.work, step.inputs.as_slice())) {
            Some((Work::Op(Op::Mul), [a, b])) => {
                self.multiply(a, product, depth - 1);
                self.multiply(b, product, depth - 1);
            }
            Some((Work::Div, [a, b])) if self.scalar(b).is_some_and(|number| number != 0.0) => {
                self.multiply(a, product, depth - 1);
                product.factor /= self.scalar(b).unwrap_or(1.0);
            }
            Some((Work::Pow(power), [a])) if *power == 2.0 || *power == 3.0 => {
                for _ in 0..*power as usize {
                    self.multiply(a, product, depth - 1);
                }
            }
            _ => product.of.push(value.to_owned()),
        }
    }

    /// What a value that ends in a product is, if it is an activation: the operator and its operand.
    fn activation(&self, value: &str) -> Option<(Op, String)> {
        let is_product = [Work::Op(Op::Mul), Work::Div].map(|work| self.operands(value, &work));
        let Some([_, _]) = is_product.into_iter().flatten().next() else {
            return None;
        };
        // The operand may be a product itself, and the activation one of more factors.
        let depths = [1, 2, DEEP].into_iter();
        depths
            .map(|depth| self.product_within(value, depth))
            .find_map(|product| self.activation_of(&product))
    }

    fn activation_of(&self, product: &Product) -> Option<(Op, String)> {
        let is = |factor| self.near(product.factor, factor);
        let both = match product.of.as_slice() {
            [gate] => {
                let x = self.hard_gate(gate).filter(|_| is(1.0 / 6.0))?;
                return Some((Op::HardSigmoid, x.to_owned()));
            }
            [a, b] => [(a, b), (b, a)],
            _ => return None,
        };
        both.into_iter().find_map(|(x, gate)| {
            let own = [x.clone()];
            let gated = |op| self.operands(gate, &Work::Op(op)) == Some(own.as_slice());
            let op = if is(1.0) && gated(Op::Sigmoid) {
                Op::Silu
            } else if (is(1.0) && gated(Op::HardSigmoid))
                || (is(1.0 / 6.0) && self.hard_gate(gate) == Some(x.as_str()))
            {
                Op::HardSwish
            } else {
                let approximate = self.gelu_gate(x, gate).filter(|_| is(0.5))?;
                Op::Gelu { approximate }
            };
            Some((op, x.clone()))
        })
    }

    /// `x` of `min(max(x + 3, 0), 6)`.
    fn hard_gate(&self, value: &str) -> Option<&str> {
        let clip = Op::Clip { min: 0.0, max: 6.0 };
        let [shifted] = self.operands(value, &Work::Op(clip))? else {
            return None;
        };
        let (x, three) = self.sum(shifted)?;
        self.near(three, 3.0).then_some(x)
    }

    /// Whether a value is `1 + erf(x/√2)`, or `1 + tanh(√(2/π)·(x + 0.044715·x³))`.
    fn gelu_gate(&self, x: &str, gate: &str) -> Option<Approximation> {
        let (inner, one) = self.sum(gate)?;
        if !self.near(one, 1.0) {
            return None;
        }
        if let Some([scaled]) = self.operands(inner, &Work::Erf) {
            let scaled = self.product(scaled);
            let fits =
                self.near(scaled.factor, std::f64::consts::FRAC_1_SQRT_2) && scaled.of == [x];
            return fits.then_some(Approximation::None);
        }
        let [scaled] = self.operands(inner, &Work::Op(Op::Tanh))? else {
            return None;
        };
        let scaled = self.product(scaled);
        if !self.near(scaled.factor, std::f64::consts::FRAC_2_PI.sqrt()) {
            return None;
        }
        let cubic = |product: &Product, power: usize| {
            self.near(product.factor, 0.044_715)
                && product.of.len() == power
                && product.of.iter().all(|factor| factor == x)
        };
        let fits = match scaled.of.as_slice() {
            // x + 0.044715·x³
            [bent] => {
                let [a, b] = self.operands(bent, &Work::Op(Op::Add))? else {
                    return None;
                };
                (a == x && cubic(&self.product(b), 3)) || (b == x && cubic(&self.product(a), 3))
            }
            // x·(1 + 0.044715·x²)
            [a, b] => {
                let other = if a == x { b } else { a };
                let (square, one) = self.sum(other)?;
                (a == x || b == x) && self.near(one, 1.0) && cubic(&self.product(square), 2)
            }
            _ => false,
        };
        fits.then_some(Approximation::Tanh)
    }

    /// Whether a value is `(x − mean(x)) / √(mean((x − mean(x))²) + ε)`: `x` and `ε`.
    fn normalised(&self, value: &str) -> Option<(String, f64)> {
        let [centred, root] = self.operands(value, &Work::Div)? else {
            return None;
        };
        let x = self.centred(centred)?;
        let [shifted] = self.operands(root, &Work::Sqrt)? else {
            return None;
        };
        let (variance, epsilon) = self.sum(shifted)?;
        let [square] = self.operands(variance, &Work::Mean)? else {
            return None;
        };
        let squared = self.product(square);
        let [a, b] = squared.of.as_slice() else {
            return None;
        };
        let fits = squared.factor == 1.0
            && self.centred(a).as_deref() == Some(&*x)
            && self.centred(b).as_deref() == Some(&*x);
        (fits && epsilon > 0.0).then_some((x, epsilon))
    }

    /// `x` of `x − mean(x)`.
    fn centred(&self, value: &str) -> Option<String> {
        let [x, mean] = self.operands(value, &Work::Sub)? else {
            return None;
        };
        (self.operands(mean, &Work::Mean)? == [x.clone()]).then(|| x.clone())
    }

    /// The only reader of a value, if it combines it by `op` with a parameter of shape `[width]`:
    /// that reader's output, and the parameter.
    fn shaped(&self, value: &str, op: &Op, width: u64) -> Option<(String, String)> {
        let Some(&(1, at)) = self.wiring.readers.get(value) else {
            return None;
        };
        let reader = self.import.steps.get(at).filter(|step| {
            step.work == Work::Op(op.clone()) && step.inputs.iter().any(|input| input == value)
        })?;
        let other = reader.inputs.iter().find(|input| *input != value)?;
        let held = self.import.parameters.get(other)?;
        (held.constant.shape == [width]).then(|| (reader.output.clone(), other.clone()))
    }
}

/// Replaces what is recognised. The steps that nothing reads any more go when the graph is built.
pub(super) fn fuse(import: &mut Import<'_>, outputs: &[String]) {
    let wiring = Wiring::of(&import.steps, outputs);
    for at in 0..import.steps.len() {
        let Some(output) = import.steps.get(at).map(|step| step.output.clone()) else {
            continue;
        };
        let look = Look {
            import,
            wiring: &wiring,
        };
        // A factor of more axes than the operand gives them to what it makes.
        let is_as = |x: &String| {
            let shape = |value| import.types.get(value).map(|made| &made.shape);
            shape(x) == shape(&output)
        };
        if let Some((op, x)) = look.activation(&output).filter(|(_, x)| is_as(x)) {
            replace(import, at, op, vec![x]);
        } else if let Some((x, epsilon)) = look.normalised(&output).filter(|(x, _)| is_as(x)) {
            norm(import, &wiring, &output, x, epsilon);
        } else {
            bias(import, &wiring, at);
        }
    }
}

fn replace(import: &mut Import<'_>, at: usize, op: Op, inputs: Vec<String>) {
    if let Some(step) = import.steps.get_mut(at) {
        step.work = Work::Op(op);
        step.inputs = inputs;
    }
}

/// Layer normalisation, with the scale and the shift that follow, or without.
fn norm(import: &mut Import<'_>, wiring: &Wiring, output: &str, x: String, epsilon: f64) {
    let width = import.types.get(&x).and_then(|x| x.shape.last().copied());
    let Some(width) = width else { return };
    let look = Look { import, wiring };
    let mut last = output.to_owned();
    let mut found = [None, None];
    for (slot, op) in found.iter_mut().zip([Op::Mul, Op::Add]) {
        if let Some((next, parameter)) = look.shaped(&last, &op, width) {
            last = next;
            *slot = Some(parameter);
        }
    }
    let mut fill = |number: f32| {
        let numbers = import.budget.filled(width, number).ok()?;
        let constant = Constant::floats(vec![width], numbers);
        import.operand(&Value::Known(constant), Role::Constant).ok()
    };
    let [scale, shift] = found;
    let (Some(scale), Some(shift)) = (scale.or_else(|| fill(1.0)), shift.or_else(|| fill(0.0)))
    else {
        return;
    };
    if let Some(&at) = wiring.made_by.get(&last) {
        let epsilon = epsilon as f32;
        replace(
            import,
            at,
            Op::LayerNormalization { epsilon },
            vec![x, scale, shift],
        );
    }
}

/// A product with a fixed matrix and the sum with a fixed vector that follows.
fn bias(import: &mut Import<'_>, wiring: &Wiring, at: usize) {
    let Some(step) = import.steps.get(at) else {
        return;
    };
    let (Work::Op(op @ (Op::Gemm | Op::Linear)), [x, weight]) =
        (&step.work, step.inputs.as_slice())
    else {
        return;
    };
    let Some(&out) = import
        .types
        .get(&step.output)
        .and_then(|made| made.shape.last())
    else {
        return;
    };
    let look = Look { import, wiring };
    if let Some((sum, bias)) = look.shaped(&step.output, &Op::Add, out)
        && let Some(&at) = wiring.made_by.get(&sum)
    {
        let (op, inputs) = (op.clone(), vec![x.clone(), weight.clone(), bias]);
        replace(import, at, op, inputs);
    }
}

/// The nodes of the graph: parts that no pattern took become operators, those that nothing reads
/// are left out.
pub(super) fn lower(import: &mut Import<'_>, outputs: &[String]) -> Result<Vec<Node>, ReadError> {
    let mut needed: BTreeSet<String> = outputs.iter().cloned().collect();
    let mut kept = Vec::new();
    for step in std::mem::take(&mut import.steps).into_iter().rev() {
        if needed.contains(&step.output) {
            needed.extend(step.inputs.iter().cloned());
            kept.push(step);
        }
    }
    let mut nodes = Vec::new();
    for step in kept.into_iter().rev() {
        let (op, node) = step.origin.clone();
        let plain = elementary(import, step);
        let plain = plain.map_err(|reason| import.refusal(op, node, reason))?;
        for (op, inputs, output) in plain {
            // As in the zoo, a node bears the name of what it makes.
            nodes.push(Node {
                name: output.clone(),
                op,
                inputs,
                outputs: vec![output],
                in_place: false,
            });
        }
    }
    Ok(nodes)
}

type Plain = (Op, Vec<String>, String);

/// A step in operators of the graph.
fn elementary(import: &mut Import<'_>, step: Step) -> Result<Vec<Plain>, String> {
    let Step {
        work,
        inputs,
        output,
        ..
    } = step;
    let one = |op, inputs| Ok(vec![(op, inputs, output.clone())]);
    match (work, inputs.as_slice()) {
        (Work::Op(op), _) => one(op, inputs),
        (Work::Sub, [a, b]) => match derived(import, b, |number| -number)? {
            Some(negated) => one(Op::Add, vec![a.clone(), negated]),
            None => {
                let factor = Value::Known(import.scalar(-1.0));
                let factor = import.operand(&factor, Role::Constant)?;
                let negated = import.fresh(&format!("{output}.negated"));
                Ok(vec![
                    (Op::Mul, vec![b.clone(), factor], negated.clone()),
                    (Op::Add, vec![a.clone(), negated], output),
                ])
            }
        },
        (Work::Div, [a, b]) => match derived(import, b, |number| 1.0 / number)? {
            Some(inverse) => one(Op::Mul, vec![a.clone(), inverse]),
            None => one(Op::Div, vec![a.clone(), b.clone()]),
        },
        (Work::Sqrt, [x]) => one(Op::Sqrt, vec![x.clone()]),
        (Work::Pow(2.0), [x]) => one(Op::Mul, vec![x.clone(), x.clone()]),
        (Work::Pow(3.0), [x]) => {
            let square = import.fresh(&format!("{output}.square"));
            Ok(vec![
                (Op::Mul, vec![x.clone(), x.clone()], square.clone()),
                (Op::Mul, vec![square, x.clone()], output),
            ])
        }
        (Work::Pow(0.5), [x]) => one(Op::Sqrt, vec![x.clone()]),
        (Work::Pow(power), [x]) if power == -0.5 || power == -1.0 => {
            let one = Value::Known(import.scalar(1.0));
            let one = import.operand(&one, Role::Constant)?;
            if power == -1.0 {
                return Ok(vec![(Op::Div, vec![one, x.clone()], output)]);
            }
            let root = import.fresh(&format!("{output}.root"));
            Ok(vec![
                (Op::Sqrt, vec![x.clone()], root.clone()),
                (Op::Div, vec![one, root], output),
            ])
        }
        (Work::Pow(power), _) => Err(format!("raises to the power {power}")),
        (Work::Mean, [x]) => {
            let width = import.types.get(x).and_then(|x| x.shape.last().copied());
            let width = width.ok_or("takes the mean of a scalar")?;
            let numbers = import.budget.filled(width, 1.0 / width as f32)?;
            let column = Constant::floats(vec![width, 1], numbers);
            let column = import.operand(&Value::Known(column), Role::Constant)?;
            one(Op::Gemm, vec![x.clone(), column])
        }
        (Work::Erf, _) => Err("the graph has no such operator outside of a GELU".to_owned()),
        _ => Err("reads another number of values".to_owned()),
    }
}

/// A parameter made from another, number by number; `None` where the value is none.
fn derived(
    import: &mut Import<'_>,
    name: &str,
    map: impl Fn(f32) -> f32,
) -> Result<Option<String>, String> {
    let Some(held) = import.parameters.get(name) else {
        return Ok(None);
    };
    let constant = held.constant.clone();
    let Data::Floats(numbers) = import.budget.data(&constant)? else {
        return Err("computes with integers".to_owned());
    };
    let numbers = numbers.into_iter().map(map).collect();
    let made = Constant::floats(constant.shape, numbers);
    import
        .operand(&Value::Known(made), Role::Constant)
        .map(Some)
}
