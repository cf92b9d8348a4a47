//! `pytorch/aot`: what a package holds ends with it.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "common/compiler.rs"]
mod compiler;

use std::{
    env, fs,
    process::{Command, Stdio},
};

use common::{Array, arrays, cell, load, operand, single};
use compiler::compiler;
use schema::{Graph, Precision, graph::Op};
use worker::{CACHE_VARIABLE, COMPILER_VARIABLE};

/// Features of a linear layer. Its weight is larger than what glibc's `malloc` keeps for later.
const FEATURES: usize = 3200;
const WEIGHT_BYTES: u64 = (FEATURES * FEATURES * 4) as u64;

/// How often it is loaded where memory is looked at.
const LOADS: usize = 3;

/// Loads the network, runs it and lets go of it.
fn outputs(graph: &Graph) -> Vec<Array> {
    let mut cell = cell(graph, Precision::Fp32, None);
    cell.engine.variant = "aot".to_owned();
    let (mut session, _) = load(graph, cell).unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

/// What of this process is in memory.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

#[test]
fn weights_end_with_the_package_that_reads_them() {
    // The engine is told of its compiler by its environment: this program runs once more, with it.
    if env::var_os(COMPILER_VARIABLE).is_none() {
        let cache = tempfile::tempdir().unwrap();
        let mut again = Command::new(env::current_exe().unwrap());
        again
            .args(["--exact", "weights_end_with_the_package_that_reads_them"])
            .env(CACHE_VARIABLE, cache.path())
            .env(
                COMPILER_VARIABLE,
                serde_json::to_string(&compiler()).unwrap(),
            )
            .stdin(Stdio::null());
        let ended = again.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{}: {said}", ended.status);
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let operands = [
        operand("input", &[1, FEATURES]),
        operand("weight", &[FEATURES, FEATURES]),
    ];
    let graph = single(Op::Linear, &operands);
    let first = outputs(&graph);
    assert!(first.iter().flat_map(|it| &it.data).any(|it| *it != 0.0));
    let before = resident_bytes();
    for _ in 0..LOADS {
        assert_eq!(outputs(&graph), first);
    }
    let after = resident_bytes();
    assert!(
        after < before + WEIGHT_BYTES,
        "{before} bytes became {after} by {LOADS} weights of {WEIGHT_BYTES}"
    );
}
