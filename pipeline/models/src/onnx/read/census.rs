//! How many fields a message has, counted before any memory is taken for them.
//!
//! Two bytes of a file can stand for an empty node, which takes hundreds of bytes in memory. So the
//! fields that the reader takes are counted first, along the same descriptions of messages, and a
//! file with absurdly many is refused. Numbers of tensors are slices of the file and cost nothing.

use super::ReadError;

/// Most fields of a model: the largest networks have some hundred thousand.
const MOST_FIELDS: u64 = 1 << 20;

/// Most bytes in which lists of numbers outside of tensors may come: each becomes eight.
const MOST_PACKED: u64 = 16 << 20;

/// The messages that the reader looks into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    /// One without messages and lists of numbers inside.
    Leaf,
}

/// What a field of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Message(Message),
    /// A list of numbers, packed or not.
    Numbers,
    /// Text, bytes, or one number.
    Plain,
    /// Not read.
    Skipped,
}

impl Message {
    /// The tags are those of `proto.rs`.
    const fn field(self, tag: u64) -> Field {
        match (self, tag) {
            (Self::Model, 7) => Field::Message(Self::Graph),
            (Self::Model, 25) => Field::Message(Self::Function),
            (Self::Model, 8 | 14) | (Self::Function, 9) => Field::Message(Self::Leaf),
            (Self::Graph, 1) | (Self::Function, 7) => Field::Message(Self::Node),
            (Self::Graph, 5) => Field::Message(Self::Tensor),
            (Self::Graph, 11 | 12) => Field::Message(Self::Value),
            (Self::Node, 5) | (Self::Function, 11) => Field::Message(Self::Attribute),
            (Self::Attribute, 5) => Field::Message(Self::Tensor),
            (Self::Attribute, 7 | 8) | (Self::Tensor, 1) => Field::Numbers,
            (Self::Tensor, 13) => Field::Message(Self::Leaf),
            (Self::Value, 2) => Field::Message(Self::Type),
            (Self::Type, 1) => Field::Message(Self::TensorType),
            (Self::TensorType, 2) => Field::Message(Self::Shape),
            (Self::Shape, 1) => Field::Message(Self::Leaf),
            (Self::Model, 1..=3 | 20)
            | (Self::Graph, 2 | 15)
            | (Self::Function, 1 | 4 | 5 | 10 | 13)
            | (Self::Node, 1..=4 | 7 | 8)
            | (Self::Attribute, 1..=4 | 6 | 9..=11 | 20..=23)
            | (Self::Tensor, 2 | 4..=10 | 14)
            | (Self::Value | Self::TensorType, 1)
            | (Self::Leaf, _) => Field::Plain,
            _ => Field::Skipped,
        }
    }
}

/// Refuses a message with more fields than any real model has, or that is no protobuf.
pub(super) fn check(bytes: &[u8], message: Message) -> Result<(), ReadError> {
    let mut census = Census {
        fields: 0,
        packed: 0,
    };
    census
        .count(bytes, message)
        .map_err(|reason| ReadError::Malformed(reason.to_owned()))
}

struct Census {
    fields: u64,
    packed: u64,
}

const TRUNCATED: &str = "it is no ONNX file, or its end is missing: a protobuf field is cut off";

impl Census {
    /// As deep as the messages above lie in each other.
    fn count(&mut self, mut rest: &[u8], message: Message) -> Result<(), &'static str> {
        while !rest.is_empty() {
            let key = varint(&mut rest).ok_or(TRUNCATED)?;
            let field = message.field(key >> 3);
            if field != Field::Skipped {
                self.fields += 1;
            }
            match key & 7 {
                0 => {
                    varint(&mut rest).ok_or(TRUNCATED)?;
                }
                1 => {
                    take(&mut rest, 8).ok_or(TRUNCATED)?;
                }
                5 => {
                    take(&mut rest, 4).ok_or(TRUNCATED)?;
                }
                2 => {
                    let length = varint(&mut rest).ok_or(TRUNCATED)?;
                    let body = take(&mut rest, length).ok_or(TRUNCATED)?;
                    match field {
                        Field::Message(inner) => self.count(body, inner)?,
                        Field::Numbers => self.packed += length,
                        Field::Plain | Field::Skipped => {}
                    }
                }
                _ => return Err("it is no ONNX file: a field has a type that protobuf lacks"),
            }
            if self.fields > MOST_FIELDS || self.packed > MOST_PACKED {
                return Err("it has more fields than any model: millions of nodes or attributes");
            }
        }
        Ok(())
    }
}

/// A number of up to ten bytes, seven bits in each, from the front.
pub(in crate::onnx) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64_u32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// So many bytes, from the front.
pub(in crate::onnx) fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_protobuf_writes_them() {
        let read = |mut bytes: &[u8]| varint(&mut bytes);
        assert_eq!(read(&[0x96, 1]), Some(150));
        assert_eq!(read(&[0xff; 9]), None);
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(read(&largest), Some(u64::MAX));
        assert_eq!(read(&[0x80; 11]), None);
    }

    #[test]
    fn a_bomb_of_empty_nodes_is_refused_before_it_is_unpacked() {
        let nodes = [0x0a, 0].repeat(MOST_FIELDS as usize + 1);
        let mut model = vec![0x3a];
        prost::encoding::encode_varint(nodes.len() as u64, &mut model);
        model.extend(nodes);
        let error = check(&model, Message::Model).unwrap_err().to_string();
        assert!(error.contains("more fields than any model"), "{error}");
    }

    #[test]
    fn what_is_cut_off_is_told() {
        for bytes in [&[0x3a, 5, 0x0a][..], &[0x08], &[0x0b], b"PK\x03\x04"] {
            assert!(check(bytes, Message::Model).is_err(), "{bytes:?}");
        }
        assert!(check(&[0x08, 8], Message::Model).is_ok());
    }
}
