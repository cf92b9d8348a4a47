//! Training that is spread over workers, as it is planned.

use std::collections::BTreeMap;

use photofinish_plan::World;
use schema::{Cell, FactorDescription, OutcomeKind, Plan, Strategy, VariantDescription};

use crate::{plans::planned, support};

/// PyTorch eager spreads training by every strategy.
fn world() -> World {
    let mut world = support::world();
    let variant: &mut VariantDescription = &mut world.engines[0].variants[0];
    variant.strategies = Strategy::ALL.to_vec();
    let about = |values: &[&str], strategies: &[Strategy]| FactorDescription {
        strategies: strategies.to_vec(),
        ..support::factor(values)
    };
    variant.factors = BTreeMap::from([
        (
            "scaling".to_owned(),
            about(&["strong", "weak"], &Strategy::ALL[1..]),
        ),
        (
            "bucket_mib".to_owned(),
            about(&["25", "1"], &[Strategy::Ddp]),
        ),
    ]);
    world
}

fn job(matrix: &str) -> String {
    format!(
        "  - id: a
    mode: training
    matrix: {{ {matrix}, engine: pytorch/eager }}
"
    )
}

/// The cells but twins, with what keeps each from running.
fn cells(plan: &Plan) -> Vec<(&Cell, Option<&str>)> {
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let own = cells.filter(|cell| cell.twin_of.is_none() && cell.cell.optimizer.is_some());
    let mut told: Vec<_> = own
        .map(|cell| {
            let obstacle = cell.obstacle.as_ref();
            (&cell.cell, obstacle.map(|outcome| outcome.reason.as_str()))
        })
        .collect();
    told.sort_by_key(|(cell, _)| (cell.strategy, cell.world_size));
    told
}

#[test]
fn workers_tell_cells_apart_where_they_share_a_step() {
    let matrix =
        "model: resnet18, batch: 4, strategy: [single, data_parallel, ddp], world_size: [1, 2]";
    let plan = planned(&job(matrix), &world());
    let told: Vec<_> = cells(&plan)
        .iter()
        .map(|(cell, obstacle)| {
            assert_eq!(*obstacle, None);
            let factors: Vec<&str> = cell.factors.keys().map(String::as_str).collect();
            (cell.strategy, cell.world_size, factors.join(" "))
        })
        .collect();
    let row = |strategy, world_size, factors: &str| (strategy, world_size, factors.to_owned());
    assert_eq!(
        told,
        [
            row(Strategy::Single, 1, ""),
            row(Strategy::DataParallel, 1, "scaling"),
            row(Strategy::DataParallel, 2, "scaling"),
            row(Strategy::Ddp, 1, "bucket_mib scaling"),
            row(Strategy::Ddp, 2, "bucket_mib scaling"),
        ]
    );
    // Where nobody says how many there are two.
    let plan = planned(&job("model: resnet18, batch: 4, strategy: ddp"), &world());
    assert_eq!(cells(&plan)[0].0.world_size, 2);
}

#[test]
fn weakly_scaling_steps_do_as_many_batches_as_there_are_workers() {
    let matrix = "model: resnet18, batch: 4, strategy: ddp, world_size: 2, scaling: [strong, weak]";
    let plan = planned(&job(matrix), &world());
    let samples: Vec<u64> = cells(&plan)
        .iter()
        .map(|(cell, _)| cell.samples())
        .collect();
    assert_eq!(samples.iter().sum::<u64>(), 12, "{samples:?}");
    let heats = plan.heats.iter().flat_map(|heat| &heat.cells);
    let mut flops: Vec<u64> = heats
        .filter(|cell| cell.twin_of.is_none() && cell.cell.optimizer.is_some())
        .map(|cell| cell.flops)
        .collect();
    flops.sort_unstable();
    assert_eq!(flops[1], 2 * flops[0]);
}

#[test]
fn what_cannot_be_spread_is_told_beforehand() {
    let told = |matrix: &str, world: &World| {
        let plan = planned(&job(matrix), world);
        let cell = &plan.heats[0].cells[0];
        let obstacle = cell.obstacle.as_ref().expect("an obstacle");
        assert_eq!(obstacle.kind, OutcomeKind::Unsupported);
        obstacle.reason.clone()
    };
    let uneven = "model: resnet18, batch: 3, strategy: ddp, world_size: 2";
    assert_eq!(
        told(uneven, &world()),
        "a batch of 3 does not fall into 2 equal parts"
    );
    let alone = "model: resnet18, batch: 4, strategy: ddp";
    assert_eq!(
        told(alone, &support::world()),
        "pytorch/eager does not train by `ddp`"
    );
}
