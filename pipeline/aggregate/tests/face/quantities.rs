//! Claims about something else than step times.

use std::collections::BTreeSet;

use schema::{
    Outcome, OutcomeKind,
    plan::{Quantity, Relation},
    protocol::{Memory, Profile, ProfileEntry},
    record::{Frontier, Profiled, Try},
    tables::{ClaimRow, Judgement},
    telemetry::{Energy, EnergySensor, EnergyStretch},
};
use synthetic::Synthetic;

use crate::race::{EVEN, heat, launch, race, run, tables};

fn claim(run: &Synthetic) -> ClaimRow {
    tables(run).jobs.swap_remove(0).claims.swap_remove(0)
}

fn told(row: &ClaimRow) -> String {
    format!("{:?}: {}", row.judgement, row.reason)
}

/// A race of equals whose claim is about this, and holds a pair against so many times the other.
fn about(quantity: Quantity, relation: Relation, times: f64) -> Synthetic {
    let mut run = race(&EVEN, &EVEN);
    let claim = &mut run.record.plan.jobs[0].claims[0];
    claim.quantity = quantity;
    (claim.expect.relation, claim.expect.times) = (relation, times);
    run
}

/// Four cells, the twins of the first two after them: each draws so many watts beside 50 of idling.
fn draw(run: &mut Synthetic, watts: [u64; 4]) {
    for (slot, watts) in (0..).zip(watts) {
        for block in 0..6 {
            let stretch = EnergyStretch {
                sensor: EnergySensor::GpuCounter,
                energy_uj: 10_000_000 * watts,
                time_ns: 10_000_000_000,
                steps: 1000,
                idle_watts: 50.0,
            };
            launch(run, 0, block, slot).energy = Some(Energy::Measured(stretch));
        }
    }
}

