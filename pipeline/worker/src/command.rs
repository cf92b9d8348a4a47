//! How a worker process is started.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use schema::{Cell, Precision, TF32_OVERRIDE};
use serde::{Deserialize, Serialize};

use crate::spin::{self, PASSIVE, WAIT_POLICY};

/// Names the folder in which a worker may keep what makes its next launch faster.
pub const CACHE_VARIABLE: &str = "PHOTOFINISH_CACHE";

/// Holds the command of the program that compiles for a worker, as the JSON of a [`WorkerCommand`]:
/// set where the variant that is asked for needs one.
pub const COMPILER_VARIABLE: &str = "PHOTOFINISH_COMPILER";

/// Holds what tells the machine's C++ compiler from others, a hash: what a worker keeps of what it
/// compiled is for the same one alone. Set for variants that compile with it.
pub const CXX_VARIABLE: &str = "PHOTOFINISH_CXX";

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

impl WorkerCommand {
    /// The same, for a launch that runs `cell`.
    ///
    /// On an NVIDIA GPU only tf32 is to be computed in TF32. Engines have switches of their own for
    /// that, but for TensorRT within ONNX Runtime, which takes it for granted.
    ///
    /// Where idle threads are to sleep at once, OpenMP is told so, whichever engine it is: a library without OpenMP
    /// does not look, and one with it looks once, when it is loaded.
    #[must_use]
    pub fn for_cell(self, cell: &Cell) -> Self {
        let mut command = if cell.device.is_cpu() || cell.precision == Precision::Tf32 {
            self
        } else {
            self.without_tf32()
        };
        if spin::sleeps(cell) {
            let policy = (WAIT_POLICY.to_owned(), PASSIVE.to_owned());
            command.env.extend([policy]);
        }
        command
    }

    /// The same, which keeps what makes its next launch faster in this folder, and so does what compiles for
    /// it. Where it keeps nothing anyway, nothing changes.
    #[must_use]
    pub fn with_cache(mut self, folder: &Path) -> Self {
        if let Some(kept) = self.env.get_mut(CACHE_VARIABLE) {
            *kept = folder.to_string_lossy().into_owned();
        }
        if let Some(compiler) = self.env.get_mut(COMPILER_VARIABLE)
            && let Ok(command) = serde_json::from_str::<Self>(compiler)
            && let Ok(command) = serde_json::to_string(&command.with_cache(folder))
        {
            *compiler = command;
        }
        self
    }

    /// The same, with NVIDIA's libraries kept from TF32.
    #[must_use]
    pub(crate) fn without_tf32(mut self) -> Self {
        self.env.insert(TF32_OVERRIDE.to_owned(), "0".to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use schema::Device;

    use super::*;

    #[test]
    fn nothing_but_tf32_is_computed_in_tf32() {
        let graph = models::sample::perceptron(1).expect("it is a graph");
        let engine = "onnxruntime/tensorrt".parse().expect("it is an engine");
        let plain = Cell::plain(&graph, engine);
        let told = |device, precision| {
            let cell = Cell {
                device,
                precision,
                ..plain.clone()
            };
            let command = WorkerCommand {
                program: PathBuf::from("/worker"),
                args: Vec::new(),
                env: BTreeMap::new(),
            };
            command.for_cell(&cell).env.remove(TF32_OVERRIDE)
        };
        let off = Some("0".to_owned());
        assert_eq!(told(Device::Cuda(0), Precision::Fp32), off);
        assert_eq!(told(Device::Cuda(1), Precision::Fp16), off);
        assert_eq!(told(Device::Cuda(0), Precision::Tf32), None);
        assert_eq!(told(Device::Cpu, Precision::Fp32), None);
    }

    #[test]
    fn openmp_is_told_how_idle_threads_wait() {
        let graph = models::sample::perceptron(1).expect("it is a graph");
        let engine = "pytorch/eager".parse().expect("it is an engine");
        let plain = Cell::plain(&graph, engine);
        // What the command itself has is overruled where a cell asks, and is left alone elsewhere.
        let told = |asked: Option<&str>| {
            let asked = asked.map(|value| (spin::SPIN.to_owned(), value.to_owned()));
            let cell = Cell {
                factors: asked.into_iter().collect(),
                ..plain.clone()
            };
            let command = WorkerCommand {
                program: PathBuf::from("/worker"),
                args: Vec::new(),
                env: BTreeMap::from([(WAIT_POLICY.to_owned(), "active".to_owned())]),
            };
            command.for_cell(&cell).env.remove(WAIT_POLICY)
        };
        assert_eq!(told(Some("off")).as_deref(), Some(PASSIVE));
        assert_eq!(told(Some("default")).as_deref(), Some("active"));
        assert_eq!(told(None).as_deref(), Some("active"));
    }

    #[test]
    fn a_cache_of_its_own_is_also_that_of_what_compiles_for_it() {
        let plain = WorkerCommand {
            program: PathBuf::from("/worker"),
            args: Vec::new(),
            env: BTreeMap::new(),
        };
        let folder = Path::new("/own");
        assert_eq!(plain.clone().with_cache(folder), plain);
        let keeps = |folder: &str, compiler: Option<&WorkerCommand>| {
            let mut command = plain.clone();
            let mut set = |name: &str, value: String| command.env.insert(name.to_owned(), value);
            set(CACHE_VARIABLE, folder.to_owned());
            if let Some(compiler) = compiler {
                set(
                    COMPILER_VARIABLE,
                    serde_json::to_string(compiler).expect("it is JSON"),
                );
            }
            command
        };
        let shared = keeps("/shared", Some(&keeps("/shared", None)));
        let own = keeps("/own", Some(&keeps("/own", None)));
        assert_eq!(shared.with_cache(folder), own);
    }
}
