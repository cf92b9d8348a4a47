//! Run records: what was measured.
//!
//! A heat is written as JSON lines, compressed with zstd: one [`HeatLine::Header`], then
//! [`HeatLine::Reference`], the [`HeatLine::Block`]s in order, and one [`HeatLine::Footer`].
//! While it is measured, each line is a file of its own in the store's journal.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CellId, Digest, Environment, Outcome,
    machine::Load,
    plan::{Measure, Plan, PlannedCell},
    protocol::{Exchanges, Loaded, Memory, WarmUpDone},
    telemetry::{Energy, Telemetry},
};

mod kinds;
mod profiled;

pub use kinds::{Judged, Kinds};
pub use profiled::Profiled;

/// Version of the heat document.
pub const VERSION: u32 = 6;

/// A complete heat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heat {
    /// What was to be measured, where and when.
    pub header: HeatHeader,
    /// Outputs compared before any speed.
    pub reference: Reference,
    /// What was measured.
    pub blocks: Vec<Block>,
    /// How it ended.
    pub footer: HeatFooter,
}

/// One line of a heat's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HeatLine {
    /// First.
    Header(Box<HeatHeader>),
    /// Second.
    Reference(Reference),
    /// Then these.
    Block(Block),
    /// Last.
    Footer(HeatFooter),
}

/// What was to be measured, where and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeatHeader {
    /// Version of this document.
    pub version: u32,
    /// The group.
    pub group: String,
    /// The key of its artifact.
    pub key: Digest,
    /// What the key is made of.
    pub key_parts: BTreeMap<String, String>,
    /// The cells; a slot is an index into this list.
    pub cells: Vec<PlannedCell>,
    /// How it is measured, as the plan said that began it. Later plans may have the same heat with
    /// another budget, and where its number of blocks is fixed another margin or confidence: whoever
    /// judges it takes those of the plan.
    pub measure: Measure,
    /// Seed of the random orders.
    pub seed: u64,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The machine.
    pub environment: Environment,
    /// What measured.
    pub tool: Tool,
}

impl HeatHeader {
    /// For each of a plan's cells the slot that holds it here; `None` when the cells are not the
    /// same. The plan that the heat was measured for may have listed them in another order.
    #[must_use]
    pub fn slots_of(&self, planned: &[PlannedCell]) -> Option<Vec<usize>> {
        let mut places: BTreeMap<(&CellId, bool), VecDeque<usize>> = BTreeMap::new();
        for (slot, cell) in self.cells.iter().enumerate() {
            let place = places.entry((&cell.id, cell.twin_of.is_some()));
            place.or_default().push_back(slot);
        }
        let slots: Option<Vec<usize>> = planned
            .iter()
            .map(|cell| {
                places
                    .get_mut(&(&cell.id, cell.twin_of.is_some()))?
                    .pop_front()
            })
            .collect();
        slots.filter(|slots| slots.len() == self.cells.len())
    }
}

/// The program that wrote an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Version of photofinish.
    pub version: String,
    /// Git revision that it was built from, `-dirty` added for uncommitted changes; absent outside
    /// a checkout.
    pub revision: Option<String>,
}

/// Parity of every slot, judged once a heat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Per slot; `None` where the cell never got as far.
    pub parity: Vec<Option<Parity>>,
    /// Per slot: an outcome that keeps the cell from being measured.
    pub obstacles: Vec<Option<Outcome>>,
    /// Per slot: the end of what was written to standard error in the launch that decided: the
    /// cell's own, or that of the reference or of calibration where that ran and failed. `None` where
    /// no worker was started.
    pub logs: Vec<Option<String>>,
    /// The networks on grids that cells were judged on; those of every block are the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantised: Vec<Quantised>,
    /// Per slot: what getting ready took in the first launch, that for outputs; `None` for twins, and where
    /// it did not get ready. Empty in heats that were measured before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Option<FirstStart>>,
}

/// What getting ready took in the first launch of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstStart {
    /// From the start of its process to its first message, in nanoseconds.
    pub start_ns: u64,
    /// Its phases.
    pub loaded: Loaded,
    /// Whether it was kept from what compilers had made in earlier launches and runs, as it is where all is
    /// measured anew.
    pub is_cold: bool,
}

/// A network that was put on grids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantised {
    /// The first slot that runs it.
    pub slot: u32,
    /// Digest of the graph with all grids of activations.
    pub graph: Digest,
    /// The range of each activation that has a grid found by calibration: its smallest and its largest
    /// number.
    pub ranges: BTreeMap<String, [f64; 2]>,
}

