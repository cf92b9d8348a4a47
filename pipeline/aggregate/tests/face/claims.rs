//! Claims held against what was measured.

use schema::{
    Outcome, OutcomeKind,
    plan::{PlannedCell, Relation},
    tables::{ClaimRow, Judgement},
};
use synthetic::Synthetic;

use crate::race::{EVEN, heat, race, run, set_times, tables};

fn claim(run: &Synthetic) -> ClaimRow {
    tables(run).jobs.swap_remove(0).claims.swap_remove(0)
}

fn judged(relation: Relation, contender: u64) -> Judgement {
    let mut run = race(&EVEN, &[contender; 6]);
    run.record.plan.jobs[0].claims[0].expect.relation = relation;
    claim(&run).judgement
}

#[test]
fn relations_are_held_against_verdicts() {
    use Judgement::{Confirmed, Contradicted, Unclear};
    let cases = [
        (Relation::Less, [Confirmed, Unclear, Contradicted]),
        (Relation::Equal, [Contradicted, Confirmed, Contradicted]),
        (Relation::Greater, [Contradicted, Unclear, Confirmed]),
    ];
    for (relation, expected) in cases {
        let found = [500_000, 1_000_000, 2_000_000].map(|contender| judged(relation, contender));
        assert_eq!(found, expected, "{relation:?}");
    }
}

/// The contender takes half as long: as long as half, longer than a quarter.
#[test]
fn a_time_is_held_against_so_many_times_another() {
    use Judgement::{Confirmed, Contradicted, Unclear};
    let judged = |times: f64, relation| {
        let mut run = race(&EVEN, &[500_000; 6]);
        let expect = &mut run.record.plan.jobs[0].claims[0].expect;
        (expect.times, expect.relation) = (times, relation);
        claim(&run)
    };
    for (times, expected) in [
        (0.25, [Contradicted, Contradicted, Confirmed]),
        (0.5, [Unclear, Confirmed, Unclear]),
        (0.75, [Confirmed, Contradicted, Contradicted]),
    ] {
        let relations = [Relation::Less, Relation::Equal, Relation::Greater];
        let found = relations.map(|relation| judged(times, relation).judgement);
        assert_eq!(found, expected, "{times}");
    }
    let reason = judged(0.25, Relation::Greater).reason;
    assert!(
        reason.contains("over 0.25 times that of pytorch/eager is 2.00"),
        "{reason}"
    );
}

