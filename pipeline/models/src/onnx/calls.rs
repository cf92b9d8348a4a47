//! The operators that a file calls, and nothing else of it: an engine that writes down what it made of
//! a file tells so which of its operators are fused, whatever operators of its own they are.

use prost::Message;

/// An operator of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name; may be empty.
    pub name: String,
    /// What it computes, for example `Conv`.
    pub op_type: String,
    /// The values that it reads; an empty name stands for one that is left out.
    pub inputs: Vec<String>,
    /// The values that it makes, likewise.
    pub outputs: Vec<String>,
}

/// The operators of a file's graph in its order, which is topological. Graphs within operators are
/// theirs, and not looked into.
///
/// # Errors
/// What is wrong with the file, for a reader.
pub fn calls(model: &[u8]) -> Result<Vec<Call>, String> {
    let model = Model::decode(model).map_err(|error| format!("it is no ONNX: {error}"))?;
    let graph = model.graph.ok_or("it holds no graph")?;
    let call = |node: Node| Call {
        name: node.name,
        op_type: node.op_type,
        inputs: node.input,
        outputs: node.output,
    };
    Ok(graph.node.into_iter().map(call).collect())
}

// Tags are those of `onnx.proto`. What is not named here is passed over, weights among it.

#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    op_type: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{onnx, sample};

    #[test]
    fn a_file_tells_its_operators_and_not_its_weights() {
        let options = onnx::WriteOptions::default();
        let written = onnx::write(&sample::perceptron(1).unwrap(), &options).unwrap();
        let calls = calls(&written.model).unwrap();
        let told: Vec<_> = calls
            .iter()
            .map(|call| format!("{} {}", call.op_type, call.name))
            .collect();
        assert_eq!(told, ["Gemm hidden", "Relu relu", "Gemm output"]);
        assert_eq!(calls[1].inputs, ["hidden"]);
        assert_eq!(calls[2].outputs, ["logits"]);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(calls(b"\xff\xff").unwrap_err().contains("no ONNX"));
        assert!(calls(b"").unwrap_err().contains("no graph"));
    }
}
