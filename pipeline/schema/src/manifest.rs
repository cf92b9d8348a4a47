//! A manifest, as a user writes it: questions to answer.
//!
//! Short forms stay short: wherever a list is expected, a single value will do. Every key but
//! `version`, `jobs`, `id` and `matrix` has a default. What a value means beyond its own form
//! (whether an engine exists, whether a margin lies below its target) is decided by `plan`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

use crate::{Boundary, Mode, OutcomeKind, Precision, plan::Quantity};

pub mod literal;
pub mod matrix;
pub mod short;
pub mod text;

pub use literal::{Duration, Percent, Size};
pub use matrix::{Coordinates, Matrix, ModelChoice, OptimizerChoice, Scalar};
pub use short::OneOrMany;
pub use text::{JobId, Prose};

/// Version of the manifest's form.
pub const VERSION: u32 = 1;

/// A file of questions.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a manifest: a mapping with `version` and `jobs`"
)]
pub struct Manifest {
    /// Version of the manifest's form: 1.
    pub version: FormVersion,
    /// Title of the site.
    #[serde(default)]
    pub title: Prose,
    /// How jobs are measured, unless they say otherwise.
    #[serde(default)]
    pub measure: MeasureSettings,
    /// The questions.
    #[schemars(length(min = 1))]
    pub jobs: Vec<Job>,
}

/// A question: a matrix that expands to cells, and the comparisons to draw from them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a job: a mapping with `id` and `matrix`"
)]
pub struct Job {
    /// Unique name; a path segment of the site.
    pub id: JobId,
    /// The question in words.
    #[serde(default)]
    pub question: Prose,
    /// Inference or training.
    #[serde(default = "default_mode")]
    pub mode: Mode,
    /// Axes and their values: every combination is a cell.
    pub matrix: Matrix,
    /// Combinations to leave out. An axis that an entry does not name matches whatever its value.
    #[serde(default)]
    pub exclude: OneOrMany<Coordinates>,
    /// Combinations to add after excluding. An axis that an entry does not name takes all values
    /// of the matrix.
    #[serde(default)]
    pub include: OneOrMany<Coordinates>,
    /// Axes whose effects are ranked: a cell differs from the base, the first value of each, in one of
    /// them at a time. Each is compared with its first value.
    #[serde(default)]
    pub vary: OneOrMany<String>,
    /// Whether cells also differ in two of those axes at a time.
    #[serde(default)]
    pub pairs: bool,
    /// Whether each measured cell is launched once more in the end, under its engine's own profiler, to
    /// find out where the time goes.
    #[serde(default)]
    pub profile: bool,
    /// What to hold against what; each entry makes its own family of verdicts.
    #[serde(default)]
    pub compare: OneOrMany<Compare>,
    /// Outcomes that do not fail a run.
    #[serde(default)]
    pub allow: OneOrMany<Allow>,
    /// What sources assert.
    #[serde(default)]
    pub claims: OneOrMany<Claim>,
    /// How this job is measured where it differs from the manifest's `measure`.
    #[serde(default)]
    pub measure: MeasureSettings,
    /// Device of all cells, where it is no axis; default `cpu`.
    #[serde(default)]
    #[schemars(with = "Option<DeviceForm>")]
    pub device: Option<Scalar>,
    /// Threads of all cells, where it is no axis; default: the machine's physical cores.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub threads: Option<u32>,
    /// Precision of all cells, where it is no axis; default `fp32`.
    #[serde(default)]
    pub precision: Option<Precision>,
    /// Optimiser of all cells of a training job, where it is no axis; default `sgd`.
    #[serde(default)]
    pub optimizer: Option<OptimizerChoice>,
}

const fn default_mode() -> Mode {
    Mode::Inference
}

