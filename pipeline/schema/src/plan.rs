//! The plan: everything that a run will do, decided beforehand. Execution makes no decisions.

mod ceilings;
mod expectation;
mod quantity;

pub use ceilings::Ceilings;
pub use quantity::Quantity;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Boundary, Cell, CellId, Digest, EngineVariant, Mode, ModelSource, OutcomeKind};

/// Version of the plan document.
pub const VERSION: u32 = 2;

/// Iterations of training before parity compares weights.
pub const PARITY_ITERATIONS: u32 = 3;

/// Steps at least that a cell takes before a round, discarded: it has waited, and caches and thread
/// pools are cold.
pub const REWARM_STEPS: u64 = 2;
/// They last at least this long together, in nanoseconds, unless they are as many as may be.
const REWARM_NS: u64 = 30_000_000;
const MOST_REWARM_STEPS: u64 = 10_000;

/// Steps that a cell takes before a round, discarded, where a step took so long when it was warmed up.
#[must_use]
pub fn rewarm_steps(step_ns: u64) -> u64 {
    let steps = REWARM_NS.div_ceil(step_ns.max(1));
    steps.clamp(REWARM_STEPS, MOST_REWARM_STEPS)
}

/// The smallest difference worth acting on where a manifest names none, as a relative difference.
pub const MARGIN: f64 = 0.02;

/// Fewest blocks that a verdict, or a noise floor, may rest on.
pub const VERDICT_BLOCKS: u32 = 6;

/// Numbers of blocks after which a heat that may have more is looked at, and goes on where it has not
/// said enough. Fixed beforehand: intervals share their error among the looks.
pub const LOOKS: [u32; 4] = [VERDICT_BLOCKS, 12, 24, 48];

/// Everything that a run will do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this document.
    pub version: u32,
    /// Title of the site: that of the first manifest.
    pub title: String,
    /// The manifests it was made from.
    pub manifests: Vec<ManifestSource>,
    /// The questions.
    pub jobs: Vec<PlannedJob>,
    /// The comparison groups to measure, in the order in which a run takes them.
    pub heats: Vec<PlannedHeat>,
    /// What the fairness lint and the reader noticed.
    pub warnings: Vec<Warning>,
    /// What shows how fast the devices are at all; `None` where that is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
}

/// A manifest that a plan was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestSource {
    /// As given on the command line, or found below it.
    pub path: String,
    /// Its text, so that a site can show how to reproduce it.
    pub text: String,
}

impl ManifestSource {
    /// What stands for standard input among the paths.
    pub const STDIN: &str = "<stdin>";

    /// The folder that paths in the manifest are relative to; none for standard input.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        if self.path == Self::STDIN {
            return None;
        }
        let parent = Path::new(&self.path).parent();
        let named = parent.filter(|folder| !folder.as_os_str().is_empty());
        Some(named.unwrap_or(Path::new(".")))
    }
}

/// Something worth knowing before a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// The job it concerns.
    pub job: String,
    /// What, and what to do.
    pub message: String,
}

/// A question and what answers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedJob {
    /// Unique in the plan; a path segment of the site: `[a-z0-9_-]+`.
    pub id: String,
    /// The question in the manifest's words; empty if it gave none.
    pub question: String,
    /// Inference or training.
    pub mode: Mode,
    /// How it is measured.
    pub measure: Measure,
    /// Whether each measured cell is profiled once its heat is measured.
    #[serde(default, skip_serializing_if = "is_no")]
    pub profile: bool,
    /// The base that axes are varied around, whose effects are ranked: the value of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, String>,
    /// Families of verdicts.
    pub comparisons: Vec<Comparison>,
    /// Outcomes that do not fail the run.
    pub allow: Vec<Allow>,
    /// What sources assert.
    pub claims: Vec<Claim>,
}

