//! The worker protocol: one JSON message a line.
//!
//! The worker speaks first ([`Reply::Hello`]); then the supervisor sends one [`Request`] at a
//! time and the worker answers each with exactly one [`Reply`]. The exception is
//! [`Request::Cancel`], which may arrive while a request is being served and has no reply of its
//! own: the request in progress ends early, with what it has. Unknown fields in a message are
//! refused, so a change of meaning needs a new [`VERSION`].
//!
//! The stream is the worker's standard input and output, or the socket that
//! [`CONTROL_VARIABLE`] names: `unix:/path` or `tcp:127.0.0.1:port`.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cell, Device, Digest, Graph, Outcome, OutcomeKind, Precision};

mod exchanges;
mod profile;

pub use exchanges::{BucketExchange, Exchanges, MOST_BUCKETS, MOST_EXCHANGE_STEPS, StepExchanges};
pub use profile::{MOST_ENTRIES, MOST_NAME_CHARS, Profile, ProfileEntry, Profiling};

/// Version of the protocol; the first field of the first message.
pub const VERSION: u32 = 9;

/// Names the socket to speak over, where standard input and output are not private.
pub const CONTROL_VARIABLE: &str = "PHOTOFINISH_CONTROL";

/// The longest message that either side accepts, in bytes, its newline included.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// What the supervisor asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Build the network and make it ready to run. Once a process.
    Load(Box<Load>),
    /// Run once on the standard input (training: [`Parity::steps`] iterations from the initial
    /// weights) and write the outputs to a file.
    Parity(Parity),
    /// Put parameters and optimiser back to their initial state.
    Reset,
    /// Run until the step time is steady, within limits.
    WarmUp(WarmUp),
    /// Time steps.
    Measure(Measure),
    /// Run steps under the engine's own profiler, and tell where their time went.
    Profile(Profiling),
    /// Run steps of several ranks, and tell what they exchanged and when.
    Exchanges(Profiling),
    /// Tell memory use.
    Memory,
    /// End the request in progress early.
    Cancel,
    /// Leave. The worker answers `bye` and exits with status 0.
    Bye,
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The first message.
    Hello(Hello),
    /// The network is ready.
    Loaded(Loaded),
    /// Outputs are in the file.
    Parity(ParityOutputs),
    /// Initial state restored.
    Reset,
    /// Warm-up is over.
    WarmUp(WarmUpDone),
    /// Samples.
    Measure(Samples),
    /// Where the time of steps went.
    Profile(Profile),
    /// What ranks exchanged.
    Exchanges(Exchanges),
    /// Memory use.
    Memory(Memory),
    /// The request could not be served. The worker stays alive unless the failure says otherwise
    /// by its nature.
    Failed(Outcome),
    /// The worker leaves.
    Bye,
}

/// Who the worker is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Version of the protocol.
    pub protocol: u32,
    /// Name of the engine, as in manifests.
    pub engine: String,
    /// Versions of the engine and of the libraries that matter, by name.
    pub versions: BTreeMap<String, String>,
    /// Hash of what the worker was built from; absent for workers that are not built here.
    pub worker: Option<Digest>,
    /// Variants that this worker can run.
    pub variants: Vec<String>,
}

/// Everything that a worker needs to run a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The configuration.
    pub cell: Cell,
    /// The network; of a file of the user's that no graph can say, an outline
    /// ([`Graph::is_outline`]). Where the batch falls into parts ([`Cell::parts`]), that of one part
    /// ([`Cell::part_dims`]); the standard inputs of all parts are then those of a network whose inputs
    /// are so many times as long in their first dimension, part after part.
    pub graph: Graph,
    /// What a model of the user's comes with, or a network whose numbers were computed beforehand;
    /// and every network for an engine that is given ONNX. A network of the zoo needs no file
    /// otherwise, and the message then lacks the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<ModelFiles>,
    /// A folder of the worker's own for temporary files; it exists and is empty.
    pub scratch: PathBuf,
}

/// The files of a model that the user brought, of one whose numbers were computed beforehand, or of
/// what the supervisor wrote for an engine that is given ONNX. They are there to be read, and by the
/// supervisor's word alone: no manifest and no graph names a path to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelFiles {
    /// The numbers of the parameters whose fill is `stored`; empty where none is.
    pub weights: PathBuf,
    /// The user's file as it is, for engines that read ONNX themselves; absent where there is none,
    /// or where the graph is no longer that of the file. For an engine that is given ONNX: that file
    /// if it has the cell's precision, the graph with its weights otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onnx: Option<PathBuf>,
    /// What floats are in that file: a cell of another precision takes the graph.
    pub precision: Precision,
}

/// Phases of getting ready, one after another, each with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loaded {
    /// Making weights and inputs.
    pub fill_ns: u64,
    /// Building the network in the engine's own form, weights placed on the device.
    pub build_ns: u64,
    /// Compiling, optimising, building an engine; 0 where there is no such phase.
    pub compile_ns: u64,
    /// The first step.
    pub first_step_ns: u64,
    /// Threads in use, as the engine itself reports; absent where it cannot be asked.
    pub threads: Option<u32>,
    /// How idle threads wait: the engine's own words, for example `spinning (default)`.
    pub spin: String,
    /// Settings in force, by name, for the page of the cell.
    pub settings: BTreeMap<String, String>,
}

/// Ask for outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parity {
    /// File to write: the tensors one after another, row-major, little-endian, without header.
    pub path: PathBuf,
    /// Training: number of iterations. Ignored in inference.
    pub steps: u32,
    /// Training: as rounding in this precision could have it at worst. What it moves to within reach of
    /// a kink (where a ReLU or a clip bends, where the two largest numbers of a pooled window change
    /// places) takes the derivative of the other side; values stay. PyTorch eager alone is asked
    /// this, in fp64, for the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across_kinks: Option<Precision>,
}

