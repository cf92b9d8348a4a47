//! What functions of a file come to once their calls are unfolded, by engines that are given the file too:
//! small files whose functions would come to more than any memory has are refused.

use std::collections::BTreeMap;

use prost::Message as _;

use super::{
    ReadError,
    functions::{Called, Known, called, name},
    whole,
};
use crate::onnx::proto::{AttributeProto, FunctionProto, NodeProto};

/// Most nodes, and most bytes as they lie in the file.
pub(super) const MOST_NODES: usize = 1 << 20;
pub(super) const MOST_BYTES: usize = 128 << 20;

/// How deep functions may call functions: modules of modules.
const DEEPEST: usize = 64;

/// How deep graphs may lie in nodes, whichever functions these came from.
const DEEPEST_GRAPHS: usize = 16;

/// What is said of a function that grows without measure.
pub(super) fn absurd(function: &str) -> ReadError {
    ReadError::Malformed(format!(
        "its function `{function}` comes to more than {MOST_NODES} nodes or {MOST_BYTES} bytes, or lies more \
         than {DEEPEST} deep in others"
    ))
}

/// What a function, or the file's own graph, comes to.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    nodes: usize,
    bytes: usize,
    /// How often attributes of its call are copied.
    copies: usize,
    /// How deep it calls others.
    depth: usize,
    /// How deep graphs lie in its nodes.
    graphs: usize,
}

/// All calls of one function in another.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    times: usize,
    /// Those that hand on what their own function was handed.
    handing_on: usize,
    /// Bytes of the largest attribute of each, added up.
    handed: usize,
    /// How deep in graphs the deepest stands.
    graphs: usize,
}

/// Nodes, those of graphs in them included.
struct Content<'a> {
    calls: Vec<(Called<'a>, Calls)>,
    /// All of it that is no call.
    own: Extent,
    /// Bytes of the largest attribute that a call may leave out.
    default: usize,
}

fn is_handed_on(attribute: &AttributeProto) -> bool {
    !attribute.ref_attr_name.is_empty()
}

fn largest<'a>(attributes: impl IntoIterator<Item = &'a AttributeProto>) -> usize {
    let lengths = attributes.into_iter().map(AttributeProto::encoded_len);
    lengths.max().unwrap_or(0)
}

impl<'a> Content<'a> {
    fn of(nodes: &[NodeProto], known: &Known<'a>) -> Result<Self, ReadError> {
        let mut calls: BTreeMap<Called<'a>, Calls> = BTreeMap::new();
        let mut own = Extent::default();
        whole::visit(nodes, 0, &mut |node, graphs| {
            own.graphs = own.graphs.max(graphs);
            let handed_on = node.attribute.iter().filter(|given| is_handed_on(given));
            let handed_on = handed_on.count();
            let Some(function) = known.get(&called(node)) else {
                own.nodes += 1;
                own.copies += handed_on;
                return Ok(());
            };
            if node.attribute.iter().any(whole::holds_graphs) {
                return whole::refused(whole::HANDED);
            }
            let calls = calls.entry(name(function)).or_default();
            calls.times += 1;
            calls.handing_on += usize::from(handed_on > 0);
            calls.handed += largest(&node.attribute);
            calls.graphs = calls.graphs.max(graphs);
            Ok(())
        })?;
        Ok(Self {
            calls: calls.into_iter().collect(),
            own,
            default: 0,
        })
    }

    fn of_function(function: &FunctionProto, known: &Known<'a>) -> Result<Self, ReadError> {
        let mut content = Self::of(&function.node, known)?;
        // Graphs in nodes are among their bytes.
        content.own.bytes = function.node.iter().map(NodeProto::encoded_len).sum();
        content.default = largest(&function.attribute_proto);
        Ok(content)
    }

    /// What it comes to, once that is known of all that it calls.
    fn extent(&self, known: &BTreeMap<Called<'_>, Option<Extent>>) -> Extent {
        let mut extent = self.own;
        for (called, calls) in &self.calls {
            let Some(&Some(one)) = known.get(called) else {
                continue;
            };
            let add = |sum: &mut usize, number: usize, times: usize| {
                *sum = sum.saturating_add(number.saturating_mul(times));
            };
            add(&mut extent.nodes, one.nodes, calls.times);
            add(&mut extent.bytes, one.bytes, calls.times);
            add(&mut extent.bytes, one.copies, calls.handed);
            add(&mut extent.copies, one.copies, calls.handing_on);
            extent.depth = extent.depth.max(one.depth + 1);
            extent.graphs = extent.graphs.max(one.graphs + calls.graphs);
        }
        let defaults = extent.copies.saturating_mul(self.default);
        extent.bytes = extent.bytes.saturating_add(defaults);
        extent
    }
}

impl Extent {
    const fn is_absurd(self) -> bool {
        self.nodes > MOST_NODES
            || self.bytes > MOST_BYTES
            || self.depth >= DEEPEST
            || self.graphs > DEEPEST_GRAPHS
    }
}

/// Refuses circles, and what grows without measure.
pub(super) fn check(graph: &[NodeProto], known: &Known<'_>) -> Result<(), ReadError> {
    let contents = known.iter().map(|(&called, function)| {
        let content = Content::of_function(function, known)?;
        Ok((called, content))
    });
    let contents: BTreeMap<Called<'_>, Content<'_>> = contents.collect::<Result<_, ReadError>>()?;
    // Nothing of one that is being looked at: who calls it is called by it.
    let mut extents: BTreeMap<Called<'_>, Option<Extent>> = BTreeMap::new();
    for &start in known.keys() {
        let mut open = vec![(start, 0)];
        while let Some((called, at)) = open.pop() {
            let Some(content) = contents.get(&called) else {
                continue;
            };
            let is_known = |called| matches!(extents.get(called), Some(Some(_)));
            if at == 0 && is_known(&called) {
                continue;
            }
            let mut calls = content.calls.iter().enumerate().skip(at);
            let next = calls.find(|(_, (inner, _))| !is_known(inner));
            let (_, name, _) = called;
            if let Some((at, &(inner, _))) = next {
                extents.insert(called, None);
                if extents.contains_key(&inner) {
                    return Err(ReadError::Malformed(format!(
                        "its function `{name}` calls itself, or one that calls it"
                    )));
                }
                // Once more at the same call, when what that calls is known.
                open.extend([(called, at), (inner, 0)]);
                continue;
            }
            let extent = content.extent(&extents);
            if extent.is_absurd() {
                return Err(absurd(name));
            }
            extents.insert(called, Some(extent));
        }
    }
    if Content::of(graph, known)?.extent(&extents).is_absurd() {
        return Err(ReadError::Malformed(format!(
            "its graph comes to more than {MOST_NODES} nodes or {MOST_BYTES} bytes once its functions are \
             replaced by what they are made of"
        )));
    }
    Ok(())
}
