//! Functions of a file's own: each call is replaced by the nodes that the function is made of.
//!
//! Whoever writes ONNX by onnxscript may write so. A call that cannot be replaced stays, and is an operator
//! that is not read: engines that read ONNX run it. So does one of a function with graphs in its nodes, the
//! branches of an `If`. Functions that call each other in a circle, or come to absurdly many nodes, are
//! refused before anybody unfolds them (`extents`).

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    ReadError,
    extents::{self, absurd},
    whole,
};
use crate::onnx::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto};

/// Most nodes, attributes and names that all calls come to, with what is looked through for them, and most
/// bytes of them.
pub(super) const MOST_PARTS: usize = extents::MOST_NODES;
pub(super) const MOST_BYTES: usize = extents::MOST_BYTES;

/// What a number behind a name takes at most.
pub(super) const NUMBER: usize = 21;

/// A function by what a call names: domain, name and overload.
pub(super) type Called<'a> = (&'a str, &'a str, &'a str);

/// The functions of a file.
pub(super) type Known<'a> = BTreeMap<Called<'a>, &'a FunctionProto>;

pub(super) fn called(node: &NodeProto) -> Called<'_> {
    (&node.domain, &node.op_type, &node.overload)
}

pub(super) fn name(function: &FunctionProto) -> Called<'_> {
    (&function.domain, &function.name, &function.overload)
}

/// Replaces the calls of functions, as far as that can be done.
pub(super) fn inline(
    graph: &mut GraphProto,
    functions: &[FunctionProto],
    opset: i64,
) -> Result<(), ReadError> {
    if functions.is_empty() {
        return Ok(());
    }
    let held = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    let fed = graph.input.iter().map(|input| input.name.as_str());
    // Once more what it is made of is checked; of names that nothing makes, a function could make one.
    whole::check_order(graph, held.chain(fed))?;
    let mut known: Known<'_> = BTreeMap::new();
    for function in functions {
        if known.insert(name(function), function).is_some() {
            let reason = format!("two of its functions are called `{}`", function.name);
            return Err(ReadError::Malformed(reason));
        }
    }
    extents::check(&graph.node, &known)?;
    known.retain(|_, function| can_be_inlined(function, opset));
    let nodes = std::mem::take(&mut graph.node);
    let made = nodes.iter().flat_map(|node| &node.output);
    let fed = graph.input.iter().map(|input| &input.name);
    let held = graph.initializer.iter().map(|tensor| &tensor.name);
    let mut inlining = Inlining {
        taken: made.chain(fed).chain(held).cloned().collect(),
        known,
        number: 0,
        parts: 0,
        bytes: 0,
        made: Vec::new(),
    };
    for node in nodes {
        inlining.node(node)?;
    }
    graph.node = inlining.made;
    Ok(())
}

/// Whether all that it says is known: its operators have the file's version, its names are what its
/// inputs, its nodes and its outputs are called, and no graph in a node reads them.
fn can_be_inlined(function: &FunctionProto, opset: i64) -> bool {
    let mut nodes = function.node.iter();
    let has_onnx = nodes.any(|node| whole::is_onnx(&node.domain));
    let sets = function.opset_import.iter();
    let versions = sets.filter(|set| whole::is_onnx(&set.domain));
    let versions: Vec<i64> = versions.map(|set| set.version).collect();
    let made: HashSet<&String> = function.node.iter().flat_map(|node| &node.output).collect();
    let fed: HashSet<&String> = function.input.iter().collect();
    let given: HashSet<&String> = function.output.iter().collect();
    let mut read = function.node.iter().flat_map(|node| &node.input);
    let mut attributes = function.node.iter().flat_map(|node| &node.attribute);
    !attributes.any(whole::holds_graphs)
        && versions.iter().all(|&version| version == opset)
        && (!has_onnx || !versions.is_empty())
        && fed.len() == function.input.len()
        && given.len() == function.output.len()
        && given.iter().all(|output| made.contains(*output))
        && fed.is_disjoint(&made)
        && !fed.iter().chain(&given).any(|name| name.is_empty())
        && read.all(|name| name.is_empty() || fed.contains(name) || made.contains(name))
        && are_distinct(&function.attribute_proto)
}

/// Whether no two have one name: readers differ in which of them they believe.
fn are_distinct(attributes: &[AttributeProto]) -> bool {
    let names: HashSet<&String> = attributes.iter().map(|given| &given.name).collect();
    names.len() == attributes.len()
}

struct Inlining<'a> {
    known: Known<'a>,
    /// Names of values.
    taken: HashSet<String>,
    /// The last that was put behind a name.
    number: u64,
    /// How many calls have become so far, and how many bytes.
    parts: usize,
    bytes: usize,
    made: Vec<NodeProto>,
}

impl<'a> Inlining<'a> {
    /// As deep as functions call functions, which is bounded.
    fn node(&mut self, call: NodeProto) -> Result<(), ReadError> {
        let Some(&function) = self.known.get(&called(&call)) else {
            self.made.push(call);
            return Ok(());
        };
        self.take(&call, function)?;
        let fits = call.input.len() <= function.input.len()
            && call.output.len() <= function.output.len()
            && are_distinct(&call.attribute);
        if fits {
            return self.call(&call, function);
        }
        self.made.push(call);
        Ok(())
    }

