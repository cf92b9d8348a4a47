//! Tables: what aggregate makes of run records, and all that the report reads.

mod ceilings;
mod profile;
mod sensors;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cell, CellId, Digest, Environment, Mode, ModelSource, Outcome, Strategy,
    machine::Load,
    plan::{Expectation, ManifestSource, Measure, Quantity, Warning},
    protocol::{Loaded, Memory, StepExchanges},
    record::{Canary, FirstStart, Parity, Tool, Try},
    telemetry::Telemetry,
};

pub use ceilings::{Bound, CeilingKind, CeilingRow, Roof, Share, ShareOfCeiling};
pub use profile::{CellProfile, Compared, Layer, Lineup, Naming, ProfileRow, ToldProfile};
pub use sensors::{CellEnergy, EnergyFigures};

/// Version of the tables document.
pub const VERSION: u32 = 14;

/// Everything that a site shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Version of this document.
    pub version: u32,
    /// Title of the site.
    pub title: String,
    /// The manifests that asked.
    pub manifests: Vec<ManifestSource>,
    /// Jobs in the order of the manifests.
    pub jobs: Vec<JobTable>,
    /// All cells, in the order of jobs and matrix; twins left out.
    pub cells: Vec<CellRow>,
    /// The twins of cells, likewise: what the noise floors were computed from.
    pub twins: Vec<TwinRow>,
    /// Noise floors, one per job, engine and variant, and device.
    pub floors: Vec<Floor>,
    /// What the devices can do at most, in the plan's order; none where the run does not measure that.
    pub ceilings: Vec<CeilingRow>,
    /// The machines that measured, each once whatever its load; `CellRow::environment` is an
    /// index.
    pub environments: Vec<Environment>,
    /// What measured, each once.
    pub tools: Vec<Tool>,
    /// Earliest and latest time of measuring, RFC 3339 in UTC; `None` when nothing was measured.
    pub measured: Option<(String, String)>,
    /// Lint.
    pub warnings: Vec<Warning>,
    /// The heats that went in, by group: what a bundle must hold.
    pub heats: Vec<(String, Digest)>,
}

/// A job's answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobTable {
    /// Unique; a path segment.
    pub id: String,
    /// The question; may be empty.
    pub question: String,
    /// Inference or training.
    pub mode: Mode,
    /// How it was measured.
    pub measure: Measure,
    /// Names of the matrix's axes, in the manifest's order of importance, for the columns.
    pub axes: Vec<String>,
    /// Families of verdicts.
    pub comparisons: Vec<ComparisonTable>,
    /// Claims with their judgement.
    pub claims: Vec<ClaimRow>,
    /// The pairs that leave a base in one of the axes that were varied around it, the largest effect
    /// first.
    pub effects: Vec<Place>,
    /// How the time of a sample goes with the batch, wherever a heat has cells of three batches and more
    /// that are equal in all else.
    pub trends: Vec<TrendRow>,
    /// Where the lead between baseline and contender changes with the batch: every such place.
    pub crossovers: Vec<CrossoverRow>,
    /// Training that is spread over workers: how it scales with their number, and what they exchange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<ScalingRow>,
    /// The pairs of which both cells were profiled, layer by layer, in the order of the comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineups: Vec<Lineup>,
    /// The supervisor's processor time while rounds were measured, as a share of one core: the
    /// median over blocks. `None` when nothing was measured.
    pub supervisor_share: Option<f64>,
    /// Seconds from the beginning of a block to that of the next one of its heat: the median over blocks.
    /// `None` where no heat has two.
    pub apart_s: Option<f64>,
    /// Whether blocks are as independent as intervals take them to be; `None` where no pair has as many as a
    /// verdict takes.
    pub resemblance: Option<Resemblance>,
}

/// By how much what pairs say in a block resembles what they said in the block before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resemblance {
    /// Correlation of the logarithms of their ratios with those a block later, the mean over pairs.
    pub correlation: f64,
    /// What that is of independent blocks: below 0, since they are held against their own mean.
    pub expected: f64,
    /// Its standard deviation there, were pairs independent of each other.
    pub deviation: f64,
    /// How many pairs there are.
    pub pairs: u32,
}