/// How a job is measured, and how what was measured is judged. Part of the key of its heats, but
/// for the budget, and where the number of blocks is fixed for the margin and the confidence, which
/// change nothing about a heat then.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Relative half-width that an interval should reach; 0.03 means 3 %. A warm-up ends when steps
    /// are as steady as that.
    pub target: f64,
    /// Smallest relative difference worth acting on; never below `target`.
    pub margin: f64,
    /// Time that the job may take, in nanoseconds: a heat that would start after it is not reached, and
    /// none goes on after a look where its next blocks and the first ones of others do not fit in.
    pub budget_ns: u64,
    /// Where the clock starts and stops.
    pub boundary: Boundary,
    /// Interleaved passes over all cells of a heat, at most; after how many of them it may end,
    /// [`Measure::looks`] says.
    pub blocks: u32,
    /// Least time from the end of a heat's block to the beginning of its next, in nanoseconds: where no
    /// other heats fill it, nothing is measured meanwhile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub apart_ns: u64,
    /// Stretches of steps of each cell in a block, interleaved with those of others where they can be; with three and
    /// more, ratios are told by pairs of them, of the same pass.
    pub rounds: u32,
    /// Least time of a round, in nanoseconds.
    pub round_ns: u64,
    /// Least number of steps of a round.
    pub round_steps: u64,
    /// Longest warm-up of a launch, in nanoseconds.
    pub warm_up_ns: u64,
    /// Time limit for one launch, from its start to its end, in nanoseconds.
    pub timeout_ns: u64,
    /// Memory limit of a worker in bytes; `None`: what the machine has.
    pub memory_limit_bytes: Option<u64>,
    /// Simultaneous confidence of a family's intervals, for example 0.95.
    pub confidence: f64,
    /// What disturbs a block so much that it is measured again; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The largest batch that is tried where the job seeks the largest that fits into memory; `None` where
    /// it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontier: Option<u64>,
    /// Least length of the stretch by which each launch's energy is measured after its rounds, in
    /// nanoseconds; `None`: energy is not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_ns: Option<u64>,
}

/// Limits to what comes from outside while a block is measured, and how often it is measured again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disturbance {
    /// Share of all processors' time that other processes may take.
    pub foreign: f64,
    /// Share of all processors' time that a hypervisor may take.
    pub steal: f64,
    /// Most blocks of a heat that are measured again.
    pub repeats: u32,
}

impl Measure {
    /// The numbers of blocks after which a heat may end, ascending; the last is the most that it may
    /// have. None where nothing is timed.
    #[must_use]
    pub fn looks(&self) -> Vec<u32> {
        let earlier = LOOKS.into_iter().filter(|look| *look < self.blocks);
        let last = Some(self.blocks).filter(|blocks| *blocks > 0);
        earlier.chain(last).collect()
    }

    /// The blocks that every heat has: those of the first look.
    #[must_use]
    pub fn first_look(&self) -> u32 {
        self.blocks.min(VERDICT_BLOCKS)
    }
}

/// Cells equal in all but one axis: a family of verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The compared axis: a key of the manifest's matrix.
    pub axis: String,
    /// The value of the axis that the others are held against.
    pub baseline: String,
    /// The pairs, each with the coordinates that both share.
    pub pairs: Vec<Pair>,
}

/// Two cells of one heat that differ in the compared axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The group whose heat holds both.
    pub group: String,
    /// The cell with the baseline's value.
    pub baseline: CellId,
    /// The cell with another value.
    pub contender: CellId,
    /// That other value.
    pub value: String,
    /// What both share, by axis of the matrix.
    pub coordinates: BTreeMap<String, String>,
}

/// Cells whose outcome does not fail a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Coordinates that a cell must have; a value may end in `*`. Empty: every cell.
    pub coordinates: BTreeMap<String, String>,
    /// The outcome.
    pub outcome: OutcomeKind,
}

/// What a source asserts about this job's cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short name, unique in the job.
    pub id: String,
    /// Citation.
    pub source: String,
    /// The assertion in our own words.
    pub states: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Quantity::is_step_time")]
    pub quantity: Quantity,
    /// What must hold of it: that of the first value relates so to that of the second, or that of each
    /// cell to a number.
    pub expect: Expectation,
}

/// A relation between two values of an axis, or between each cell and a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The manifest's text, for example `onnxruntime/cpu < pytorch/eager at batch 1`.
    pub text: String,
    /// Whether it is to hold for most pairs, and not for all.
    #[serde(default, skip_serializing_if = "is_no")]
    pub mostly: bool,
    /// The number that each cell is held against, of a share 0.5 for 50 %; `axis`, `left` and `right` are
    /// empty then, since no two cells are held against each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// Axis that holds both values.
    pub axis: String,
    /// The value on the left.
    pub left: String,
    /// How the left relates to the right, or to the number.
    pub relation: Relation,
    /// How many times that of the right: 8 where a step of 8 samples is held against 8 steps of one.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: f64,
    /// The value on the right.
    pub right: String,
    /// Coordinates to which the claim is restricted.
    pub at: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

fn is_no(said: &bool) -> bool {
    !*said
}

fn once() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_once(times: &f64) -> bool {
    *times == 1.0
}

/// How two step times relate, or two of another quantity: what is said of time is meant of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The left takes less time: it is faster.
    Less,
    /// The left takes more time.
    Greater,
    /// Both take the same time, within the margin.
    Equal,
}

