//! What devices can do at most, and the share of it that cells reach.

use std::collections::BTreeMap;

use photofinish_aggregate::downloads;
use schema::{
    OutcomeKind, Precision, Strategy, Tables,
    plan::Ceilings,
    record::HeatResult,
    tables::{Bound, CeilingKind, Roof, Share, ShareOfCeiling},
};
use synthetic::Synthetic;

use crate::race::{launch, run, set_times, tables, try_tables};

/// Operations and bytes of a step.
type Costs = (u64, u64);

/// A run of two cells that take a millisecond each and cost so much; its device multiplies at
/// 100 GFLOP/s and reads at 20 GB/s.
fn against(costs: Costs) -> Synthetic {
    let mut run = run(2, 6);
    let times = [995_000, 998_000, 1_000_000, 1_001_000, 1_003_000, 1_003_000];
    for slot in 0..4 {
        set_times(&mut run, 0, slot, &times);
    }
    for slot in 0..2 {
        set_times(&mut run, 1, slot, &times.map(|time| time * 10));
    }
    let plan = &mut run.record.plan;
    for cell in &mut plan.heats[0].cells {
        (cell.flops, cell.bytes) = costs;
    }
    let mut heat = plan.heats.pop().unwrap();
    heat.job = Ceilings::JOB.to_owned();
    for (cell, costs) in heat
        .cells
        .iter_mut()
        .zip([(1_000_000_000, 2_000_000), (50_000_000, 200_000_000)])
    {
        (cell.flops, cell.bytes) = costs;
    }
    let mut job = plan.jobs[0].clone();
    job.id = Ceilings::JOB.to_owned();
    job.comparisons.clear();
    job.claims.clear();
    for comparison in &mut plan.jobs[0].comparisons {
        comparison.pairs.retain(|pair| pair.group != heat.group);
    }
    plan.jobs[0].claims.clear();
    plan.ceilings = Some(Ceilings {
        job,
        heats: vec![heat],
    });
    run
}

fn roof(tables: &Tables) -> &Roof {
    tables.cells[0].roof.as_ref().unwrap()
}

fn share(tables: &Tables) -> &Share {
    match &roof(tables).share {
        ShareOfCeiling::Known(share) => share,
        ShareOfCeiling::Unknown(reason) => panic!("{reason}"),
    }
}

fn unknown(tables: &Tables) -> &str {
    match &roof(tables).share {
        ShareOfCeiling::Known(share) => panic!("{share:?}"),
        ShareOfCeiling::Unknown(reason) => reason,
    }
}

fn is_near(found: f64, wanted: f64) -> bool {
    (found / wanted - 1.0).abs() < 1e-4
}

#[test]
fn a_cell_is_held_against_the_lower_of_both_ceilings() {
    // 50 GFLOP/s of 100, 2 GB/s of 20.
    let computing = tables(&against((50_000_000, 2_000_000)));
    assert_eq!(share(&computing).bound, Bound::Compute);
    assert!(is_near(share(&computing).share.centre, 0.5));
    assert!(is_near(share(&computing).allowed_flops_per_second, 100e9));
    assert!(is_near(roof(&computing).intensity.unwrap(), 25.0));
    // 1 GFLOP/s, 5 GB/s of 20.
    let moving = tables(&against((1_000_000, 5_000_000)));
    assert_eq!(share(&moving).bound, Bound::Memory);
    assert!(is_near(share(&moving).share.centre, 0.25));
    assert!(is_near(share(&moving).allowed_flops_per_second, 4e9));
    assert!(is_near(roof(&moving).bytes_per_second.unwrap(), 5e9));
    let told = &share(&moving).share;
    assert!(told.low.unwrap() < 0.25 && told.high.unwrap() > 0.25);
    assert!(is_near(told.confidence, 0.9), "{told:?}");
    // What stays in a cache is read faster: it is told as it is.
    let cached = tables(&against((1_000_000, 60_000_000)));
    assert!(is_near(share(&cached).share.centre, 3.0));
}

