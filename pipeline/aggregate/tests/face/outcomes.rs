//! Each planned cell has one outcome, and a speed only where it may be shown.

use schema::{
    Outcome, OutcomeKind,
    plan::{Allow, Status},
    record::HeatResult,
    tables::CellRow,
};

use crate::race::{heat, launch, race, run, set_times, tables};

const EVEN: [u64; 6] = [1_000_000; 6];

fn contender(run: &synthetic::Synthetic) -> CellRow {
    tables(run).cells.swap_remove(1)
}

#[test]
fn the_log_of_the_launch_for_parity_is_the_cells() {
    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).reference.logs[1] = Some("libcudart is missing".to_owned());
    assert_eq!(
        contender(&run).parity_log.as_deref(),
        Some("libcudart is missing")
    );
    heat(&mut run, 0).reference.logs[1] = None;
    assert_eq!(contender(&run).parity_log, None);
}

#[test]
fn speeds_by_hand() {
    let mut run = race(
        &[
            1_000_000, 1_000_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000,
        ],
        &EVEN,
    );
    // One round of one block: 10, 20, 30 ns against 40, 50, 60.
    for (round, samples) in [[10, 20, 30], [40, 50, 60]].into_iter().enumerate() {
        launch(&mut run, 0, 0, 1).rounds[round].samples_ns = samples.to_vec();
    }
    let tables = tables(&run);
    let speed = tables.cells[0].speed.clone().unwrap();
    assert_eq!(speed.step_ns.centre, 1_414_210.0); // the geometric mean, √2 ms
    assert_eq!(speed.between_blocks, 0.379_652); // ln 2 · √(6/5) / 2
    assert_eq!(
        (speed.samples, speed.min_ns, speed.max_ns),
        (36, 1_000_000, 2_000_000)
    );
    assert_eq!((speed.within_round, speed.between_rounds), (0.0, Some(0.0)));
    assert_eq!(speed.percentiles_ns["p50"], 1_500_000);
    assert_eq!(speed.items_per_second, 707.109); // one item a step
    assert_eq!(speed.flops_per_second, 2_545_590_000_000.0); // 3.6 GFLOP a step

    let mixed = &tables.cells[1];
    assert_eq!(mixed.launches[0].median_ns, Some(35));
    // Of six launches of two rounds one has medians of 20 and 50 ns: ln 2.5 ÷ √12.
    assert_eq!(mixed.speed.as_ref().unwrap().between_rounds, Some(0.264_51));
    assert_eq!(mixed.launches[0].rounds, [[10, 20, 30], [40, 50, 60]]);
    assert_eq!(
        mixed
            .speed
            .as_ref()
            .unwrap()
            .percentiles_ns
            .keys()
            .collect::<Vec<_>>(),
        ["p16", "p25", "p5", "p50", "p75", "p84", "p90", "p95", "p99"]
    );
}

#[test]
fn twins_have_no_row() {
    let tables = tables(&race(&EVEN, &EVEN));
    assert_eq!(tables.cells.len(), 2);
    assert_eq!(tables.environments.len(), 1);
    assert_eq!(tables.heats.len(), 1);
}

#[test]
fn the_stricter_of_footer_and_launches_wins() {
    let mut run = race(&EVEN, &EVEN);
    launch(&mut run, 0, 2, 1).outcome = Outcome::new(OutcomeKind::Crashed, "signal 6");
    let row = contender(&run);
    assert_eq!(
        (row.outcome.kind, row.outcome.reason.as_str()),
        (OutcomeKind::Crashed, "signal 6")
    );
    assert_eq!(row.speed, None);
    assert_eq!(row.launches.len(), 6);

    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).reference.obstacles[1] =
        Some(Outcome::new(OutcomeKind::Unsupported, "no such operator"));
    assert_eq!(contender(&run).outcome.kind, OutcomeKind::Unsupported);
}

#[test]
fn no_speed_without_agreement() {
    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).reference.parity[1]
        .as_mut()
        .unwrap()
        .worst_share = 1.5;
    let row = contender(&run);
    assert_eq!(
        (row.outcome.kind, row.speed),
        (OutcomeKind::ParityFailed, None)
    );
    assert!(row.parity.is_some());

    heat(&mut run, 0).reference.parity[1] = None;
    let row = contender(&run);
    assert_eq!(
        (row.outcome.kind, row.speed),
        (OutcomeKind::ParityUnverified, None)
    );

    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).reference.parity[1]
        .as_mut()
        .unwrap()
        .error = f64::NAN;
    let row = contender(&run);
    assert_eq!(
        (row.outcome.kind, row.parity),
        (OutcomeKind::ParityFailed, None)
    );
}

#[test]
fn a_twin_without_parity_of_its_own_has_its_originals() {
    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).reference.parity[2] = None;
    let floors = tables(&run).floors;
    assert!(floors.iter().all(|floor| floor.pairs == 1));
}

#[test]
fn an_obstacle_before_any_launch_keeps_its_name() {
    for kind in [OutcomeKind::ParityUnverified, OutcomeKind::Unavailable] {
        let mut run = race(&EVEN, &EVEN);
        let heat = heat(&mut run, 0);
        heat.footer.outcomes[1] = Outcome::new(kind, "why");
        heat.reference.parity[1] = None;
        for block in &mut heat.blocks {
            block.launches.retain(|launch| launch.slot != 1);
        }
        assert_eq!(contender(&run).outcome, Outcome::new(kind, "why"));
    }
}