/// A comparison group: the unit of measuring, caching and sharding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedHeat {
    /// Stable name: job and shared coordinates, for example `inference/batch=1,model=resnet18`.
    pub group: String,
    /// The job it belongs to.
    pub job: String,
    /// Name of its artifact: the hash of `key_parts`.
    pub key: Digest,
    /// What the key is made of, by name.
    pub key_parts: BTreeMap<String, String>,
    /// The cells in the order of the manifest, then the twins. An artifact may hold them in another
    /// order: [`crate::record::HeatHeader::slots_of`].
    pub cells: Vec<PlannedCell>,
    /// Whether the store has it.
    pub status: Status,
    /// Predicted time to measure it, in nanoseconds.
    pub predicted_ns: u64,
}

/// A cell of a heat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedCell {
    /// Identity of the configuration.
    pub id: CellId,
    /// The configuration.
    pub cell: Cell,
    /// Its place in the manifest's matrix, by axis.
    pub coordinates: BTreeMap<String, String>,
    /// The slot of which this is the identical twin, measured for the A/A floor.
    pub twin_of: Option<u32>,
    /// Why it cannot run here, known before trying.
    pub obstacle: Option<crate::Outcome>,
    /// Predicted time of a step, in nanoseconds.
    pub predicted_step_ns: u64,
    /// Predicted peak memory, in bytes.
    pub predicted_bytes: u64,
    /// Floating-point operations of a step (a multiply-add counts as two); 0 where that is not known
    /// ([`PlannedCell::is_outline`]).
    pub flops: u64,
    /// Bytes that a step in fp32 must move at least, whatever the cell's precision: parameters, inputs,
    /// outputs of every node once; 0 where that is not known.
    pub bytes: u64,
    /// Number of trainable parameters; 0 where that is not known.
    pub parameters: u64,
}

impl PlannedCell {
    /// Whether it runs a file of the user's whose operators no graph has
    /// ([`crate::Graph::is_outline`]): what a step costs is not known.
    #[must_use]
    pub fn is_outline(&self) -> bool {
        self.cell.model.source == ModelSource::Onnx && self.bytes == 0
    }
}

/// Whether the store has a heat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Status {
    /// Never measured.
    New,
    /// A valid artifact exists.
    Cached {
        /// Hash of its content.
        heat: Digest,
    },
    /// Begun, interrupted, and resumable.
    Open {
        /// Blocks that are already measured.
        blocks: u32,
    },
    /// The group was measured under another key.
    Stale {
        /// The parts of the key that changed, in words.
        changed: Vec<String>,
    },
}

/// What the store knows of a group, for `plan` to compare with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHeat {
    /// The group.
    pub group: String,
    /// Its key.
    pub key: Digest,
    /// What the key was made of.
    pub key_parts: BTreeMap<String, String>,
    /// Complete (with the hash of its content), or open with this many blocks.
    pub state: KnownState,
    /// When it began, RFC 3339; newest wins.
    pub started: String,
}

/// How far a known heat has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownState {
    /// Sealed.
    Sealed(Digest),
    /// In progress or interrupted.
    Open(u32),
}