/// How a job is measured. What is not given comes from the manifest, then from the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "measurement settings: a mapping such as `{ target: 3% }`"
)]
pub struct MeasureSettings {
    /// Relative half-width that an interval should reach; default `1%`. A group ends at the first look
    /// at which every interval is as narrow as that, or its verdict settled.
    #[serde(default)]
    pub target: Option<Percent>,
    /// Smallest relative difference worth acting on, never below the target; default `2%` or the
    /// target, whichever is larger.
    #[serde(default)]
    pub margin: Option<Percent>,
    /// Time after which no further group of the job is begun; default `30m`. A group that has begun
    /// is measured until its first look at least.
    #[serde(default)]
    pub budget: Option<Duration>,
    /// Where the clock starts and stops; default `step`.
    #[serde(default)]
    pub boundary: Option<Boundary>,
    /// Interleaved passes over all cells of a group, at most; default 48. A group is looked at after 6,
    /// 12 and 24, and ends where it has said enough. With 6 it has just those; fewer give no verdict;
    /// with 0, outputs are compared and nothing is timed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 48))]
    pub blocks: Option<u32>,
    /// Least time between two blocks of a group, which those of others fill where there are others; default
    /// `30s` in jobs of blocks enough for a verdict, since what slows a machine down for a while may last
    /// that long, and `0s` in others.
    #[serde(default)]
    pub apart: Option<Duration>,
    /// Stretches of steps of each cell in a block, which cells take in turns where they can; with three and more, the
    /// ratio of two cells is told by those of the same turn; default 6.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub rounds: Option<u32>,
    /// Least time of a round; default `100ms`.
    #[serde(default)]
    pub round: Option<Duration>,
    /// Least number of steps of a round; default 2.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub round_steps: Option<u64>,
    /// Longest warm-up of a launch; default `5s`.
    #[serde(default)]
    pub warm_up: Option<Duration>,
    /// Time limit for one launch of a worker; default `5m`.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Memory limit of a worker that is measured, and of its launch for outputs, which in training has room
    /// for copies of the weights besides; those that vouch for outputs have what the machine has. Default:
    /// the same.
    #[serde(default)]
    pub memory_limit: Option<Size>,
    /// Simultaneous confidence of a family's intervals; default `95%`.
    #[serde(default)]
    pub confidence: Option<Percent>,
    /// What becomes of a block that other processes or a hypervisor disturbed; default `again`, in jobs of
    /// blocks enough for a verdict.
    #[serde(default)]
    pub disturbed: Option<Disturbed>,
    /// Seeks the largest batch of each cell that fits into memory, up to this one, by doubling and bisection
    /// in workers of their own. Such a job times nothing, and has no axis `batch`; on a CPU it needs a
    /// `memory_limit`.
    #[serde(default)]
    #[schemars(range(min = 2, max = 1_048_576))]
    pub frontier: Option<u64>,
    /// Whether to measure the energy of a sample, by a stretch of 10 s of its own for each cell in each
    /// block; default `false`. Where no sensor tells, cells say so and take no longer.
    #[serde(default)]
    pub energy: Option<bool>,
    /// What becomes of a comparison or a claim whose cells differ in more than what is compared; default
    /// `warn`.
    #[serde(default)]
    pub unfair: Option<Unfair>,
    /// Whether the run also measures what the devices of the job can do at most, by which its cells are
    /// then judged: how fast PyTorch multiplies matrices in each precision, and reads memory; default
    /// `true` for jobs of at least 6 blocks, and `false` for others. Where nothing is timed it has no
    /// part.
    #[serde(default)]
    pub ceilings: Option<bool>,
}

/// What becomes of a comparison that is not fair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unfair {
    /// It is drawn, and the plan and the pages say what is not fair about it.
    Warn,
    /// It is an error, and nothing is measured.
    Refuse,
    /// As `refuse`; and it is an error, too, where engines that nobody asked otherwise differ in layout,
    /// in weights that are constants, in whether memory is kept, or in anything else that is known of them.
    Strict,
}

/// What becomes of a block that something from outside disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disturbed {
    /// It is measured again, a few times; a group that stays disturbed ends `unstable`.
    Again,
    /// It counts like any other.
    Keep,
}

/// Cells equal in all but one axis.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a comparison: a mapping such as `{ axis: engine, baseline: pytorch/eager }`"
)]
pub struct Compare {
    /// The compared axis: a key of the matrix.
    pub axis: String,
    /// The value that the others are held against; default: the axis's first.
    #[serde(default)]
    pub baseline: Option<Scalar>,
}

/// Cells whose outcome does not fail a run: an outcome, and the coordinates that they must have.
#[derive(Debug, Clone, PartialEq)]
pub struct Allow {
    /// The outcome or outcomes.
    pub outcome: OneOrMany<OutcomeKind>,
    /// Coordinates; a value may end in `*`. Empty: every cell.
    pub coordinates: Coordinates,
}

