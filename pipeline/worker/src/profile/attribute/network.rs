//! The operators that an engine was asked for, and which of them a kernel takes in.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kernel, Operator};

/// What engines apply to the result of a product while it is at hand.
const BENDS: [&str; 12] = [
    "Clip",
    "Elu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Relu",
    "Relu6",
    "Sigmoid",
    "Silu",
    "Softplus",
    "Swish",
    "Tanh",
];

/// What rounds to a grid of integers, and what makes floats of those again.
const ROUND: &str = "QuantizeLinear";
const BACK: &str = "DequantizeLinear";

/// The operators that were asked for.
pub(super) struct Network<'a> {
    asked: &'a [Operator],
    by_name: BTreeMap<&'a str, usize>,
    pub(super) makers: BTreeMap<&'a str, usize>,
    readers: BTreeMap<&'a str, Vec<usize>>,
    /// The values that are not the same in every step.
    data: BTreeSet<&'a str>,
}

impl<'a> Network<'a> {
    pub(super) fn new(asked: &'a [Operator], fed: &[&'a str]) -> Self {
        let mut network = Self {
            asked,
            by_name: BTreeMap::new(),
            makers: BTreeMap::new(),
            readers: BTreeMap::new(),
            data: moving(asked, fed),
        };
        for (index, operator) in asked.iter().enumerate() {
            if !operator.name.is_empty() {
                network.by_name.insert(&operator.name, index);
            }
            for output in &operator.outputs {
                network.makers.insert(output, index);
            }
            for input in distinct(&operator.inputs) {
                network.readers.entry(input).or_default().push(index);
            }
        }
        network
    }

    /// Whether an operator moves what others compute, and nobody asked for that.
    pub(super) fn is_inserted(
        &self,
        operator: &Operator,
        names: &[String],
        conversions: &[&str],
    ) -> bool {
        let is_asked = |name: &str| self.by_name.contains_key(name);
        let converts = conversions.contains(&operator.kind.as_str());
        let transposes =
            || operator.kind == "Transpose" && !names.iter().any(|name| is_asked(name));
        (converts || transposes()) && !is_asked(&operator.name)
    }

    /// What bears one of the names, or makes what the operator makes.
    pub(super) fn seeds(&self, operator: &Operator, names: &[String]) -> BTreeSet<usize> {
        let makers = operator.outputs.iter();
        let makers = makers.filter_map(|output| self.makers.get(output.as_str()));
        let named = names.iter().find_map(|name| {
            let by_name = self.by_name.get(name.as_str());
            by_name.or_else(|| self.makers.get(name.as_str()))
        });
        makers.chain(named).copied().collect()
    }

    fn inputs(&self, index: usize) -> impl Iterator<Item = &'a str> {
        let inputs = self.asked.get(index).map(|operator| &operator.inputs);
        let inputs = inputs.into_iter().flat_map(|inputs| distinct(inputs));
        inputs.filter(|input| self.data.contains(input))
    }

    fn readers(&self, index: usize) -> BTreeSet<usize> {
        let outputs = self.asked.get(index).map(|operator| &operator.outputs);
        let readers = outputs.into_iter().flatten();
        let readers = readers.filter_map(|output| self.readers.get(output.as_str()));
        readers.flatten().copied().collect()
    }

    /// How many values these operators read that none of them makes.
    fn reads(&self, covers: &BTreeSet<usize>) -> usize {
        let inputs = covers.iter().flat_map(|index| self.inputs(*index));
        let outside = inputs.filter(|input| {
            let maker = self.makers.get(input);
            maker.is_none_or(|maker| !covers.contains(maker))
        });
        outside.collect::<BTreeSet<_>>().len()
    }

    fn kind(&self, index: usize) -> &'a str {
        let operator = self.asked.get(index);
        operator.map_or("", |operator| &operator.kind)
    }

    /// Whether it is computed along with what comes before it, if anything is.
    fn follows(&self, index: usize) -> bool {
        let kind = self.kind(index);
        BENDS.contains(&kind) || kind == ROUND || kind == BACK
    }

    /// Takes what comes before and is read by nothing else.
    pub(super) fn climb(&self, kernel: &mut Kernel, taken: &mut BTreeSet<usize>, followers: bool) {
        let mut ahead: Vec<usize> = kernel.covers.iter().copied().collect();
        while let Some(index) = ahead.pop() {
            for input in self.inputs(index) {
                let Some(&maker) = self.makers.get(input) else {
                    continue;
                };
                if taken.contains(&maker)
                    || (self.follows(maker) && !followers)
                    || !self.readers(maker).is_subset(&kernel.covers)
                {
                    continue;
                }
                kernel.covers.insert(maker);
                if self.reads(&kernel.covers) > kernel.reads {
                    kernel.covers.remove(&maker);
                    continue;
                }
                taken.insert(maker);
                // What it reads may have had to wait for it.
                ahead.push(index);
                ahead.push(maker);
            }
        }
    }

    /// Takes the operator behind that reads what the kernel reads besides, and what follows that.
    pub(super) fn descend(&self, kernel: &mut Kernel, taken: &mut BTreeSet<usize>) {
        if !kernel.is_known {
            self.join(kernel, taken);
            for index in kernel.covers.clone() {
                self.follow(index, kernel, taken);
            }
        }
        for index in kernel.covers.clone() {
            if self.kind(index) != ROUND {
                continue;
            }
            for back in self.readers(index) {
                if self.kind(back) == BACK && taken.insert(back) {
                    kernel.covers.insert(back);
                }
            }
        }
    }

    /// Takes the operator behind that reads what the kernel reads besides.
    fn join(&self, kernel: &mut Kernel, taken: &mut BTreeSet<usize>) {
        let covers = kernel.covers.clone();
        for index in covers.iter().flat_map(|index| self.readers(*index)) {
            let reads = self.reads(&kernel.covers);
            if reads >= kernel.reads || taken.contains(&index) {
                continue;
            }
            kernel.covers.insert(index);
            let more = self.reads(&kernel.covers);
            if more <= reads || more > kernel.reads {
                kernel.covers.remove(&index);
                continue;
            }
            taken.insert(index);
        }
    }

    /// Takes what bends and what rounds behind one of the kernel's, one after the other.
    fn follow(&self, mut index: usize, kernel: &mut Kernel, taken: &mut BTreeSet<usize>) {
        loop {
            let readers = self.readers(index);
            let Some(&reader) = readers.first() else {
                return;
            };
            let kind = self.kind(reader);
            let is_last = kind == ROUND;
            if readers.len() > 1 || !(BENDS.contains(&kind) || is_last) || !taken.insert(reader) {
                return;
            }
            kernel.covers.insert(reader);
            if is_last {
                return;
            }
            index = reader;
        }
    }
}

/// The values that are not the same in every step: what follows from what is fed.
pub(super) fn moving<'a>(operators: &'a [Operator], fed: &[&'a str]) -> BTreeSet<&'a str> {
    let mut data: BTreeSet<&str> = fed.iter().copied().collect();
    for operator in operators {
        if operator
            .inputs
            .iter()
            .any(|input| data.contains(input.as_str()))
        {
            data.extend(operator.outputs.iter().map(String::as_str));
        }
    }
    data
}

/// The names, each once.
pub(super) fn distinct(names: &[String]) -> impl Iterator<Item = &str> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    names.into_iter()
}
