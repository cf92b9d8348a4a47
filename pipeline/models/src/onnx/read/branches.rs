//! Branches whose condition is known once sizes are: their nodes take the place of the `If`.
//!
//! Exporters write one where it depends on a size whether an axis can be left out. A condition that floats decide
//! which are fed stays (one that fed masks and ids decide is known as these are), and so does what there is more
//! of than anyone would write.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::Message as _;

use super::{
    File, ReadError,
    alone::Feeding,
    functions::{MOST_BYTES, MOST_PARTS, NUMBER, bytes_of},
    import::{Import, Value},
    tensor::Constant,
    whole,
};
use crate::onnx::proto::{GraphProto, NodeProto};

/// Most branches that are taken one after another: for each the file is read again as far as there; and most
/// nodes that are read for all of them.
const MOST_TAKEN: usize = 64;
const MOST_READ: usize = 1 << 20;

/// The file with the branches taken that are known at these sizes; `None` where there are none.
pub(super) fn taken(
    file: &File,
    dims: &BTreeMap<String, u64>,
    feeding: &Feeding,
) -> Result<Option<File>, ReadError> {
    if !file.nodes.node.iter().any(is_branching) {
        return Ok(None);
    }
    let mut file = file.clone();
    let (mut read, mut room, mut budget) = (0, Room::default(), None);
    for _ in 0..MOST_TAKEN {
        let mut import = Import::new(&file, dims, feeding)?;
        // What is computed on the way is computed again each time, and counts each time.
        if let Some(left) = budget.take() {
            import.budget = left;
        }
        let found = import.first_known()?;
        budget = Some(import.budget);
        let Some((at, holds)) = found else {
            break;
        };
        read += at;
        if read > MOST_READ || !file.take(at, holds, &mut room)? {
            break;
        }
    }
    Ok(Some(file))
}

fn is_branching(node: &NodeProto) -> bool {
    node.op_type == "If" && whole::is_onnx(&node.domain)
}

/// What all branches that are taken come to.
#[derive(Default)]
struct Room {
    /// Nodes, attributes and names.
    parts: usize,
    bytes: usize,
}

