//! Ratios, floors and verdicts, by hand.

use schema::{Outcome, OutcomeKind, tables::Verdict};

use synthetic::{Size, Synthetic};

use crate::race::{EVEN, heat, launch, only_row, race, run, set_times, tables, try_tables};

#[test]
fn a_ratio_and_its_interval_by_hand() {
    // d = ln(0.50, 0.51, 0.49, 0.505, 0.495, 0.50): mean −0.6932305, s 0.01414405;
    // half-width 2.570582·s/√6 + 1/1,000,000 + 1/490,000 = 0.01484631;
    // ends 0.4925906 and 0.5074362, rounded outward.
    let contender = [500_000, 510_000, 490_000, 505_000, 495_000, 500_000];
    let tables = tables(&race(&EVEN, &contender));
    let row = only_row(&tables);
    let ratio = row.ratio.unwrap();
    assert_eq!(ratio.centre, 0.499_958);
    assert_eq!((ratio.low, ratio.high), (Some(0.492_59), Some(0.507_437)));
    assert_eq!((ratio.blocks, ratio.confidence), (6, 0.95));
    assert_eq!(row.verdict, Verdict::Faster);
    insta::assert_snapshot!(row.reason, @"interval [0.492, 0.508] lies outside the 5 % margin and the 0.001 % floor");
}

/// Both cells are slow in the last of three rounds, and one of them in another by itself: pairs of rounds say what they
/// differ by, unless workers ran one at a time. Then nothing makes a pair of them.
#[test]
fn interleaved_rounds_are_compared_by_pairs() {
    let mut run = synthetic::run(Size {
        cells: 2,
        blocks: 6,
        rounds: 3,
        samples: 3,
    });
    for block in 0..6 {
        for (slot, times) in [(0, [100, 100, 200]), (1, [110, 220, 220])] {
            for (round, time) in launch(&mut run, 0, block, slot)
                .rounds
                .iter_mut()
                .zip(times)
            {
                round.samples_ns.fill(time * 10_000);
            }
        }
    }
    let centre = |run: &Synthetic| only_row(&tables(run)).ratio.unwrap().centre;
    assert_eq!(centre(&run), 1.1);
    // In whatever order they are told.
    for block in 0..6 {
        launch(&mut run, 0, block, 1).rounds.reverse();
    }
    assert_eq!(centre(&run), 1.1);
    // A round without a sample is none of a pass, so of that block there are medians alone: 2.2, of six.
    let mut lacking = run.clone();
    launch(&mut lacking, 0, 3, 1).rounds[2].samples_ns.clear();
    assert_eq!(centre(&lacking), 1.234_71);
    // One block of the heat whose workers ran one at a time is enough.
    heat(&mut run, 0).blocks[5].alone = Some("they do not fit into memory together".to_owned());
    assert_eq!(centre(&run), 2.2);
}

#[test]
fn each_direction_has_its_verdict() {
    let verdict = |contender: [u64; 6]| only_row(&tables(&race(&EVEN, &contender))).verdict;
    assert_eq!(verdict([500_000; 6]), Verdict::Faster);
    assert_eq!(verdict([2_000_000; 6]), Verdict::Slower);
    assert_eq!(verdict([1_010_000; 6]), Verdict::Same);
    // Between 5 % and nothing, and scattered.
    assert_eq!(
        verdict([960_000, 940_000, 950_000, 960_000, 940_000, 950_000]),
        Verdict::Unclear
    );
    assert_eq!(
        verdict([500_000, 2_000_000, 500_000, 2_000_000, 500_000, 2_000_000]),
        Verdict::Unclear
    );
}

#[test]
fn fewer_than_six_blocks_are_unclear_with_an_interval() {
    let tables = tables(&race(&[1_000_000; 5], &[500_000; 5]));
    let row = only_row(&tables);
    assert_eq!(row.verdict, Verdict::Unclear);
    assert_eq!(
        row.reason,
        "only 5 blocks measured both; a verdict rests on at least 6"
    );
    assert!(row.ratio.unwrap().low.is_some());
    assert_eq!(
        tables
            .floors
            .iter()
            .map(|floor| floor.floor)
            .collect::<Vec<_>>(),
        [None, None]
    );
}

