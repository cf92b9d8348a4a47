//! The parts of TensorFlow's `config.proto`, `step_stats.proto` and `graph.proto` that a trace is asked
//! for with and told in; tags are those of TensorFlow's files.

use prost::Message;

use crate::profile::Asked;

/// `RunOptions.TraceLevel`.
const SOFTWARE_TRACE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
struct RunOptions {
    #[prost(int32, tag = "1")]
    trace_level: i32,
    #[prost(bool, tag = "5")]
    output_partition_graphs: bool,
}

/// The options of a run as `TF_SessionRun` takes them.
pub(crate) fn options(asked: Asked) -> Vec<u8> {
    let options = match asked {
        Asked::Graph => RunOptions {
            trace_level: 0,
            output_partition_graphs: true,
        },
        Asked::Times => RunOptions {
            trace_level: SOFTWARE_TRACE,
            output_partition_graphs: false,
        },
    };
    options.encode_to_vec()
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunMetadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) step_stats: Option<StepStats>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) partition_graphs: Vec<GraphDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StepStats {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dev_stats: Vec<DeviceStepStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeviceStepStats {
    #[prost(message, repeated, tag = "2")]
    pub(crate) node_stats: Vec<NodeExecStats>,
}

/// What one operator did in one run.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeExecStats {
    #[prost(string, tag = "1")]
    pub(crate) node_name: String,
    #[prost(int64, tag = "3")]
    op_start_rel_micros: i64,
    #[prost(int64, tag = "4")]
    op_end_rel_micros: i64,
    /// `name = Op(inputs)`.
    #[prost(string, tag = "8")]
    timeline_label: String,
    #[prost(int64, tag = "14")]
    op_start_rel_nanos: i64,
    #[prost(int64, tag = "15")]
    op_end_rel_nanos: i64,
}

impl NodeExecStats {
    /// Time within the operator, in nanoseconds.
    pub(crate) fn time_ns(&self) -> u64 {
        let nanoseconds = self
            .op_end_rel_nanos
            .saturating_sub(self.op_start_rel_nanos);
        let microseconds = self
            .op_end_rel_micros
            .saturating_sub(self.op_start_rel_micros);
        let time = match nanoseconds {
            0 => microseconds.saturating_mul(1000),
            time => time,
        };
        u64::try_from(time).unwrap_or(0)
    }

    /// What the operator is.
    pub(crate) fn op(&self) -> Option<&str> {
        let (_, call) = self.timeline_label.split_once(" = ")?;
        Some(call.split_once('(')?.0)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeDef>,
}

/// An operator without its attributes, weights among them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) op: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) input: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes by hand, from the tags of TensorFlow's files: field << 3 | wire type.
    #[test]
    fn the_bytes_are_those_of_tensorflows_files() {
        assert_eq!(options(Asked::Times), [1 << 3, 1]);
        assert_eq!(options(Asked::Graph), [5 << 3, 1]);
        let label = b"x = Conv2D(a, b)";
        let mut bytes = vec![1 << 3 | 2, 1, b'x', 8 << 3 | 2, 16];
        bytes.extend_from_slice(label);
        bytes.extend([14 << 3, 5, 15 << 3, 105]);
        let stats = NodeExecStats::decode(bytes.as_slice()).unwrap();
        assert_eq!(stats.node_name, "x");
        assert_eq!((stats.op(), stats.time_ns()), (Some("Conv2D"), 100));
        let stats = NodeExecStats::decode([3 << 3, 1, 4 << 3, 3].as_slice()).unwrap();
        assert_eq!((stats.op(), stats.time_ns()), (None, 2000));
    }
}
