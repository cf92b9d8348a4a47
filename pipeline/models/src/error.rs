//! What can be wrong with a model.

use thiserror::Error;

/// Why a model cannot be built, checked, costed or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// The zoo has no such model.
    #[error("no model `{name}` in the zoo{}; there are: {known}", did_you_mean(.suggestion.as_deref()))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The nearest name, where one is near.
        suggestion: Option<String>,
        /// The names that exist.
        known: String,
    },
    /// The model has no such dimension.
    #[error("model `{model}` has no dimension `{dimension}`; it has: {known}")]
    UnknownDimension {
        /// The model.
        model: String,
        /// What was asked for.
        dimension: String,
        /// The dimensions that exist.
        known: String,
    },
    /// The dimension cannot have this size.
    #[error("model `{model}`, dimension `{dimension}`: {size} is not possible: {reason}")]
    Dimension {
        /// The model.
        model: String,
        /// The dimension.
        dimension: String,
        /// The size that was asked for.
        size: u64,
        /// What would be right.
        reason: String,
    },
    /// A value, parameter or input of the graph is wrong.
    #[error("graph `{graph}`, value `{value}`: {reason}")]
    Value {
        /// Name of the graph.
        graph: String,
        /// Name of the value.
        value: String,
        /// What is wrong.
        reason: String,
    },
    /// A node of the graph is wrong.
    #[error("graph `{graph}`, node `{node}` ({op}): {reason}")]
    Node {
        /// Name of the graph.
        graph: String,
        /// Name of the node.
        node: String,
        /// Its operator.
        op: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The graph as a whole is wrong, or too large.
    #[error("graph `{graph}`: {reason}")]
    Graph {
        /// Name of the graph.
        graph: String,
        /// What is wrong.
        reason: String,
    },
    /// The plan was made with another graph under the same name.
    #[error(
        "model `{model}`: the plan was made for graph {planned}, this version builds {built}; plan again"
    )]
    OtherGraph {
        /// The model.
        model: String,
        /// Hash in the plan.
        planned: String,
        /// Hash of what was built.
        built: String,
    },
    /// A model of the user's is more than its name: `onnx::File` reads it.
    #[error("model `{0}` is an ONNX file, and no file was given; plan again")]
    NoFile(String),
    /// Stored numbers cannot be had.
    #[error("the numbers of `{parameter}`: {reason}")]
    Stored {
        /// The parameter.
        parameter: String,
        /// Why.
        reason: String,
    },
    /// The graph cannot be written as ONNX with these options.
    #[error("graph `{graph}` cannot be written as ONNX: {reason}")]
    Write {
        /// Name of the graph.
        graph: String,
        /// Why, and what to change.
        reason: String,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}
