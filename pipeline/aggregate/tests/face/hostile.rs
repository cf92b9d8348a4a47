//! Artifacts that lie: a typed error or a typed outcome, never a panic.

use photofinish_aggregate::AggregateError;
use schema::{
    Boundary, Digest, OutcomeKind,
    record::{HeatResult, Round},
};
use synthetic::Synthetic;

use crate::race::{heat, launch, race, run, tables, try_tables};

const EVEN: [u64; 6] = [1_000_000; 6];

/// A message with its hashes blotted out.
fn blotted(message: &str) -> String {
    let hash = |word: &str| {
        word.len() >= 12
            && word
                .trim_end_matches(',')
                .chars()
                .all(|c| c.is_ascii_hexdigit())
    };
    let words = message
        .split(' ')
        .map(|word| if hash(word) { "HASH" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn problem(change: impl FnOnce(&mut Synthetic)) -> String {
    let mut run = race(&EVEN, &EVEN);
    change(&mut run);
    match try_tables(&run) {
        Err(AggregateError::Inconsistent { problem, .. }) => problem,
        Err(other) => blotted(&other.to_string()),
        Ok(_) => "accepted".to_owned(),
    }
}

#[test]
fn heats_that_do_not_hold_together_are_refused() {
    let problems = [
        problem(|run| launch(run, 0, 2, 1).slot = 4),
        problem(|run| launch(run, 0, 2, 1).slot = u32::MAX),
        problem(|run| heat(run, 0).blocks[1].index = 0),
        problem(|run| heat(run, 0).footer.outcomes.clear()),
        problem(|run| heat(run, 0).reference.parity.truncate(3)),
        problem(|run| heat(run, 0).reference.obstacles.push(None)),
        problem(|run| heat(run, 0).reference.logs.clear()),
        problem(|run| heat(run, 0).header.cells.truncate(1)),
        problem(|run| heat(run, 0).header.cells[2].twin_of = None),
        problem(|run| heat(run, 0).header.started = "yesterday".to_owned()),
        problem(|run| heat(run, 0).footer.finished = String::new()),
    ];
    insta::assert_snapshot!(problems.join("\n"), @r#"
    block 2 launches slot 4 of 4
    block 2 launches slot 4294967295 of 4
    block 0 occurs twice
    it has 0 outcomes for 4 cells
    it has 3 parities for 4 cells
    it has 5 obstacles for 4 cells
    it has 0 logs of parity for 4 cells
    its cells are not those of the plan
    its cells are not those of the plan
    `yesterday` is not a time in RFC 3339
    `` is not a time in RFC 3339
    "#);
    assert!(
        problem(|run| heat(run, 0).header.key = Digest::of_bytes(b""))
            .starts_with("its key is e3b0")
    );
}

#[test]
fn plans_that_do_not_hold_together_are_refused() {
    let problems = [
        problem(|run| run.record.version = 7),
        problem(|run| run.record.plan.version = 0),
        problem(|run| heat(run, 0).header.version = 7),
        problem(|run| run.record.plan.jobs.push(run.record.plan.jobs[0].clone())),
        problem(|run| run.record.plan.jobs[0].measure.confidence = 1.0),
        problem(|run| run.record.plan.jobs[0].measure.margin = f64::NAN),
        problem(|run| run.record.plan.heats.push(run.record.plan.heats[0].clone())),
        problem(|run| run.record.plan.heats[0].job = "other".to_owned()),
        problem(|run| run.record.plan.heats[0].cells[2].twin_of = Some(9)),
        problem(|run| run.record.plan.heats[0].cells[2].twin_of = Some(2)),
        problem(|run| run.record.plan.heats[0].cells[1].cell.boundary = Boundary::Device),
        problem(|run| {
            run.record.plan.jobs[0].comparisons[0].pairs[0].group = "other".to_owned();
        }),
    ];
    insta::assert_snapshot!(problems.join("\n"), @r#"
    the run record has version 7, and this program reads version 6
    its plan has version 0, and this program reads version 2
    heat HASH of group `synthetic/batch=1,model=resnet18` has version 7, and this program reads version 6
    the run record's plan does not hold together: job `synthetic` occurs twice
    the run record's plan does not hold together: job `synthetic` has margin 0.05, target 0.03 and confidence 1
    the run record's plan does not hold together: job `synthetic` has margin NaN, target 0.03 and confidence 0.95
    the run record's plan does not hold together: group `synthetic/batch=1,model=resnet18` occurs twice
    the run record's plan does not hold together: group `synthetic/batch=1,model=resnet18` belongs to no job
    the run record's plan does not hold together: group `synthetic/batch=1,model=resnet18` has a twin of slot 9, which is no original of it
    the run record's plan does not hold together: group `synthetic/batch=1,model=resnet18` has a twin of slot 2, which is no original of it
    the run record's plan does not hold together: job `synthetic` has cells at the boundaries `step` and `device`, whose times are never compared
    job `synthetic` compares cell HASH which group `other` does not have
    "#);
}

#[test]
fn a_heat_that_cannot_be_read_is_named() {
    let mut run = race(&EVEN, &EVEN);
    run.record.heats[0].heat = HeatResult::Sealed(Digest::of_bytes(b""));
    let error = try_tables(&run).unwrap_err();
    assert!(
        matches!(&error, AggregateError::Unreadable { group, .. } if group.starts_with("synthetic/"))
    );
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.to_string().starts_with("no heat e3b0"));
}

#[test]
fn impossible_samples_crash_their_launch() {
    for (samples, reason) in [
        (
            vec![1, 0, 1],
            "its worker reported a step of 0 ns, which cannot be",
        ),
        (
            vec![u64::MAX],
            "its worker reported a step of 18446744073709551615 ns, which cannot be",
        ),
        (vec![], "its worker reported no step times"),
    ] {
        let mut run = race(&EVEN, &EVEN);
        launch(&mut run, 0, 3, 1).rounds = vec![Round {
            sequence: 0,
            samples_ns: samples,
        }];
        let row = tables(&run).cells.swap_remove(1);
        assert_eq!(row.outcome.kind, OutcomeKind::Crashed);
        assert_eq!(row.outcome.reason, reason);
        assert_eq!(row.launches[3].outcome, row.outcome);
        assert_eq!(row.speed, None);
    }
}

#[test]
fn a_measured_cell_without_launches_was_not_reached() {
    let mut run = race(&EVEN, &EVEN);
    for block in &mut heat(&mut run, 0).blocks {
        block.launches.retain(|launch| launch.slot != 1);
    }
    let row = tables(&run).cells.swap_remove(1);
    assert_eq!(row.outcome.kind, OutcomeKind::NotReached);
}

#[test]
fn extremes_stay_finite_and_readable() {
    let mut run = race(&EVEN, &EVEN);
    for block in 0..6 {
        let samples = if block % 2 == 0 { 1 } else { 1 << 53 };
        for round in &mut launch(&mut run, 0, block, 1).rounds {
            round.samples_ns.fill(samples);
        }
        let launch = launch(&mut run, 0, block, 1);
        launch.start_ns = Some(u64::MAX);
        let loaded = launch.loaded.as_mut().unwrap();
        loaded.fill_ns = u64::MAX;
        loaded.build_ns = u64::MAX;
    }
    for cell in &mut run.record.plan.heats[0].cells {
        cell.flops = u64::MAX;
    }
    let tables = tables(&run);
    let text = serde_json::to_string(&tables).unwrap();
    assert_eq!(
        serde_json::from_str::<schema::Tables>(&text).unwrap(),
        tables
    );
}

#[test]
fn an_empty_run_has_empty_tables() {
    let mut run = run(1, 6);
    run.record.plan.heats.clear();
    run.record.plan.jobs.clear();
    run.record.heats.clear();
    let tables = tables(&run);
    assert_eq!((tables.cells.len(), tables.measured), (0, None));

    // Jobs without cells or pairs.
    let mut run = crate::race::run(1, 6);
    run.record.plan.heats.clear();
    run.record.plan.jobs[0].comparisons[0].pairs.clear();
    run.record.plan.jobs[0].claims.clear();
    assert_eq!(
        crate::race::tables(&run).jobs[0].comparisons[0].confidence_each,
        0.95
    );
}
