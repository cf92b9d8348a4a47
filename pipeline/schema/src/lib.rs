//! Every type that photofinish writes to disk or sends to a worker.
//!
//! Data flows one way, and each stage knows only the types it reads and writes:
//!
//! ```text
//! manifest ──plan──▶ Plan ──run──▶ RunRecord + heats ──aggregate──▶ Tables ──report──▶ site
//! ```
//!
//! Conventions: durations are whole nanoseconds (`_ns`), sizes are bytes (`_bytes`), ratios are
//! dimensionless, times of day are RFC 3339 in UTC. Enums are written in `snake_case`. Every
//! document carries its `version`; a reader refuses a version that it does not know.

pub mod cell;
pub mod characters;
pub mod digest;
pub mod engine;
pub mod graph;
pub mod machine;
pub mod manifest;
pub mod outcome;
pub mod plan;
pub mod printed;
pub mod protocol;
pub mod record;
pub mod tables;
pub mod telemetry;

pub use cell::{
    ACCUMULATION, BATCH, Boundary, Cell, CellId, Device, EngineVariant, HostLanguage, Mode, Model,
    ModelSource, Optimizer, Precision, SCALING, Situation, Strategy, TF32_OVERRIDE, WEAK, Weights,
    forbids_tf32,
};
pub use digest::Digest;
pub use engine::{
    AUTO, Availability, EngineDescription, FactorDescription, Preparation, Refusal, Scope,
    VariantDescription,
};
pub use graph::Graph;
pub use machine::{Environment, Fingerprint};
pub use outcome::{Outcome, OutcomeKind};
pub use plan::{Measure, Plan};
pub use record::{Heat, RunRecord};
pub use tables::Tables;
