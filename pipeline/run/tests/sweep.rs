//! Runs over synthetic cells: what is measured, reused, resumed.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use schema::{
    Outcome, OutcomeKind,
    plan::{Ceilings, PlannedCell, Status},
    record::{HeatResult, RunRecord},
};

#[test]
fn a_heat_that_two_groups_share_is_measured_and_told_once() {
    let track = Track::new();
    let both = || vec![("a", cells(&["noop"])), ("b", cells(&["noop"]))];
    let mut plan = plan(measure(), both());
    plan.heats[1].key = plan.heats[0].key;
    let (record, diary) = track.run(&plan);
    assert_eq!(record.heats[0].heat, record.heats[1].heat);
    assert_eq!((diary.count("finished"), diary.count("cached")), (1, 0));
    assert_eq!(track.run(&plan).1.lines, ["cached a"]);
}

#[test]
fn cells_are_measured_and_parity_is_judged() {
    let track = Track::new();
    let mut cells = cells(&["steady", "noop", "chatter"]);
    let mut twin = cells[0].clone();
    twin.twin_of = Some(0);
    cells.push(twin);
    let plan = plan(measure(), vec![("g", cells)]);
    let (record, diary) = track.run(&plan);
    let heat = track.heat(&record, 0);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 4]);
    assert_eq!(heat.footer.stopped, "all 2 blocks measured");
    for parity in &heat.reference.parity {
        let parity = parity.as_ref().unwrap();
        assert_eq!((parity.error, parity.worst_share), (0.0, 0.0));
        assert_eq!(parity.reference, "pytorch/eager fp64 on cpu");
    }
    // The first launch of each is told, but for the twin's.
    let starts: Vec<_> = heat.reference.starts.iter().map(Option::as_ref).collect();
    assert!(matches!(
        starts.as_slice(),
        [Some(_), Some(_), Some(_), None]
    ));
    for start in starts.into_iter().flatten() {
        assert!(start.start_ns > 0 && start.loaded.first_step_ns > 0 && !start.is_cold);
    }
    // Three cells, the reference, and PyTorch at their precision; the twin is not launched again.
    assert_eq!(diary.count("Parity"), 5);
    assert_eq!(heat.blocks.len(), 2);
    for block in &heat.blocks {
        let mut slots: Vec<u32> = block.launches.iter().map(|launch| launch.slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3]);
        let mut sequences = vec![];
        for launch in &block.launches {
            assert_eq!(
                (launch.outcome.clone(), launch.rounds.len()),
                (Outcome::measured(), 2)
            );
            assert!(
                launch
                    .rounds
                    .iter()
                    .all(|round| round.samples_ns.len() >= 5)
            );
            assert!(launch.loaded.is_some() && launch.warm_up.is_some() && launch.memory.is_some());
            assert!(launch.start_ns.is_some() && launch.cpu_ns.is_some());
            assert!(launch.versions.contains_key("synthetic"));
            sequences.extend(launch.rounds.iter().map(|round| round.sequence));
        }
        sequences.sort_unstable();
        assert_eq!(sequences, (0..8).collect::<Vec<_>>());
        assert!(block.measuring_ns > 0 && block.canary_before.copy_ns > 0);
        println!(
            "supervisor used {:.3} % of the measuring time",
            100.0 * block.supervisor_ns as f64 / block.measuring_ns as f64
        );
    }
    assert!(
        heat.blocks[0]
            .launches
            .iter()
            .any(|launch| launch.log.contains("is verbose"))
    );
    track.assert_deserted();
    assert!(
        std::fs::read_dir(track.store.path().join("tmp"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn the_second_run_measures_and_writes_nothing() {
    let track = Track::new();
    let mut plan = plan(
        measure(),
        vec![("a", cells(&["noop"])), ("b", cells(&["steady"]))],
    );
    let (first, _) = track.run(&plan);
    let digest = track.store.lock().unwrap().put_run(&first).unwrap();
    let files = track.files();
    for heat in &mut plan.heats {
        heat.status = Status::Stale {
            changed: vec!["nothing".to_owned()],
        };
    }
    let (second, diary) = track.run(&plan);
    assert_eq!(diary.lines, ["cached a", "cached b"]);
    assert_eq!(second.heats, first.heats);
    assert_eq!(
        track.store.lock().unwrap().put_run(&second).unwrap(),
        digest
    );
    assert_eq!(track.files(), files);

    // Fresh: new heats beside the old, and those are the newest from now on.
    let interrupt = worker::host::Interrupt::new().unwrap();
    let (fresh, diary) = track
        .run_with(&plan, true, Diary::default(), &interrupt)
        .unwrap();
    assert_eq!((diary.count("finished"), diary.count("cached")), (2, 0));
    assert_ne!(fresh.heats, first.heats);
    let is_cold = |record: &RunRecord| {
        let starts = track.heat(record, 0).reference.starts;
        starts.into_iter().flatten().all(|start| start.is_cold)
    };
    assert_eq!((is_cold(&first), is_cold(&fresh)), (false, true));
    assert_eq!(track.run(&plan).0.heats, fresh.heats);
    let (again, _) = track
        .run_with(&plan, true, Diary::default(), &interrupt)
        .unwrap();
    assert_ne!(again.heats, fresh.heats, "a complete fresh run is over");
}

#[test]
fn a_changed_key_is_measured_and_a_corrupt_heat_again() {
    let track = Track::new();
    let one = plan(measure(), vec![("g", cells(&["noop"]))]);
    let two = plan(measure(), vec![("g", cells(&["noop", "steady"]))]);
    let (first, _) = track.run(&one);
    assert_eq!(track.run(&two).1.count("finished"), 1);
    assert_eq!(track.run(&one).1.lines, ["cached g"]);
    let HeatResult::Sealed(digest) = &first.heats[0].heat else {
        panic!()
    };
    let file = track
        .files()
        .into_keys()
        .find(|path| path.to_string_lossy().contains(&digest.to_string()));
    std::fs::write(file.unwrap(), "junk").unwrap();
    let (again, diary) = track.run(&one);
    assert_eq!((diary.count("set aside"), diary.count("finished")), (1, 1));
    assert_ne!(again.heats, first.heats);
    assert_eq!(
        track.run(&two).1.lines,
        ["cached g"],
        "other heats are not touched"
    );
}

#[test]
fn a_corrupt_run_record_is_set_aside_and_said() {
    let track = Track::new();
    let plan = plan(measure(), vec![("g", cells(&["noop"]))]);
    let (first, _) = track.run(&plan);
    let digest = track.store.lock().unwrap().put_run(&first).unwrap();
    let path = format!("runs/000001-{digest}.run.zst");
    std::fs::write(track.store.path().join(path), "junk").unwrap();
    let (_, diary) = track.run(&plan);
    assert_eq!((diary.count("set aside"), diary.count("cached")), (1, 1));
    assert!(track.store.runs_in_order().unwrap().is_empty());
}

#[test]
fn obstacles_are_outcomes_and_are_not_launched() {
    let track = Track::new();
    let mut cells = cells(&["steady", "noop"]);
    cells[1].obstacle = Some(Outcome::new(OutcomeKind::Unavailable, "no such device"));
    let alone = vec![cells[1].clone()];
    let plan = plan(measure(), vec![("both", cells), ("alone", alone)]);
    let (record, _) = track.run(&plan);
    let heat = track.heat(&record, 0);
    assert_eq!(
        kinds(&heat.footer.outcomes),
        [OutcomeKind::Measured, OutcomeKind::Unavailable]
    );
    assert_eq!(heat.footer.outcomes[1].reason, "no such device");
    assert!(
        track
            .workers
            .asked
            .borrow()
            .iter()
            .all(|engine| engine.variant != "noop")
    );
    let heat = track.heat(&record, 1);
    assert_eq!((heat.blocks.len(), heat.footer.outcomes.len()), (0, 1));
    assert_eq!(
        track.run(&plan).1.count("cached"),
        2,
        "nothing to measure is an answer too"
    );
}

#[test]
fn without_the_reference_nothing_is_measured() {
    let mut track = Track::new();
    track.workers.lacking.push("pytorch");
    let (record, diary) = track.run(&plan(measure(), vec![("g", cells(&["steady"]))]));
    let heat = track.heat(&record, 0);
    assert_eq!(
        kinds(&heat.footer.outcomes),
        [OutcomeKind::ParityUnverified]
    );
    let reason = &heat.footer.outcomes[0].reason;
    assert!(
        reason.contains("pytorch/eager fp64 on cpu ended unavailable: not installed"),
        "{reason}"
    );
    let log = &heat.reference.logs[0];
    assert_eq!(log.as_deref(), Some(""), "the cell's own");
    assert_eq!((heat.blocks.len(), diary.count("block")), (0, 0));
}

#[test]
fn wrong_outputs_are_never_timed() {
    let track = Track::new();
    let plan = plan(
        measure(),
        vec![("g", cells(&["wrong_output", "nan_output", "steady"]))],
    );
    let (record, _) = track.run(&plan);
    let heat = track.heat(&record, 0);
    let outcomes = &heat.footer.outcomes;
    assert_eq!(
        kinds(outcomes),
        [
            OutcomeKind::ParityFailed,
            OutcomeKind::ParityFailed,
            OutcomeKind::Measured
        ]
    );
    let parity = heat.reference.parity[0].as_ref().unwrap();
    assert!(
        (0.09..0.11).contains(&parity.error) && parity.worst_share > 1000.0,
        "{parity:?}"
    );
    assert!(
        outcomes[0].reason.contains("is off by"),
        "{}",
        outcomes[0].reason
    );
    assert!(
        outcomes[1].reason.contains("NaN at element 0"),
        "{}",
        outcomes[1].reason
    );
    assert!(
        heat.blocks
            .iter()
            .all(|block| block.launches.iter().all(|launch| launch.slot == 2))
    );
}

#[test]
fn training_compares_weights_and_losses() {
    let track = Track::new();
    let train = |variant: &str| {
        let mut cell = cell(variant, 2);
        cell.mode = schema::Mode::Training;
        cell.optimizer = Some(schema::Optimizer::Sgd {
            learning_rate: 0.01,
            momentum: 0.9,
            weight_decay: 0.0,
        });
        let graph = models::zoo::build_for("bert_tiny", &cell.dims, cell.mode).unwrap();
        cell.model.graph = schema::Digest::of_value(&graph);
        planned(cell)
    };
    let variants = ["noop", "wrong_output", "other_side"];
    let cells = variants.map(train).into();
    let (record, _) = track.run(&plan(measure(), vec![("g", cells)]));
    let heat = track.heat(&record, 0);
    assert_eq!(
        kinds(&heat.footer.outcomes),
        [
            OutcomeKind::Measured,
            OutcomeKind::ParityFailed,
            OutcomeKind::Measured
        ]
    );
    // The reference is asked across kinks where a cell fails without: for the last two, once.
    let [agrees, wrong, moved] = [0, 1, 2].map(|slot| heat.reference.parity[slot].as_ref());
    assert_eq!(agrees.unwrap().kink_error, None);
    for parity in [wrong, moved] {
        let kink_error = parity.unwrap().kink_error.unwrap();
        assert!((kink_error - 0.02).abs() < 1e-6, "{kink_error}");
    }
    let reason = &heat.footer.outcomes[1].reason;
    assert!(reason.contains("next to a kink"), "{reason}");
    assert_eq!(
        heat.reference.parity[0].as_ref().unwrap().losses,
        [1.0, 0.5, 1.0 / 3.0]
    );
}

#[test]
fn a_graph_that_changed_since_the_plan_is_refused() {
    let track = Track::new();
    let mut cells = cells(&["noop"]);
    cells[0].cell.model.graph = schema::Digest::of_bytes(b"another");
    let (record, _) = track.run(&plan(measure(), vec![("g", cells)]));
    let outcome = &track.heat(&record, 0).footer.outcomes[0];
    assert_eq!(outcome.kind, OutcomeKind::Unsupported);
    assert!(outcome.reason.contains("plan again"), "{}", outcome.reason);
    assert!(track.workers.asked.borrow().is_empty());
}

#[test]
fn a_used_up_budget_leaves_heats_unreached() {
    let track = Track::new();
    let mut measure = measure();
    measure.budget_ns = 1;
    let groups = vec![
        ("a", cells(&["noop"])),
        ("b", cells(&["steady"])),
        ("c", cells(&["chatter"])),
    ];
    let plan = plan(measure, groups);
    let (record, diary) = track.run(&plan);
    track.heat(&record, 0);
    assert_eq!(diary.count("finished"), 1);
    for entry in &record.heats[1..] {
        let HeatResult::NotReached(reason) = &entry.heat else {
            panic!("{entry:?}")
        };
        assert!(reason.contains("budget of job `job`"), "{reason}");
    }
    // The budget is one of this run: the next goes on.
    let (record, diary) = track.run(&plan);
    assert_eq!((diary.count("cached"), diary.count("finished")), (1, 1));
    track.heat(&record, 1);
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let track = Track::new();
    let mut measure = measure();
    measure.blocks = 4;
    let groups = vec![("a", cells(&["noop", "steady"])), ("b", cells(&["noop"]))];
    let plan = plan(measure, groups);
    for (brake, kept) in [
        ("Parity", 0),
        ("block 0", 0),
        ("round 1", 0),
        ("block 2", 2),
    ] {
        let (record, diary) = track.run_until(&plan, false, brake);
        for entry in &record.heats {
            let HeatResult::NotReached(reason) = &entry.heat else {
                panic!("{brake}: {entry:?}")
            };
            assert!(reason.contains("interrupted"), "{reason}");
        }
        assert!(diary.lines[0].starts_with("heat a"), "{:?}", diary.lines);
        assert_eq!(
            diary.count("failed"),
            0,
            "an interruption is no failure: {:?}",
            diary.lines
        );
        let known = track.store.known_heats().unwrap();
        assert_eq!(
            known.heats[0].state,
            schema::plan::KnownState::Open(kept),
            "{brake}"
        );
        track.assert_deserted();
    }
    let (record, diary) = track.run(&plan);
    assert_eq!(diary.lines[0], "heat a, 2 kept");
    // Both were under way.
    assert_eq!(diary.lines[1], "heat b, 2 kept");
    assert_eq!(diary.count("block"), 2 + 2);
    let heat = track.heat(&record, 0);
    let indices: Vec<u32> = heat.blocks.iter().map(|block| block.index).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
}

/// Blocks are a minute apart where other heats can fill the time, so that no mood of the machine
/// holds all of one's.
#[test]
fn blocks_of_heats_take_turns_while_there_is_room() {
    let order = |predicted_s: u64| {
        let track = Track::new();
        let groups = ["a", "b", "c"].map(|group| (group, cells(&["noop"])));
        let mut plan = plan(measure(), groups.into());
        for heat in &mut plan.heats {
            heat.predicted_ns = predicted_s * 1_000_000_000;
        }
        let (record, diary) = track.run(&plan);
        for index in 0..3 {
            assert_eq!(track.heat(&record, index).blocks.len(), 2);
        }
        let told = diary.lines.into_iter().filter_map(|line| {
            if let Some(group) = line.strip_suffix(", 0 kept") {
                return Some(group.replace("heat ", "+"));
            }
            let block = line.strip_prefix("block ")?;
            Some(block.replace(" of ", ""))
        });
        told.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(1), "+a +b +c 0a 0b 0c 1a 1b 1c");
    // One such heat fills a minute for another, until it is known what it really takes.
    assert_eq!(order(300), "+a +b 0a 0b +c 1a 1b 0c 1c");
}

/// Where nothing fills the time between two blocks nothing is measured, and what that takes is the job's.
#[test]
fn blocks_of_a_lone_heat_lie_apart() {
    let apart = Duration::from_millis(700);
    let mut measure = measure();
    (measure.blocks, measure.apart_ns) = (3, apart.as_nanos() as u64);
    let track = Track::new();
    let began = Instant::now();
    let (record, diary) = track.run(&plan(measure, vec![("a", cells(&["noop"]))]));
    let heat = track.heat(&record, 0);
    let told = ["block", "rests"].map(|word| diary.count(word));
    assert_eq!((heat.blocks.len(), told), (3, [3, 2]));
    assert!(began.elapsed() >= 2 * apart);

    // Others fill the time.
    measure.apart_ns = 1;
    let track = Track::new();
    let groups = ["a", "b"].map(|group| (group, cells(&["noop"])));
    let (_, diary) = track.run(&plan(measure, groups.into()));
    assert_eq!(diary.count("rests"), 0);

    // An hour, but for who interrupts it. What was measured is kept, and what goes on waits for none of it.
    measure.blocks = 3;
    measure.apart_ns = 3_600_000_000_000;
    let mut plan = plan(measure, vec![("a", cells(&["noop"]))]);
    let track = Track::new();
    let (record, diary) = track.run_until(&plan, false, "rests");
    let HeatResult::NotReached(reason) = &record.heats[0].heat else {
        panic!("{record:?}")
    };
    assert!(reason.contains("interrupted"), "{reason}");
    assert_eq!((diary.count("block"), diary.count("rests")), (1, 1));
    track.assert_deserted();
    plan.jobs[0].measure.apart_ns = 0;
    let (record, diary) = track.run(&plan);
    assert_eq!(diary.lines[0], "heat a, 1 kept");
    assert_eq!(track.heat(&record, 0).blocks.len(), 3);
}

/// A plan whose last group is a ceiling, measured in so many blocks that lie so far apart.
fn with_ceiling(plan: schema::Plan, blocks: u32, apart: Duration) -> schema::Plan {
    with_ceilings(plan, 1, blocks, apart)
}

/// The same of so many last groups.
fn with_ceilings(
    mut plan: schema::Plan,
    count: usize,
    blocks: u32,
    apart: Duration,
) -> schema::Plan {
    let mut heats = plan.heats.split_off(plan.heats.len() - count);
    let mut job = plan.jobs[0].clone();
    for heat in &mut heats {
        heat.job = Ceilings::JOB.to_owned();
    }
    job.id = Ceilings::JOB.to_owned();
    (job.measure.blocks, job.measure.apart_ns) = (blocks, apart.as_nanos() as u64);
    plan.ceilings = Some(Ceilings { job, heats });
    plan
}

/// The blocks in the order in which they were begun: of which group, and which.
fn begun(diary: &Diary) -> Vec<String> {
    let told = diary.lines.iter().filter_map(|line| {
        let (block, group) = line.strip_prefix("block ")?.split_once(" of ")?;
        Some(format!("{group}{block}"))
    });
    told.collect()
}

/// One mood of the machine is not what it can do: blocks of ceilings are spread over the run.
#[test]
fn ceilings_begin_first_and_end_with_the_run() {
    let track = Track::new();
    let mut measure = measure();
    (measure.blocks, measure.round_ns) = (6, 50_000_000);
    let groups = ["a", "b", "c"].map(|group| (group, cells(&["noop"])));
    let plan = with_ceiling(plan(measure, groups.into()), 3, Duration::ZERO);
    let (record, diary) = track.run(&plan);
    assert_eq!(diary.lines[0], "heat c, 0 kept");
    let begun = begun(&diary);
    assert_eq!(begun.len(), 6 + 6 + 3);
    let place = |block: &str| begun.iter().position(|it| it == block).unwrap();
    let [first, second, third] = ["c0", "c1", "c2"].map(place);
    assert_eq!(first, 0, "{begun:?}");
    assert!(second - first > 2 && third - second > 2, "{begun:?}");
    // What became of it is told in the plan's order all the same.
    let told = record.heats.iter().map(|heat| heat.group.as_str());
    assert_eq!(told.collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(track.heat(&record, 2).blocks.len(), 3);
}

/// However many they are, all are begun at once: what is left for later would lie in one mood.
#[test]
fn all_ceilings_are_begun_before_any_goes_on() {
    let (track, mut measure) = (Track::new(), measure());
    (measure.blocks, measure.round_ns) = (6, 400_000_000);
    let ceilings: Vec<String> = (0..17).map(|at| format!("c{at:02}-")).collect();
    let groups = ceilings.iter().map(String::as_str);
    let groups = std::iter::once("a").chain(groups);
    let groups = groups.map(|group| (group, cells(&["noop"])));
    let mut plan = with_ceilings(plan(measure, groups.collect()), 17, 2, Duration::ZERO);
    plan.ceilings.as_mut().unwrap().job.measure.round_ns = 1_000_000;
    let (_, diary) = track.run(&plan);
    let begun = begun(&diary);
    let first = begun.iter().rposition(|block| block.ends_with("-0"));
    let second = begun.iter().position(|block| block.ends_with("-1"));
    assert!(first.unwrap() < second.unwrap(), "{begun:?}");
}

/// What no budget is left for is no part of the run that they are spread over.
#[test]
fn ceilings_do_not_wait_for_heats_that_no_budget_is_left_for() {
    let (track, mut measure) = (Track::new(), measure());
    (measure.blocks, measure.budget_ns, measure.round_ns) = (6, 1, 50_000_000);
    let groups = ["a", "b", "c"].map(|group| (group, cells(&["noop"])));
    let mut plan = with_ceiling(plan(measure, groups.into()), 3, Duration::ZERO);
    plan.heats[1].predicted_ns = 3_600_000_000_000;
    let (record, diary) = track.run(&plan);
    assert!(matches!(record.heats[1].heat, HeatResult::NotReached(_)));
    let begun = begun(&diary);
    let place = |block: &str| begun.iter().position(|it| it == block).unwrap();
    assert!(place("c1") < place("a5"), "{begun:?}");
}

#[test]
fn ceilings_fill_what_lies_between_the_blocks_of_a_lone_heat() {
    let apart = Duration::from_millis(1500);
    let mut measure = measure();
    (measure.blocks, measure.apart_ns) = (3, apart.as_nanos() as u64);
    let groups = ["a", "c"].map(|group| (group, cells(&["noop"])));
    let plan = with_ceiling(plan(measure, groups.into()), 3, apart);
    let track = Track::new();
    let (_, diary) = track.run(&plan);
    let begun = begun(&diary);
    let place = |block: &str| begun.iter().position(|it| it == block).unwrap();
    assert!(place("c0") < place("a1"), "{begun:?}");
    assert!(place("c1") < place("a2"), "{begun:?}");
    assert!(place("a1") < place("c2"), "{begun:?}");

    // Where only a ceiling is left it waits for nothing but its own gaps, and goes on where it was interrupted.
    let mut lone = plan;
    lone.heats[0].status = Status::New;
    let ceilings = lone.ceilings.as_mut().unwrap();
    let heat = &mut ceilings.heats[0];
    heat.key_parts
        .insert("group".to_owned(), "another".to_owned());
    heat.key = schema::Digest::of_value(&heat.key_parts);
    let (_, diary) = track.run_until(&lone, false, "rests");
    assert_eq!(self::begun(&diary), ["c0"]);
    assert_eq!(diary.count("cached"), 1);
    let began = Instant::now();
    let (record, diary) = track.run(&lone);
    assert_eq!(self::begun(&diary), ["c1", "c2"]);
    assert!(began.elapsed() >= apart);
    assert_eq!(track.heat(&record, 1).blocks.len(), 3);
}

/// Cells whose steps take so many microseconds, the first of them held against each other one.
fn race(measure: schema::Measure, times: &[u32]) -> schema::Plan {
    let paced = |(batch, microseconds): (u64, &u32)| {
        let mut cell = cell("steady", batch);
        let pace = ("step_us".to_owned(), microseconds.to_string());
        cell.factors.extend([pace]);
        planned(cell)
    };
    let cells: Vec<_> = (1..).zip(times).map(paced).collect();
    let pair = |contender: &PlannedCell| schema::plan::Pair {
        group: "g".to_owned(),
        baseline: cells[0].id.clone(),
        contender: contender.id.clone(),
        value: "other".to_owned(),
        coordinates: std::collections::BTreeMap::new(),
    };
    let pairs = cells[1..].iter().map(pair).collect();
    let mut plan = plan(measure, vec![("g", cells.clone())]);
    plan.jobs[0].comparisons = vec![schema::plan::Comparison {
        axis: "step_us".to_owned(),
        baseline: "any".to_owned(),
        pairs,
    }];
    plan
}

#[test]
fn a_heat_ends_at_the_look_at_which_it_has_said_enough() {
    let mut measure = measure();
    (measure.blocks, measure.rounds) = (48, 1);
    let mut plan = race(measure, &[200, 2000]);
    let stopped = |plan: &schema::Plan| {
        let track = Track::new();
        let heat = track.heat(&track.run(plan).0, 0);
        assert_eq!(heat.blocks.len(), 6);
        heat.footer.stopped
    };
    // Without a twin no verdict is ever settled, and no block would change that.
    assert_eq!(
        stopped(&plan),
        "no twin tells the noise that 1 of 1 verdicts are held against, after 6 of at most 48 blocks"
    );
    let cells = &mut plan.heats[0].cells;
    let mut twin = cells[0].clone();
    twin.twin_of = Some(0);
    cells.push(twin);
    assert_eq!(
        stopped(&plan),
        "every verdict is settled by the noise known then, after 6 of at most 48 blocks"
    );
}

#[test]
fn a_heat_goes_on_while_a_verdict_is_open() {
    let track = Track::new();
    let mut measure = measure();
    (measure.blocks, measure.rounds) = (7, 1);
    // No interval is ever so narrow, and none of equals so sure to hold no difference.
    (measure.margin, measure.target, measure.confidence) = (1e-9, 1e-9, 1.0 - 1e-9);
    let (record, diary) = track.run(&race(measure, &[200, 200]));
    let heat = track.heat(&record, 0);
    assert_eq!(heat.blocks.len(), 7);
    assert_eq!(heat.footer.stopped, "all 7 blocks measured");
    assert_eq!(diary.count("block"), 7);

    // Where the budget has no room for more, the first look is the last.
    measure.blocks = 12;
    measure.budget_ns = 1;
    let track = Track::new();
    let (record, _) = track.run(&race(measure, &[200, 200]));
    let heat = track.heat(&record, 0);
    assert_eq!(
        heat.footer.stopped,
        "its job's budget leaves no time to go on, after 6 of at most 12 blocks; what is kept is not gone on with: give \
         it more, and measure anew (`--fresh`)"
    );
}

#[test]
fn disturbed_blocks_are_measured_again_and_no_end() {
    let limits = |foreign| {
        let mut measure = measure();
        measure.blocks = 6;
        measure.disturbance = Some(schema::plan::Disturbance {
            foreign,
            steal: 1e9,
            repeats: 2,
        });
        plan(
            measure,
            vec![("g", cells(&["noop", "leaves_when_resumed"]))],
        )
    };
    // Even silence is more than less than nothing.
    let track = Track::new();
    let (record, diary) = track.run(&limits(-1.0));
    let heat = track.heat(&record, 0);
    assert_eq!(heat.blocks.len(), 3);
    let told =
        "the machine was disturbed in 3 of 3 blocks: in the last of them other processes took ";
    assert!(
        heat.footer.stopped.starts_with(told),
        "{}",
        heat.footer.stopped
    );
    let after = ", after 0 of at most 6 blocks";
    assert!(
        heat.footer.stopped.ends_with(after),
        "{}",
        heat.footer.stopped
    );
    let outcomes = &heat.footer.outcomes;
    // Who crashes in disturbed blocks alone may do better in others.
    assert_eq!(kinds(outcomes), [OutcomeKind::Unstable; 2]);
    assert!(
        outcomes[0].reason.starts_with(told),
        "{}",
        outcomes[0].reason
    );
    assert_eq!(diary.count("note: a block of g does not count"), 3);
    assert_eq!(diary.count("block 0 of g"), 3);
    let launches = heat.blocks.iter().flat_map(|block| &block.launches);
    let (whole, broken): (Vec<_>, Vec<_>) = launches.partition(|launch| launch.slot == 0);
    assert!(whole.iter().all(|launch| launch.rounds.len() == 2));
    assert!(broken.iter().all(|launch| {
        let reason = &launch.outcome.reason;
        launch.rounds.is_empty() && reason.contains("; meanwhile the launch ended as crashed: ")
    }));
    let all = whole
        .iter()
        .chain(&broken)
        .map(|launch| launch.outcome.kind);
    assert_eq!(all.collect::<Vec<_>>(), [OutcomeKind::Unstable; 6]);

    // It is there for its run, and the next one measures it again.
    let calm = limits(1e9);
    assert_eq!(calm.heats[0].key, heat.header.key);
    let (record, diary) = track.run(&calm);
    assert_eq!((diary.count("cached"), diary.count("finished")), (0, 1));
    let heat = track.heat(&record, 0);
    assert_eq!((heat.blocks.len(), diary.count("note: a block")), (6, 0));
    assert_eq!(track.run(&calm).1.lines, ["cached g"]);
    assert_eq!(heat.footer.outcomes[0].kind, OutcomeKind::Measured);
}

#[test]
fn an_interrupted_fresh_run_goes_on_too() {
    let track = Track::new();
    let plan = plan(
        measure(),
        vec![("a", cells(&["noop"])), ("b", cells(&["steady"]))],
    );
    let (old, _) = track.run(&plan);
    let (record, _) = track.run_until(&plan, true, "finished a");
    let HeatResult::Sealed(_) = record.heats[0].heat else {
        panic!("{record:?}")
    };
    assert_ne!(record.heats[0], old.heats[0]);
    let interrupt = worker::host::Interrupt::new().unwrap();
    let (done, diary) = track
        .run_with(&plan, true, Diary::default(), &interrupt)
        .unwrap();
    assert_eq!(diary.lines[0], "cached a", "its first heat is fresh enough");
    assert_eq!(done.heats[0], record.heats[0]);
    assert_ne!(done.heats[1], old.heats[1]);
}

#[test]
fn a_fresh_run_measures_though_the_clock_was_set_back() {
    let track = Track::new();
    let plan = plan(measure(), vec![("a", cells(&["noop"]))]);
    let (record, _) = track.run(&plan);
    let mut heat = track.heat(&record, 0);
    heat.header.started = "9000-01-01T00:00:00.000Z".to_owned();
    let of_tomorrow = {
        let lock = track.store.lock().unwrap();
        let mut journal = lock.begin(heat.header).unwrap();
        journal.set_reference(heat.reference).unwrap();
        for block in heat.blocks {
            journal.append(block).unwrap();
        }
        HeatResult::Sealed(journal.seal(heat.footer).unwrap())
    };
    let interrupt = worker::host::Interrupt::new().unwrap();
    let (fresh, diary) = track
        .run_with(&plan, true, Diary::default(), &interrupt)
        .unwrap();
    assert_eq!(diary.count("block"), 2);
    assert!(fresh.heats[0].heat != of_tomorrow && fresh.heats != record.heats);
    let (after, diary) = track.run(&plan);
    assert_eq!((diary.count("cached"), after.heats), (1, fresh.heats));
}

#[test]
fn a_fresh_run_does_not_mix_with_an_older_journal() {
    let track = Track::new();
    let plan = plan(measure(), vec![("a", cells(&["noop"]))]);
    track.run_until(&plan, false, "block 1");
    let interrupt = worker::host::Interrupt::new().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let (_, diary) = track
        .run_with(&plan, true, Diary::default(), &interrupt)
        .unwrap();
    assert_eq!(
        (diary.lines[0].as_str(), diary.count("block")),
        ("heat a, 0 kept", 2)
    );
}

#[test]
fn cells_that_do_not_fit_together_take_turns() {
    let track = Track::new();
    let mut cells = cells(&["noop", "steady"]);
    cells[0].predicted_bytes = u64::MAX / 2;
    let (record, diary) = track.run(&plan(measure(), vec![("g", cells)]));
    assert_eq!(diary.count("note: workers run one at a time"), 2);
    let heat = track.heat(&record, 0);
    assert!(heat.blocks.iter().all(|block| block.alone.is_some()));
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
    for launch in heat.blocks.iter().flat_map(|block| &block.launches) {
        let sequences: Vec<u32> = launch.rounds.iter().map(|round| round.sequence).collect();
        assert_eq!(sequences[1], sequences[0] + 1);
    }
}

#[test]
fn a_device_takes_one_worker_at_a_time() {
    let track = Track::new();
    let on_device = |variant: &str| {
        let mut cell = cell(variant, 1);
        cell.device = schema::Device::Cuda(0);
        planned(cell)
    };
    let cells = vec![on_device("steady"), on_device("noop")];
    let (record, diary) = track.run(&plan(measure(), vec![("g", cells)]));
    assert_eq!(diary.count("note: a device takes one worker at a time"), 2);
    let heat = track.heat(&record, 0);
    assert!(heat.blocks.iter().all(|block| block.alone.is_some()));
    assert_eq!(kinds(&heat.footer.outcomes), [OutcomeKind::Measured; 2]);
    // The reference is always that of the CPU.
    let parity = heat.reference.parity[0].as_ref().unwrap();
    assert_eq!(parity.reference, "pytorch/eager fp64 on cpu");
}

#[test]
fn a_plan_that_contradicts_itself_is_an_error() {
    let track = Track::new();
    let mut plan = plan(measure(), vec![("g", cells(&["noop"]))]);
    plan.jobs.clear();
    let interrupt = worker::host::Interrupt::new().unwrap();
    let error = track
        .run_with(&plan, false, Diary::default(), &interrupt)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("which the plan lacks"),
        "{error}"
    );
}

/// Verdicts of all heats are drawn against the noise of all twins, so those that have them go first.
#[test]
fn heats_with_the_first_twins_of_an_engine_go_before_others() {
    let track = Track::new();
    let pair = |batch: u64| {
        let cells = ["steady", "noop"].map(|variant| planned(cell(variant, batch)));
        cells.to_vec()
    };
    let twin = |of: &[PlannedCell], slot: u32| PlannedCell {
        twin_of: Some(slot),
        ..of[slot as usize].clone()
    };
    let (plain, mut twinned, mut again) = (pair(1), pair(2), pair(3));
    twinned.push(twin(&twinned, 0));
    again.push(twin(&again, 0));
    again.push(twin(&again, 1));
    let one = schema::Measure {
        blocks: 1,
        ..measure()
    };
    let groups = || {
        vec![
            ("plain", plain.clone()),
            ("twinned", twinned.clone()),
            ("again", again.clone()),
        ]
    };
    let (record, diary) = track.run(&plan(one, groups()));
    let heats = diary.lines.iter().filter(|line| line.starts_with("heat "));
    let expected = [
        "heat twinned, 0 kept",
        "heat again, 0 kept",
        "heat plain, 0 kept",
    ];
    assert_eq!(heats.collect::<Vec<_>>(), expected);
    // What became of each is told in the plan's order all the same.
    let told = record.heats.iter().map(|heat| heat.group.as_str());
    assert_eq!(told.collect::<Vec<_>>(), ["plain", "twinned", "again"]);
}
