//! Writing a graph as ONNX.
//!
//! The model is in inference form: batch normalisation uses its running statistics, dropout and
//! the loss are left out. Weights are written as numbers, in the precision asked for. Every value
//! keeps its name; what the writer adds is named after its node.
//!
//! Operators that the opset lacks are composed of others: attention always, GELU before opset 20.
//! A linear map of a matrix is `Gemm`; of anything else `MatMul`, the weight transposed where it
//! lies as `[out, in]`, and `Add`. A table that is also the weight of such a product is written both
//! ways, as exporters that fold constants do. The parameters of a recurrent layer are written in
//! ONNX's order, joined, under names of their own. What is on a grid of integers is written as
//! integers.

mod calls;
mod document;
mod lower;
mod names;
mod proto;
mod quantised;
pub(crate) mod read;
mod recurrent;
mod weights;

use std::collections::BTreeMap;

use prost::Message;
use schema::{
    Digest, Graph, Precision,
    graph::{ElementType, Node},
};

use crate::{
    ModelError, Numbers,
    infer::{self, ValueType},
};
pub use calls::{Call, calls};
pub use document::{Document, OPSET, own_file};
pub use names::named;
pub(crate) use read::Shelf;
pub use read::{
    File, Outline, ReadError, Reading,
    signature::{most_outputs, operators as operators_read},
};

use proto::{DataType, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use quantised::OnGrid;
use weights::Weights;

/// The opsets that can be written.
pub const OPSETS: std::ops::RangeInclusive<u32> = 17..=22;

/// Most bytes of weights within the model itself: a protobuf message must stay below 2 GiB.
pub const LARGEST_MODEL_BYTES: u64 = 1_900_000_000;

/// How to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// Version of the operator set; one of [`OPSETS`].
    pub opset: u32,
    /// Element type of all floats. [`Precision::Tf32`] is stored as binary32.
    pub precision: Precision,
    /// Name of the file beside the model that takes large weights; with none, all are within the
    /// model.
    pub external: Option<String>,
    /// Weights of at least this many bytes go to that file. A model that would still exceed
    /// [`LARGEST_MODEL_BYTES`] puts all but the smallest there.
    pub threshold: u64,
}

impl Default for WriteOptions {
    /// One file, in single precision.
    fn default() -> Self {
        Self {
            opset: OPSET,
            precision: Precision::Fp32,
            external: None,
            threshold: u64::MAX,
        }
    }
}

/// Operators beyond ONNX's own that may be written, for a reader that has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Attention as ONNX Runtime's `MultiHeadAttention` of the domain `com.microsoft`, rather than
    /// composed.
    pub multi_head_attention: bool,
}

/// A model as ONNX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnnxModel {
    /// The `ModelProto`.
    pub model: Vec<u8>,
    /// The content of the file of weights, where there is one.
    pub data: Option<Vec<u8>>,
}

/// Writes `graph` as ONNX.
///
/// # Errors
/// A graph that [`infer::shapes`] refuses, or that cannot be said with these options.
pub fn write(graph: &Graph, options: &WriteOptions) -> Result<OnnxModel, ModelError> {
    write_with(graph, options, Extensions::default(), &Numbers::default())
}

/// As [`write()`], for a reader that has these extensions, with the numbers of parameters that are
/// stored.
///
/// # Errors
/// As [`write()`]; or stored numbers that cannot be had.
pub fn write_with(
    graph: &Graph,
    options: &WriteOptions,
    extensions: Extensions,
    numbers: &Numbers,
) -> Result<OnnxModel, ModelError> {
    let types = infer::shapes(graph)?;
    let refuse = |reason| ModelError::Write {
        graph: graph.name.clone(),
        reason,
    };
    if !OPSETS.contains(&options.opset) {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        let reason = format!(
            "opset {} is not known; take {first} to {last}",
            options.opset
        );
        return Err(refuse(reason));
    }
    let mut writer = Writer::new(graph, &types, options, extensions, numbers).map_err(refuse)?;
    for node in &graph.nodes {
        lower::node(&mut writer, node).map_err(|reason| ModelError::Node {
            graph: graph.name.clone(),
            node: node.name.clone(),
            op: node.op.name(),
            reason,
        })?;
    }
    writer.finish().map_err(refuse)
}