/// A family of verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparisonTable {
    /// The compared axis.
    pub axis: String,
    /// The value that others are held against.
    pub baseline: String,
    /// Number of verdicts that share the error: all pairs of the job.
    pub family: u32,
    /// Confidence of each single interval after sharing, with the others and among the looks of
    /// [`Measure::looks`].
    pub confidence_each: f64,
    /// The pairs, in the plan's order.
    pub rows: Vec<ComparisonRow>,
    /// Contenders that are ready later than others and earn that back, in the order of the pairs. Those of a
    /// contender and the baseline are in `rows`.
    pub break_evens: Vec<BreakEven>,
}

/// Two contenders of which one is ahead in the long run, and ready later: as a rule, or at its first start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakEven {
    /// What they have besides the axis; both, or the one that knows a factor.
    pub coordinates: BTreeMap<String, String>,
    /// The value of the axis whose steps take longer.
    pub early: String,
    /// Its cell.
    pub early_cell: CellId,
    /// The value of the axis that is ahead in the long run.
    pub late: String,
    /// Its cell.
    pub late_cell: CellId,
    /// When that is, with warm caches; drawn for this pair by itself, which has no verdict.
    pub warm: Payback,
    /// The same from their first starts.
    pub first: Option<FirstPayback>,
    /// As in a row of the comparison.
    pub without_calibration: bool,
}

/// A pair and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparisonRow {
    /// What both share.
    pub coordinates: BTreeMap<String, String>,
    /// The baseline's cell.
    pub baseline: CellId,
    /// The contender's cell.
    pub contender: CellId,
    /// The contender's value of the axis.
    pub value: String,
    /// Step time of the contender ÷ step time of the baseline; below 1 the contender is faster.
    /// `None` when either was not measured.
    pub ratio: Option<Interval>,
    /// Whether that interval is as wide as the scatter of launches makes it
    /// ([`Floor::launch_scatter`]), its own blocks scattering less.
    pub is_widened: bool,
    /// The A/A floor that applied, as a relative difference.
    pub floor: Option<f64>,
    /// The verdict about the contender.
    pub verdict: Verdict,
    /// Why, in one sentence without a full stop.
    pub reason: String,
    /// When the contender has earned back what it takes longer to get ready, as the launches of blocks do, which find
    /// what compilers keep from launch to launch; `None` where that is not known, where neither is faster, and where
    /// their steps do not do the same work.
    pub payback: Option<Payback>,
    /// The same from the first start of both; `None` likewise, and where it was not kept.
    pub first_payback: Option<FirstPayback>,
    /// Whether these leave calibration out, by which a network of theirs was put on grids: its time is no launch's, and
    /// no record has it.
    pub without_calibration: bool,
}

/// When what takes longer to get ready at its first start has earned that back: one launch of each cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstPayback {
    /// When.
    pub payback: FirstSteps,
    /// Whether both launches are known to have found nothing that compilers had kept.
    pub is_cold: bool,
}

/// After how many steps, without an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirstSteps {
    /// It is ready first, too.
    AtOnce,
    /// It is ahead from so many steps on.
    After(f64),
    /// It is ahead for so many steps: ready first, and slower.
    Until(f64),
    /// It is neither ready first nor faster.
    Never,
}

/// When what takes longer to get ready has earned that back by faster steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Payback {
    /// It is ready first, too.
    AtOnce,
    /// It is ahead from so many steps on.
    After(Interval),
    /// It is ahead for so many steps: ready first, and slower.
    Until(Interval),
    /// It is neither ready first nor faster.
    Never,
    /// Intervals leave open which is ready first, or ahead.
    Unclear,
}

/// Where a pair stands among a job's comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Index of its comparison.
    pub comparison: u32,
    /// Index of its row there.
    pub row: u32,
}

/// How the time of a sample goes with the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrendRow {
    /// What the cells share.
    pub coordinates: BTreeMap<String, String>,
    /// Those that were measured, in the order of their batches.
    pub sizes: Vec<TrendSize>,
    /// Time of a sample at the largest batch ÷ that at the smallest, which the direction rests on; `None`
    /// with fewer than three batches or six blocks.
    pub ends: Option<Interval>,
    /// Whether that, or an interval that the knee rests on, is as wide as the scatter of two launches makes it, by
    /// twins, its own blocks scattering less.
    pub is_widened: bool,
    /// The noise floor that it is held against, with the job's margin; `None` where it is not known.
    pub floor: Option<f64>,
    /// Whether it falls or rises.
    pub direction: Direction,
    /// Why, in one sentence without a full stop.
    pub reason: String,
    /// Probability, where batches make no difference, of a trend at least as clear in either direction:
    /// Page's test.
    /// `None` with fewer than three batches or six blocks.
    pub p: Option<f64>,
    /// The smallest batch beyond which nothing more is gained; `None` likewise.
    pub knee: Option<Knee>,
    /// Blocks that measured all of them.
    pub blocks: u32,
    /// Confidence of all that is said of this line together.
    pub confidence: f64,
}