#[test]
fn one_block_has_no_interval() {
    let tables = tables(&race(&[1_000_000], &[500_000]));
    let ratio = only_row(&tables).ratio.unwrap();
    assert_eq!(
        (ratio.low, ratio.centre, ratio.high, ratio.blocks),
        (None, 0.5, None, 1)
    );
}

#[test]
fn only_blocks_that_measured_both_count() {
    let mut run = race(&[1_000_000; 8], &[500_000; 8]);
    for block in [0, 3, 5] {
        heat(&mut run, 0).blocks[block]
            .launches
            .retain(|launch| launch.slot != 1);
    }
    let tables = tables(&run);
    let row = only_row(&tables);
    assert_eq!(
        (row.ratio.unwrap().blocks, row.verdict),
        (5, Verdict::Unclear)
    );
}

#[test]
fn the_floor_is_the_far_end_of_the_twins_interval() {
    // Twins of the baseline are 2 % slower, within the margin, to the nanosecond: the floor is
    // that and the clock's resolution, 2 in a million, rounded outward.
    let mut run = race(&EVEN, &[1_001_000; 6]);
    set_times(&mut run, 0, 2, &[1_020_000; 6]);
    let noisy = tables(&run);
    let floor = noisy
        .floors
        .iter()
        .find(|floor| floor.engine == "pytorch/eager")
        .unwrap();
    assert_eq!((floor.floor, floor.pairs), (Some(0.020_01), 1));
    assert_eq!(only_row(&noisy).verdict, Verdict::Same);

    // Beyond the margin: what lies inside the margin is no longer the same.
    set_times(&mut run, 0, 2, &[1_200_000; 6]);
    let noisy = tables(&run);
    let row = only_row(&noisy);
    assert_eq!(row.floor, Some(0.200_01));
    assert_eq!(row.verdict, Verdict::Unclear);
    insta::assert_snapshot!(row.reason, @"interval [1.0009, 1.0011] lies inside the 5 % margin, but the 20 % floor does not");

    // Slower than the margin, but not than the floor.
    set_times(&mut run, 0, 1, &[1_150_000; 6]);
    set_times(&mut run, 0, 3, &[1_150_000; 6]);
    assert_eq!(only_row(&tables(&run)).verdict, Verdict::Unclear);
    set_times(&mut run, 0, 1, &[1_250_000; 6]);
    set_times(&mut run, 0, 3, &[1_250_000; 6]);
    assert_eq!(only_row(&tables(&run)).verdict, Verdict::Slower);
}

#[test]
fn twins_of_all_heats_make_one_floor() {
    // Groups 0 and 10 hold twins.
    let tables = tables(&run(11, 6));
    for floor in &tables.floors {
        assert_eq!((floor.pairs, floor.ratio.unwrap().blocks), (2, 12));
        let ratio = floor.ratio.unwrap();
        let farther = ratio.high.unwrap().max(1.0 / ratio.low.unwrap()) - 1.0;
        assert!((floor.floor.unwrap() - farther).abs() < 1e-6);
    }
}

#[test]
fn twins_of_a_heat_that_stayed_disturbed_make_no_floor() {
    let mut run = run(11, 6);
    for outcome in &mut heat(&mut run, 10).footer.outcomes {
        *outcome = Outcome::new(OutcomeKind::Unstable, "load of 3");
    }
    for floor in &tables(&run).floors {
        assert_eq!((floor.pairs, floor.ratio.unwrap().blocks), (1, 6));
    }
}

#[test]
fn floors_of_one_job_never_apply_to_another() {
    // Group 0 holds twins; group 1, which does not, goes to a job of its own.
    let mut run = run(2, 6);
    let plan = &mut run.record.plan;
    let mut other = plan.jobs[0].clone();
    other.id = "other".to_owned();
    other.comparisons[0].pairs.remove(0);
    plan.jobs[0].comparisons[0].pairs.truncate(1);
    plan.heats[1].job.clone_from(&other.id);
    plan.jobs.push(other);
    let tables = tables(&run);
    assert_eq!(tables.floors.len(), 2);
    assert!(tables.floors.iter().all(|floor| floor.job == "synthetic"));
    let of_job = |job: usize| &tables.jobs[job].comparisons[0].rows[0];
    assert!(of_job(0).floor.is_some());
    assert_eq!(
        (of_job(1).floor, of_job(1).verdict),
        (None, Verdict::Unclear)
    );
}

