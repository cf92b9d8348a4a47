//! When it pays to be ready later.

use schema::{
    Cell, Digest, Precision, SCALING, Strategy, WEAK,
    record::{Block, FirstStart},
    tables::{FirstPayback, FirstSteps, Payback, Verdict},
};

use crate::race::{EVEN, heat, launch, only_row, race, tables};

#[test]
fn what_is_ready_later_says_when_it_has_paid() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let Some(Payback::After(steps)) = only_row(&tables(&run)).payback else {
        panic!("their first steps are done as soon")
    };
    assert_eq!(steps.centre, 1.0);
    for block in 0..6 {
        let contender = launch(&mut run, 0, block, 1);
        contender.start_ns = contender.start_ns.map(|ns| ns + 1_000_000_000);
        // The making of weights and inputs is ours.
        contender.loaded.as_mut().unwrap().fill_ns += 77_000_000_000;
    }
    let tables = tables(&run);
    let Some(Payback::After(steps)) = only_row(&tables).payback else {
        panic!("{:?}", only_row(&tables))
    };
    // Once more the first step, which both have done by then.
    assert_eq!((steps.centre, steps.blocks), (2001.0, 6));
    // A block begins a minute after the one before it.
    assert_eq!(tables.jobs[0].apart_s, Some(60.0));
    assert_eq!(tables.jobs[0].comparisons[0].break_evens, []);
}

#[test]
fn contenders_break_even_with_each_other() {
    let mut run = race(&EVEN, &[500_000; 6]);
    for block in 0..6 {
        let contender = launch(&mut run, 0, block, 1);
        contender.start_ns = contender.start_ns.map(|ns| ns + 1_000_000_000);
    }
    let pairs = &mut run.record.plan.jobs[0].comparisons[0].pairs;
    let (fast, baseline) = (pairs[0].value.clone(), pairs[0].baseline.clone());
    // The baseline once more, as another contender; on either side of the faster one.
    let itself = schema::plan::Pair {
        contender: baseline.clone(),
        value: "itself".to_owned(),
        ..pairs[0].clone()
    };
    pairs.push(itself.clone());
    // As where the others know a factor that these do not.
    let mut again = itself;
    again
        .coordinates
        .insert("layout".to_owned(), "nchw".to_owned());
    pairs.push(again);
    let found = tables(&run).jobs.remove(0).comparisons.remove(0);
    let [row] = found.break_evens.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((row.early.as_str(), &row.late), ("itself", &fast));
    assert_eq!(
        (&row.early_cell, &row.late_cell),
        (&baseline, &found.rows[0].contender)
    );
    let Payback::After(steps) = row.warm else {
        panic!("{row:?}")
    };
    assert_eq!((steps.centre, steps.blocks, row.first), (2001.0, 6, None));
    assert!(!row.coordinates.contains_key("layout"), "{row:?}");
    run.record.plan.jobs[0].comparisons[0].pairs.reverse();
    let turned = tables(&run).jobs.remove(0).comparisons.remove(0);
    assert_eq!(turned.break_evens, found.break_evens);
    // Whoever is ahead at once breaks even with nobody.
    for block in 0..6 {
        let contender = launch(&mut run, 0, block, 1);
        contender.start_ns = Some(0);
    }
    let none = tables(&run).jobs.remove(0).comparisons.remove(0);
    assert_eq!(none.break_evens, []);
    // Unless it was not when it started first.
    let at_first = heat(&mut run, 0);
    at_first.reference.starts = starts([1_000_000_000, 4_000_000_000], true, &at_first.blocks);
    let found = tables(&run).jobs.remove(0).comparisons.remove(0);
    let [row] = found.break_evens.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((row.early.as_str(), row.warm), ("itself", Payback::AtOnce));
    let first = row.first.unwrap();
    assert_eq!(
        (first.payback, first.is_cold),
        (FirstSteps::After(6001.0), true)
    );
}

/// First starts of two cells, whose twins have none, which took so long to begin; else as a launch of theirs.
fn starts(start_ns: [u64; 2], is_cold: bool, blocks: &[Block]) -> Vec<Option<FirstStart>> {
    let launches = &blocks[0].launches;
    let start = |(slot, start_ns)| {
        let launch = launches.iter().find(|launch| launch.slot == slot)?;
        Some(FirstStart {
            start_ns,
            loaded: launch.loaded.clone()?,
            is_cold,
        })
    };
    let twins = [None, None];
    (0..).zip(start_ns).map(start).chain(twins).collect()
}

#[test]
fn what_started_later_says_when_that_start_has_paid() {
    let mut run = race(&EVEN, &[500_000; 6]);
    assert_eq!(only_row(&tables(&run)).first_payback, None);
    let mut told = |start_ns, is_cold| {
        let heat = heat(&mut run, 0);
        heat.reference.starts = starts(start_ns, is_cold, &heat.blocks);
        only_row(&tables(&run)).first_payback.unwrap()
    };
    let found = told([1_000_000_000, 3_000_000_000], true);
    let expected = FirstPayback {
        payback: FirstSteps::After(4001.0),
        is_cold: true,
    };
    assert_eq!(found, expected);
    let found = told([3_000_000_000, 1_000_000_000], false);
    assert_eq!((found.payback, found.is_cold), (FirstSteps::AtOnce, false));
    // Grids that were found by calibration.
    run.record.plan.heats[0].cells[1].cell.precision = Precision::Int8Static;
    assert!(only_row(&tables(&run)).without_calibration);
}

#[test]
fn only_steps_that_do_the_same_work_pay_for_a_start() {
    fn told(change: impl Fn(&mut Cell)) -> bool {
        let mut run = race(&EVEN, &[500_000; 6]);
        change(&mut run.record.plan.heats[0].cells[1].cell);
        change(&mut heat(&mut run, 0).header.cells[1].cell);
        let row = only_row(&tables(&run)).clone();
        assert_eq!(row.verdict, Verdict::Faster);
        row.payback.is_some()
    }
    assert!(told(|cell| cell.threads += 1));
    assert!(told(|cell| cell.precision = Precision::Bf16));
    assert!(!told(|cell| *cell
        .dims
        .entry("batch".to_owned())
        .or_default() += 1));
    // Two ranks are another way to do a step, unless each has a batch of its own.
    assert!(told(|cell| {
        (cell.strategy, cell.world_size) = (Strategy::Ddp, 2);
    }));
    assert!(!told(|cell| {
        (cell.strategy, cell.world_size) = (Strategy::Ddp, 2);
        cell.factors.insert(SCALING.to_owned(), WEAK.to_owned());
    }));
    assert!(!told(|cell| cell.model.graph = Digest::of_bytes(b"another")));
}