impl<'de> Deserialize<'de> for Allow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Allow;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a mapping such as `{ engine: tensorrt/*, outcome: unavailable }`")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Allow, A::Error> {
                let (mut outcome, mut coordinates) = (None, Coordinates::default());
                while let Some(key) = map.next_key::<String>()? {
                    if key == "outcome" {
                        let allowed: OneOrMany<Allowable> = map.next_value()?;
                        if outcome.replace(allowed).is_some() {
                            return Err(de::Error::duplicate_field("outcome"));
                        }
                    } else {
                        coordinates.insert(key, map.next_value()?)?;
                    }
                }
                let outcome = outcome.ok_or_else(|| de::Error::missing_field("outcome"))?;
                let kinds = outcome.0.into_iter().map(|Allowable(kind)| kind);
                Ok(Allow {
                    outcome: OneOrMany(kinds.collect()),
                    coordinates,
                })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// An outcome that fails a run unless it is allowed.
struct Allowable(OutcomeKind);

impl<'de> Deserialize<'de> for Allowable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match OutcomeKind::deserialize(deserializer)? {
            kind if kind.is_complete() => Err(de::Error::custom(format!(
                "`{kind}` never fails a run: there is nothing to allow"
            ))),
            kind => Ok(Self(kind)),
        }
    }
}

impl JsonSchema for Allow {
    fn schema_name() -> Cow<'static, str> {
        "Allow".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut outcome = generator.subschema_for::<OutcomeKind>();
        outcome.insert(
            "not".to_owned(),
            serde_json::json!({ "enum": [OutcomeKind::Measured, OutcomeKind::Verified] }),
        );
        let values = generator.subschema_for::<OneOrMany<Scalar>>();
        json_schema!({
            "description": "Cells whose outcome does not fail a run: an outcome, and the coordinates that they must have; a value may end in `*`.",
            "type": "object",
            "properties": {
                "outcome": {
                    "description": "The outcome or outcomes.",
                    "anyOf": [
                        outcome,
                        { "type": "array", "items": outcome, "minItems": 1 },
                    ],
                },
            },
            "required": ["outcome"],
            "additionalProperties": values,
        })
    }
}

/// What a source asserts about this job's cells.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a claim: a mapping with `id`, `source`, `states` and `expect`"
)]
pub struct Claim {
    /// Short name, unique in the job.
    pub id: JobId,
    /// Citation.
    pub source: Prose,
    /// The assertion in our own words.
    pub states: Prose,
    /// What it is about; default `step_time`.
    #[serde(default)]
    pub quantity: Quantity,
    /// What must hold of the step times, or of that quantity, for example
    /// `onnxruntime/cpu < pytorch/eager at batch 1`; the relation is `<`, `>` or `=`. A number of times
    /// may stand before the second: `8 < 8 * 1` holds a step of 8 samples against 8 steps of one. The
    /// largest batch and kernels' share are held against a number, too: `< 512`, `> 50%`. It must hold of
    /// every pair, or cell, that it speaks of; with `mostly` before it, of more than half of them.
    pub expect: String,
}

/// Version of a manifest's form; only 1 exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormVersion;

impl<'de> Deserialize<'de> for FormVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl Visitor<'_> for One {
            type Value = FormVersion;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the whole number 1")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<FormVersion, E> {
                if number == u64::from(VERSION) {
                    return Ok(FormVersion);
                }
                Err(E::custom(format_args!(
                    "manifest version {number} is not known: this photofinish reads version {VERSION}"
                )))
            }
        }
        deserializer.deserialize_any(One)
    }
}

impl Serialize for FormVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(VERSION)
    }
}

impl JsonSchema for FormVersion {
    fn schema_name() -> Cow<'static, str> {
        "FormVersion".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": VERSION })
    }
}

/// How a device is written, for editors.
struct DeviceForm;

impl JsonSchema for DeviceForm {
    fn schema_name() -> Cow<'static, str> {
        "Device".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`cpu`, `cuda` or `cuda:N`.",
            "type": "string",
            "pattern": "^(cpu|cuda(:[0-9]+)?)$",
        })
    }
}