/// A batch of a trend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrendSize {
    /// Samples in a step.
    pub batch: u64,
    /// The cell that has it.
    pub cell: CellId,
    /// Time of a sample ÷ that at the smallest batch, at the confidence at which all pairs of batches hold
    /// together; `None` there, and where there is no trend to tell.
    pub ratio: Option<Interval>,
}

/// Where the time of a sample goes as the batch grows.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Down.
    Falls,
    /// Up.
    Rises,
    /// Neither, on the whole.
    None,
    /// By no more than margin and noise floor.
    Unclear,
    /// Fewer than three batches, or six blocks, were measured.
    NotMeasured,
}

impl Direction {
    /// The word used in files and pages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Falls => "falls",
            Self::Rises => "rises",
            Self::None => "none",
            Self::Unclear => "unclear",
            Self::NotMeasured => "not_measured",
        }
    }
}

/// The smallest batch whose time of a sample is near the best of all that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Knee {
    /// The first batch of which that cannot be ruled out.
    pub low: u64,
    /// The first of which it seems so.
    pub centre: u64,
    /// The first of which it is beyond doubt; the largest where it is of none.
    pub high: u64,
}

/// Cells that are equal in all but the number of workers that share a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScalingRow {
    /// What the cells share.
    pub coordinates: BTreeMap<String, String>,
    /// How training is spread.
    pub strategy: Strategy,
    /// In the order of the numbers of workers.
    pub points: Vec<ScalingPoint>,
}

/// A number of workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScalingPoint {
    /// Ranks or replicas.
    pub world_size: u32,
    /// The cell.
    pub cell: CellId,
    /// Samples of a step, those of all workers together.
    pub samples: u64,
    /// Samples per second of each worker ÷ those of the number of workers that the job holds others against;
    /// `None` there, where the job does not compare numbers of workers, and where either was not measured.
    pub efficiency: Option<Interval>,
    /// What ranks exchange in a step; `None` where they do not, or the engine does not tell.
    pub exchange: Option<ExchangeRow>,
    /// The most memory that each rank took, in bytes: of the device where it is a GPU, resident elsewhere.
    pub memory_bytes: Vec<u64>,
}

/// What ranks exchange in a step: medians over steps that were noted apart from those that are timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeRow {
    /// Bytes of gradients that a rank hands over.
    pub bytes: u64,
    /// Buckets in which it does.
    pub buckets: u32,
    /// Share of a step during which any bucket is on its way.
    pub communication: f64,
    /// Share of that during which the backward pass goes on.
    pub hidden: f64,
    /// Noted steps, of all ranks.
    pub steps: u32,
    /// By rank, the noted step of middling length, which is that of its slowest rank.
    pub middling: Vec<StepExchanges>,
}

/// Where the lead changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossoverRow {
    /// The compared axis.
    pub axis: String,
    /// The value that is held against.
    pub baseline: String,
    /// The contender's value of the axis.
    pub value: String,
    /// What the pairs share.
    pub coordinates: BTreeMap<String, String>,
    /// The place.
    pub crossover: Crossover,
}

/// Between which batches the lead changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Crossover {
    /// Once.
    Between {
        /// The last batch at which the one is beyond doubt ahead.
        low: u64,
        /// Where both seem to take the same time.
        centre: f64,
        /// The first batch at which the other is.
        high: u64,
        /// Whether it is the contender that is ahead at smaller batches.
        contender_first: bool,
    },
    /// More than once: whoever is ahead at a batch is told by its verdict alone.
    Several,
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Lower end; `None`: unbounded for lack of blocks.
    pub low: Option<f64>,
    /// The estimate.
    pub centre: f64,
    /// Upper end; `None`: unbounded.
    pub high: Option<f64>,
    /// Number of independent units (blocks).
    pub blocks: u32,
    /// Confidence.
    pub confidence: f64,
}

/// What may be said about a contender against its baseline.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It takes less time, by more than margin and floor.
    Faster,
    /// It takes more time, by more than margin and floor.
    Slower,
    /// The difference is within the margin, and so is the floor.
    Same,
    /// Too close to call, or too noisy.
    Unclear,
    /// One of the two has no speed.
    NotMeasured,
}

