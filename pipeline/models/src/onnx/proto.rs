//! The part of `onnx.proto3` that the writer and the reader need; tags are those of ONNX's file.
//!
//! Numbers are slices of the message that was read (`Bytes`), packed ones included, so that a small
//! file cannot grow in memory; `read::census` bounds the number of all other fields.

use bytes::Bytes;
use prost::Message;
use schema::Precision;

/// The domain of ONNX Runtime's own operators.
pub(super) const MICROSOFT: &str = "com.microsoft";

/// `TensorProto.DataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataType {
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Int32 = 6,
    Int64 = 7,
    Float16 = 10,
    Double = 11,
    BFloat16 = 16,
}

impl DataType {
    /// The storage type of a precision.
    pub(super) const fn of(precision: Precision) -> Self {
        match precision {
            Precision::Fp64 => Self::Double,
            // What is not in integers.
            Precision::Fp32 | Precision::Tf32 | Precision::Int8Dynamic | Precision::Int8Static => {
                Self::Float
            }
            Precision::Bf16 => Self::BFloat16,
            Precision::Fp16 => Self::Float16,
        }
    }

    /// Bytes of one element.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Double | Self::Int64 => 8,
            Self::Float | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 => 2,
            Self::Uint8 | Self::Int8 => 1,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(super) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(super) producer_name: String,
    #[prost(string, tag = "3")]
    pub(super) producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub(super) metadata_props: Vec<StringStringEntryProto>,
    /// How to train it; not looked into.
    #[prost(bytes = "bytes", repeated, tag = "20")]
    pub(super) training_info: Vec<Bytes>,
    /// Operators of its own.
    #[prost(message, repeated, tag = "25")]
    pub(super) functions: Vec<FunctionProto>,
}

impl ModelProto {
    pub(super) fn new(opset: u32, graph: GraphProto, graph_hash: &str) -> Self {
        let is_extended = graph.node.iter().any(|node| node.domain == MICROSOFT);
        let domains = [
            OperatorSetIdProto {
                domain: String::new(),
                version: i64::from(opset),
            },
            OperatorSetIdProto {
                domain: MICROSOFT.to_owned(),
                version: 1,
            },
        ];
        // The first IR version that allows the opset: ONNX's Versioning.md.
        let ir_version = match opset {
            ..=18 => 8,
            19 | 20 => 9,
            _ => 10,
        };
        Self {
            ir_version,
            producer_name: "photofinish".to_owned(),
            producer_version: env!("CARGO_PKG_VERSION").to_owned(),
            metadata_props: vec![
                StringStringEntryProto::new("photofinish.model", &graph.name),
                StringStringEntryProto::new("photofinish.graph", graph_hash),
            ],
            graph: Some(graph),
            opset_import: domains
                .into_iter()
                .take(if is_extended { 2 } else { 1 })
                .collect(),
            ..Self::default()
        }
    }
}

/// An operator that is made of others.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(super) output: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(super) node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "9")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, tag = "10")]
    pub(super) domain: String,
    /// Attributes that a call may leave out, with what they are then.
    #[prost(message, repeated, tag = "11")]
    pub(super) attribute_proto: Vec<AttributeProto>,
    /// Tells functions of one name apart.
    #[prost(string, tag = "13")]
    pub(super) overload: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

impl StringStringEntryProto {
    pub(super) fn new(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
    /// Sparse tensors; not looked into.
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub(super) sparse_initializer: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub(super) domain: String,
    /// Which of the functions of this name it is.
    #[prost(string, tag = "8")]
    pub(super) overload: String,
}

impl NodeProto {
    pub(super) fn new(op: &str, name: String, input: Vec<String>, output: String) -> Self {
        Self {
            input,
            output: vec![output],
            name,
            op_type: op.to_owned(),
            attribute: Vec::new(),
            domain: String::new(),
            overload: String::new(),
        }
    }

    /// As an operator of [`MICROSOFT`]'s.
    pub(super) fn extension(self) -> Self {
        Self {
            domain: MICROSOFT.to_owned(),
            ..self
        }
    }

    pub(super) fn int(mut self, name: &str, value: i64) -> Self {
        let value = AttributeProto {
            i: Some(value),
            ..AttributeProto::new(name, AttributeType::Int)
        };
        self.attribute.push(value);
        self
    }

