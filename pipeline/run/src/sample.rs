//! What the tests of this crate measure: nothing in particular.

use std::collections::BTreeMap;

use schema::{
    Boundary, Cell,
    plan::{Disturbance, Measure, PlannedCell},
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
