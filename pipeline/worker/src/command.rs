//! How a worker process is started.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Names the folder in which a worker may keep what makes its next launch faster.
pub const CACHE_VARIABLE: &str = "PHOTOFINISH_CACHE";

/// Holds the command of the program that compiles for a worker, as the JSON of a [`WorkerCommand`]:
/// set where the variant that is asked for needs one.
pub const COMPILER_VARIABLE: &str = "PHOTOFINISH_COMPILER";

/// A program that speaks the worker protocol. It comes from the catalogue of engines or from the
/// user's configuration, never from a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCommand {
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables to set, in addition to those inherited.
    pub env: BTreeMap<String, String>,
}
