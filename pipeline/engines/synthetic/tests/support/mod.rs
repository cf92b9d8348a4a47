//! What the tests of the synthetic worker share; none of them needs all of it.
#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

mod fixture;

pub(crate) use fixture::{command, description, graph, hello, load, within};