impl Room {
    /// Makes sure that there is room for the nodes of a branch, each of which bears the name of the node that
    /// holds it.
    fn take(&mut self, holder: &NodeProto, branch: &GraphProto) -> Result<(), ReadError> {
        let holder = whole::name_of(holder);
        for node in &branch.node {
            let names = || node.input.iter().chain(&node.output);
            let named = names().map(|name| size_of::<String>() + name.len() + NUMBER);
            let attributes = node.attribute.iter().map(bytes_of);
            let texts = holder.len() + node.name.len() + node.op_type.len() + node.domain.len();
            let bytes = named.chain(attributes).fold(texts, usize::saturating_add);
            let bytes = bytes.saturating_add(size_of::<NodeProto>());
            self.bytes = self.bytes.saturating_add(bytes);
            self.parts += 1 + names().count() + node.attribute.len();
        }
        if self.parts > MOST_PARTS || self.bytes > MOST_BYTES {
            return Err(ReadError::Malformed(format!(
                "the branches that sizes decide come to more than {MOST_PARTS} nodes and names, or {MOST_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

impl<'a> Import<'a> {
    /// The first branching whose condition is known, by its place among the nodes, and whether it holds.
    /// `None` where something else before it is not read.
    fn first_known(&mut self) -> Result<Option<(usize, bool)>, ReadError> {
        for (at, node) in self.nodes.node.iter().enumerate() {
            if is_branching(node)
                && let Some(condition) = node.input.first()
                && let Some(Value::Known(condition)) = self.values.get(condition)
            {
                let holds = condition.scalar().map(|truth| truth != 0.0);
                return Ok(holds.map(|holds| (at, holds)));
            }
            match self.import_next(node) {
                Ok(()) => {}
                Err(ReadError::Unsupported { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl File {
    /// Puts the nodes of a branch in the place of the node that holds it. Tells whether that can be done.
    fn take(&mut self, at: usize, holds: bool, room: &mut Room) -> Result<bool, ReadError> {
        let Some(node) = self.nodes.node.get(at).cloned() else {
            return Ok(false);
        };
        let name = if holds { "then_branch" } else { "else_branch" };
        let mut branches = node.attribute.iter().filter(|given| given.name == name);
        let Some(branch) = branches.next().and_then(|given| given.g.first()) else {
            return Ok(false);
        };
        let branch = GraphProto::decode(branch.clone())
            .map_err(|error| ReadError::Malformed(format!("it is no ONNX file: {error}")))?;
        if !branch.input.is_empty() || branch.output.len() != node.output.len() {
            return Ok(false);
        }
        room.take(&node, &branch)?;
        let own = self.own_names(&branch);
        // Graphs further inside read values by the names that these have.
        let is_nested = |node: &NodeProto| node.attribute.iter().any(whole::holds_graphs);
        if own.iter().any(|(name, new)| *name != new) && branch.node.iter().any(is_nested) {
            return Ok(false);
        }
        let named = |name: &String| own.get(name.as_str()).unwrap_or(name).clone();
        for tensor in &branch.initializer {
            let name = named(&tensor.name);
            if name.is_empty() || self.initializers.contains_key(&name) {
                return Err(ReadError::Malformed(format!(
                    "an initializer of a branch of its node `{}` has no name, or that of another",
                    whole::name_of(&node)
                )));
            }
            let nowhere = &mut |_: &str| Err("its numbers lie beside the model".to_owned());
            let constant = Constant::read(tensor, nowhere).map_err(|reason| {
                ReadError::Malformed(format!("its initializer `{}`: {reason}", tensor.name))
            })?;
            self.initializers.insert(name, constant);
        }
        let inner = branch.node.iter().map(|inner| NodeProto {
            name: format!("{}/{}", whole::name_of(&node), whole::name_of(inner)),
            input: inner.input.iter().map(named).collect(),
            output: inner.output.iter().map(named).collect(),
            ..inner.clone()
        });
        let outputs = branch.output.iter().zip(&node.output);
        let outputs = outputs.filter(|(_, outer)| !outer.is_empty());
        let given = outputs.map(|(inner, outer)| {
            let name = format!("{}/{outer}", whole::name_of(&node));
            NodeProto::new("Identity", name, vec![named(&inner.name)], outer.clone())
        });
        let nodes: Vec<NodeProto> = inner.chain(given).collect();
        self.nodes.node.splice(at..=at, nodes);
        Ok(true)
    }

    /// What the values that a branch makes or holds are called outside of it: as inside, but where a name is
    /// taken, as it is where a branch that was taken before uses it.
    fn own_names<'b>(&self, branch: &'b GraphProto) -> HashMap<&'b str, String> {
        let made = self.nodes.node.iter().flat_map(|node| &node.output);
        let fed = self.inputs.fed.iter().map(|input| &input.name);
        let held = self.initializers.keys();
        let outer = made.chain(fed).chain(held).map(String::as_str);
        let mut taken: HashSet<&str> = outer.collect();
        let made = branch.node.iter().flat_map(|node| &node.output);
        let held = branch.initializer.iter().map(|tensor| &tensor.name);
        let own: Vec<&str> = made
            .chain(held)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        let outer = taken.clone();
        taken.extend(&own);
        let mut made_up: HashSet<String> = HashSet::new();
        let mut names: HashMap<&str, String> = HashMap::new();
        let mut number = 0_u64;
        for name in own {
            let mut new = name.to_owned();
            if outer.contains(name) {
                while taken.contains(new.as_str()) || !made_up.insert(new.clone()) {
                    number += 1;
                    new = format!("{name}.{number}");
                }
            }
            names.insert(name, new);
        }
        names
    }
}
