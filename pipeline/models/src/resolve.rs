//! From the model that a cell names to its graph.

use std::collections::BTreeMap;

use schema::{Digest, Graph, Mode, Model, ModelSource};

use crate::{ModelError, zoo};

/// The graph that `model` stands for, for a mode.
///
/// # Errors
/// An unknown model or size, a graph that is not the one that the plan was made for, or a model
/// from an ONNX file.
pub fn resolve(
    model: &Model,
    dims: &BTreeMap<String, u64>,
    mode: Mode,
) -> Result<Graph, ModelError> {
    match model.source {
        ModelSource::Onnx => Err(ModelError::NoFile(model.name.clone())),
        ModelSource::Zoo => {
            let graph = zoo::build_for(&model.name, dims, mode)?;
            let built = Digest::of_value(&graph);
            if built == model.graph {
                return Ok(graph);
            }
            Err(ModelError::OtherGraph {
                model: model.name.clone(),
                planned: model.graph.short(),
                built: built.short(),
            })
        }
    }
}