/// Agreement of a cell's outputs with the reference's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parity {
    /// The reference, for example `pytorch/eager fp64 on cpu`.
    pub reference: String,
    /// Relative L2 error of the cell, the worst over all tensors: ‖y − r‖₂ / ‖r‖₂.
    pub error: f64,
    /// The tensor with that error, in words, for example `gradient of fc.weight`.
    pub tensor: String,
    /// What the bound is made from: the same for PyTorch eager at the cell's precision, on the same
    /// tensor; for a gradient, a running statistic and an update at least that of eager's usual (median)
    /// one, for the first loss that of the usual gradient or running statistic, and for a later loss that of the usual update times the loss's change since the first. Of a
    /// file that no graph can say it is that of ONNX Runtime as its users run it, against ONNX Runtime
    /// with its optimisation off. Of such a file, and in fp64, which is the reference's own precision,
    /// it is at least 32 unit roundoffs.
    pub eager_error: f64,
    /// Training, where a cell would fail without: by how much the tensor moves where all activations
    /// within reach of a kink (a ReLU's bend, say) take the derivative of its other side, as rounding
    /// may have some of them do. Twice that is a part of the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kink_error: Option<f64>,
    /// Largest error that passes. Of a cell in integers that is nearer to the reference than its grids
    /// allow: the smallest.
    pub bound: f64,
    /// Largest error over bound, over all tensors that are judged; passes when at most 1. Of a cell in
    /// integers that is nearer to the reference than its grids allow: bound over error.
    pub worst_share: f64,
    /// Tensors and losses that are judged.
    pub judged: u64,
    /// Training: those that are not, since rounding alone moves those of PyTorch eager too far.
    pub unjudged: u64,
    /// Training: both counts for each kind of what is compared; absent in what was written before they
    /// were told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Kinds>,
    /// Training: losses of the cell, step by step.
    pub losses: Vec<f64>,
    /// Training: losses of the reference.
    pub reference_losses: Vec<f64>,
    /// Precisions of integers: whether outputs choose as the reference's do; absent elsewhere, and
    /// where no output has rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top1: Option<Top1>,
}

/// Rows of outputs, along the last axis, whose largest number is where the reference has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Top1 {
    /// Those that are.
    pub agreeing: u64,
    /// All of them.
    pub rows: u64,
}

/// One interleaved pass over all cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Number of the block, from 0.
    pub index: u32,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The canary before the first launch.
    pub canary_before: Canary,
    /// The canary after the last.
    pub canary_after: Canary,
    /// Why the workers ran one at a time, their rounds back to back; `None`: all were alive
    /// together and their rounds interleaved.
    pub alone: Option<String>,
    /// What came from outside, so that the block does not count; `None` where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    /// Load of the machine before.
    pub load_before: Load,
    /// Load of the machine after.
    pub load_after: Load,
    /// Processor time of the supervisor itself while rounds were measured, in nanoseconds; with that of
    /// the thread that looks at sensors.
    pub supervisor_ns: u64,
    /// Time while rounds were measured, in nanoseconds.
    pub measuring_ns: u64,
    /// The launches, in the order in which they were started.
    pub launches: Vec<Launch>,
}

/// A fixed piece of work that tells the machine's mood from an engine's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// Copying 64 MiB, the median of three, in nanoseconds.
    pub copy_ns: u64,
    /// A matrix product, 256 × 256 in binary32, the median of three, in nanoseconds.
    pub matmul_ns: u64,
}

/// One start of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The cell: an index into the header's list.
    pub slot: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Versions that the worker reported.
    pub versions: BTreeMap<String, String>,
    /// From the start of the process to its `hello`, in nanoseconds.
    pub start_ns: Option<u64>,
    /// Phases of getting ready.
    pub loaded: Option<Loaded>,
    /// The warm-up.
    pub warm_up: Option<WarmUpDone>,
    /// The rounds, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// What ranks exchanged in a few steps after the rounds; absent where one process runs the cell, or
    /// the engine does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Exchanges>,
    /// Memory at the end: of the process as the supervisor saw it, of the device as the worker
    /// said.
    pub memory: Option<Memory>,
    /// Processor time of the worker over its life, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// The end of what it wrote to standard error.
    pub log: String,
    /// What sensors told while its rounds ran; absent where none were to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Energy of its steps; absent where that was not asked for, or the launch had failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
}

/// A stretch of steps of one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Its place in the order of all rounds of the block, from 0.
    pub sequence: u32,
    /// Times of the steps, in nanoseconds, in order.
    pub samples_ns: Vec<u64>,
}

/// How a heat ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeatFooter {
    /// When, RFC 3339 in UTC.
    pub finished: String,
    /// The outcome of each slot.
    pub outcomes: Vec<Outcome>,
    /// Why measuring stopped, for example `all 6 blocks measured`.
    pub stopped: String,
    /// Where the largest batch that fits into memory was sought: per slot what was found, `None` where the
    /// cell did not get as far. Empty elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frontiers: Vec<Option<Frontier>>,
    /// Per slot, where the job asked: where the time of its steps went. `None` for twins and for what
    /// was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Option<Profiled>>,
}

/// How the largest batch of a cell that fits into memory was sought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frontier {
    /// The tries, in the order in which they were made; the last may have ended it for another reason than
    /// memory.
    pub tries: Vec<Try>,
}

/// Some steps of a batch, in a worker of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Try {
    /// The batch.
    pub batch: u64,
    /// `measured` where it fitted, though nothing was timed; `out_of_memory` where it did not.
    pub outcome: Outcome,
    /// Memory of a try that fitted, at the end and at most.
    pub memory: Option<Memory>,
}

/// What a run did: the plan, and for each of its heats the artifact or the reason for having none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Version of this document.
    pub version: u32,
    /// The plan that was run; its statuses say what was found, not what was done.
    pub plan: Plan,
    /// One entry a heat of the plan, in its order.
    pub heats: Vec<HeatEntry>,
}

/// A heat of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeatEntry {
    /// The group.
    pub group: String,
    /// The key of its artifact.
    pub key: Digest,
    /// The hash of the artifact's content, or why there is none.
    pub heat: HeatResult,
}

/// What a heat came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HeatResult {
    /// The content hash of its artifact.
    Sealed(Digest),
    /// Why it was not finished.
    NotReached(String),
}