#[test]
fn power_and_energy_are_judged_block_by_block() {
    use Judgement::{Confirmed, Contradicted, NotMeasurableHere, Unclear};
    let judged = |quantity, relation, times, watts| {
        let mut run = about(quantity, relation, times);
        draw(&mut run, watts);
        claim(&run)
    };
    let less = |quantity, times| judged(quantity, Relation::Less, times, [100, 120, 100, 120]);
    // 120 W beside 100 W; of a sample 70 J beside 50 J.
    assert_eq!(less(Quantity::Power, 1.25).judgement, Unclear);
    assert_eq!(less(Quantity::Power, 1.4).judgement, Confirmed);
    assert_eq!(less(Quantity::Energy, 1.0).judgement, Contradicted);
    assert_eq!(less(Quantity::Energy, 2.0).judgement, Confirmed);
    let equal = judged(Quantity::Power, Relation::Equal, 1.0, [100; 4]);
    assert_eq!(equal.judgement, Confirmed);
    // Twins that draw what the claim is about make it unclear.
    let noisy = judged(Quantity::Power, Relation::Less, 1.4, [100, 120, 130, 120]);
    assert_eq!(noisy.judgement, Unclear);
    assert!(noisy.reason.contains("floor"), "{}", noisy.reason);
    // Of 51 W beside 50 a sensor that is 100 ms late may hide all.
    let slight = judged(Quantity::Energy, Relation::Less, 1.0, [100, 51, 100, 51]);
    assert_eq!(slight.judgement, NotMeasurableHere);
    let idle = judged(Quantity::Energy, Relation::Less, 1.0, [100, 50, 100, 50]);
    assert_eq!(idle.judgement, NotMeasurableHere);
    let unmetered = claim(&about(Quantity::Energy, Relation::Less, 1.0));
    assert_eq!(unmetered.judgement, NotMeasurableHere);
    let reasons = [
        less(Quantity::Power, 1.4),
        less(Quantity::Energy, 1.0),
        slight,
        idle,
        unmetered,
    ];
    insta::assert_snapshot!(reasons.map(|row| told(&row)).join("\n"), @r#"
    Confirmed: the power of onnxruntime/cpu over 1.4 times that of pytorch/eager is 0.857 [0.840, 0.875] at batch=1, model=resnet18
    Contradicted: the energy per sample of onnxruntime/cpu over that of pytorch/eager is 1.40 [1.23, 1.59] at batch=1, model=resnet18
    NotMeasurableHere: batch=1, model=resnet18: a block took no more than its sensor can tell
    NotMeasurableHere: batch=1, model=resnet18: a block took no more than idling does
    NotMeasurableHere: batch=1, model=resnet18: pytorch/eager: no energy was recorded
    "#);
}

/// What a claim about power asks for is no verdict about step times: those share no error with it.
#[test]
fn other_quantities_share_no_error_with_step_times() {
    let mut run = run(4, 6);
    run.record.plan.jobs[0].comparisons[0].pairs.truncate(1);
    run.record.plan.jobs[0].claims[0].quantity = Quantity::Power;
    assert_eq!(tables(&run).jobs[0].comparisons[0].family, 1);
}

fn remember(run: &mut Synthetic, peaks: [u64; 4]) {
    for (slot, peak) in (0..).zip(peaks) {
        for block in 0..6 {
            launch(run, 0, block, slot).memory = Some(Memory {
                resident_bytes: 1 << 20,
                peak_resident_bytes: peak << 20,
                device_bytes: None,
                peak_device_bytes: None,
                other_ranks: Vec::new(),
            });
        }
    }
}

#[test]
fn peak_memory_is_held_against_what_twins_differ_by() {
    let judged = |relation, peaks| {
        let mut run = about(Quantity::Memory, relation, 1.0);
        remember(&mut run, peaks);
        claim(&run)
    };
    let rows = [
        judged(Relation::Less, [300, 200, 301, 200]),
        judged(Relation::Less, [200, 300, 200, 300]),
        judged(Relation::Equal, [300, 301, 300, 302]),
        judged(Relation::Greater, [300, 330, 300, 400]),
    ];
    insta::assert_snapshot!(rows.map(|row| told(&row)).join("\n"), @r#"
    Confirmed: the peak memory of onnxruntime/cpu over that of pytorch/eager is 0.67 at batch=1, model=resnet18
    Contradicted: the peak memory of onnxruntime/cpu over that of pytorch/eager is 1.5 at batch=1, model=resnet18
    Confirmed: the peak memory of onnxruntime/cpu over that of pytorch/eager is 1.00333 at batch=1, model=resnet18
    Unclear: the peak memory of onnxruntime/cpu over that of pytorch/eager is 1.1 at batch=1, model=resnet18, unclear: it is not beyond what twins differ by; the most that twins differ by is 21.2 %
    "#);
    let mut alone = about(Quantity::Memory, Relation::Less, 1.0);
    alone.record.plan.heats[0].cells.truncate(2);
    let heat = heat(&mut alone, 0);
    heat.header.cells.truncate(2);
    heat.reference.parity.truncate(2);
    heat.reference.obstacles.truncate(2);
    heat.reference.logs.truncate(2);
    heat.footer.outcomes.truncate(2);
    for block in &mut heat.blocks {
        block.launches.truncate(2);
    }
    assert_eq!(claim(&alone).judgement, Judgement::Unclear);
}

/// A search that found what fits, and what does not.
fn sought(fits: Option<u64>, beyond: Option<(u64, OutcomeKind)>) -> Option<Frontier> {
    let tried = |batch, outcome| Try {
        batch,
        outcome,
        memory: None,
    };
    let fits = fits.map(|batch| tried(batch, Outcome::measured()));
    let beyond = beyond.map(|(batch, kind)| tried(batch, Outcome::new(kind, "so it ended")));
    Some(Frontier {
        tries: fits.into_iter().chain(beyond).collect(),
    })
}

#[test]
fn largest_batches_are_known_as_exactly_as_they_were_sought() {
    use OutcomeKind::{OutOfMemory, TimedOut};
    let judged = |relation, number, frontiers: [Option<Frontier>; 2]| {
        let mut run = about(Quantity::LargestBatch, relation, 1.0);
        let claim_of = &mut run.record.plan.jobs[0].claims[0].expect;
        claim_of.number = number;
        if number.is_some() {
            claim_of.axis.clear();
            claim_of.at = [("engine".to_owned(), "onnxruntime/cpu".to_owned())].into();
        }
        let [baseline, contender] = frontiers;
        let both = || [baseline.clone(), contender.clone()];
        heat(&mut run, 0).footer.frontiers = both().into_iter().chain(both()).collect();
        claim(&run)
    };
    let full = |fits, beyond| sought(Some(fits), Some((beyond, OutOfMemory)));
    let nothing = || sought(None, Some((1, OutOfMemory)));
    // One batch did not fit, and the search ended between for want of time.
    let between = || {
        let mut found = full(96, 192)?;
        found
            .tries
            .extend(sought(None, Some((144, TimedOut)))?.tries);
        Some(found)
    };
    let pairs = [
        // 96 to 98 beside 120 to 123.
        judged(Relation::Less, None, [full(120, 124), full(96, 99)]),
        judged(Relation::Greater, None, [full(120, 124), full(96, 99)]),
        // As near as the search leaves them.
        judged(Relation::Less, None, [full(120, 124), full(117, 121)]),
        // One that ended for want of time fits more than that, perhaps.
        judged(
            Relation::Less,
            None,
            [full(120, 124), sought(Some(96), Some((192, TimedOut)))],
        ),
        judged(Relation::Less, None, [full(120, 124), nothing()]),
        judged(Relation::Less, None, [nothing(), nothing()]),
    ];
    insta::assert_snapshot!(pairs.map(|row| told(&row)).join("\n"), @r#"
    Confirmed: the largest batch of onnxruntime/cpu over that of pytorch/eager is 0.800 [0.780, 0.817] at batch=1, model=resnet18
    Contradicted: the largest batch of onnxruntime/cpu over that of pytorch/eager is 0.800 [0.780, 0.817] at batch=1, model=resnet18
    Unclear: the largest batch of onnxruntime/cpu over that of pytorch/eager is 0.97 [0.95, 1.00] at batch=1, model=resnet18, unclear: it is not wholly outside the 5 % margin; the ends are what the search for the batches leaves open
    Unclear: the largest batch of onnxruntime/cpu over that of pytorch/eager is 0.80 [0.78, ∞] at batch=1, model=resnet18, unclear: it is not wholly outside the 5 % margin; the ends are what the search for the batches leaves open
    Confirmed: onnxruntime/cpu: not one sample fits at batch=1, model=resnet18
    NotMeasurableHere: batch=1, model=resnet18: not one sample fits of either
    "#);
    let cells = [
        judged(Relation::Less, Some(512.0), [full(1, 2), full(96, 99)]),
        judged(
            Relation::Less,
            Some(512.0),
            [full(1, 2), sought(Some(512), None)],
        ),
        judged(Relation::Greater, Some(97.0), [full(1, 2), full(96, 99)]),
        judged(Relation::Greater, Some(98.0), [full(1, 2), full(96, 99)]),
        judged(Relation::Less, Some(512.0), [full(1, 2), between()]),
        judged(Relation::Less, Some(512.0), [full(1, 2), None]),
        judged(
            Relation::Less,
            Some(512.0),
            [full(1, 2), sought(None, Some((1, TimedOut)))],
        ),
    ];
    insta::assert_snapshot!(cells.map(|row| told(&row)).join("\n"), @r#"
    Confirmed: the largest batch is 96 to 98 at batch=1, engine=onnxruntime/cpu, model=resnet18
    Contradicted: the largest batch is at least 512 at batch=1, engine=onnxruntime/cpu, model=resnet18
    Unclear: the largest batch is 96 to 98 at batch=1, engine=onnxruntime/cpu, model=resnet18, unclear: the number lies between the ends
    Contradicted: the largest batch is 96 to 98 at batch=1, engine=onnxruntime/cpu, model=resnet18
    Confirmed: the largest batch is 96 to 191 at batch=1, engine=onnxruntime/cpu, model=resnet18
    NotMeasurableHere: batch=1, engine=onnxruntime/cpu, model=resnet18: no batch was tried
    NotMeasurableHere: batch=1, engine=onnxruntime/cpu, model=resnet18: batch 1: timed_out: so it ended
    "#);
}

/// Each cell has a group of its own where nothing is compared.
#[test]
fn largest_batches_of_two_heats_are_held_against_each_other() {
    let mut run = run(2, 6);
    let claim_of = &mut run.record.plan.jobs[0].claims[0];
    claim_of.quantity = Quantity::LargestBatch;
    claim_of.expect.axis = "model".to_owned();
    claim_of.expect.left = "mobilenet_v2".to_owned();
    claim_of.expect.right = "resnet18".to_owned();
    claim_of.expect.relation = Relation::Greater;
    for (group, fits) in [(0, 100), (1, 200)] {
        let cells = heat(&mut run, group).header.cells.len();
        let found = sought(Some(fits), Some((fits + 1, OutcomeKind::OutOfMemory)));
        heat(&mut run, group).footer.frontiers = vec![found; cells];
    }
    assert_eq!(claim(&run).judgement, Judgement::Confirmed);
    // On another machine memory is another.
    heat(&mut run, 1).header.environment.fingerprint.memory_gib += 1;
    let row = claim(&run);
    assert_eq!(row.judgement, Judgement::NotMeasurableHere);
    assert!(row.reason.contains("several machines"), "{}", row.reason);
}

#[test]
fn kernels_share_of_a_step_is_held_against_a_number() {
    // Of a step of 1 ms: so much in nodes, so much that is no node's, and the step under the profiler.
    let judged = |nodes: u64, overhead: u64, wall: u64| {
        let mut run = about(Quantity::Kernels, Relation::Greater, 1.0);
        let expect = &mut run.record.plan.jobs[0].claims[0].expect;
        expect.number = Some(0.5);
        expect.axis.clear();
        let entry = |name: &str, nodes: &[&str], time_ns| ProfileEntry {
            name: name.to_owned(),
            nodes: nodes
                .iter()
                .map(|node| (*node).to_owned())
                .collect::<BTreeSet<_>>(),
            time_ns,
            calls: 1,
            conversion: false,
        };
        let profiled = Profiled {
            outcome: Outcome::measured(),
            profile: Some(Profile {
                steps: 1,
                wall_ns: wall,
                kernels: 2,
                entries: vec![
                    entry("conv", &["conv1"], nodes),
                    entry("sgd", &[], overhead),
                ],
            }),
            log: String::new(),
        };
        let all = [Some(profiled.clone()), Some(profiled), None, None];
        heat(&mut run, 0).footer.profiles = all.into();
        claim(&run)
    };
    let rows = [
        judged(800_000, 100_000, 1_000_000),
        judged(300_000, 100_000, 1_000_000),
        // What is no node's may be the engine's doing, and what the profiler costs be spent anywhere.
        judged(450_000, 100_000, 1_000_000),
        judged(700_000, 0, 1_300_000),
    ];
    insta::assert_snapshot!(rows.map(|row| told(&row)).join("\n"), @r#"
    Confirmed: the kernels' share of a step is 80 % to 90 % in all 2 cells, and all agree
    Contradicted: the kernels' share of a step is 30 % to 40 % at batch=1, engine=pytorch/eager, model=resnet18
    Unclear: the kernels' share of a step is 45 % to 55 % at batch=1, engine=pytorch/eager, model=resnet18, unclear: the number lies between the ends
    Unclear: the kernels' share of a step is 40 % to 70 % at batch=1, engine=pytorch/eager, model=resnet18, unclear: the number lies between the ends
    "#);
    let unprofiled = {
        let mut run = about(Quantity::Kernels, Relation::Greater, 1.0);
        let expect = &mut run.record.plan.jobs[0].claims[0].expect;
        expect.number = Some(0.5);
        expect.axis.clear();
        claim(&run)
    };
    assert_eq!(unprofiled.judgement, Judgement::NotMeasurableHere);
}