impl Parity {
    /// Outputs as they are.
    #[must_use]
    pub fn plain(path: PathBuf, steps: u32) -> Self {
        Self {
            path,
            steps,
            across_kinks: None,
        }
    }
}

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParityOutputs {
    /// The tensors in the order of the file. Inference: the graph's outputs. Training: the
    /// gradient and the update of every weight and the movement of every buffer.
    pub tensors: Vec<TensorInfo>,
    /// Training: the loss of each iteration, before its update.
    pub losses: Vec<f64>,
}

/// A tensor in a parity file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorInfo {
    /// What is told of the value.
    pub quantity: Quantity,
    /// Name of the value, weight or buffer.
    pub name: String,
    /// Shape.
    pub shape: Vec<u64>,
    /// Element type of the file: `f32` or `f64`. Narrower types are widened before writing.
    pub element: FileElement,
}

/// What a tensor of a parity file is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Inference: an output of the graph.
    Output,
    /// Training: the gradient of the loss with respect to a weight, in the first iteration; zeros
    /// where the loss does not depend on it.
    Gradient,
    /// Training: a buffer after the first iteration minus its initial value.
    Movement,
    /// Training: a weight after the last iteration minus its initial value.
    Update,
}

impl Quantity {
    /// The tensor called `name`, in words.
    #[must_use]
    pub fn of(self, name: &str) -> String {
        match self {
            Self::Output => name.to_owned(),
            Self::Gradient => format!("gradient of {name}"),
            Self::Movement => format!("movement of {name}"),
            Self::Update => format!("update of {name}"),
        }
    }
}

/// Element type of a parity file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileElement {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

/// Limits of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// At least this many steps.
    pub min_steps: u64,
    /// Stop after this time, steady or not, `min_steps` done.
    pub max_ns: u64,
    /// Steady when the medians of the last two windows differ by at most this share.
    pub tolerance: f64,
}

/// How a warm-up went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmUpDone {
    /// Steps run.
    pub steps: u64,
    /// Time taken, by the host's clock at every boundary.
    pub total_ns: u64,
    /// Whether the step time was steady at the end.
    pub steady: bool,
}

/// How long to measure: until both minima are reached, or the maximum is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Steps run first and discarded: caches and thread pools wake up.
    pub discard: u64,
    /// At least this many steps.
    pub min_steps: u64,
    /// At least this much time, what is between the steps included or not; the samples alone last
    /// at least half of it. At the boundary `device`, whose samples leave out what the host does, it is
    /// the host's time all the same.
    pub min_ns: u64,
    /// At most this many steps, whatever the time.
    pub max_steps: u64,
}

/// Times of steps, in the order in which they ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// Nanoseconds, one entry a step.
    pub samples_ns: Vec<u64>,
    /// Whether a `cancel` ended it early.
    pub cancelled: bool,
}

/// Memory use of the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Resident set now.
    pub resident_bytes: u64,
    /// Largest resident set since the start of the process.
    pub peak_resident_bytes: u64,
    /// Device memory in use, where the cell runs on a GPU.
    pub device_bytes: Option<u64>,
    /// Largest device memory in use.
    pub peak_device_bytes: Option<u64>,
    /// The same of the other ranks, from 1 on, where several processes run the cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_ranks: Vec<Memory>,
}

/// The setting in which a worker says what numbers are computed in.
pub const ARITHMETIC: &str = "arithmetic";

/// How that begins where nothing is computed in what it is stored in.
const STORED: &str = "stored as ";

impl Loaded {
    /// What numbers are computed in, where the worker says so and it is not the `precision` of the cell.
    #[must_use]
    pub fn computed_in(&self, precision: Precision) -> Option<&str> {
        let told = self.settings.get(ARITHMETIC)?;
        (told != precision.word()).then_some(told)
    }

    /// The same, where nothing at all is computed in the precision that was asked for.
    #[must_use]
    pub fn computed_otherwise(&self) -> Option<&str> {
        let told = self.settings.get(ARITHMETIC)?;
        told.starts_with(STORED).then_some(told)
    }
}

impl Memory {
    /// The most memory that was taken where a cell of this device computes; `None` on a GPU whose engine
    /// does not tell.
    #[must_use]
    pub const fn peak_bytes(&self, device: Device) -> Option<u64> {
        match device.is_cpu() {
            true => Some(self.peak_resident_bytes),
            false => self.peak_device_bytes,
        }
    }
}

impl Reply {
    /// A failure.
    #[must_use]
    pub fn failed(kind: OutcomeKind, reason: impl Into<String>) -> Self {
        Self::Failed(Outcome::new(kind, reason))
    }

    /// What kind of message it is, for error messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Loaded(_) => "loaded",
            Self::Parity(_) => "parity",
            Self::Reset => "reset",
            Self::WarmUp(_) => "warm_up",
            Self::Measure(_) => "measure",
            Self::Profile(_) => "profile",
            Self::Exchanges(_) => "exchanges",
            Self::Memory(_) => "memory",
            Self::Failed(_) => "failed",
            Self::Bye => "bye",
        }
    }
}

impl Request {
    /// What kind of message it is, for error messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Load(_) => "load",
            Self::Parity(_) => "parity",
            Self::Reset => "reset",
            Self::WarmUp(_) => "warm_up",
            Self::Measure(_) => "measure",
            Self::Profile(_) => "profile",
            Self::Exchanges(_) => "exchanges",
            Self::Memory => "memory",
            Self::Cancel => "cancel",
            Self::Bye => "bye",
        }
    }
}