#[test]
fn reasons_name_the_numbers() {
    let confirmed = claim(&race(&EVEN, &[500_000; 6])).reason;
    let contradicted = claim(&race(&EVEN, &[2_000_000; 6])).reason;
    let same = claim(&race(&EVEN, &EVEN)).reason;
    let few = claim(&race(&EVEN[..4], &[500_000; 4])).reason;
    let mut run = race(&EVEN, &EVEN);
    heat(&mut run, 0).footer.outcomes[1] = Outcome::new(OutcomeKind::Crashed, "signal 11");
    let crashed = claim(&run);
    assert_eq!(crashed.judgement, Judgement::NotMeasurableHere);
    run.record.plan.jobs[0].claims[0]
        .expect
        .at
        .insert("batch".to_owned(), "64".to_owned());
    let absent = claim(&run);
    assert_eq!(absent.judgement, Judgement::NotMeasurableHere);
    let all = [
        confirmed,
        contradicted,
        same,
        few,
        crashed.reason,
        absent.reason,
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    the time of onnxruntime/cpu over that of pytorch/eager is 0.5000 [0.4999, 0.5001] at batch=1, model=resnet18
    the time of onnxruntime/cpu over that of pytorch/eager is 2.0000 [1.9999, 2.0001] at batch=1, model=resnet18
    the time of onnxruntime/cpu over that of pytorch/eager is 1.000000 [0.999998, 1.000010] at batch=1, model=resnet18, same: interval [0.999998, 1.000010] and the 0.001 % floor lie inside the 5 % margin
    the time of onnxruntime/cpu over that of pytorch/eager is 0.5000 [0.4999, 0.5001] at batch=1, model=resnet18, unclear: only 4 blocks measured both; a verdict rests on at least 6
    batch=1, model=resnet18: onnxruntime/cpu: crashed: signal 11
    no group of this job holds both onnxruntime/cpu and pytorch/eager there
    "#);
}

#[test]
fn every_measured_pair_must_agree() {
    // Four models at batch 1, the claim's only coordinate.
    let mut run = run(4, 6);
    for group in 0..4 {
        set_times(&mut run, group, 0, &EVEN);
        set_times(&mut run, group, 1, &[500_000 + 1_000 * group as u64; 6]);
    }
    let all = claim(&run);
    assert_eq!(all.judgement, Judgement::Confirmed);
    heat(&mut run, 2).footer.outcomes[1] = Outcome::new(OutcomeKind::TimedOut, "60 s");
    let three = claim(&run);
    assert_eq!(three.judgement, Judgement::Confirmed);
    insta::assert_snapshot!([all.reason, three.reason].join("\n"), @r#"
    the time of onnxruntime/cpu over that of pytorch/eager lies between 0.47 and 0.54 in all 4 pairs (the hull of their intervals), and all agree
    the time of onnxruntime/cpu over that of pytorch/eager lies between 0.47 and 0.54 in all 3 pairs (the hull of their intervals), and all agree; 1 more pair could not be measured
    "#);

    set_times(&mut run, 3, 1, &EVEN);
    assert_eq!(claim(&run).judgement, Judgement::Unclear);
    set_times(&mut run, 1, 1, &[2_000_000; 6]);
    let one = claim(&run);
    assert_eq!(one.judgement, Judgement::Contradicted);
    assert!(one.reason.contains("mobilenet_v2"), "{}", one.reason);
}

/// Four pairs, one verdict after the other.
#[test]
fn most_pairs_may_decide() {
    let judged = |times: [u64; 4]| {
        let mut run = run(4, 6);
        for (group, contender) in times.into_iter().enumerate() {
            set_times(&mut run, group, 0, &EVEN);
            set_times(&mut run, group, 1, &[contender; 6]);
        }
        run.record.plan.jobs[0].claims[0].expect.mostly = true;
        claim(&run)
    };
    const FASTER: u64 = 500_000;
    const SAME: u64 = 1_000_000;
    const SLOWER: u64 = 2_000_000;
    let cases = [
        [FASTER, FASTER, FASTER, SLOWER],
        [FASTER, FASTER, SLOWER, SAME],
        [FASTER, FASTER, SLOWER, SLOWER],
        [FASTER, SAME, SAME, SLOWER],
    ];
    let told = cases
        .map(judged)
        .map(|row| format!("{:?}: {}", row.judgement, row.reason));
    insta::assert_snapshot!(told.join("\n"), @r#"
    Confirmed: the time of onnxruntime/cpu over that of pytorch/eager lies between 0.47 and 0.53 in 3 of 4 pairs (the hull of their intervals), which agree (at batch=1, model=resnet18; at batch=1, model=mobilenet_v2; at batch=1, model=bert_tiny)
    Unclear: of 4 pairs, those that agree: 2; those that say the opposite: 1
    Contradicted: the time of onnxruntime/cpu over that of pytorch/eager lies between 1.89 and 2.11 in 2 of 4 pairs (the hull of their intervals), which say the opposite (at batch=1, model=bert_tiny; at batch=1, model=vgg16)
    Unclear: of 4 pairs, those that agree: 1; those that say the opposite: 1
    "#);
    let mut lost = run(4, 6);
    lost.record.plan.jobs[0].claims[0].expect.mostly = true;
    for group in 0..4 {
        set_times(&mut lost, group, 0, &EVEN);
        set_times(&mut lost, group, 1, &[FASTER; 6]);
    }
    heat(&mut lost, 2).footer.outcomes[1] = Outcome::new(OutcomeKind::TimedOut, "60 s");
    let reason = claim(&lost).reason;
    assert!(
        reason.ends_with("in 3 of 3 pairs (the hull of their intervals), which agree; 1 more pair could not be measured"),
        "{reason}"
    );
}

#[test]
fn pairs_without_a_baseline_are_compared_and_share_the_error() {
    // The same cells, with the comparison dropped: the claim's own pairs make the family.
    let mut run = run(4, 6);
    run.record.plan.jobs[0].comparisons[0].pairs.truncate(1);
    let tables = tables(&run);
    let comparison = &tables.jobs[0].comparisons[0];
    assert_eq!((comparison.family, comparison.confidence_each), (4, 0.9875));
}

#[test]
fn sides_may_be_swapped() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let expect = &mut run.record.plan.jobs[0].claims[0].expect;
    std::mem::swap(&mut expect.left, &mut expect.right);
    expect.relation = Relation::Greater;
    let swapped = claim(&run);
    assert_eq!(swapped.judgement, Judgement::Confirmed);
    // It is a pair of the comparison, the other way round: no new one.
    assert_eq!(tables(&run).jobs[0].comparisons[0].family, 1);
}

/// XLA is a switch of one engine, and calibration one of integers: what the other side lacks keeps no
/// pair apart.
#[test]
fn a_switch_that_one_side_lacks_keeps_no_pair_apart() {
    let mut run = race(&EVEN, &[500_000; 6]);
    let switch = |run: &mut Synthetic, side: usize, value: &str| {
        // The original and its twin.
        for slot in [side, side + 2] {
            let given = ("jit_compile".to_owned(), value.to_owned());
            let coordinates = |cells: &mut Vec<PlannedCell>| {
                cells[slot].coordinates.extend([given.clone()]);
            };
            coordinates(&mut run.record.plan.heats[0].cells);
            coordinates(&mut heat(run, 0).header.cells);
        }
    };
    switch(&mut run, 1, "on");
    let found = claim(&run);
    assert_eq!(found.judgement, Judgement::Confirmed);
    assert!(
        found
            .reason
            .ends_with("at batch=1, jit_compile=on, model=resnet18")
    );
    let condition = |run: &mut Synthetic, value: &str| {
        let at = &mut run.record.plan.jobs[0].claims[0].expect.at;
        at.insert("jit_compile".to_owned(), value.to_owned());
    };
    condition(&mut run, "on");
    assert_eq!(claim(&run).judgement, Judgement::Confirmed);
    condition(&mut run, "off");
    assert_eq!(claim(&run).judgement, Judgement::NotMeasurableHere);

    run.record.plan.jobs[0].claims[0]
        .expect
        .at
        .remove("jit_compile");
    switch(&mut run, 0, "off");
    assert_eq!(claim(&run).judgement, Judgement::NotMeasurableHere);
}
