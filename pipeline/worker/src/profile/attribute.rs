//! Which operators of a network a kernel stands for, where an engine has fused some and named the
//! result in its own way.
//!
//! The engine tells the operators that it was asked for and those that it runs. One that runs stands
//! for what bears its name or makes its outputs, and besides for what nobody else can have computed:
//!
//! 1. what comes before and is read by nothing else, as long as the kernel reads as many values as
//!    all of that together (`Conv`, `BatchNormalization` before a `Relu`);
//! 2. where it makes a value that nobody asked for: the operator behind that reads what the kernel reads
//!    besides (the sum of a residual block), and what bends (`Relu`) and rounds (`QuantizeLinear`) behind,
//!    where nothing else reads the same;
//! 3. where it rounds, what brings that back (`DequantizeLinear`), which whoever reads the integers
//!    themselves has no need of;
//! 4. what bends, rounds or brings back, comes before and is read by nothing else, if no kernel before took it.
//!
//! One that only says otherwise what lies there already (a reshape) stands for what bears its name alone: it
//! may have taken in others before it, none of which took time.
//!
//! One that runs and is none of this (a reshape that the engine put in between) belongs to what reads
//! it. Constants are nobody's: they are computed once, before the first step.

mod network;

use std::collections::{BTreeMap, BTreeSet};

use network::{Network, distinct, moving};

/// An operator, as an engine knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operator {
    /// Its name; may be empty.
    pub name: String,
    /// What it computes, for example `Conv`.
    pub kind: String,
    /// The values that it reads.
    pub inputs: Vec<String>,
    /// The values that it makes.
    pub outputs: Vec<String>,
}

/// What moves no number.
const VIEWS: [&str; 6] = [
    "ExpandDims",
    "Flatten",
    "Identity",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
];

/// What an operator that runs is to those that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Those that it stands for, by their places.
    pub covers: BTreeSet<usize>,
    /// Whether it only converts, be it asked for or not.
    pub conversion: bool,
}

/// What each operator of `running` is to those of `asked`.
///
/// Both in topological order. `fed` are the values that a step is given; `named` tells, of the name of an
/// operator that runs, by which names of operators or values it may be known among those that were
/// asked for, the likeliest first. `conversions` are the kinds of operators that bring numbers into another
/// layout, precision or memory: one that nobody asked for stands for none, and neither does a transposition
/// (`Transpose`) that bears no name of what was asked for.
#[must_use]
pub fn attribute(
    asked: &[Operator],
    running: &[Operator],
    fed: &[&str],
    conversions: &[&str],
    named: impl Fn(&str) -> Vec<String>,
) -> Vec<Part> {
    let network = Network::new(asked, fed);
    let data = moving(running, fed);
    let mut kernels: Vec<Kernel> = Vec::with_capacity(running.len());
    for operator in running {
        let names = named(&operator.name);
        let is_apart = network.is_inserted(operator, &names, conversions);
        kernels.push(Kernel {
            is_apart,
            is_known: operator
                .outputs
                .iter()
                .any(|output| network.makers.contains_key(output.as_str())),
            reads: match VIEWS.contains(&operator.kind.as_str()) {
                true => 0,
                false => distinct(&operator.inputs)
                    .filter(|input| data.contains(input))
                    .count(),
            },
            covers: match is_apart {
                true => BTreeSet::new(),
                false => network.seeds(operator, &names),
            },
        });
    }
    let seeds = kernels.iter().flat_map(|kernel| &kernel.covers);
    let mut taken: BTreeSet<usize> = seeds.copied().collect();
    for kernel in &mut kernels {
        network.climb(kernel, &mut taken, false);
    }
    for kernel in &mut kernels {
        network.descend(kernel, &mut taken);
    }
    for kernel in &mut kernels {
        network.climb(kernel, &mut taken, true);
    }
    inherit(running, &mut kernels);
    let parts = running.iter().zip(kernels).map(|(operator, kernel)| Part {
        covers: kernel.covers,
        conversion: kernel.is_apart || conversions.contains(&operator.kind.as_str()),
    });
    parts.collect()
}