#[test]
fn every_device_has_its_floor() {
    // Groups 0 and 10 hold twins; the second ran elsewhere.
    let mut run = run(11, 6);
    let elsewhere =
        |cell: &mut schema::plan::PlannedCell| cell.cell.device = schema::Device::Cuda(0);
    run.record.plan.heats[10]
        .cells
        .iter_mut()
        .for_each(elsewhere);
    heat(&mut run, 10)
        .header
        .cells
        .iter_mut()
        .for_each(elsewhere);
    set_times(&mut run, 0, 0, &EVEN);
    set_times(&mut run, 0, 2, &[1_300_000; 6]);
    let tables = tables(&run);
    let owners: Vec<_> = tables
        .floors
        .iter()
        .map(|floor| (floor.engine.as_str(), floor.device.as_str(), floor.pairs))
        .collect();
    assert_eq!(
        owners,
        [
            ("onnxruntime/cpu", "cpu", 1),
            ("onnxruntime/cpu", "cuda:0", 1),
            ("pytorch/eager", "cpu", 1),
            ("pytorch/eager", "cuda:0", 1),
        ]
    );
    let rows = &tables.jobs[0].comparisons[0].rows;
    assert!(rows[0].floor.unwrap() > 0.3 && rows[10].floor.unwrap() < 0.1);
}

#[test]
fn heats_that_err_in_opposite_directions_do_not_cancel() {
    // Five of 41 groups hold twins. One finds the baseline's 10 % up, one as much down.
    let mut run = run(41, 6);
    for (group, original, twin) in [
        (0, 10, 11),
        (10, 11, 10),
        (20, 9, 9),
        (30, 9, 9),
        (40, 9, 9),
    ] {
        set_times(&mut run, group, 0, &[original * 100_000; 6]);
        set_times(&mut run, group, 2, &[twin * 100_000; 6]);
    }
    let tables = tables(&run);
    let of_baseline = |floor: &&schema::tables::Floor| floor.engine == "pytorch/eager";
    let floor = tables.floors.iter().find(of_baseline).unwrap();
    let ratio = floor.ratio.unwrap();
    assert_eq!((floor.pairs, ratio.blocks), (5, 30));
    // The 10th and the 21st of 30 blocks are 1, but for the clock: 2/900,000.
    assert_eq!((ratio.low, ratio.high), (Some(0.999_997), Some(1.000_01)));
    // exp(√(2/5)·ln 1.1 + 2/900,000) − 1.
    assert_eq!(floor.floor, Some(0.062_135_7));
}

#[test]
fn without_twins_nothing_is_called() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let cut = |cells: &mut Vec<schema::plan::PlannedCell>| cells.truncate(2);
    cut(&mut run.record.plan.heats[0].cells);
    let heat = heat(&mut run, 0);
    cut(&mut heat.header.cells);
    heat.reference.parity.truncate(2);
    heat.reference.obstacles.truncate(2);
    heat.reference.logs.truncate(2);
    heat.footer.outcomes.truncate(2);
    for block in &mut heat.blocks {
        block.launches.retain(|launch| launch.slot < 2);
    }
    let tables = tables(&run);
    assert!(tables.floors.is_empty());
    let row = only_row(&tables);
    assert_eq!((row.verdict, row.floor), (Verdict::Unclear, None));
    insta::assert_snapshot!(row.reason, @"interval [0.4999, 0.5001] cannot be held against the noise between identical cells, which was not measured in 6 blocks");
}

#[test]
fn the_margin_of_the_plan_judges_whatever_that_of_the_heat_was() {
    let mut run = race(&EVEN, &[1_100_000; 6]);
    assert_eq!(only_row(&tables(&run)).verdict, Verdict::Slower);
    run.record.plan.jobs[0].measure.margin = 0.2;
    let tables = tables(&run);
    assert_eq!(only_row(&tables).verdict, Verdict::Same);
    assert_eq!(tables.jobs[0].measure.margin, 0.2);
}