impl Plan {
    /// The job of this id, that of the ceilings among them.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<&PlannedJob> {
        let ceilings = self.ceilings.iter().map(|ceilings| &ceilings.job);
        self.jobs.iter().chain(ceilings).find(|job| job.id == id)
    }

    /// The heats in the order in which they are told of: those of its questions, then its ceilings'.
    pub fn all_heats(&self) -> impl Iterator<Item = &PlannedHeat> + Clone {
        let ceilings = self.ceilings.iter().flat_map(|ceilings| &ceilings.heats);
        self.heats.iter().chain(ceilings)
    }

    /// [`all_heats`](Self::all_heats), to be changed.
    pub fn all_heats_mut(&mut self) -> impl Iterator<Item = &mut PlannedHeat> {
        let ceilings = self.ceilings.iter_mut();
        let of_ceilings = ceilings.flat_map(|ceilings| &mut ceilings.heats);
        self.heats.iter_mut().chain(of_ceilings)
    }

    /// The number of verdicts about step times of each job, by its id: pairs of cells that its comparisons
    /// or claims speak of, each once. All of them share the job's error.
    #[must_use]
    pub fn families(&self) -> BTreeMap<&str, u32> {
        let mut jobs = BTreeMap::new();
        for job in &self.jobs {
            let pairs = job.comparisons.iter().flat_map(|family| &family.pairs);
            let pairs = pairs.map(|pair| unordered(&pair.group, &pair.baseline, &pair.contender));
            let pairs: BTreeSet<_> = pairs.collect();
            jobs.insert(job.id.as_str(), (job, pairs));
        }
        for heat in &self.heats {
            if let Some((job, pairs)) = jobs.get_mut(heat.job.as_str()) {
                let claimed = job.claimed(heat, Quantity::StepTime).into_iter();
                pairs.extend(
                    claimed.map(|(_, [left, right])| unordered(&heat.group, &left.id, &right.id)),
                );
            }
        }
        let sizes = jobs.into_iter();
        sizes
            .map(|(job, (_, pairs))| (job, u32::try_from(pairs.len()).unwrap_or(u32::MAX)))
            .collect()
    }

    /// The heats, each key once, under the first group that has it: several jobs may ask for the
    /// same, and one artifact answers them all.
    pub fn distinct_heats(&self) -> impl Iterator<Item = &PlannedHeat> {
        distinct(self.all_heats())
    }

    /// What the store lacks, each key once.
    pub fn heats_to_measure(&self) -> impl Iterator<Item = &PlannedHeat> {
        self.distinct_heats()
            .filter(|heat| !matches!(heat.status, Status::Cached { .. }))
    }

    /// The number of cells, twins and ceilings left out, and those of a heat that several jobs share
    /// once.
    #[must_use]
    pub fn cell_count(&self) -> usize {
        distinct(self.heats.iter())
            .flat_map(|heat| &heat.cells)
            .filter(|cell| cell.twin_of.is_none())
            .count()
    }

    /// The engines that the plan needs, each once, in order.
    #[must_use]
    pub fn engines(&self) -> Vec<EngineVariant> {
        let mut engines: Vec<_> = self
            .all_heats()
            .flat_map(|heat| &heat.cells)
            .map(|cell| cell.cell.engine.clone())
            .collect();
        engines.sort();
        engines.dedup();
        engines
    }
}

/// Each key once, under the first group that has it.
fn distinct<'a>(
    heats: impl Iterator<Item = &'a PlannedHeat>,
) -> impl Iterator<Item = &'a PlannedHeat> {
    let mut seen = BTreeSet::new();
    heats.filter(move |heat| seen.insert(heat.key))
}

/// A pair of a group, whichever way round it is asked for.
fn unordered<'a>(group: &'a str, one: &'a CellId, other: &'a CellId) -> (&'a str, [&'a CellId; 2]) {
    (group, [one.min(other), one.max(other)])
}

impl PlannedJob {
    /// The pairs that its claims about a quantity speak of in one of its heats, each with its claim; the
    /// left of each pair first.
    #[must_use]
    pub fn claimed<'a>(
        &'a self,
        heat: &'a PlannedHeat,
        quantity: Quantity,
    ) -> Vec<(&'a Claim, [&'a PlannedCell; 2])> {
        let originals = || heat.cells.iter().filter(|cell| cell.twin_of.is_none());
        let of_claim = |claim: &'a Claim| {
            let pairs = claim.expect.pairs(originals().map(|cell| (cell, ())));
            let pairs = pairs.into_iter();
            pairs.map(move |[(left, ()), (right, ())]| (claim, [left, right]))
        };
        let claims = self.claims.iter();
        let claims = claims.filter(|claim| claim.quantity == quantity);
        claims.flat_map(of_claim).collect()
    }

    /// The number of verdicts about a quantity that its claims alone ask for, over these heats of its:
    /// pairs of cells, each once. They share the job's error among themselves.
    #[must_use]
    pub fn family_of_claims<'a>(
        &'a self,
        heats: impl Iterator<Item = &'a PlannedHeat>,
        quantity: Quantity,
    ) -> u32 {
        let pairs = heats.flat_map(|heat| {
            let claimed = self.claimed(heat, quantity).into_iter();
            claimed.map(|(_, [left, right])| unordered(&heat.group, &left.id, &right.id))
        });
        let pairs: BTreeSet<_> = pairs.collect();
        u32::try_from(pairs.len()).unwrap_or(u32::MAX)
    }
}

impl Allow {
    /// Whether a cell with these coordinates is covered.
    #[must_use]
    pub fn covers(&self, coordinates: &BTreeMap<String, String>) -> bool {
        self.coordinates.iter().all(|(axis, pattern)| {
            coordinates
                .get(axis)
                .is_some_and(|value| match pattern.strip_suffix('*') {
                    Some(prefix) => value.starts_with(prefix),
                    None => value == pattern,
                })
        })
    }
}