    pub(super) fn float(mut self, name: &str, value: f32) -> Self {
        let value = AttributeProto {
            f: Some(value),
            ..AttributeProto::new(name, AttributeType::Float)
        };
        self.attribute.push(value);
        self
    }

    pub(super) fn string(mut self, name: &str, value: &str) -> Self {
        let value = AttributeProto {
            s: Some(value.as_bytes().to_vec()),
            ..AttributeProto::new(name, AttributeType::String)
        };
        self.attribute.push(value);
        self
    }

    pub(super) fn ints(mut self, name: &str, values: &[u64]) -> Self {
        let ints = values.iter().map(|&value| value as i64).collect();
        self.attribute.push(AttributeProto {
            ints,
            ..AttributeProto::new(name, AttributeType::Ints)
        });
        self
    }
}

/// `AttributeProto.AttributeType`. ONNX Runtime refuses attributes without it.
#[derive(Debug, Clone, Copy)]
pub(super) enum AttributeType {
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Floats = 6,
    Ints = 7,
    Strings = 8,
    SparseTensor = 11,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) s: Option<Vec<u8>>,
    #[prost(message, optional, boxed, tag = "5")]
    pub(super) t: Option<Box<TensorProto>>,
    /// A graph, unpacked where it is looked into. There is one at most; of two, readers that merge them
    /// would see what those that take the last do not.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(super) g: Vec<Bytes>,
    #[prost(float, repeated, tag = "7")]
    pub(super) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(super) ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(super) strings: Vec<Bytes>,
    /// Tensors; not looked into.
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub(super) tensors: Vec<Bytes>,
    /// Graphs, unpacked where they are looked into.
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub(super) graphs: Vec<Bytes>,
    #[prost(int32, tag = "20")]
    pub(super) r#type: i32,
    /// In a function: the attribute of its call that it is.
    #[prost(string, tag = "21")]
    pub(super) ref_attr_name: String,
    /// A sparse tensor; not looked into.
    #[prost(bytes = "bytes", optional, tag = "22")]
    pub(super) sparse_tensor: Option<Bytes>,
    /// Sparse tensors; not looked into.
    #[prost(bytes = "bytes", repeated, tag = "23")]
    pub(super) sparse_tensors: Vec<Bytes>,
}

impl AttributeProto {
    fn new(name: &str, r#type: AttributeType) -> Self {
        Self {
            name: name.to_owned(),
            r#type: r#type as i32,
            ..Self::default()
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    /// Packed binary32.
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) float_data: Bytes,
    /// Packed varints: integers of up to 32 bits, booleans, the bits of narrow floats.
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) int32_data: Bytes,
    /// Packed varints.
    #[prost(bytes = "bytes", tag = "7")]
    pub(super) int64_data: Bytes,
    #[prost(string, tag = "8")]
    pub(super) name: String,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(super) raw_data: Option<Bytes>,
    /// Packed binary64.
    #[prost(bytes = "bytes", tag = "10")]
    pub(super) double_data: Bytes,
    /// Packed varints: unsigned integers of 32 and 64 bits.
    #[prost(bytes = "bytes", tag = "11")]
    pub(super) uint64_data: Bytes,
    #[prost(message, repeated, tag = "13")]
    pub(super) external_data: Vec<StringStringEntryProto>,
    /// 1: the numbers are in another file.
    #[prost(int32, optional, tag = "14")]
    pub(super) data_location: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

impl ValueInfoProto {
    pub(super) fn new(name: &str, element: DataType, shape: &[u64]) -> Self {
        let dim = shape.iter().map(|&size| DimensionProto {
            dim_value: Some(size as i64),
            dim_param: None,
        });
        let tensor = TensorTypeProto {
            elem_type: element as i32,
            shape: Some(TensorShapeProto { dim: dim.collect() }),
        };
        let r#type = Some(TypeProto {
            tensor_type: Some(tensor),
        });
        Self {
            name: name.to_owned(),
            r#type,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub(super) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<DimensionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DimensionProto {
    #[prost(int64, optional, tag = "1")]
    pub(super) dim_value: Option<i64>,
    /// Name of a size that is open.
    #[prost(string, optional, tag = "2")]
    pub(super) dim_param: Option<String>,
}
