//! Protobuf by hand: fields, and what an input of a model is described by.

/// A field with a body.
pub(crate) fn field(tag: u64, body: &[u8], out: &mut Vec<u8>) {
    varint(tag << 3 | 2, out);
    varint(body.len() as u64, out);
    out.extend_from_slice(body);
}

/// A field with a number.
pub(crate) fn number_field(tag: u64, value: u64, out: &mut Vec<u8>) {
    varint(tag << 3, out);
    varint(value, out);
}

/// A field with a number of binary32.
pub(crate) fn float_field(tag: u64, value: f32, out: &mut Vec<u8>) {
    varint(tag << 3 | 5, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An input of floats.
pub(crate) fn described(name: &str, sizes: &[i64]) -> Vec<u8> {
    described_as(name, 1, sizes)
}

/// In the place of a size: an axis that is called `batch`.
pub(crate) const BATCH: i64 = i64::MIN;

/// An input of an element type.
pub(crate) fn described_as(name: &str, element: u64, sizes: &[i64]) -> Vec<u8> {
    let mut shape = Vec::new();
    for &size in sizes {
        let mut dim = Vec::new();
        match size {
            BATCH => field(2, b"batch", &mut dim),
            _ => number_field(1, size as u64, &mut dim),
        }
        field(1, &dim, &mut shape);
    }
    let mut tensor = Vec::new();
    number_field(1, element, &mut tensor);
    field(2, &shape, &mut tensor);
    let mut kind = Vec::new();
    field(1, &tensor, &mut kind);
    let mut value = Vec::new();
    field(1, name.as_bytes(), &mut value);
    field(2, &kind, &mut value);
    value
}
