//! Which nodes of the graph each of ONNX Runtime's kernels computes.
//!
//! ONNX Runtime writes down the model that it made of ours. Values that it leaves in between keep
//! their names there, and so do operators, with what it did to them: `X_nchwc` for one in blocked
//! layout, `fused X`, `X/MatMulAddFusion`, `X_token_7` where a name was taken. From both,
//! [`worker::attribute`] tells which of our operators a kernel stands for; and each of those was written
//! for a node of the graph, whose name it bears, or begins its own with.

use std::collections::{BTreeMap, BTreeSet};

use models::onnx::Call;
use schema::{Graph, graph::Op};
use worker::{Operator, attribute, enclosing};

/// Operators that bring numbers into another layout, precision or memory.
const CONVERSIONS: [&str; 8] = [
    "Cast",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MemcpyFromHost",
    "MemcpyToHost",
    "QuantizeLinear",
    "ReorderInput",
    "ReorderOutput",
];

/// What a kernel is to the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The nodes that it computes, or a part of them.
    pub(crate) nodes: BTreeSet<String>,
    /// Whether it only converts.
    pub(crate) conversion: bool,
}

/// All kernels of a session, by the names under which its profile speaks of them.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    named: BTreeMap<String, Kernel>,
    /// Those that ONNX Runtime put in without a name, by what they compute: one for all of a kind, since
    /// by the numbers in a profile nobody outside can tell them apart.
    nameless: BTreeMap<String, Kernel>,
}

impl Kernels {
    /// Of a session that made the operators `running` of those that it was asked for.
    pub(crate) fn of(graph: &Graph, asked: &[Call], running: &[Call]) -> Self {
        let asked: Vec<Operator> = asked.iter().map(operator).collect();
        let running: Vec<Operator> = running.iter().map(operator).collect();
        let owners = owners(graph, &asked);
        let fed: Vec<&str> = graph
            .inputs
            .iter()
            .map(|input| input.name.as_str())
            .collect();
        let parts = attribute(&asked, &running, &fed, &CONVERSIONS, names);
        let mut kernels = Self::default();
        for (operator, part) in running.into_iter().zip(parts) {
            let nodes = part.covers.iter().filter_map(|index| owners.get(*index));
            // Where ONNX Runtime gives a name twice, times are told together.
            let kernel = if operator.name.is_empty() {
                kernels.nameless.entry(operator.kind).or_default()
            } else {
                kernels.named.entry(operator.name).or_default()
            };
            kernel.nodes.extend(nodes.flatten().cloned());
            kernel.conversion |= part.conversion;
        }
        kernels
    }

    /// The one that a profile calls so. Where no model tells of it, it is one of those of its kind without
    /// a name, if there are any; otherwise overhead, unless it converts.
    pub(crate) fn get(&self, name: &str, kind: &str) -> Kernel {
        let nameless = || self.nameless.get(kind).filter(|_| is_numbered(name, kind));
        let kernel = self.named.get(name).or_else(nameless);
        kernel.cloned().unwrap_or_else(|| Kernel {
            nodes: BTreeSet::new(),
            conversion: CONVERSIONS.contains(&kind),
        })
    }
}

/// Whether ONNX Runtime's profile calls an operator without a name so: `MatMul_3`.
fn is_numbered(name: &str, kind: &str) -> bool {
    let number = name
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix('_'));
    number.is_some_and(is_number)
}

fn operator(call: &Call) -> Operator {
    let present = |names: &[String]| {
        let names = names.iter().filter(|name| !name.is_empty());
        names.cloned().collect()
    };
    Operator {
        name: call.name.clone(),
        kind: call.op_type.clone(),
        inputs: present(&call.inputs),
        outputs: present(&call.outputs),
    }
}

/// The names that an operator may have had before, the likeliest first.
fn names(name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    let mut rest = name;
    loop {
        let shorter = rest
            .strip_prefix("fused ")
            .or_else(|| rest.strip_suffix("_nchwc"))
            .or_else(|| without_token(rest))
            .or_else(|| Some(rest.rsplit_once('/')?.0));
        match shorter.filter(|shorter| !shorter.is_empty()) {
            None => return names,
            Some(shorter) => {
                names.push(shorter.to_owned());
                rest = shorter;
            }
        }
    }
}