    /// Makes sure that there is room for what a call becomes.
    fn take(&mut self, call: &NodeProto, function: &FunctionProto) -> Result<(), ReadError> {
        let sum = |counts: &mut dyn Iterator<Item = usize>| counts.fold(0, usize::saturating_add);
        let nodes = || function.node.iter();
        let handed = call.attribute.len() + function.attribute_proto.len();
        let own = sum(&mut nodes().map(|node| node.attribute.len()));
        let names = sum(&mut nodes().map(|node| node.input.len() + node.output.len()));
        let formal = function.input.len() + function.output.len();
        let parts = own.saturating_add(1).saturating_mul(handed + 1);
        let parts = parts.saturating_add(function.node.len() + names + formal);
        self.parts = self.parts.saturating_add(parts);
        if self.parts > MOST_PARTS {
            return Err(absurd(&function.name));
        }
        // Any name inside may become the longest of the call's.
        let actual = call.input.iter().chain(&call.output).map(String::len);
        let longest = actual.max().unwrap_or(0);
        let named = |name: &String| size_of::<String>() + longest.max(name.len() + NUMBER);
        let handed = call.attribute.iter().chain(&function.attribute_proto);
        let handed = sum(&mut handed.map(bytes_of));
        let bytes = sum(&mut nodes().map(|node| {
            let names = sum(&mut node.input.iter().chain(&node.output).map(named));
            let own = sum(&mut node.attribute.iter().map(bytes_of));
            let texts = node.name.len() + node.op_type.len() + node.domain.len();
            let asked = node.attribute.len().saturating_mul(handed);
            let called = whole::name_of(call).len() + whole::name_of(node).len();
            size_of::<NodeProto>()
                + texts
                + called
                + own.saturating_add(asked).saturating_add(names)
        }));
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MOST_BYTES {
            return Err(absurd(&function.name));
        }
        Ok(())
    }

    fn call(&mut self, call: &NodeProto, function: &'a FunctionProto) -> Result<(), ReadError> {
        // What the call leaves out is the name of nothing; an output that it leaves out has one inside.
        let nothing = std::iter::repeat(String::new());
        let inputs = call.input.iter().cloned().chain(nothing);
        let formal = function.input.iter().map(String::as_str);
        let mut names: HashMap<&str, String> = formal.zip(inputs).collect();
        let outputs = function.output.iter().zip(&call.output);
        let outputs = outputs.filter(|(_, actual)| !actual.is_empty());
        names.extend(outputs.map(|(formal, actual)| (formal.as_str(), actual.clone())));
        for made in function.node.iter().flat_map(|node| &node.output) {
            if !made.is_empty() && !names.contains_key(made.as_str()) {
                names.insert(made, self.fresh(made));
            }
        }
        let named = |name: &String| names.get(name.as_str()).cloned().unwrap_or_default();
        for inner in &function.node {
            let attributes = inner.attribute.iter();
            let node = NodeProto {
                name: format!("{}/{}", whole::name_of(call), whole::name_of(inner)),
                input: inner.input.iter().map(named).collect(),
                output: inner.output.iter().map(named).collect(),
                attribute: attributes
                    .filter_map(|attribute| resolved(attribute, call, function))
                    .collect(),
                op_type: inner.op_type.clone(),
                domain: inner.domain.clone(),
                overload: inner.overload.clone(),
            };
            self.node(node)?;
        }
        Ok(())
    }

    /// A name for a value inside of a call, which nothing has yet.
    fn fresh(&mut self, name: &str) -> String {
        loop {
            self.number += 1;
            let fresh = format!("{name}.{}", self.number);
            if self.taken.insert(fresh.clone()) {
                return fresh;
            }
        }
    }
}

/// An attribute of a node inside: its own, the call's, or what that is where the call leaves it out.
fn resolved(
    attribute: &AttributeProto,
    call: &NodeProto,
    function: &FunctionProto,
) -> Option<AttributeProto> {
    let asked = &attribute.ref_attr_name;
    if asked.is_empty() {
        return Some(attribute.clone());
    }
    let mut given = call.attribute.iter().chain(&function.attribute_proto);
    let found = given.find(|given| given.name == *asked)?;
    Some(AttributeProto {
        name: attribute.name.clone(),
        ..found.clone()
    })
}

/// How many bytes a copy of it takes, or somewhat more.
pub(super) fn bytes_of(attribute: &AttributeProto) -> usize {
    let tensor = attribute.t.as_ref().map_or(0, |tensor| {
        size_of::<TensorProto>() + 8 * tensor.dims.len() + tensor.name.len()
    });
    let lists = attribute.strings.len() + attribute.graphs.len() + attribute.g.len();
    let numbers = attribute.floats.len() + attribute.ints.len();
    let text = attribute.s.as_ref().map_or(0, Vec::len);
    let names = attribute.name.len() + attribute.ref_attr_name.len();
    size_of::<AttributeProto>() + tensor + 32 * lists + 8 * numbers + text + names
}
