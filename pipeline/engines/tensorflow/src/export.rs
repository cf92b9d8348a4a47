//! The graph that a worker runs, written down for others: `cargo xtask bench` hands it to Python.

use std::rc::Rc;

use models::Numbers;
use schema::{Outcome, protocol::Load};

use crate::{
    configuration::Configuration, failure::unsupported, inference::Inference, library,
    tensors::Maker,
};

/// A graph with frozen weights, and where it begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFile {
    /// TensorFlow's `GraphDef`.
    pub graph: Vec<u8>,
    /// Names of the placeholders, in the order of the network's inputs.
    pub feeds: Vec<String>,
    /// Names of the operations whose first outputs are the network's.
    pub fetches: Vec<String>,
}

/// The graph that a worker runs for this cell.
///
/// # Errors
/// As a worker's `load` fails; `unsupported` where the weights are not part of the graph.
pub fn inference_graph(load: &Load) -> Result<GraphFile, Outcome> {
    let configuration = Configuration::of(&load.cell)?;
    if configuration.optimizer.is_some() {
        return Err(unsupported(
            "only graphs for inference are written down".to_owned(),
        ));
    }
    library::open()?;
    let mut maker = Maker::new(configuration.float, Rc::new(Numbers::of(load)?));
    let network = Inference::build(&load.graph, &configuration, &mut maker)?;
    if !network.is_frozen() {
        return Err(unsupported(
            "only graphs with frozen weights are written down".to_owned(),
        ));
    }
    network.file()
}
