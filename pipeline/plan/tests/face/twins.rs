//! Twins: which cells have one, and that what the store has keeps its own.

use std::collections::{BTreeMap, BTreeSet};

use photofinish_plan::World;
use schema::{
    Plan,
    plan::{KnownHeat, Status},
};

use crate::{
    plans::{planned, sealed},
    support,
};

/// A job of these batches on three engines.
fn race(id: &str, batches: &[u32]) -> String {
    format!(
        "  - id: {id}\n    matrix: {{ model: resnet18, batch: {batches:?}, engine: [pytorch/eager, onnxruntime/cpu, third/eager] }}\n    compare: {{ axis: engine, baseline: pytorch/eager }}\n"
    )
}

/// A machine that has a third engine.
fn world() -> World {
    let mut world = support::world();
    let mut third = world.engines[0].clone();
    third.name = "third".to_owned();
    let engine = "pytorch/eager".parse().expect("it is an engine");
    let availability = world.availability[&engine].clone();
    let engine = "third/eager".parse().expect("it is an engine");
    world.availability.insert(engine, availability);
    world.engines.push(third);
    world
}

/// The same machine, where everything of the plan was measured.
fn after(plan: &Plan) -> World {
    let known = plan.heats.iter();
    World {
        known: known
            .map(|heat| sealed(heat, "2026-01-01T00:00:00Z"))
            .collect(),
        ..world()
    }
}

/// Engines that have twins, and how many.
fn counted(plan: &Plan) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    for cell in cells.filter(|cell| cell.twin_of.is_some()) {
        *counts.entry(cell.cell.engine.to_string()).or_default() += 1;
    }
    counts
}

fn engines_with_twins(plan: &Plan) -> BTreeSet<String> {
    counted(plan).into_keys().collect()
}

fn cached(plan: &Plan) -> usize {
    let heats = plan.heats.iter();
    heats
        .filter(|heat| matches!(heat.status, Status::Cached { .. }))
        .count()
}

fn twins(plan: &Plan) -> usize {
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    cells.filter(|cell| cell.twin_of.is_some()).count()
}

#[test]
fn every_engine_has_a_twin_and_few_groups_more_than_one() {
    for count in 1..=8 {
        let batches: Vec<u32> = (1..=count).collect();
        let plan = planned(&race("a", &batches), &world());
        assert_eq!(engines_with_twins(&plan).len(), 3, "{count} groups");
        assert_eq!(twins(&plan), batches.len().max(3), "{count} groups");
        let counts = counted(&plan);
        let (least, most) = (counts.values().min(), counts.values().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
    }
}

#[test]
fn where_no_verdict_can_be_there_is_no_twin() {
    for (blocks, count) in [(5, 0), (6, 3)] {
        let job = race("a", &[1, 2]).replace(
            "    matrix",
            &format!("    measure: {{ blocks: {blocks} }}\n    matrix"),
        );
        assert_eq!(twins(&planned(&job, &world())), count, "{blocks} blocks");
    }
}

#[test]
fn a_group_that_did_not_change_is_not_measured_again() {
    let mut plan = planned(&race("a", &[1]), &world());
    for count in 2..=8 {
        let batches: Vec<u32> = (1..=count).collect();
        let next = planned(&race("a", &batches), &after(&plan));
        assert_eq!(cached(&next), plan.heats.len(), "{count} groups");
        assert_eq!(engines_with_twins(&next).len(), 3);
        plan = next;
    }
    // Nor is one that lies in another job.
    let renamed = planned(&race("b", &[3, 1, 2]), &after(&plan));
    assert_eq!(cached(&renamed), 3);
}

#[test]
fn a_twin_that_nobody_else_has_is_measured() {
    let all = planned(&race("a", &[1, 2, 3, 4]), &world());
    for batch in 1..=4 {
        let alone = planned(&race("a", &[batch]), &after(&all));
        assert_eq!(engines_with_twins(&alone).len(), 3);
        let changed = match &alone.heats[0].status {
            Status::Stale { changed } => changed.join(""),
            other => panic!("{other:?}"),
        };
        assert_eq!(changed, "cells: another cell has a twin");
    }
    // Of three groups that are left at most one lacks an engine.
    for batches in [[1, 2, 3], [2, 3, 4]] {
        let left = planned(&race("a", &batches), &after(&all));
        assert_eq!(engines_with_twins(&left).len(), 3);
        assert!(cached(&left) >= 2, "{batches:?}");
    }
}

#[test]
fn what_two_jobs_share_is_measured_once_and_settles() {
    let job = |id: &str, models: &str, batches: &str| {
        format!(
            "  - id: {id}\n    matrix: {{ model: [{models}], batch: [{batches}], engine: [pytorch/eager, onnxruntime/cpu, third/eager] }}\n    compare: {{ axis: engine, baseline: pytorch/eager }}\n"
        )
    };
    let all = ["1", "2", "1, 2", "2, 1", "1, 2, 4", "4, 1"];
    for first in all {
        for second in all {
            let a = job("a", "resnet18", first);
            let b = job("b", "resnet18, bert_tiny", second);
            let both = format!("{a}{b}");
            let plan = planned(&both, &world());
            let again = planned(&both, &after(&plan));
            assert_eq!(cached(&again), plan.heats.len(), "[{first}] and [{second}]");
            let shared = plan.heats.len() - plan.distinct_heats().count();
            if first == second {
                assert!(shared > 0, "[{first}] twice");
            }
            // Wherever they came from, all engines of a job have a twin.
            for id in ["a", "b"] {
                let heats = plan.heats.iter().filter(|heat| heat.job == id);
                let cells = heats.flat_map(|heat| &heat.cells);
                let twins = cells.filter(|cell| cell.twin_of.is_some());
                let engines: BTreeSet<String> =
                    twins.map(|cell| cell.cell.engine.to_string()).collect();
                assert_eq!(engines.len(), 3, "{id}: [{first}] and [{second}]");
            }
        }
    }
}

#[test]
fn what_is_measured_anew_draws_anew() {
    let grown = planned(&race("a", &[1]), &world());
    let grown = planned(&race("a", &[1, 2, 3]), &after(&grown));
    let keys = |plan: &Plan| -> Vec<_> { plan.heats.iter().map(|heat| heat.key).collect() };
    let drawn = planned(&race("a", &[1, 2, 3]), &world());
    assert_ne!(keys(&grown), keys(&drawn));
    let fresh = |counting: Vec<KnownHeat>| World {
        fresh: Some(counting),
        ..after(&grown)
    };
    let again = |world: &World| keys(&planned(&race("a", &[1, 2, 3]), world));
    assert_eq!(again(&fresh(Vec::new())), keys(&drawn));
    // And goes on with the same, though all that the store has of other keys counts, too.
    let mut counting = after(&grown).known;
    counting.push(sealed(&drawn.heats[0], "2026-01-02T00:00:00Z"));
    assert_eq!(again(&fresh(counting)), keys(&drawn));
}
