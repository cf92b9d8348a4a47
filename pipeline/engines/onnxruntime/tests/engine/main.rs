//! The engine as its worker drives it, with the library.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../../../../models/tests/support/by_hand.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod by_hand;
mod declared;
mod few_bits;
#[path = "../support/grids.rs"]
mod grids;
#[path = "../support/library.rs"]
mod library;
#[path = "../support/outputs.rs"]
mod outputs;
mod profile;
#[path = "../support/subject.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod subject;
#[path = "../../../../models/tests/support/wire.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod wire;
mod worker;
#[expect(
    unused_macros,
    unused_imports,
    reason = "the zoo's tests of agreement are others'"
)]
#[path = "../support/zoo.rs"]
mod zoo;
