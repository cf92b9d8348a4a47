//! The crate at its face: tables in, a site out.

mod agreement;
mod answers;
#[path = "../fixture/mod.rs"]
mod fixture;
mod parity;
mod rooflines;
mod site;
#[path = "../support/mod.rs"]
mod support;