/// The ONNX model under construction.
struct Writer<'a> {
    graph: &'a Graph,
    types: &'a BTreeMap<String, ValueType>,
    opset: u32,
    extensions: Extensions,
    element: DataType,
    nodes: Vec<NodeProto>,
    weights: Weights<'a>,
    /// Values that are other names of values: what dropout leaves behind.
    aliases: BTreeMap<&'a str, &'a str>,
    /// Causal masks by their number of positions: all layers share one.
    masks: BTreeMap<u64, String>,
    /// Constant operands by their integers.
    integers: BTreeMap<Vec<u64>, String>,
    /// Values on grids that are written when they are read.
    on_grid: BTreeMap<&'a str, OnGrid<'a>>,
    /// The names of those of them that were written as floats, and whether transposed.
    dequantised: BTreeMap<(&'a str, bool), String>,
    /// Weights that were written as integers alone, and whether transposed.
    integer_weights: BTreeMap<(&'a str, bool), String>,
}

impl<'a> Writer<'a> {
    fn new(
        graph: &'a Graph,
        types: &'a BTreeMap<String, ValueType>,
        options: &WriteOptions,
        extensions: Extensions,
        numbers: &'a Numbers,
    ) -> Result<Self, String> {
        let element = DataType::of(options.precision);
        Ok(Self {
            graph,
            types,
            opset: options.opset,
            extensions,
            element,
            nodes: Vec::new(),
            weights: Weights::new(graph, types, element, options, numbers)?,
            aliases: BTreeMap::new(),
            masks: BTreeMap::new(),
            integers: BTreeMap::new(),
            on_grid: BTreeMap::new(),
            dequantised: BTreeMap::new(),
            integer_weights: BTreeMap::new(),
        })
    }

    /// The name by which ONNX knows a value of the graph; writes it down if it is a weight.
    fn read(&mut self, name: &'a str) -> String {
        let name = self.aliases.get(name).copied().unwrap_or(name);
        if let Some(name) = quantised::floats(self, name) {
            return name;
        }
        self.weights.used(name);
        name.to_owned()
    }

    /// Says that a value is another one.
    fn alias(&mut self, name: &'a str, value: &'a str) {
        let value = self.aliases.get(value).copied().unwrap_or(value);
        self.aliases.insert(name, value);
    }

    /// A name for something that the graph does not have.
    fn fresh(&mut self, node: &Node, part: &str) -> String {
        self.weights.fresh(&format!("{}.{part}", node.name))
    }

    /// Shape of a value of the graph.
    fn shape(&self, name: &str) -> &'a [u64] {
        self.types
            .get(name)
            .map_or(&[], |value| value.shape.as_slice())
    }

    /// Appends an operator whose output has this name.
    fn push(&mut self, op: NodeProto) {
        self.nodes.push(op);
    }

    fn finish(mut self) -> Result<OnnxModel, String> {
        for name in &self.graph.outputs {
            let value = self.read(name);
            if value != *name {
                let name = name.clone();
                let node = self.weights.fresh(&format!("{name}.identity"));
                self.push(NodeProto::new("Identity", node, vec![value], name));
            }
        }
        let described = |name: &str| -> ValueInfoProto {
            let value = self.types.get(name);
            let element = match value.map(|value| value.element) {
                Some(ElementType::Int64) => DataType::Int64,
                _ => self.element,
            };
            ValueInfoProto::new(name, element, value.map_or(&[], |value| &value.shape))
        };
        let input = self
            .graph
            .inputs
            .iter()
            .map(|input| described(&input.name))
            .collect();
        let output = self
            .graph
            .outputs
            .iter()
            .map(|name| described(name))
            .collect();
        let (initializer, data) = self.weights.finish()?;
        let graph = GraphProto {
            node: self.nodes,
            name: self.graph.name.clone(),
            initializer,
            input,
            output,
            sparse_initializer: Vec::new(),
        };
        let graph_hash = Digest::of_value(self.graph).to_string();
        let model = ModelProto::new(self.opset, graph, &graph_hash);
        if model.encoded_len() as u64 > LARGEST_MODEL_BYTES {
            return Err(too_large(model.encoded_len() as u64));
        }
        Ok(OnnxModel {
            model: model.encode_to_vec(),
            data,
        })
    }
}

fn too_large(bytes: u64) -> String {
    format!(
        "it takes {bytes} bytes, more than the {LARGEST_MODEL_BYTES} that fit one file; \
         name a file for external data"
    )
}