impl CellRow {
    /// How it got ready: in the median launch, or where nothing is timed in the first.
    #[must_use]
    pub fn got_ready(&self) -> Option<&Loaded> {
        let first = || self.first.as_ref().map(|start| &start.loaded);
        self.loaded.as_ref().or_else(first)
    }

    /// Whether it ran a file of the user's whose operators no graph has: its costs are not known, and
    /// its outputs were held against ONNX Runtime's.
    #[must_use]
    pub fn is_outline(&self) -> bool {
        self.cell.model.source == ModelSource::Onnx && self.bytes == 0
    }
}

impl Verdict {
    /// The word used in files and pages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Unclear => "unclear",
            Self::NotMeasured => "not_measured",
        }
    }
}

/// A claim and its judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRow {
    /// Short name.
    pub id: String,
    /// Citation.
    pub source: String,
    /// The assertion.
    pub states: String,
    /// What it is about.
    pub quantity: Quantity,
    /// What was checked.
    pub expect: Expectation,
    /// The judgement.
    pub judgement: Judgement,
    /// Why, in one sentence.
    pub reason: String,
}

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Every pair, or cell, it speaks of that could be measured agrees, and there is one.
    Confirmed,
    /// A pair, or cell, says the opposite.
    Contradicted,
    /// Neither.
    Unclear,
    /// None of its pairs, or cells, could be measured on this machine.
    NotMeasurableHere,
}

/// The noise between identical cells of one engine on one device, in one job: an estimate of what
/// is typical there, not a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// The job whose twins these are; the floor applies nowhere else.
    pub job: String,
    /// Engine and variant.
    pub engine: String,
    /// Where they ran.
    pub device: String,
    /// The floor as a relative difference, for example 0.012; `None` with too few blocks.
    pub floor: Option<f64>,
    /// Ratio between twins, with its interval.
    pub ratio: Option<Interval>,
    /// Spread between launches of the same cell in one block, at most: the root mean square of the
    /// logarithm of a block's twin ÷ original, over √2. `None` without a block of both.
    pub between_launches: Option<f64>,
    /// The upper limit, at a confidence of 80 %, of the standard deviation by which the logarithm of a launch's time
    /// scatters from block to block: it makes the least width of intervals of few blocks. What twins are apart in all
    /// blocks alike is no part of it. `None` with too few blocks.
    pub launch_scatter: Option<f64>,
    /// Number of pairs of twins.
    pub pairs: u32,
}

/// A cell's own figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellRow {
    /// The job.
    pub job: String,
    /// The group whose heat measured it.
    pub group: String,
    /// Identity; unique within a job.
    pub id: CellId,
    /// The configuration.
    pub cell: Cell,
    /// Its place in the matrix.
    pub coordinates: BTreeMap<String, String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the manifest allows that outcome.
    pub allowed: bool,
    /// Present exactly when the outcome is `measured` or `unstable`.
    pub speed: Option<Speed>,
    /// Agreement of its outputs.
    pub parity: Option<Parity>,
    /// End of the log of the launch for its outputs, or of the reference's where that failed;
    /// `None` when no worker was started for them.
    pub parity_log: Option<String>,
    /// What it makes of its device; `None` without a speed, and where its costs are not known.
    pub roof: Option<Roof>,
    /// Peak memory over its launches.
    pub memory: Option<Memory>,
    /// Energy of its samples; `None` where it was not asked for, and without a speed.
    pub energy: Option<CellEnergy>,
    /// What sensors told over the launches that count: medians of clocks, powers and shares, the most of
    /// heat and memory. `None` for heats that were measured before sensors were looked at.
    pub telemetry: Option<Telemetry>,
    /// Phases of the median launch (by total).
    pub loaded: Option<Loaded>,
    /// Phases of the first launch, that for outputs: what a compiler makes is kept for those that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstStart>,
    /// Median time from process start to `hello`, in nanoseconds.
    pub start_ns: Option<u64>,
    /// Floating-point operations of a step; 0 where that is not known ([`CellRow::is_outline`]).
    pub flops: u64,
    /// Bytes that a step in fp32 must move at least, whatever the cell's precision; 0 where that is not
    /// known.
    pub bytes: u64,
    /// Trainable parameters; 0 where that is not known.
    pub parameters: u64,
    /// Versions that its workers reported.
    pub versions: BTreeMap<String, String>,
    /// Index into `Tables::environments`; `None` when it never started.
    pub environment: Option<u32>,
    /// Index into `Tables::tools`; `None` when it never started.
    pub tool: Option<u32>,
    /// When its heat began, RFC 3339.
    pub started: Option<String>,
    /// The load that its heat found: `Environment::load` is that of the machine's first heat.
    pub load: Option<Load>,
    /// Why the workers of its heat ran one at a time, in words; `None`: their rounds were
    /// interleaved.
    pub alone: Option<String>,
    /// What the random orders of its heat were drawn from, in hexadecimal digits; `None` when it never began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// Why measuring its heat ended, in words; `None` when it never began.
    pub stopped: Option<String>,
    /// The largest batch that fits into memory; `None` where the job does not seek it, or the cell did not
    /// get as far.
    pub frontier: Option<Frontier>,
    /// Launches with their samples, in the order of blocks.
    pub launches: Vec<LaunchRow>,
    /// Where the time of its steps goes; `None` where nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<CellProfile>,
}