#[test]
fn heats_that_were_not_reached_say_why() {
    let mut run = run(2, 6);
    run.record.heats[1].heat = HeatResult::NotReached("the budget of 4 min was spent".to_owned());
    run.record.plan.heats[1].status = Status::Open { blocks: 3 };
    run.record.plan.heats[1].cells[0].obstacle =
        Some(Outcome::new(OutcomeKind::Unavailable, "no libtorch"));
    let tables = tables(&run);
    let [known, unknown] = &tables.cells[2..] else {
        panic!("four cells")
    };
    assert_eq!(known.outcome.kind, OutcomeKind::Unavailable);
    assert_eq!(unknown.outcome.kind, OutcomeKind::NotReached);
    assert_eq!(
        unknown.outcome.reason,
        "the budget of 4 min was spent (3 blocks had been measured before this run)"
    );
    assert_eq!((unknown.environment, &unknown.started), (None, &None));
    assert_eq!(tables.heats.len(), 1);

    run.record.heats.truncate(1);
    assert_eq!(
        crate::race::tables(&run).cells[3].outcome.kind,
        OutcomeKind::NotReached
    );
}

#[test]
fn allowed_is_by_coordinates_and_outcome() {
    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).footer.outcomes[1] = Outcome::new(OutcomeKind::Unavailable, "no library");
    assert!(!contender(&run).allowed);
    let allow = |outcome| Allow {
        coordinates: [("engine".to_owned(), "onnxruntime/*".to_owned())].into(),
        outcome,
    };
    run.record.plan.jobs[0].allow = vec![allow(OutcomeKind::Crashed)];
    assert!(!contender(&run).allowed);
    run.record.plan.jobs[0].allow = vec![allow(OutcomeKind::Unavailable)];
    assert!(contender(&run).allowed);
}

#[test]
fn machines_are_listed_once_whatever_their_load() {
    let mut run = run(3, 6);
    heat(&mut run, 1).header.environment.load.load_1m = 1.5;
    heat(&mut run, 2).header.environment.kernel = "6.2.0".to_owned();
    set_times(&mut run, 0, 0, &EVEN);
    let tables = tables(&run);
    assert_eq!(tables.environments.len(), 2);
    let of = |cell: usize| {
        (
            tables.cells[cell].environment,
            tables.cells[cell].load.as_ref().unwrap().load_1m,
        )
    };
    assert_eq!(
        (of(0), of(2), of(4)),
        ((Some(0), 0.2), (Some(0), 1.5), (Some(1), 0.2))
    );
}

#[test]
fn the_span_of_measuring_is_by_time_not_by_text() {
    let mut run = run(2, 6);
    heat(&mut run, 0).header.started = "2026-11-20T16:00:00.5Z".to_owned();
    heat(&mut run, 1).header.started = "2026-11-20T16:00:00Z".to_owned();
    heat(&mut run, 1).footer.finished = "2026-11-20T18:04:00+02:00".to_owned();
    let (first, last) = tables(&run).measured.unwrap();
    assert_eq!(first, "2026-11-20T16:00:00Z");
    assert_eq!(last, "2026-11-20T18:04:00+02:00");
}

#[test]
fn the_supervisors_share_is_the_median_over_blocks() {
    let mut run = race(&EVEN, &EVEN);
    let used = [1, 2, 3, 5, 8, 1_000];
    for (block, used_ns) in heat(&mut run, 0).blocks.iter_mut().zip(used) {
        (block.supervisor_ns, block.measuring_ns) = (used_ns, 1_000);
    }
    assert_eq!(tables(&run).jobs[0].supervisor_share, Some(0.004));
    for block in &mut heat(&mut run, 0).blocks {
        block.measuring_ns = 0;
    }
    assert_eq!(tables(&run).jobs[0].supervisor_share, None);
}

#[test]
fn every_cell_names_its_tool() {
    let mut run = run(2, 6);
    heat(&mut run, 1).header.tool.version = "0.2.0".to_owned();
    let tables = tables(&run);
    let versions: Vec<_> = tables
        .cells
        .iter()
        .map(|row| &*tables.tools[row.tool.unwrap() as usize].version)
        .collect();
    assert_eq!(versions, ["0.1.0", "0.1.0", "0.2.0", "0.2.0"]);
}

#[test]
fn disturbed_blocks_are_shown_and_do_not_count() {
    let seven = |disturbed| [EVEN.as_slice(), &[disturbed]].concat();
    let mut run = race(&seven(1_000_000), &seven(9_000_000));
    for slot in 0..3 {
        launch(&mut run, 0, 6, slot).outcome = Outcome::new(OutcomeKind::Unstable, "load of 3");
    }
    let cell = contender(&run);
    assert_eq!(cell.outcome, Outcome::measured());
    let speed = cell.speed.as_ref().unwrap();
    assert_eq!((speed.step_ns.blocks, speed.max_ns), (6, 1_000_000));
    assert_eq!(cell.launches[6].outcome.kind, OutcomeKind::Unstable);
    assert_eq!(cell.launches[6].median_ns, Some(9_000_000));
    let row = tables(&run)
        .jobs
        .swap_remove(0)
        .comparisons
        .swap_remove(0)
        .rows
        .swap_remove(0);
    assert_eq!(
        row.ratio.map(|ratio| (ratio.blocks, ratio.centre)),
        Some((6, 1.0))
    );

    // Of a heat that stayed disturbed they are all there is.
    for outcome in &mut heat(&mut run, 0).footer.outcomes {
        *outcome = Outcome::new(OutcomeKind::Unstable, "load of 3, again and again");
    }
    let cell = contender(&run);
    assert_eq!(cell.outcome.reason, "load of 3, again and again");
    let speed = cell.speed.as_ref().unwrap();
    assert_eq!((speed.step_ns.blocks, speed.max_ns), (7, 9_000_000));
}
