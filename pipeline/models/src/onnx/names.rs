//! A name for each operator of a file, and nothing else of it changed: ONNX lets names be left out, and
//! engines tell by them what they ran.
//!
//! The file is copied field by field, so that what this program does not know stays in it.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::{
    Call, calls,
    read::census::{take, varint},
};

/// Where the graph lies in a model, and an operator in a graph, by their tags in `onnx.proto`.
const GRAPH: u64 = 7;
const NODE: u64 = 1;

/// A field of text or of a message.
const DELIMITED: u64 = 2;

/// Names the operators of a file's graph that have no name after the first value that they make, so that
/// no two have the same. `None` where each has a name.
///
/// Graphs within operators, and operators that are made of others, stay as they are. Values keep their names,
/// and large weights that lie in other files are looked for where they were.
///
/// # Errors
/// What is wrong with the file, for a reader.
pub fn named(model: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let names = wanted(&calls(model)?);
    if names.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut copy = Vec::with_capacity(model.len());
    let mut names = names.into_iter();
    let is_copied = copy_model(model, &mut names, &mut copy);
    is_copied.ok_or("one of its fields is cut off, or of a type that protobuf lacks")?;
    Ok(Some(copy))
}

/// The name that each of the operators is to have, where it has none.
fn wanted(calls: &[Call]) -> Vec<Option<String>> {
    let given = calls.iter().map(|call| call.name.as_str());
    let mut taken: BTreeSet<String> = given.map(str::to_owned).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut name = |call: &Call| {
        if !call.name.is_empty() {
            return None;
        }
        let made = call.outputs.iter().find(|output| !output.is_empty());
        let wanted = made.unwrap_or(&call.op_type);
        if !wanted.is_empty() && taken.insert(wanted.clone()) {
            return Some(wanted.clone());
        }
        let count = counts.entry(wanted.clone()).or_insert(1);
        loop {
            *count += 1;
            let name = format!("{wanted}.{count}");
            if taken.insert(name.clone()) {
                return Some(name);
            }
        }
    };
    calls.iter().map(&mut name).collect()
}

type Names = std::vec::IntoIter<Option<String>>;

fn copy_model(model: &[u8], names: &mut Names, copy: &mut Vec<u8>) -> Option<()> {
    copy_fields(model, GRAPH, copy, |graph| {
        let mut copied = Vec::with_capacity(graph.len());
        copy_fields(graph, NODE, &mut copied, |node| {
            let mut node = node.to_vec();
            // Of a field that is there twice the last counts.
            let name = Name {
                name: names.next()?.unwrap_or_default(),
            };
            node.extend(name.encode_to_vec());
            Some(node)
        })?;
        Some(copied)
    })
}

/// Copies a message, but for its fields of this tag, which become what `change` makes of them. `None`: it is
/// no message.
fn copy_fields(
    message: &[u8],
    tag: u64,
    copy: &mut Vec<u8>,
    mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Option<()> {
    let mut rest = message;
    while !rest.is_empty() {
        let field = rest;
        let key = varint(&mut rest)?;
        let head = field.get(..field.len() - rest.len())?;
        match key & 7 {
            0 => drop(varint(&mut rest)?),
            1 => drop(take(&mut rest, 8)?),
            5 => drop(take(&mut rest, 4)?),
            DELIMITED => {
                let length = varint(&mut rest)?;
                let body = take(&mut rest, length)?;
                if key >> 3 == tag {
                    let body = change(body)?;
                    copy.extend_from_slice(head);
                    prost::encode_length_delimiter(body.len(), copy).ok()?;
                    copy.extend(body);
                    continue;
                }
            }
            _ => return None,
        }
        copy.extend_from_slice(field.get(..field.len() - rest.len())?);
    }
    Some(())
}

/// An operator's name alone; one that is empty takes no bytes.
#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(string, tag = "3")]
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        onnx::{
            self,
            proto::{ModelProto, NodeProto},
        },
        sample,
    };

    /// A perceptron whose operators have these names, with a field that ONNX does not have.
    fn file(names: [&str; 3]) -> (ModelProto, Vec<u8>) {
        let options = onnx::WriteOptions::default();
        let written = onnx::write(&sample::perceptron(1).unwrap(), &options).unwrap();
        let mut model = ModelProto::decode(written.model.as_slice()).unwrap();
        let nodes = &mut model.graph.as_mut().unwrap().node;
        for (node, name) in nodes.iter_mut().zip(names) {
            name.clone_into(&mut node.name);
        }
        let mut bytes = model.encode_to_vec();
        bytes.extend(UNKNOWN);
        (model, bytes)
    }

    /// Field 100: two bytes.
    const UNKNOWN: [u8; 5] = [0xa2, 0x06, 2, 7, 7];

    #[test]
    fn what_has_no_name_is_named_after_what_it_makes() {
        for (names, expected) in [
            (["", "", ""], ["hidden", "relu", "logits"]),
            (["a", "", "a"], ["a", "relu", "a"]),
            (["", "hidden", ""], ["hidden.2", "hidden", "logits"]),
            (
                ["", "hidden", "hidden.2"],
                ["hidden.3", "hidden", "hidden.2"],
            ),
        ] {
            let (mut model, bytes) = file(names);
            let copy = named(&bytes).unwrap().unwrap();
            assert!(copy.ends_with(&UNKNOWN));
            let copied = ModelProto::decode(copy.as_slice()).unwrap();
            let nodes = &mut model.graph.as_mut().unwrap().node;
            for (node, name) in nodes.iter_mut().zip(expected) {
                name.clone_into(&mut node.name);
            }
            let told: fn(&NodeProto) -> &str = |node| &node.name;
            let copies: Vec<_> = copied
                .graph
                .iter()
                .flat_map(|it| it.node.iter().map(told))
                .collect();
            assert_eq!(copies, expected, "of {names:?}");
            assert_eq!(copied, model);
        }
    }

    #[test]
    fn a_file_with_names_needs_no_copy() {
        assert_eq!(named(&file(["a", "b", "c"]).1), Ok(None));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(named(b"\xff\xff").unwrap_err().contains("no ONNX"));
        // Groups, which protobuf has given up, and ONNX never had: field 9.
        let mut grouped = file(["", "", ""]).1;
        grouped.extend([9 << 3 | 3, 9 << 3 | 4]);
        assert!(named(&grouped).unwrap_err().contains("protobuf"));
    }
}