/// An operator that runs.
struct Kernel {
    is_apart: bool,
    /// Whether it makes a value that was asked for: then it ends there.
    is_known: bool,
    /// How many values it reads that are not the same in every step, where it computes anything.
    reads: usize,
    covers: BTreeSet<usize>,
}

/// What is in between belongs to what reads it.
fn inherit(running: &[Operator], kernels: &mut [Kernel]) {
    let mut read: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (operator, kernel) in running.iter().zip(kernels).rev() {
        if kernel.covers.is_empty() && !kernel.is_apart {
            let readers = operator.outputs.iter();
            let readers = readers.filter_map(|output| read.get(output.as_str()));
            kernel.covers = readers.flatten().copied().collect();
        }
        for input in &operator.inputs {
            read.entry(input).or_default().extend(&kernel.covers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `kind name: inputs`, each making the value of its name.
    fn operators(text: &str) -> Vec<Operator> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let operator = |line: &str| {
            let (head, inputs) = line.split_once(':').unwrap();
            let (kind, name) = head.split_once(' ').unwrap();
            Operator {
                name: name.to_owned(),
                kind: kind.to_owned(),
                inputs: inputs.split_whitespace().map(str::to_owned).collect(),
                outputs: vec![name.to_owned()],
            }
        };
        lines.map(operator).collect()
    }

    /// Kernels of `name(values) -> value`, and what each stands for.
    fn attributed(asked: &str, running: &[(&str, &str, &str)]) -> Vec<String> {
        let asked = operators(asked);
        let running: Vec<Operator> = running
            .iter()
            .map(|(name, inputs, output)| Operator {
                name: (*name).to_owned(),
                kind: (*name).to_owned(),
                inputs: inputs.split_whitespace().map(str::to_owned).collect(),
                outputs: vec![(*output).to_owned()],
            })
            .collect();
        let named = |name: &str| vec![name.trim_end_matches("_fused").to_owned()];
        let parts = attribute(&asked, &running, &["input"], &["ReorderOutput"], named);
        let names = |covers: &BTreeSet<usize>| {
            let names = covers.iter().map(|index| asked[*index].name.clone());
            names.collect::<Vec<_>>().join(" ")
        };
        parts.iter().map(|part| names(&part.covers)).collect()
    }

    /// A residual block as ONNX Runtime fuses it: the sum and the bend behind it go with the second
    /// convolution, whose kernel is named after what it made before they did.
    #[test]
    fn a_residual_block_is_taken_apart_where_its_kernels_read() {
        let asked = "Conv conv0: input w
            Relu relu0: conv0
            Conv conv1: relu0 w
            BatchNormalization bn1: conv1 s
            Relu relu1: bn1
            Conv conv2: relu1 w
            BatchNormalization bn2: conv2 s
            Add add: bn2 relu0
            Relu relu2: add
            GlobalAveragePool pool: relu2
            Gemm fc: pool w";
        let running = [
            ("relu0_fused", "input w", "t0"),
            ("relu1_fused", "t0 w", "t1"),
            ("bn2_fused", "t1 w t0", "t2"),
            ("pool_fused", "t2", "t3"),
            ("ReorderOutput", "t3", "pool"),
            ("fc", "pool w", "fc"),
        ];
        let expected = [
            "conv0 relu0",
            "conv1 bn1 relu1",
            "conv2 bn2 add relu2",
            "pool",
            "",
            "fc",
        ];
        assert_eq!(attributed(asked, &running), expected);
    }

    /// A bend that nothing before took is computed by what reads it.
    #[test]
    fn a_bend_belongs_to_whoever_can_have_computed_it() {
        let asked = "Conv conv: input w
            Relu relu: conv
            MaxPool pool: relu";
        let apart = [("conv", "input w", "conv"), ("pool", "conv", "pool")];
        assert_eq!(attributed(asked, &apart), ["conv", "relu pool"]);
        let whole = [("relu_fused", "input w", "t"), ("pool", "t", "pool")];
        assert_eq!(attributed(asked, &whole), ["conv relu", "pool"]);
    }

    /// A sum and a normalisation are one kernel, known by what it makes; a constant operand is not read.
    #[test]
    fn what_is_made_tells_what_was_fused() {
        let asked = "Gather words: table input
            Gather places: table numbers
            Add sum: words places
            LayerNormalization norm: sum w
            MatMul product: norm w
            Add dense: product b";
        let running = [
            ("words", "table input", "words"),
            ("Skip", "words constant w", "norm"),
            ("in", "norm", "t0"),
            ("product", "t0 w b", "t1"),
            ("out", "t1", "dense"),
        ];
        let expected = ["words", "sum norm", "product", "product", "dense"];
        assert_eq!(attributed(asked, &running), expected);
    }

    /// Grappler makes one of two reshapes that follow each other: what the first was for is no part of the
    /// second's.
    #[test]
    fn a_view_stands_for_itself() {
        let asked = operators(
            "MatMul dense: input w
            Reshape shaped: dense
            Reshape heads: shaped",
        );
        let running = operators(
            "MatMul dense: input w
            Reshape heads: dense",
        );
        let named = |name: &str| vec![name.to_owned()];
        let parts = attribute(&asked, &running, &["input"], &[], named);
        let covers: Vec<_> = parts.into_iter().map(|part| part.covers).collect();
        assert_eq!(covers, [BTreeSet::from([0]), BTreeSet::from([2])]);
    }

    /// Convolutions of integers, as ONNX Runtime makes them: where it turns them to channels last, their
    /// values have names of its own.
    #[test]
    fn what_rounds_behind_a_product_belongs_to_it() {
        let asked = "QuantizeLinear x.q: input
            DequantizeLinear x.dq: x.q
            Conv conv1: x.dq w
            Relu relu1: conv1
            QuantizeLinear relu1.q: relu1
            DequantizeLinear relu1.dq: relu1.q
            Conv conv2: relu1.dq w
            QuantizeLinear conv2.q: conv2
            DequantizeLinear conv2.dq: conv2.q
            Add add: conv2.dq relu1.dq
            Relu relu2: add
            QuantizeLinear relu2.q: relu2
            DequantizeLinear relu2.dq: relu2.q";
        let expected = [
            "x.q x.dq",
            "conv1 relu1 relu1.q relu1.dq",
            "conv2 conv2.q conv2.dq",
            "add relu2 relu2.q",
            "relu2.dq",
        ];
        let renamed = [
            ("x.q", "input", "x.q"),
            ("conv1", "x.q w", "t0"),
            ("conv2", "t0 w", "t1"),
            ("add", "t1 t0", "t2"),
            ("relu2.dq", "t2", "relu2.dq"),
        ];
        assert_eq!(attributed(asked, &renamed), expected);
        let own = [
            ("x.q", "input", "x.q"),
            ("conv1", "x.q w", "relu1.q"),
            ("conv2", "relu1.q w", "conv2.q"),
            ("add", "conv2.q relu1.q", "relu2.q"),
            ("relu2.dq", "relu2.q", "relu2.dq"),
        ];
        assert_eq!(attributed(asked, &own), expected);
    }

    #[test]
    fn what_is_read_elsewhere_is_no_part_of_a_kernel() {
        let asked = "Conv conv: input w
            Relu relu: conv
            Sigmoid gate: conv
            Mul product: relu gate";
        let running = [
            ("conv", "input w", "conv"),
            ("gate", "conv", "gate"),
            ("product", "conv gate", "product"),
        ];
        assert_eq!(
            attributed(asked, &running),
            ["conv", "gate", "relu product"]
        );
    }
}
