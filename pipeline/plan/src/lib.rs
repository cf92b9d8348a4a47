//! Manifests to plan: parse, validate, expand, predict, explain.
//!
//! [`read_manifests`] reads files and tells every error of form; [`plan`] decides everything that
//! a run will do, and changes nothing. Both answer with [`Diagnostic`]s that point at the place.

#![forbid(unsafe_code)]

mod allow;
mod axes;
mod ceilings;
mod cells;
mod claims;
mod compare;
mod context;
mod decode;
mod diagnostic;
mod explain;
mod fairness;
mod fault;
mod find;
mod form;
mod frontier;
mod group;
mod job;
mod keys;
mod lint;
mod measure;
mod networks;
mod obstacle;
mod points;
mod predict;
mod read;
mod stage;
mod suggest;
mod together;
mod tree;
mod user_model;
mod vary;
mod world;

pub use diagnostic::Diagnostic;
pub use explain::explain;
pub use form::{manifest_schema, manifest_schema_text};
pub use read::{ManifestFile, read_manifests};
pub use stage::plan;
pub use world::World;