/// A name without what makes it unique: `_token_7`.
fn without_token(name: &str) -> Option<&str> {
    let (rest, number) = name.rsplit_once("_token_")?;
    is_number(number).then_some(rest)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// For each operator of a file the nodes of the graph that it was written for, or that it was read
/// into: the one that makes what it makes, or of its name, or whose name its own begins with. What
/// is none of these was put together with others to a node behind it. (In a user's file names of operators
/// and of values have nothing to do with each other, and nodes are called after values.)
fn owners(graph: &Graph, asked: &[Operator]) -> Vec<BTreeSet<String>> {
    let nodes: BTreeSet<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    let makers: BTreeMap<&str, &str> = graph
        .nodes
        .iter()
        .flat_map(|node| {
            node.outputs
                .iter()
                .map(|output| (output.as_str(), node.name.as_str()))
        })
        .collect();
    let own = |operator: &Operator| {
        let mut outputs = operator.outputs.iter();
        let made = outputs.find_map(|output| makers.get(output.as_str()).copied());
        let by_name = || nodes.get(operator.name.as_str()).copied();
        let part = || {
            enclosing(&operator.name)
                .skip(1)
                .find_map(|name| nodes.get(name).copied())
        };
        made.or_else(by_name).or_else(part)
    };
    let mut read: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut owners: Vec<BTreeSet<String>> = Vec::with_capacity(asked.len());
    for operator in asked.iter().rev() {
        let found: BTreeSet<String> = match own(operator) {
            Some(node) => BTreeSet::from([node.to_owned()]),
            None => {
                let readers = operator.outputs.iter();
                let readers = readers.filter_map(|output| read.get(output.as_str()));
                readers.flatten().cloned().collect()
            }
        };
        for input in &operator.inputs {
            read.entry(input).or_default().extend(found.iter().cloned());
        }
        owners.push(found);
    }
    owners.reverse();
    own_all(graph, asked, &mut owners);
    owners
}

/// Gives the nodes that are nobody's to the operators of a file that they were read from: where one became
/// several nodes, all but the last bear its name, or its output's if it has none, and a word behind.
fn own_all(graph: &Graph, asked: &[Operator], owners: &mut [BTreeSet<String>]) {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, operator) in asked.iter().enumerate() {
        let output = operator.outputs.first().unwrap_or(&operator.name);
        places.entry(output).or_insert(at);
    }
    let named = asked.iter().enumerate();
    places.extend(named.map(|(at, operator)| (operator.name.as_str(), at)));
    let owned: BTreeSet<String> = owners.iter().flatten().cloned().collect();
    let mut moving: BTreeSet<&str> = graph.inputs.iter().map(|it| it.name.as_str()).collect();
    for node in &graph.nodes {
        // What is computed once, or is nothing in inference, is nobody's.
        let mut inputs = node.inputs.iter();
        if !inputs.any(|input| moving.contains(input.as_str())) {
            continue;
        }
        moving.extend(node.outputs.iter().map(String::as_str));
        if owned.contains(&node.name) || matches!(node.op, Op::Dropout { .. }) {
            continue;
        }
        let place = enclosing(&node.name)
            .skip(1)
            .find_map(|name| places.get(name));
        if let Some(owners) = place.and_then(|&at| owners.get_mut(at)) {
            owners.insert(node.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_back_to_where_they_came_from() {
        let last = |name: &str| names(name).pop().unwrap();
        assert_eq!(last("layer1.0.bn2_nchwc"), "layer1.0.bn2");
        assert_eq!(last("fused pooler.dense"), "pooler.dense");
        assert_eq!(last("query.product/MatMulAddFusion"), "query.product");
        assert_eq!(last("key/MatMulAddFusion_token_12"), "key");
        assert_eq!(last("a_token_b"), "a_token_b");
        assert_eq!(names("/"), ["/"]);
    }

    fn call(op_type: &str, name: &str, inputs: &[&str], output: &str) -> Call {
        Call {
            name: name.to_owned(),
            op_type: op_type.to_owned(),
            inputs: inputs.iter().map(|&name| name.to_owned()).collect(),
            outputs: vec![output.to_owned()],
        }
    }

    #[test]
    fn kernels_are_mapped_to_nodes_and_conversions_to_none() {
        let graph = models::sample::perceptron(1).unwrap();
        let asked = [
            call("Gemm", "hidden", &["input", "w"], "hidden"),
            call("Relu", "relu", &["hidden"], "relu"),
            call("MatMul", "output.product", &["relu", "v"], "output.product"),
            call("Add", "output", &["output.product", "b"], "logits"),
        ];
        let running = [
            call("ReorderInput", "ReorderInput", &["input"], "t0"),
            call("FusedGemm", "fused hidden", &["t0", "w"], "t1"),
            call("Transpose", "turned", &["t1"], "t2"),
            call("Gemm", "output.product/MatMulAddFusion", &["t2", "v"], "t3"),
            call("Reshape", "gemm_output_reshape", &["t3"], "logits"),
        ];
        let kernels = Kernels::of(&graph, &asked, &running);
        let told = |name: &str| {
            let kernel = kernels.get(name, "");
            let nodes: Vec<_> = kernel.nodes.into_iter().collect();
            (nodes.join(" "), kernel.conversion)
        };
        assert_eq!(told("ReorderInput"), (String::new(), true));
        assert_eq!(told("turned"), (String::new(), true));
        assert_eq!(told("output.product/MatMulAddFusion").0, "output");
        assert_eq!(told("gemm_output_reshape"), ("output".to_owned(), false));
        assert_eq!(told("fused hidden").0, "hidden relu");
        assert_eq!(told("nobody's").0, "");
        assert_eq!(told("Gemm_3").0, "");
        assert!(kernels.get("InsertedCast_x", "Cast").conversion);
    }

    #[test]
    fn what_has_no_name_is_one_of_its_kind() {
        let graph = models::sample::perceptron(1).unwrap();
        let asked = [
            call("Gemm", "hidden", &["input", "w"], "hidden"),
            call("Relu", "relu", &["hidden"], "relu"),
            call("Gemm", "output", &["relu", "v"], "logits"),
        ];
        let running = [
            call("Gemm", "", &["input", "w"], "hidden"),
            call("Relu", "", &["hidden"], "relu"),
            call("Gemm", "", &["relu", "v"], "logits"),
        ];
        let kernels = Kernels::of(&graph, &asked, &running);
        let told = |name: &str, kind: &str| {
            let nodes: Vec<_> = kernels.get(name, kind).nodes.into_iter().collect();
            nodes.join(" ")
        };
        assert_eq!(told("Gemm_0", "Gemm"), "hidden output");
        assert_eq!(told("Relu_1", "Relu"), "relu");
        assert_eq!(told("Relu_x", "Relu"), "");
        assert_eq!(told("MatMul_2", "MatMul"), "");
    }
}