/// What is faster than memory delivers is not bound by memory, nor what is faster than the product by arithmetic;
/// an interval that holds all of it says neither.
#[test]
fn what_lies_above_a_ceiling_is_not_bound_by_it() {
    for (costs, of, words) in [
        ((1_000_000, 60_000_000), Bound::Memory, "above memory"),
        ((200_000_000, 2_000_000), Bound::Compute, "above compute"),
    ] {
        let tables = tables(&against(costs));
        assert!(share(&tables).share.low.unwrap() > 1.0);
        assert_eq!(
            (share(&tables).bound, share(&tables).bound_by()),
            (of, None)
        );
        let files = downloads(&tables).unwrap();
        let cells = files.iter().find(|file| file.file == "cells.csv").unwrap();
        let cells = String::from_utf8(cells.bytes.clone()).unwrap();
        assert!(cells.contains(&format!(",{words},")), "{cells}");
    }
    let at_all = tables(&against((1_000_000, 20_000_000)));
    assert!(is_near(share(&at_all).share.centre, 1.0));
    assert_eq!(share(&at_all).bound_by(), Some(Bound::Memory));
}

#[test]
fn next_to_the_ridge_either_ceiling_may_be_the_lower_one() {
    let interval = |costs| share(&tables(&against(costs))).share;
    // 0.5 ms of arithmetic, and then as much of moving beside it.
    let alone = interval((50_000_000, 1_000));
    let ridge = interval((50_000_000, 10_000_000));
    assert!(is_near(ridge.centre, 0.5) && is_near(alone.centre, 0.5));
    assert!(ridge.low.unwrap() >= alone.low.unwrap());
    assert!(ridge.high.unwrap() >= alone.high.unwrap());
    // With ceilings of unlike spread the wider one makes the upper end, though it is not the lower ceiling.
    let mut run = against((50_000_000, 9_900_000));
    let wide = [
        9_000_000, 9_500_000, 10_000_000, 10_000_000, 10_500_000, 11_000_000,
    ];
    set_times(&mut run, 1, 1, &wide);
    let told = *share(&tables(&run));
    assert_eq!(told.bound, Bound::Compute);
    let (low, high) = (told.share.low.unwrap(), told.share.high.unwrap());
    assert!(high - 0.5 > 2.0 * (0.5 - low), "{told:?}");
}

#[test]
fn a_ceiling_of_another_machine_is_none_of_the_cells() {
    let mut run = against((50_000_000, 2_000_000));
    let HeatResult::Sealed(digest) = run.record.heats[1].heat else {
        panic!("{:?}", run.record.heats)
    };
    let heat = run.heats.get_mut(&digest).unwrap();
    heat.header.environment.kernel = "another".to_owned();
    let found = tables(&run);
    assert_ne!(found.ceilings[0].environment, found.cells[0].environment);
    assert!(
        unknown(&found).contains("on another machine"),
        "{}",
        unknown(&found)
    );
}

#[test]
fn ceilings_are_rows_of_their_own_and_in_no_job() {
    let run = against((50_000_000, 2_000_000));
    let tables = tables(&run);
    let told: Vec<_> = tables
        .ceilings
        .iter()
        .map(|row| (row.kind, row.rate.unwrap().centre))
        .collect();
    assert_eq!(told.len(), 2);
    assert_eq!(
        (told[0].0, told[1].0),
        (CeilingKind::Product, CeilingKind::Reading)
    );
    assert!(
        is_near(told[0].1, 100e9) && is_near(told[1].1, 20e9),
        "{told:?}"
    );
    let rate = tables.ceilings[0].rate.unwrap();
    assert!(rate.low.unwrap() < rate.centre && rate.centre < rate.high.unwrap());
    assert_eq!(
        (tables.jobs.len(), tables.cells.len(), tables.twins.len()),
        (1, 2, 2)
    );
    assert_eq!(tables.ceilings[0].environment, Some(0));
    // A bundle needs their heats as well.
    assert_eq!(tables.heats.len(), 2);
    let files = downloads(&tables).unwrap();
    let text = |name: &str| {
        let file = files.iter().find(|file| file.file == name).unwrap();
        String::from_utf8(file.bytes.clone()).unwrap()
    };
    let lines = text("ceilings.csv");
    assert_eq!(lines.lines().count(), 3);
    assert!(
        lines.contains("cpu,2,fp32,product,batch=1,measured,,"),
        "{lines}"
    );
    assert!(text("cells.csv").contains(",compute,"));
    // When they were measured, and in how long a time.
    let row = &tables.ceilings[0];
    assert!(row.started.is_some() && row.finished.is_some());
    assert_eq!(row.apart_s, Some(60.0));
    assert!(
        lines.lines().skip(1).all(|line| line.ends_with("Z,60")),
        "{lines}"
    );
}

