//! ONNX files field by field: what no exporter writes, or few do.

use super::wire::{described_as, field, number_field};

/// Numbers of `TensorProto.DataType`.
pub(crate) const FLOAT: u64 = 1;
pub(crate) const UINT8: u64 = 2;
pub(crate) const INT8: u64 = 3;
pub(crate) const INT32: u64 = 6;
pub(crate) const INT64: u64 = 7;
pub(crate) const BOOL: u64 = 9;
pub(crate) const FLOAT16: u64 = 10;
pub(crate) const DOUBLE: u64 = 11;

/// A file in the making.
#[derive(Default)]
pub(crate) struct ByHand {
    graph: Vec<u8>,
}

impl ByHand {
    /// An input.
    pub(crate) fn fed(mut self, name: &str, element: u64, sizes: &[i64]) -> Self {
        field(11, &described_as(name, element, sizes), &mut self.graph);
        self
    }

    /// A tensor of floats.
    pub(crate) fn floats(self, name: &str, dims: &[i64], numbers: &[f32]) -> Self {
        let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.held(name, FLOAT, dims, &raw)
    }

    /// A tensor of integers.
    pub(crate) fn integers(self, name: &str, dims: &[i64], numbers: &[i64]) -> Self {
        let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.held(name, INT64, dims, &raw)
    }

    /// A tensor.
    pub(crate) fn held(mut self, name: &str, element: u64, dims: &[i64], raw: &[u8]) -> Self {
        field(5, &tensor(name, element, dims, raw), &mut self.graph);
        self
    }

    /// A tensor as its message.
    pub(crate) fn tensor(mut self, message: &[u8]) -> Self {
        field(5, message, &mut self.graph);
        self
    }

    pub(crate) fn node(self, op: &str, inputs: &[&str], output: &str) -> Self {
        self.node_with(op, inputs, output, &[])
    }

    pub(crate) fn node_with(
        self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[Vec<u8>],
    ) -> Self {
        self.node_of(op, inputs, &[output], attributes)
    }

    /// A node with several outputs.
    pub(crate) fn node_of(
        self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Vec<u8>],
    ) -> Self {
        self.message(&node("", op, inputs, outputs, attributes))
    }

    /// A node as its message.
    pub(crate) fn message(mut self, node: &[u8]) -> Self {
        field(1, node, &mut self.graph);
        self
    }

    /// One more output.
    pub(crate) fn leaving(mut self, output: &str) -> Self {
        let mut described = Vec::new();
        field(1, output.as_bytes(), &mut described);
        field(12, &described, &mut self.graph);
        self
    }

    /// One more output, as its message.
    pub(crate) fn described(mut self, output: &[u8]) -> Self {
        field(12, output, &mut self.graph);
        self
    }

    /// The whole file, at opset 17, with this output.
    pub(crate) fn made(self, output: &str) -> Vec<u8> {
        self.made_at(17, output)
    }

    /// The whole file at an opset, with this output.
    pub(crate) fn made_at(self, version: u64, output: &str) -> Vec<u8> {
        let this = self.leaving(output);
        let mut model = Vec::new();
        // The oldest format that has these opsets.
        number_field(1, if version > 17 { 10 } else { 8 }, &mut model);
        field(7, &this.graph, &mut model);
        let mut opset = Vec::new();
        number_field(2, version, &mut opset);
        field(8, &opset, &mut model);
        model
    }
}

/// A node as a message.
pub(crate) fn node(
    domain: &str,
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    let mut node = Vec::new();
    for input in inputs {
        field(1, input.as_bytes(), &mut node);
    }
    for output in outputs {
        field(2, output.as_bytes(), &mut node);
    }
    field(4, op.as_bytes(), &mut node);
    for attribute in attributes {
        field(5, attribute, &mut node);
    }
    if !domain.is_empty() {
        field(7, domain.as_bytes(), &mut node);
    }
    node
}

/// A tensor as a message.
pub(crate) fn tensor(name: &str, element: u64, dims: &[i64], raw: &[u8]) -> Vec<u8> {
    let mut tensor = Vec::new();
    for &size in dims {
        number_field(1, size as u64, &mut tensor);
    }
    number_field(2, element, &mut tensor);
    field(8, name.as_bytes(), &mut tensor);
    field(9, raw, &mut tensor);
    tensor
}

/// An attribute that is an integer.
pub(crate) fn int(name: &str, value: i64) -> Vec<u8> {
    let mut attribute = zero(name, 2);
    number_field(3, value as u64, &mut attribute);
    attribute
}

/// An attribute of this type whose number is left out, as writers that follow proto3 leave zeros.
pub(crate) fn zero(name: &str, kind: u64) -> Vec<u8> {
    let mut attribute = Vec::new();
    field(1, name.as_bytes(), &mut attribute);
    number_field(20, kind, &mut attribute);
    attribute
}

/// An attribute that is a tensor.
pub(crate) fn value(message: &[u8]) -> Vec<u8> {
    let mut attribute = zero("value", 4);
    field(5, message, &mut attribute);
    attribute
}

/// An attribute that is a text.
pub(crate) fn text(name: &str, value: &str) -> Vec<u8> {
    let mut attribute = zero(name, 3);
    field(4, value.as_bytes(), &mut attribute);
    attribute
}

/// An attribute that is a list of integers.
pub(crate) fn list(name: &str, values: &[i64]) -> Vec<u8> {
    let mut attribute = zero(name, 7);
    for &value in values {
        number_field(8, value as u64, &mut attribute);
    }
    attribute
}
