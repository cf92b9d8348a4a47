//! The crate at its face: manifests in, plans or diagnostics out.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad;
#[path = "../../../models/tests/support/by_hand.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod by_hand;
mod cannot_run;
mod ceilings;
mod changes;
mod fairness;
mod form;
mod hostile;
mod operator_factors;
mod plan;
#[path = "../support/plans.rs"]
mod plans;
mod precisions;
mod strategies;
#[path = "../support/mod.rs"]
mod support;
mod twins;
mod user_models;
#[path = "../../../models/tests/support/wire.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod wire;
