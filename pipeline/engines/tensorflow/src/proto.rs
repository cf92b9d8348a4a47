//! The part of TensorFlow's `config.proto` and `rewriter_config.proto` that a session is
//! configured by; tags are those of TensorFlow's files. (The crate keeps its own types private.)

use prost::Message;

use crate::configuration::{Compilation, Configuration};

/// `RewriterConfig.Toggle`.
const ON: i32 = 1;

/// `OptimizerOptions.GlobalJitLevel`.
const JIT_OFF: i32 = -1;
const JIT_ON: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct ConfigProto {
    #[prost(int32, tag = "2")]
    intra_op_parallelism_threads: i32,
    #[prost(int32, tag = "5")]
    inter_op_parallelism_threads: i32,
    #[prost(bool, tag = "9")]
    use_per_session_threads: bool,
    #[prost(message, optional, tag = "10")]
    graph_options: Option<GraphOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct GraphOptions {
    #[prost(message, optional, tag = "3")]
    optimizer_options: Option<OptimizerOptions>,
    #[prost(message, optional, tag = "10")]
    rewrite_options: Option<RewriterConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct RewriterConfig {
    #[prost(int32, tag = "31")]
    auto_mixed_precision_onednn_bfloat16: i32,
}

#[derive(Clone, PartialEq, Message)]
struct OptimizerOptions {
    #[prost(int32, tag = "5")]
    global_jit_level: i32,
    #[prost(bool, tag = "7")]
    cpu_global_jit: bool,
}

/// The session's configuration as `TF_SetConfig` takes it.
pub(crate) fn session(configuration: &Configuration) -> Vec<u8> {
    let clusters = configuration.compilation == Compilation::Clusters;
    ConfigProto {
        intra_op_parallelism_threads: configuration.threads,
        inter_op_parallelism_threads: INTER_OP_THREADS,
        use_per_session_threads: true,
        graph_options: Some(GraphOptions {
            optimizer_options: Some(OptimizerOptions {
                global_jit_level: if clusters { JIT_ON } else { JIT_OFF },
                cpu_global_jit: clusters,
            }),
            rewrite_options: configuration.mixes_precision.then_some(RewriterConfig {
                auto_mixed_precision_onednn_bfloat16: ON,
            }),
        }),
    }
    .encode_to_vec()
}

/// Operators that run at the same time.
pub(crate) const INTER_OP_THREADS: i32 = 1;

#[cfg(test)]
mod tests {
    use schema::{Cell, Precision};

    use super::*;
    use crate::configuration::tests::cell;

    fn encoded(variant: &str) -> Vec<u8> {
        let mut cell: Cell = cell();
        cell.engine.variant = variant.to_owned();
        cell.precision = Precision::Fp32;
        cell.threads = 2;
        session(&Configuration::of(&cell).unwrap())
    }

    /// Bytes by hand, from the tags of TensorFlow's files: field << 3 | wire type.
    #[test]
    fn the_bytes_are_those_of_tensorflows_files() {
        let head = [2 << 3, 2, 5 << 3, 1, 9 << 3, 1];
        let mut clusters = head.to_vec();
        clusters.extend([10 << 3 | 2, 6, 3 << 3 | 2, 4, 5 << 3, 2, 7 << 3, 1]);
        assert_eq!(encoded("xla-auto"), clusters);
        let mut off = head.to_vec();
        // −1 is the varint of 64 set bits.
        off.extend([10 << 3 | 2, 13, 3 << 3 | 2, 11, 5 << 3]);
        off.extend([0xff; 9]);
        off.push(1);
        assert_eq!(encoded("graph"), off);
        assert_eq!(encoded("xla"), off);
    }

    #[test]
    fn mixed_precision_is_a_switch_of_the_rewriter() {
        let mut configuration = Configuration::of(&cell()).unwrap();
        let plain = session(&configuration);
        configuration.mixes_precision = true;
        let mixed = session(&configuration);
        // Behind what was there, which is as long as its length says.
        let options = plain
            .iter()
            .rposition(|&byte| byte == (10 << 3 | 2))
            .unwrap();
        assert_eq!(mixed[..=options], plain[..=options]);
        assert_eq!(mixed[options + 1], plain[options + 1] + 5);
        let tail = [10 << 3 | 2, 3, 0xf8, 0x01, 1];
        assert_eq!(
            mixed[options + 2..],
            [&plain[options + 2..], &tail].concat()
        );
    }
}