#[test]
fn a_plan_may_list_the_cells_of_a_heat_in_another_order() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let first = tables(&run);
    let cells = &mut run.record.plan.heats[0].cells;
    cells.swap(0, 1);
    cells[2].twin_of = Some(1);
    cells[3].twin_of = Some(0);
    let second = tables(&run);
    assert_eq!(first.jobs, second.jobs);
    assert_eq!(first.floors, second.floors);
    let turned: Vec<_> = second.cells.iter().rev().cloned().collect();
    assert_eq!(first.cells, turned, "rows follow the plan");
    // A twin of the other cell is another heat.
    run.record.plan.heats[0].cells[2].twin_of = Some(0);
    run.record.plan.heats[0].cells[3].twin_of = Some(1);
    assert!(try_tables(&run).is_err());
}

#[test]
fn an_unmeasured_side_is_named() {
    let mut run = race(&EVEN, &[500_000; 6]);
    heat(&mut run, 0).footer.outcomes[0] = Outcome::new(OutcomeKind::Crashed, "signal 11");
    let first = tables(&run);
    let row = only_row(&first);
    assert_eq!((row.verdict, row.ratio), (Verdict::NotMeasured, None));
    assert_eq!(row.reason, "baseline: crashed: signal 11");

    heat(&mut run, 0).footer.outcomes[1] = Outcome::new(OutcomeKind::TimedOut, "60 s");
    let second = tables(&run);
    assert_eq!(
        only_row(&second).reason,
        "baseline: crashed: signal 11; contender: timed_out: 60 s"
    );

    heat(&mut run, 0).footer.outcomes[0] = Outcome::new(OutcomeKind::TimedOut, "60 s");
    let third = tables(&run);
    assert_eq!(only_row(&third).reason, "both: timed_out: 60 s");
}

#[test]
fn an_unstable_side_shows_its_ratio_and_is_unclear() {
    let mut run = race(&EVEN, &[500_000; 6]);
    heat(&mut run, 0).footer.outcomes[1] = Outcome::new(OutcomeKind::Unstable, "load of 3");
    let tables = tables(&run);
    let row = only_row(&tables);
    assert_eq!(
        (row.verdict, row.ratio.unwrap().centre),
        (Verdict::Unclear, 0.5)
    );
    assert_eq!(row.reason, "contender: unstable: load of 3");
}

#[test]
fn the_family_is_what_was_planned() {
    // Ten pairs planned, one of them never measured: the error is shared among ten.
    let mut run = run(10, 6);
    run.record.heats[3].heat = schema::record::HeatResult::NotReached("out of time".to_owned());
    let tables = tables(&run);
    let comparison = &tables.jobs[0].comparisons[0];
    assert_eq!((comparison.family, comparison.confidence_each), (10, 0.995));
    for row in &comparison.rows {
        match row.ratio {
            Some(ratio) => assert_eq!(ratio.confidence, 0.995),
            None => assert_eq!(row.verdict, Verdict::NotMeasured),
        }
    }
    // A cell's own interval speaks of it alone.
    let speeds = tables.cells.iter().filter_map(|row| row.speed.as_ref());
    assert!(
        speeds.clone().count() == 18
            && speeds.clone().all(|speed| speed.step_ns.confidence == 0.95)
    );
}

#[test]
fn the_ratio_of_centres_is_the_centre_of_the_ratio() {
    let tables = tables(&run(5, 6));
    let centre = |id| {
        let row = tables.cells.iter().find(|row| row.id == id).unwrap();
        row.speed.as_ref().unwrap().step_ns.centre
    };
    for row in &tables.jobs[0].comparisons[0].rows {
        let quotient = centre(row.contender.clone()) / centre(row.baseline.clone());
        assert!((quotient / row.ratio.unwrap().centre - 1.0).abs() < 3e-6);
    }
}

/// A verdict about a precision in which nothing was computed says so.
#[test]
fn a_side_that_is_computed_otherwise_is_named() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let told = "stored as fp16, computed in fp32";
    let reason = |run: &Synthetic| only_row(&tables(run)).reason.clone();
    let plain = reason(&run);
    for (slot, said) in [
        (1, format!("; the contender is {told}")),
        (0, format!("; both are {told}")),
    ] {
        for block in 0..6 {
            let loaded = launch(&mut run, 0, block, slot).loaded.as_mut().unwrap();
            loaded
                .settings
                .insert("arithmetic".to_owned(), told.to_owned());
        }
        assert_eq!(reason(&run), format!("{plain}{said}"));
        let claim = tables(&run).jobs[0].claims[0].reason.clone();
        let said = said.replace("the contender", "onnxruntime/cpu");
        assert!(claim.ends_with(&said), "{claim}");
    }
}

