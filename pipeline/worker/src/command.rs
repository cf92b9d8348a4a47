//! How a worker process is started.

use std::{collections::BTreeMap, path::PathBuf};

/// A program that speaks the worker protocol. It comes from the catalogue of engines or from the
/// user's configuration, never from a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables to set, in addition to those inherited.
    pub env: BTreeMap<String, String>,
}
