//! Runs a plan of synthetic cells in a store, to be killed by the tests.
//!
//! `sweep <store> <worker program> <mark> long|quiet`

#![allow(clippy::unwrap_used, reason = "an example may")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use common::*;
use store::Store;
use worker::host::Interrupt;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .expect("sweep <store> <worker program> <mark> long|quiet")
    };
    let store = Store::open(PathBuf::from(next())).unwrap();
    let workers = Synthetic::new(&PathBuf::from(next()), &next());
    let lock = store.lock().unwrap();
    let interrupt = Interrupt::new().unwrap();
    let plan = match next().as_str() {
        "quiet" => quiet_plan(),
        _ => long_plan(),
    };
    let mut diary = Diary::default();
    let record = photofinish_run::run(
        &plan,
        &lock,
        &workers,
        &options(false),
        &interrupt,
        &mut diary,
    )
    .unwrap();
    lock.put_run(&record).unwrap();
}