/// The largest batch of a cell that fits into memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frontier {
    /// The largest batch that ran; `None` where none did.
    pub fits: Option<u64>,
    /// Peak memory there, in bytes: of the device where the cell runs on one, else of the worker.
    pub peak_bytes: Option<u64>,
    /// What each further sample took, in bytes: the difference of the peaks of the largest batch and the
    /// smallest, by that of the batches. `None` where one is not known, or both are the same.
    pub sample_bytes: Option<f64>,
    /// The smallest batch that did not run, and why; `None` where the largest that was to be tried did.
    pub end: Option<FrontierEnd>,
    /// All tries, in their order.
    pub tries: Vec<Try>,
}

/// What lies beyond the largest batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrontierEnd {
    /// The batch.
    pub batch: u64,
    /// How it ended: `out_of_memory`, or what else kept the search from going on.
    pub outcome: Outcome,
}

/// The twin of a cell: the same configuration, measured once more in the same heat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwinRow {
    /// The job.
    pub job: String,
    /// The group whose heat measured both.
    pub group: String,
    /// The cell of which it is a twin.
    pub cell: CellId,
    /// Engine and variant, whose floor it serves.
    pub engine: String,
    /// Where it ran.
    pub device: String,
    /// Counts from 1 among the twins of that cell in that group.
    pub number: u32,
    /// How it ended. Only a pair of which both have a speed goes into a floor.
    pub outcome: Outcome,
    /// Launches with their samples, in the order of blocks.
    pub launches: Vec<LaunchRow>,
}

/// A cell's speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Centre of the block medians of the step time, in nanoseconds, with its interval.
    pub step_ns: Interval,
    /// Items (batch elements) per second: batch ÷ centre.
    pub items_per_second: f64,
    /// Smallest sample, in nanoseconds.
    pub min_ns: u64,
    /// Percentiles of all samples pooled, in nanoseconds: descriptive, no interval.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Largest sample, in nanoseconds.
    pub max_ns: u64,
    /// Number of samples.
    pub samples: u64,
    /// Standard deviation of the logarithm of block medians: spread between blocks.
    pub between_blocks: f64,
    /// Standard deviation of the logarithm of round medians within a launch, over all launches together:
    /// spread between the rounds of a launch. `None` where no launch has two rounds.
    pub between_rounds: Option<f64>,
    /// Median over rounds of (P84 − P16) / (2 · median): spread within a round.
    pub within_round: f64,
    /// Achieved floating-point operations per second.
    pub flops_per_second: f64,
}

/// One launch on a cell's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchRow {
    /// Number of the block.
    pub block: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Median of its samples, in nanoseconds.
    pub median_ns: Option<u64>,
    /// Warm-up: steps, time in nanoseconds, steady.
    pub warm_up: Option<crate::protocol::WarmUpDone>,
    /// Canaries before its block and after it.
    pub canaries: [Canary; 2],
    /// Samples of each round, in nanoseconds.
    pub rounds: Vec<Vec<u64>>,
    /// End of its log.
    pub log: String,
}

/// A file that the site offers for download, made by aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// File name below the site's `data/`, for example `cells.csv`.
    pub file: String,
    /// What it is, in one sentence.
    pub summary: String,
    /// Its content.
    pub bytes: Vec<u8>,
}
