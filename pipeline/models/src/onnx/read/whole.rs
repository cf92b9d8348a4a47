//! What must be known of a file before any engine is given it as it is: that it names no file that we
//! have not looked at, however deep inside, and that its nodes follow from one another.

use std::collections::HashSet;

use bytes::Bytes;
use prost::Message as _;

use super::{ReadError, census, tensor::EXTERNAL};
use crate::onnx::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto};

/// What domains of engines' own operators begin with.
const TAKEN: [&str; 4] = ["ai.onnx", "com.microsoft", "com.ms.", "org.pytorch.aten"];

/// How deep graphs may lie in nodes of graphs: a branch in a loop in a branch.
const DEEPEST: usize = 8;

/// What is said of a graph that is an attribute of a call: a function may stand for it many times over.
pub(super) const HANDED: &str = "functions that are handed graphs";

/// Refuses what is not looked into: a tensor in there could name a file that ONNX Runtime, which gets
/// the file as it is, would read.
pub(super) fn check(
    training: &[Bytes],
    functions: &[FunctionProto],
    graph: &GraphProto,
) -> Result<(), ReadError> {
    if !training.is_empty() {
        return refused("instructions for training");
    }
    for function in functions {
        // Engines differ in whether such stand for their own operators.
        if function.domain.is_empty() || TAKEN.iter().any(|own| function.domain.starts_with(own)) {
            return refused("functions by names of operators that engines have");
        }
        if function.attribute_proto.iter().any(holds_graphs) {
            return refused(HANDED);
        }
        let nodes = function.node.iter().flat_map(|node| &node.attribute);
        for attribute in nodes.chain(&function.attribute_proto) {
            check_attribute(attribute, 0)?;
        }
    }
    check_graph(graph, 0)
}

/// Whether a domain is that of ONNX's own operators.
pub(super) fn is_onnx(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

pub(super) fn refused<T>(what: &str) -> Result<T, ReadError> {
    let reason = format!("it has {what}, which are not read; export it for inference, inlined");
    Err(ReadError::Malformed(reason))
}

fn check_graph(graph: &GraphProto, depth: usize) -> Result<(), ReadError> {
    if !graph.sparse_initializer.is_empty() {
        return Err(sparse());
    }
    // Those of the model itself are looked at one by one.
    if depth > 0 && graph.initializer.iter().any(is_external) {
        return refused("graphs in nodes whose numbers lie beside the model");
    }
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    for attribute in attributes {
        check_attribute(attribute, depth)?;
    }
    Ok(())
}

/// What they name beside the model is not looked for.
fn sparse() -> ReadError {
    let reason = "it has sparse tensors, which are not read; write them as dense ones";
    ReadError::Malformed(reason.to_owned())
}

fn is_external(tensor: &TensorProto) -> bool {
    tensor.data_location == Some(EXTERNAL) || !tensor.external_data.is_empty()
}

fn check_attribute(attribute: &AttributeProto, depth: usize) -> Result<(), ReadError> {
    if attribute.t.as_deref().is_some_and(is_external) {
        return refused("attributes whose numbers lie beside the model");
    }
    if attribute.sparse_tensor.is_some() || !attribute.sparse_tensors.is_empty() {
        return Err(sparse());
    }
    if !attribute.tensors.is_empty() {
        return refused("attributes that are lists of tensors");
    }
    if attribute.g.len() > 1 {
        return refused("attributes that are two graphs");
    }
    for inner in attribute.g.iter().chain(&attribute.graphs) {
        if depth == DEEPEST {
            return refused("graphs in nodes of graphs without end");
        }
        census::check(inner, census::Message::Graph)?;
        check_graph(&unpacked(inner)?, depth + 1)?;
    }
    Ok(())
}

fn unpacked(graph: &Bytes) -> Result<GraphProto, ReadError> {
    GraphProto::decode(graph.clone())
        .map_err(|error| ReadError::Malformed(format!("it is no ONNX file: {error}")))
}

/// Whether an attribute is a graph, or a list of them.
pub(super) fn holds_graphs(attribute: &AttributeProto) -> bool {
    !attribute.g.is_empty() || !attribute.graphs.is_empty()
}

/// Looks at nodes that lie so deep in graphs, and at those of the graphs in them. How deep they may lie was
/// checked.
pub(super) fn visit(
    nodes: &[NodeProto],
    depth: usize,
    look: &mut dyn FnMut(&NodeProto, usize) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    for node in nodes {
        look(node, depth)?;
        for attribute in &node.attribute {
            for inner in attribute.g.iter().chain(&attribute.graphs) {
                visit(&unpacked(inner)?.node, depth + 1, look)?;
            }
        }
    }
    Ok(())
}

/// Refuses two nodes of one name, as ONNX Runtime does, by which every file is run.
pub(super) fn check_names(graph: &GraphProto) -> Result<(), ReadError> {
    let mut names = HashSet::new();
    let given = graph.node.iter().map(|node| node.name.as_str());
    let mut given = given.filter(|name| !name.is_empty());
    let Some(twice) = given.find(|name| !names.insert(*name)) else {
        return Ok(());
    };
    Err(ReadError::Malformed(format!(
        "two of its nodes are called `{twice}`, and ONNX Runtime runs no such file; give them names of their \
         own, or none"
    )))
}

/// Whether every value is made once, before it is read, and every output is made at all.
pub(super) fn check_order<'a>(
    graph: &'a GraphProto,
    given: impl Iterator<Item = &'a str>,
) -> Result<(), ReadError> {
    let mut there: HashSet<&str> = given.collect();
    for node in &graph.node {
        let named = |names: &'a [String]| {
            let names = names.iter().map(String::as_str);
            names.filter(|name| !name.is_empty())
        };
        if let Some(name) = named(&node.input).find(|name| !there.contains(name)) {
            return Err(unmade(node, name));
        }
        for name in named(&node.output) {
            if !there.insert(name) {
                let reason = format!(
                    "its node `{}` ({}) makes `{name}`, which is there already",
                    name_of(node),
                    node.op_type
                );
                return Err(ReadError::Malformed(reason));
            }
        }
    }
    let lacking = graph
        .output
        .iter()
        .find(|out| !there.contains(out.name.as_str()));
    lacking.map_or(Ok(()), |out| {
        let reason = format!("its output `{}` is made by nothing", out.name);
        Err(ReadError::Malformed(reason))
    })
}

/// A node that reads what is not there.
pub(super) fn unmade(node: &NodeProto, name: &str) -> ReadError {
    ReadError::Malformed(format!(
        "its node `{}` ({}) reads `{name}`, which nothing before it makes: \
         the nodes are in no order, or in a circle",
        name_of(node),
        node.op_type
    ))
}

/// A node's name, or that of its first output.
pub(super) fn name_of(node: &NodeProto) -> &str {
    let output = || node.output.iter().find(|name| !name.is_empty());
    if node.name.is_empty() {
        output().map_or("", String::as_str)
    } else {
        &node.name
    }
}
