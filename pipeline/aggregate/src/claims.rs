//! What sources assert, held against what was measured.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    BATCH,
    plan::{Claim, Expectation, Quantity, Relation},
    printed::{self, Bounds},
    tables::{ClaimRow, Direction, Judgement, TrendRow, Verdict},
};
use statistics::family::Ratio;

use crate::{
    compare::Judged,
    group::{Entry, Group},
    quantities::{self, Yardstick, in_print},
};

/// Two cells, or a cell and a number, that a claim speaks of.
struct Found {
    /// What they have besides the axis, in words.
    place: String,
    judged: Judged,
}

/// Judges a claim.
///
/// Confirmed when every pair that could be measured has the verdict that the claim expects, and
/// there is one; contradicted when a pair has the opposite verdict: `slower` for `<`, `faster`
/// for `>`, either of them for `=`. A pair that is the `same` where a difference is claimed
/// leaves the claim unclear: the difference may be there, and too small to matter.
///
/// A claim about most pairs is confirmed when more than half of those that could be measured have that
/// verdict, and contradicted when half of them have the opposite one. Cells that are held against a number
/// count as pairs do.
pub(crate) fn judge(claim: &Claim, groups: &[&Group<'_>], yardstick: &Yardstick<'_>) -> ClaimRow {
    let found = found(claim, groups, yardstick);
    let margin = yardstick.judge.job.measure.margin;
    let (judgement, mut reason) = Assertion { claim, margin }.weigh(&found);
    let measured = found
        .iter()
        .filter(|found| found.judged.verdict != Verdict::NotMeasured);
    let otherwise = measured.map(|found| in_words(&claim.expect, &found.judged.otherwise));
    for otherwise in otherwise.collect::<BTreeSet<_>>() {
        if !reason.contains(&otherwise) {
            reason += &otherwise;
        }
    }
    ClaimRow {
        id: claim.id.clone(),
        source: claim.source.clone(),
        states: claim.states.clone(),
        quantity: claim.quantity,
        expect: claim.expect.clone(),
        judgement,
        reason,
    }
}

/// What the trends say of the lines that a claim about times of batches speaks of, in words that follow its reason:
/// two batches are held against each other more bluntly than all of a line by their order in every block. Empty
/// where there is no such line.
pub(crate) fn of_trends(claim: &ClaimRow, trends: &[TrendRow]) -> String {
    let ClaimRow {
        expect, quantity, ..
    } = claim;
    if *quantity != Quantity::StepTime || expect.number.is_some() || expect.axis != BATCH {
        return String::new();
    }
    let is_of = |line: &&TrendRow| {
        let mut at = expect.at.iter();
        at.all(|(axis, value)| line.coordinates.get(axis) == Some(value))
            && line.direction != Direction::NotMeasured
    };
    let lines: Vec<Direction> = trends
        .iter()
        .filter(is_of)
        .map(|line| line.direction)
        .collect();
    let with = |wanted| lines.iter().filter(|found| **found == wanted).count();
    let plural = if lines.len() == 1 { "line" } else { "lines" };
    match lines.len() {
        0 => String::new(),
        all => format!(
            "; by the trend over all batches the time of a sample falls on {} of {all} {plural}, and rises on {}",
            with(Direction::Falls),
            match with(Direction::Rises) {
                0 => "none".to_owned(),
                some => some.to_string(),
            },
        ),
    }
}

/// All that a claim speaks of, judged. Pairs are those of a heat; but largest batches, which are no
/// measurements side by side, are sought one by one.
fn found(claim: &Claim, groups: &[&Group<'_>], yardstick: &Yardstick<'_>) -> Vec<Found> {
    let (expect, quantity) = (&claim.expect, claim.quantity);
    let entry = |(cell, slot)| Entry { cell, slot };
    let all = groups.iter().flat_map(|group| group.originals());
    if let Some(number) = expect.number {
        let cells = expect.cells(all).into_iter().map(entry);
        return cells
            .map(|cell| Found {
                place: place(expect, &[cell]),
                judged: quantities::cell(quantity, cell, expect.relation, number),
            })
            .collect();
    }
    let pairs = match quantity {
        Quantity::LargestBatch => expect.pairs(all),
        _ => {
            let groups = groups.iter();
            groups
                .flat_map(|group| expect.pairs(group.originals()))
                .collect()
        }
    };
    let pairs = pairs.into_iter().map(|pair| pair.map(entry));
    pairs
        .map(|pair| Found {
            place: place(expect, &pair),
            judged: yardstick.pair(quantity, pair, expect.times),
        })
        .collect()
}

/// Of a claim about most pairs no more than so many are named.
const NAMED: usize = 4;

/// A claim, with the job's margin.
struct Assertion<'a> {
    claim: &'a Claim,
    margin: f64,
}

impl Assertion<'_> {
    fn weigh(&self, found: &[Found]) -> (Judgement, String) {
        let expect = &self.claim.expect;
        let (expected, opposite): (Verdict, &[Verdict]) = match expect.relation {
            Relation::Less => (Verdict::Faster, &[Verdict::Slower]),
            Relation::Greater => (Verdict::Slower, &[Verdict::Faster]),
            Relation::Equal => (Verdict::Same, &[Verdict::Faster, Verdict::Slower]),
        };
        let Some(first) = found.first() else {
            return (Judgement::NotMeasurableHere, self.absent());
        };
        let measured: Vec<_> = found
            .iter()
            .filter(|found| found.judged.verdict != Verdict::NotMeasured)
            .collect();
        if measured.is_empty() {
            let reason = in_words(expect, &first.judged.reason);
            let place = match first.place.is_empty() {
                true => String::new(),
                false => format!("{}: ", first.place),
            };
            return (Judgement::NotMeasurableHere, format!("{place}{reason}"));
        }
        let count = self.counted(measured.len(), found.len());
        if expect.mostly {
            return self.weigh_most(&measured, (expected, opposite), &count);
        }
        if let Some(pair) = measured
            .iter()
            .find(|found| opposite.contains(&found.judged.verdict))
        {
            return (Judgement::Contradicted, self.sentence(pair));
        }
        if let Some(pair) = measured
            .iter()
            .find(|found| found.judged.verdict != expected)
        {
            let why = in_words(expect, &pair.judged.reason);
            let verdict = pair.judged.verdict.word();
            return (
                Judgement::Unclear,
                format!("{}, {verdict}: {why}", self.sentence(pair)),
            );
        }
        let reason = match measured.as_slice() {
            [only] => format!("{}{count}", self.sentence(only)),
            _ => {
                let which = format!("all {} {}", measured.len(), self.them());
                format!("{}, and all agree{count}", self.range(&measured, &which))
            }
        };
        (Judgement::Confirmed, reason)
    }

    /// The same of a claim about most pairs.
    fn weigh_most(
        &self,
        measured: &[&Found],
        (expected, opposite): (Verdict, &[Verdict]),
        count: &str,
    ) -> (Judgement, String) {
        let with = |verdicts: &[Verdict]| -> Vec<_> {
            let pairs = measured.iter().copied();
            pairs
                .filter(|found| verdicts.contains(&found.judged.verdict))
                .collect()
        };
        let (agree, opposed) = (with(&[expected]), with(opposite));
        let (judgement, pairs, what) = if 2 * agree.len() > measured.len() {
            (Judgement::Confirmed, agree, "which agree")
        } else if 2 * opposed.len() >= measured.len() {
            (Judgement::Contradicted, opposed, "which say the opposite")
        } else {
            let reason = format!(
                "of {} {}, those that agree: {}; those that say the opposite: {}{count}",
                measured.len(),
                self.them(),
                agree.len(),
                opposed.len()
            );
            return (Judgement::Unclear, reason);
        };
        let which = format!("{} of {} {}", pairs.len(), measured.len(), self.them());
        let extent = self.range(&pairs, &which);
        let places: Vec<&str> = pairs
            .iter()
            .map(|found| found.place.as_str())
            .filter(|place| !place.is_empty())
            .collect();
        let at = match places.len() {
            1..=NAMED if pairs.len() < measured.len() => {
                format!(" (at {})", places.join("; at "))
            }
            _ => String::new(),
        };
        (judgement, format!("{extent}, {what}{at}{count}"))
    }

    /// Why there is nothing that it speaks of.
    fn absent(&self) -> String {
        let Expectation { left, right, .. } = &self.claim.expect;
        match (self.claim.expect.number, self.claim.quantity) {
            (Some(_), _) => "no cell of this job is there".to_owned(),
            (None, Quantity::LargestBatch) => {
                format!("this job does not hold both {left} and {right} there")
            }
            (None, _) => format!("no group of this job holds both {left} and {right} there"),
        }
    }

    /// What it speaks of.
    const fn them(&self) -> &'static str {
        match self.claim.expect.number {
            Some(_) => "cells",
            None => "pairs",
        }
    }

    /// `a ÷ b is 0.53 [0.51, 0.55] at model=resnet18`.
    fn sentence(&self, Found { place, judged }: &Found) -> String {
        let expect = &self.claim.expect;
        let at = match place.is_empty() {
            true => String::new(),
            false => format!(" at {place}"),
        };
        let Some(Ratio { interval, .. }) = &judged.ratio else {
            return format!("{}{at}", in_words(expect, &judged.reason));
        };
        let is = if expect.number.is_some() {
            in_print(
                self.claim.quantity,
                interval.low.unwrap_or_default(),
                interval.high,
            )
        } else {
            let printed = printed::held(interval, self.bounds(judged)).ratio;
            let centre = printed.centre.unwrap_or_default();
            match self.claim.quantity {
                // Known without an interval.
                Quantity::Memory => centre,
                _ => format!("{centre} {}", printed.range),
            }
        };
        format!("{} is {is}{at}", self.subject())
    }

    /// The least and the greatest end of the intervals of some pairs: they hold together.
    fn range(&self, pairs: &[&Found], which: &str) -> String {
        let known = pairs.iter().filter_map(|found| {
            let ratio = found.judged.ratio.as_ref()?;
            Some((&ratio.interval, self.bounds(&found.judged)))
        });
        let subject = self.subject();
        if self.claim.expect.number.is_some() {
            let known: Vec<_> = known.map(|(range, _)| range).collect();
            let lows = known.iter().filter_map(|range| range.low);
            let low = lows.reduce(f64::min).unwrap_or_default();
            let highs: Option<Vec<f64>> = known.iter().map(|range| range.high).collect();
            let high = highs.and_then(|highs| highs.into_iter().reduce(f64::max));
            let is = in_print(self.claim.quantity, low, high);
            return format!("{subject} is {is} in {which}");
        }
        let extent = printed::hull(known).map_or_else(
            || "has no bounds".to_owned(),
            |(low, high)| format!("lies between {low} and {high}"),
        );
        let of = match self.claim.quantity.is_of_blocks() {
            true => " (the hull of their intervals)",
            false => "",
        };
        format!("{subject} {extent} in {which}{of}")
    }

    /// `the time of 8 over that of 1`, or of cells alone `the largest batch`.
    fn subject(&self) -> String {
        let Claim {
            quantity, expect, ..
        } = self.claim;
        match expect.number {
            Some(_) => format!("the {}", quantity.noun()),
            None => format!(
                "the {} of {} over {}",
                quantity.noun(),
                expect.left,
                that_of_right(expect)
            ),
        }
    }

    const fn bounds(&self, judged: &Judged) -> Bounds {
        Bounds {
            margin: self.margin,
            floor: judged.floor,
        }
    }

    fn counted(&self, measured: usize, all: usize) -> String {
        if measured == all {
            return String::new();
        }
        let lost = all - measured;
        let them = match lost {
            1 => self.them().trim_end_matches('s'),
            _ => self.them(),
        };
        format!("; {lost} more {them} could not be measured")
    }
}

/// `that of 1`, or `8 times that of 1`.
fn that_of_right(expect: &Expectation) -> String {
    let Expectation { times, right, .. } = expect;
    match *times == 1.0 {
        true => format!("that of {right}"),
        false => format!("{times} times that of {right}"),
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
            swap("the baseline is ", &format!("{} is ", expect.right))
                .or_else(|| swap("the contender is ", &format!("{} is ", expect.left)))
                .or_else(|| swap("baseline: ", &format!("{}: ", expect.right)))
                .or_else(|| swap("contender: ", &format!("{}: ", expect.left)))
                .unwrap_or_else(|| part.to_owned())
        })
        .collect::<Vec<_>>()
        .join("; ")
}

/// What cells have besides the axis: all that one of them knows.
fn place(expect: &Expectation, cells: &[Entry<'_>]) -> String {
    let all = cells.iter().rev();
    let mut all: BTreeMap<String, String> = all
        .flat_map(|entry| entry.cell.coordinates.clone())
        .collect();
    all.remove(&expect.axis);
    all.iter()
        .map(|(axis, value)| format!("{axis}={value}"))
        .collect::<Vec<_>>()
        .join(", ")
}
