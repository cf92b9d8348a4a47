//! The crate at its face: run records in, tables and files out.

mod claims;
mod downloads;
mod failures;
mod hostile;
mod outcomes;
mod pandas;
mod properties;
mod race;
mod verdicts;
