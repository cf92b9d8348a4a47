//! What sources assert, held against what was measured.

use schema::{
    plan::{Claim, Expectation, Relation},
    printed::{self, Bounds},
    tables::{ClaimRow, Judgement, Verdict},
};
use statistics::family::Ratio;

use crate::{
    compare::{Judge, Judged},
    group::{Entry, Group},
};

/// Two cells of one group that a claim speaks of.
pub(crate) struct ClaimPair<'a> {
    left: Entry<'a>,
    right: Entry<'a>,
}

/// The pairs that an expectation speaks of in some heats.
pub(crate) fn pairs<'a>(
    expect: &Expectation,
    groups: impl IntoIterator<Item = &'a Group<'a>>,
) -> Vec<ClaimPair<'a>> {
    let groups = groups.into_iter();
    let pairs = groups.flat_map(|group| expect.pairs(group.originals()));
    let entry = |(cell, slot)| Entry { cell, slot };
    pairs
        .map(|[left, right]| ClaimPair {
            left: entry(left),
            right: entry(right),
        })
        .collect()
}

/// Judges a claim.
///
/// Confirmed when every pair that could be measured has the verdict that the claim expects, and
/// there is one; contradicted when a pair has the opposite verdict: `slower` for `<`, `faster`
/// for `>`, either of them for `=`. A pair that is the `same` where a difference is claimed
/// leaves the claim unclear: the difference may be there, and too small to matter.
///
/// A claim about most pairs is confirmed when more than half of those that could be measured have that
/// verdict, and contradicted when half of them have the opposite one.
pub(crate) fn judge(claim: &Claim, pairs: &[ClaimPair<'_>], judge: &Judge<'_>) -> ClaimRow {
    let judged: Vec<_> = pairs
        .iter()
        .map(|pair| {
            (
                pair,
                judge.pair_times(pair.right, pair.left, claim.expect.times),
            )
        })
        .collect();
    let (judgement, reason) = weigh(&claim.expect, judge.job.measure.margin, &judged);
    ClaimRow {
        id: claim.id.clone(),
        source: claim.source.clone(),
        states: claim.states.clone(),
        expect: claim.expect.clone(),
        judgement,
        reason,
    }
}

type JudgedPair<'a> = (&'a ClaimPair<'a>, Judged);

fn weigh(expect: &Expectation, margin: f64, judged: &[JudgedPair<'_>]) -> (Judgement, String) {
    let (expected, opposite): (Verdict, &[Verdict]) = match expect.relation {
        Relation::Less => (Verdict::Faster, &[Verdict::Slower]),
        Relation::Greater => (Verdict::Slower, &[Verdict::Faster]),
        Relation::Equal => (Verdict::Same, &[Verdict::Faster, Verdict::Slower]),
    };
    let Some(first) = judged.first() else {
        let reason = format!(
            "no group of this job holds both {} and {} there",
            expect.left, expect.right
        );
        return (Judgement::NotMeasurableHere, reason);
    };
    let measured: Vec<_> = judged
        .iter()
        .filter(|(_, judged)| judged.verdict != Verdict::NotMeasured)
        .collect();
    if measured.is_empty() {
        let reason = format!(
            "{}: {}",
            place(expect, first.0),
            in_words(expect, &first.1.reason)
        );
        return (Judgement::NotMeasurableHere, reason);
    }
    let count = counted(measured.len(), judged.len());
    if expect.mostly {
        return weigh_most(expect, margin, &measured, (expected, opposite), &count);
    }
    if let Some(pair) = measured
        .iter()
        .find(|(_, judged)| opposite.contains(&judged.verdict))
    {
        return (Judgement::Contradicted, sentence(expect, margin, pair));
    }
    if let Some(pair) = measured
        .iter()
        .find(|(_, judged)| judged.verdict != expected)
    {
        let why = in_words(expect, &pair.1.reason);
        let verdict = pair.1.verdict.word();
        return (
            Judgement::Unclear,
            format!("{}, {verdict}: {why}", sentence(expect, margin, pair)),
        );
    }
    match measured.as_slice() {
        [only] => (
            Judgement::Confirmed,
            format!("{}{count}", sentence(expect, margin, only)),
        ),
        _ => (
            Judgement::Confirmed,
            format!(
                "{}, and all agree{count}",
                range(
                    expect,
                    margin,
                    &measured,
                    &format!("all {} pairs", measured.len())
                )
            ),
        ),
    }
}

/// The same of a claim about most pairs.
fn weigh_most(
    expect: &Expectation,
    margin: f64,
    measured: &[&JudgedPair<'_>],
    (expected, opposite): (Verdict, &[Verdict]),
    count: &str,
) -> (Judgement, String) {
    let with = |verdicts: &[Verdict]| -> Vec<_> {
        let pairs = measured.iter().copied();
        pairs
            .filter(|(_, judged)| verdicts.contains(&judged.verdict))
            .collect()
    };
    let (agree, opposed) = (with(&[expected]), with(opposite));
    let (judgement, pairs, what) = if 2 * agree.len() > measured.len() {
        (Judgement::Confirmed, agree, "which agree")
    } else if 2 * opposed.len() >= measured.len() {
        (Judgement::Contradicted, opposed, "which say the opposite")
    } else {
        let reason = format!(
            "of {} pairs, those that agree: {}; those that say the opposite: {}{count}",
            measured.len(),
            agree.len(),
            opposed.len()
        );
        return (Judgement::Unclear, reason);
    };
    let which = format!("{} of {} pairs", pairs.len(), measured.len());
    let extent = range(expect, margin, &pairs, &which);
    (judgement, format!("{extent}, {what}{count}"))
}

/// `a ÷ b is 0.53 [0.51, 0.55] at model=resnet18`.
fn sentence(expect: &Expectation, margin: f64, (pair, judged): &JudgedPair<'_>) -> String {
    let ratio = judged.ratio.map_or_else(
        || "unknown".to_owned(),
        |Ratio { interval, .. }| {
            let floor = judged.floor;
            let printed = printed::held(&interval, Bounds { margin, floor }).ratio;
            format!("{} {}", printed.centre.unwrap_or_default(), printed.range)
        },
    );
    format!(
        "the time of {} over {} is {ratio}{}",
        expect.left,
        that_of_right(expect),
        prefixed(" at ", &place(expect, pair))
    )
}

/// The least and the greatest end of the intervals of some pairs: they hold together.
fn range(expect: &Expectation, margin: f64, pairs: &[&JudgedPair<'_>], which: &str) -> String {
    let ratios = pairs.iter().filter_map(|(_, judged)| {
        let floor = judged.floor;
        let ratio = judged.ratio.as_ref()?;
        Some((&ratio.interval, Bounds { margin, floor }))
    });
    let extent = printed::hull(ratios).map_or_else(
        || "has no bounds".to_owned(),
        |(low, high)| format!("lies between {low} and {high}"),
    );
    format!(
        "the time of {} over {} {extent} in {which} (the hull of their intervals)",
        expect.left,
        that_of_right(expect)
    )
}

/// `that of 1`, or `8 times that of 1`.
fn that_of_right(expect: &Expectation) -> String {
    let Expectation { times, right, .. } = expect;
    match *times == 1.0 {
        true => format!("that of {right}"),
        false => format!("{times} times that of {right}"),
    }
}

fn counted(measured: usize, all: usize) -> String {
    if measured == all {
        String::new()
    } else {
        let lost = all - measured;
        let plural = if lost == 1 { "" } else { "s" };
        format!("; {lost} more pair{plural} could not be measured")
    }
}

/// A comparison's words for the two sides, in the claim's.
fn in_words(expect: &Expectation, reason: &str) -> String {
    reason
        .split("; ")
        .map(|part| {
            let swap = |side: &str, name: &str| {
                part.strip_prefix(side).map(|rest| format!("{name}{rest}"))
            };
            swap("baseline: ", &format!("{}: ", expect.right))
                .or_else(|| swap("contender: ", &format!("{}: ", expect.left)))
                .unwrap_or_else(|| part.to_owned())
        })
        .collect::<Vec<_>>()
        .join("; ")
}

fn place(expect: &Expectation, pair: &ClaimPair<'_>) -> String {
    let mut all = pair.right.cell.coordinates.clone();
    all.extend(pair.left.cell.coordinates.clone());
    all.remove(&expect.axis);
    all.iter()
        .map(|(axis, value)| format!("{axis}={value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn prefixed(prefix: &str, text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("{prefix}{text}")
    }
}
