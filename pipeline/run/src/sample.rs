//! What the tests of this crate measure: nothing in particular.

use std::collections::BTreeMap;

use schema::{
    Boundary, Cell, Outcome, OutcomeKind,
    machine::Load,
    plan::{Disturbance, Measure, PlannedCell},
    record::{Block, Canary, Launch, Round},
};

/// What manifests ask for who say nothing of it.
pub(crate) const LIMITS: Disturbance = Disturbance {
    foreign: 0.05,
    steal: 0.02,
    repeats: 6,
};

/// A cell of which nothing is predicted.
pub(crate) fn planned(cell: Cell) -> PlannedCell {
    PlannedCell {
        id: cell.id(),
        cell,
        coordinates: BTreeMap::new(),
        twin_of: None,
        obstacle: None,
        predicted_step_ns: 1,
        predicted_bytes: 1,
        flops: 1,
        bytes: 1,
        parameters: 1,
    }
}

/// As short as can be, in at most 48 blocks.
pub(crate) fn measure() -> Measure {
    Measure {
        target: 0.01,
        margin: 0.02,
        budget_ns: 1,
        boundary: Boundary::Step,
        blocks: 48,
        apart_ns: 0,
        rounds: 1,
        round_ns: 1,
        round_steps: 1,
        warm_up_ns: 1,
        timeout_ns: 1,
        memory_limit_bytes: None,
        confidence: 0.95,
        disturbance: None,
        frontier: None,
        energy_ns: None,
    }
}

/// A block in which the cells took so many nanoseconds; 0 for one that crashed.
pub(crate) fn block(index: u32, times: &[u64]) -> Block {
    let load = || Load {
        load_1m: 0.0,
        available_memory_bytes: 0,
        steal_ns: Some(0),
        busy_ns: Some(0),
        clock_mhz: None,
    };
    let canary = Canary {
        copy_ns: 1,
        matmul_ns: 1,
    };
    let launch = |(slot, &time): (u32, &u64)| Launch {
        slot,
        outcome: match time {
            0 => Outcome::new(OutcomeKind::Crashed, "why"),
            _ => Outcome::measured(),
        },
        versions: BTreeMap::new(),
        start_ns: None,
        loaded: None,
        warm_up: None,
        rounds: vec![Round {
            sequence: 0,
            samples_ns: vec![time],
        }],
        exchanges: None,
        memory: None,
        cpu_ns: None,
        log: String::new(),
        telemetry: None,
        energy: None,
    };
    Block {
        index,
        started: "2026-11-25T12:00:00Z".to_owned(),
        canary_before: canary,
        canary_after: canary,
        alone: None,
        disturbed: None,
        load_before: load(),
        load_after: load(),
        supervisor_ns: 1,
        measuring_ns: 1,
        launches: (0..).zip(times).map(launch).collect(),
    }
}
