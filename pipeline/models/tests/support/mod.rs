//! Python with ONNX's own tools, in an environment of its own below `target`; graphs and files for it.

#![allow(dead_code, reason = "each test is a program and uses a part of it")]

pub(crate) mod by_hand;
pub(crate) mod hostile;
pub(crate) mod judge;
pub(crate) mod limits;
pub(crate) mod networks;
pub(crate) mod python;
pub(crate) mod users;
pub(crate) mod wire;

/// Whether the long form of the tests is asked for.
pub(crate) fn is_full() -> bool {
    std::env::var_os("PHOTOFINISH_TEST_FULL").is_some()
}