#[test]
fn numbers_of_two_bytes_move_half_as_much() {
    let mut run = against((1_000_000, 5_000_000));
    let half = |cells: &mut [schema::plan::PlannedCell]| {
        for cell in cells {
            cell.cell.precision = Precision::Bf16;
        }
    };
    half(&mut run.record.plan.heats[0].cells);
    let found = tables(&run);
    assert!(unknown(&found).contains("did not measure how fast cpu multiplies matrices in bf16"));
    assert!(is_near(roof(&found).bytes_per_second.unwrap(), 2.5e9));
    half(&mut run.record.plan.ceilings.as_mut().unwrap().heats[0].cells);
    let found = tables(&run);
    // So does the pass over memory, whose numbers these are.
    assert!(is_near(found.ceilings[1].rate.unwrap().centre, 10e9));
    assert!(is_near(share(&found).share.centre, 0.25));
}

#[test]
fn without_a_ceiling_there_is_a_reason_and_no_share() {
    let costs = (50_000_000, 2_000_000);
    let mut run = against(costs);
    for cell in &mut run.record.plan.heats[0].cells {
        cell.cell.precision = Precision::Int8Static;
    }
    let found = tables(&run);
    assert!(unknown(&found).contains("multiplies no integers"));
    assert_eq!(roof(&found).bytes_per_second, None);

    run = against(costs);
    for cell in &mut run.record.plan.heats[0].cells {
        let mixed = ("mixed_precision".to_owned(), "on".to_owned());
        cell.cell.factors.extend([mixed]);
    }
    let found = tables(&run);
    assert!(unknown(&found).contains("in fp32 and a part is not"));
    assert_eq!(roof(&found).intensity, None);

    // Two workers have the threads of both.
    run = against(costs);
    for cell in &mut run.record.plan.heats[0].cells {
        (cell.cell.strategy, cell.cell.world_size) = (Strategy::Ddp, 2);
    }
    assert!(unknown(&tables(&run)).contains("of one worker's threads"));

    run = against(costs);
    let told = BTreeMap::from([(
        "arithmetic".to_owned(),
        "stored as fp16, computed in float32".to_owned(),
    )]);
    for block in 0..6 {
        let loaded = launch(&mut run, 0, block, 0).loaded.as_mut().unwrap();
        loaded.settings.clone_from(&told);
    }
    assert!(unknown(&tables(&run)).contains("in its own precision"));

    run = against(costs);
    for cell in &mut run.record.plan.heats[0].cells {
        cell.cell.threads = 1;
    }
    assert!(unknown(&tables(&run)).ends_with("with 1 thread"));

    run = against(costs);
    run.record.heats[1].heat = HeatResult::NotReached("out of time".to_owned());
    let found = tables(&run);
    assert_eq!(found.ceilings[0].outcome.kind, OutcomeKind::NotReached);
    assert_eq!(found.ceilings[0].rate, None);
    assert!(
        unknown(&found).ends_with("is not known: out of time"),
        "{}",
        unknown(&found)
    );

    run = against(costs);
    run.record.plan.ceilings = None;
    run.record.heats.truncate(1);
    let found = tables(&run);
    assert_eq!(found.ceilings, []);
    assert!(unknown(&found).starts_with("the run did not measure"));

    // What a file of the user's costs is not known.
    run = against((0, 0));
    assert_eq!(tables(&run).cells[0].roof, None);
}

#[test]
fn ceilings_that_do_not_hold_together_are_refused() {
    let refusal = |change: fn(&mut Ceilings)| {
        let mut run = against((1, 1));
        change(run.record.plan.ceilings.as_mut().unwrap());
        try_tables(&run).unwrap_err().to_string()
    };
    assert!(refusal(|it| it.job.id = "synthetic".to_owned()).contains("is that of the ceilings"));
    assert!(refusal(|it| it.heats[0].job = "other".to_owned()).contains("belongs to no ceiling"));
    assert!(refusal(|it| it.heats.push(it.heats[0].clone())).contains("occurs twice"));
    assert!(refusal(|it| it.job.measure.margin = f64::NAN).contains("margin NaN"));
    let mut run = against((1, 1));
    run.record.plan.heats[0].job = Ceilings::JOB.to_owned();
    let refused = try_tables(&run).unwrap_err().to_string();
    assert!(refused.contains("is a ceiling, and no job's"), "{refused}");
}
