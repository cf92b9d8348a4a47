//! The crate at its face: run records in, tables and files out.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod batches;
mod ceilings;
mod chaos;
mod claims;
mod downloads;
mod failures;
mod hostile;
mod outcomes;
mod pandas;
mod paybacks;
mod properties;
mod quantities;
mod race;
mod verdicts;