/// Whether blocks resemble those before them is told of each job; twins have no part in it.
#[test]
fn blocks_that_resemble_those_before_them_are_told_of() {
    let resemblance = |contender: &[u64]| {
        let run = race(&vec![1_000_000; contender.len()], contender);
        tables(&run).jobs[0].resemblance
    };
    assert_eq!(resemblance(&[500_000; 6]), None);
    assert_eq!(resemblance(&[520_000, 480_000, 520_000, 480_000]), None);
    // Off their mean by −a, a, −a, …: five products of −a² by six squares.
    let taking_turns = resemblance(&[520_000, 480_000, 520_000, 480_000, 520_000, 480_000]);
    let found = taking_turns.unwrap();
    assert_eq!((found.correlation, found.pairs), (-0.833_333, 1));
    // Ten products of a² and one of −a², by twelve squares.
    let moods = [vec![520_000; 6], vec![480_000; 6]].concat();
    let found = resemblance(&moods).unwrap();
    assert_eq!((found.correlation, found.expected), (0.75, -0.083_333_3));
}

/// Blocks that agree do not know what launches do: twins do.
#[test]
fn an_interval_is_no_narrower_than_launches_of_twins_make_it() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let agreeing = tables(&run);
    assert!(!only_row(&agreeing).is_widened);
    set_times(
        &mut run,
        0,
        3,
        &[520_000, 480_000, 520_000, 480_000, 520_000, 480_000],
    );
    // d = ln(1.04, 0.96, …): off their mean by 0.04002135; χ² of 5 degrees of freedom is below 2.342534 once in
    // five: √(6 · 0.04002135² ÷ 2.342534 ÷ 2) = 0.0452911. Times 1.959964 ÷ √6: 0.0362398.
    let scattering = tables(&run);
    let floors = scattering.floors.iter();
    let scatter: Vec<_> = floors.map(|floor| floor.launch_scatter.unwrap()).collect();
    assert!(
        (scatter[0] - 0.045_291_1).abs() < 1e-6 && scatter[1] == 0.0,
        "{scatter:?}"
    );
    let row = only_row(&scattering);
    let (low, high) = (
        row.ratio.unwrap().low.unwrap(),
        row.ratio.unwrap().high.unwrap(),
    );
    assert!(
        (low - 0.482_203).abs() < 2e-6 && (high - 0.518_454).abs() < 2e-6,
        "{low}, {high}"
    );
    assert!(row.is_widened);
    let (_, why) = row.reason.split_once("; ").unwrap();
    insta::assert_snapshot!(why, @"widened to the scatter of two launches, by twins at most 4.53 %");
}

#[test]
fn effects_are_listed_by_their_size() {
    let mut run = run(3, 6);
    for (group, contender) in [(0, 900_000), (1, 2_000_000), (2, 600_000)] {
        set_times(&mut run, group, 0, &EVEN);
        set_times(&mut run, group, 1, &[contender; 6]);
    }
    assert!(
        tables(&run).jobs[0].effects.is_empty(),
        "nothing was varied"
    );
    let word = str::to_owned;
    let base = [("engine", "pytorch/eager"), ("model", "resnet18")];
    let base = base.map(|(axis, value)| (word(axis), word(value)));
    run.record.plan.jobs[0].vary = base[..1].iter().cloned().collect();
    let order = |run: &Synthetic| {
        let tables = tables(run);
        let places = tables.jobs[0].effects.iter();
        places
            .map(|place| (place.comparison, place.row))
            .collect::<Vec<_>>()
    };
    // ln 2, ln 0.6, ln 0.9.
    assert_eq!(order(&run), [(0, 1), (0, 2), (0, 0)]);
    heat(&mut run, 1).footer.outcomes[1] = Outcome::new(OutcomeKind::Crashed, "gone");
    assert_eq!(
        order(&run),
        [(0, 2), (0, 0), (0, 1)],
        "what has no ratio stands last"
    );
    // Pairs of networks that are not the base's are no effects of leaving it.
    run.record.plan.jobs[0].vary = base.into();
    assert_eq!(order(&run), [(0, 0)]);
}
