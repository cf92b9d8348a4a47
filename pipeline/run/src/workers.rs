//! Where workers come from.

use std::collections::BTreeMap;

use schema::{Device, Digest, EngineVariant, Outcome, Situation};
use worker::WorkerCommand;

/// Knows how the worker of each engine is started.
pub trait Workers {
    /// The command that starts a worker for this variant on this device.
    ///
    /// # Errors
    /// Why there is none on this machine, as the outcome of the cells that need it.
    fn command(&self, engine: &EngineVariant, device: Device) -> Result<WorkerCommand, Outcome>;

    /// Every switch that has a part in such cells of the variant, with its default: what the reference
    /// of parity is run with.
    fn factors(&self, engine: &EngineVariant, situation: Situation) -> BTreeMap<String, String> {
        let _ = (engine, situation);
        BTreeMap::new()
    }

    /// What the worker of a variant must have been built from, as it says itself; `None` where that
    /// is not known. A worker from other sources would be measured under a wrong key.
    fn built_from(&self, engine: &EngineVariant) -> Option<Digest> {
        let _ = engine;
        None
    }

    /// Whether the worker of a variant is given the network as an ONNX file besides the graph.
    fn takes_onnx(&self, engine: &EngineVariant) -> bool {
        let _ = engine;
        false
    }
}
