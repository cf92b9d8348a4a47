//! Pairs of cells of one heat: their ratio and its verdict.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Boundary, OutcomeKind,
    plan::{Comparison, Pair, PlannedJob},
    printed::{self, Bounds},
    tables::{BreakEven, ComparisonRow, ComparisonTable, Payback, Verdict},
};

use statistics::{
    family::{Family, Ratio, confidence_of_one},
    pair,
    payback::{self, Cost},
    samples::has_speed,
    verdict,
};

use crate::{
    error::AggregateError,
    floor::Floors,
    group::{Entry, Index},
};

/// The judgement of a pair.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) ratio: Option<Ratio>,
    pub(crate) floor: Option<f64>,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
}

/// Judges pairs of a job, all at the same simultaneous confidence.
pub(crate) struct Judge<'a> {
    pub(crate) job: &'a PlannedJob,
    pub(crate) cells: &'a Index<'a>,
    pub(crate) floors: &'a Floors,
    pub(crate) family: Family,
}

impl Judge<'_> {
    /// A family's table.
    pub(crate) fn table(&self, comparison: &Comparison) -> Result<ComparisonTable, AggregateError> {
        let rows: Result<Vec<_>, _> = comparison.pairs.iter().map(|pair| self.row(pair)).collect();
        Ok(ComparisonTable {
            break_evens: self.break_evens(comparison),
            axis: comparison.axis.clone(),
            baseline: comparison.baseline.clone(),
            family: self.family.verdicts,
            confidence_each: self.family.confidence_each,
            rows: rows?,
        })
    }

    fn row(&self, pair: &Pair) -> Result<ComparisonRow, AggregateError> {
        let find = |cell: &schema::CellId| {
            self.cells
                .entry(&pair.group, cell)
                .ok_or_else(|| AggregateError::UnknownCell {
                    job: self.job.id.clone(),
                    group: pair.group.clone(),
                    cell: cell.clone(),
                })
        };
        let (baseline, contender) = (find(&pair.baseline)?, find(&pair.contender)?);
        let judged = self.pair(baseline, contender);
        Ok(ComparisonRow {
            coordinates: pair.coordinates.clone(),
            baseline: pair.baseline.clone(),
            contender: pair.contender.clone(),
            value: pair.value.clone(),
            ratio: judged.ratio.map(|ratio| ratio.interval),
            is_widened: judged.ratio.is_some_and(|ratio| ratio.is_widened),
            floor: judged.floor,
            verdict: judged.verdict,
            reason: judged.reason,
            payback: self.payback(judged.verdict, baseline, contender),
        })
    }

    /// Of every two contenders of a group, each two cells once: those that do not know a factor are held against
    /// baselines with each of its values.
    fn break_evens(&self, comparison: &Comparison) -> Vec<BreakEven> {
        let alone = Judge {
            family: Family::of(&self.job.measure, 1),
            ..*self
        };
        let mut earlier: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for pair in &comparison.pairs {
            let others = earlier.entry(&pair.group).or_default();
            for other in others.iter().filter(|other| other.value != pair.value) {
                if seen.insert([&other.contender, &pair.contender]) {
                    found.extend(alone.break_even(&comparison.axis, other, pair));
                }
            }
            others.push(pair);
        }
        found
    }

    /// Where of two contenders that differ in the axis alone, as far as both know a factor, the one that is ready
    /// later is ahead in the long run.
    fn break_even(&self, axis: &str, one: &Pair, other: &Pair) -> Option<BreakEven> {
        let [first, second] =
            [one, other].map(|pair| self.cells.entry(&pair.group, &pair.contender));
        let (first, second) = first.zip(second)?;
        let (own, others) = (&first.cell.coordinates, &second.cell.coordinates);
        let differ = |(name, value): (&String, &String)| {
            name != axis && others.get(name).is_some_and(|other| other != value)
        };
        if own.iter().any(differ) {
            return None;
        }
        let mut coordinates = own.clone();
        coordinates.extend(others.clone());
        coordinates.remove(axis);
        let verdict = self.pair(first, second).verdict;
        let (early, late, steps) = match self.payback(verdict, first, second)? {
            Payback::After(steps) => (one, other, steps),
            Payback::Until(steps) => (other, one, steps),
            Payback::AtOnce | Payback::Never | Payback::Unclear => return None,
        };
        Some(BreakEven {
            coordinates,
            early: early.value.clone(),
            early_cell: early.contender.clone(),
            late: late.value.clone(),
            late_cell: late.contender.clone(),
            steps,
        })
    }

    /// When a contender that this verdict is about has paid for getting ready. Getting ready is timed by the
    /// host: by a device's clock, which leaves out what the host does, no steps pay for it.
    fn payback(
        &self,
        verdict: Verdict,
        baseline: Entry<'_>,
        contender: Entry<'_>,
    ) -> Option<Payback> {
        let cost = |entry: Entry<'_>, block: &u32| {
            Some(Cost {
                ready: *entry.slot.ready.get(block)?,
                step: *entry.slot.blocks.get(block)?,
            })
        };
        if baseline.cell.cell.boundary == Boundary::Device {
            return None;
        }
        let blocks = baseline.slot.ready.keys();
        let blocks: Vec<[Cost; 2]> = blocks
            .filter_map(|block| Some([cost(baseline, block)?, cost(contender, block)?]))
            .collect();
        payback::payback(verdict, &blocks, confidence_of_one(&self.job.measure))
    }

    /// The verdict about `contender`, held against `baseline`.
    pub(crate) fn pair(&self, baseline: Entry<'_>, contender: Entry<'_>) -> Judged {
        self.pair_times(baseline, contender, 1.0)
    }

    /// The verdict about `contender`, held against so many times `baseline`.
    pub(crate) fn pair_times(
        &self,
        baseline: Entry<'_>,
        contender: Entry<'_>,
        times: f64,
    ) -> Judged {
        let unmeasured = |reason| Judged {
            ratio: None,
            floor: None,
            verdict: Verdict::NotMeasured,
            reason,
        };
        if let Some(reason) = obstacles(baseline, contender, |kind| !has_speed(kind)) {
            return unmeasured(reason);
        }
        let shared = pair::shared(&baseline.slot.blocks, &contender.slot.blocks);
        let sides = self
            .floors
            .of_pair(&self.job.id, &baseline.cell.cell, &contender.cell.cell);
        let Some(ratio) = self.family.ratio(&shared, times, sides.launches()) else {
            return unmeasured("no block measured both".to_owned());
        };
        let floor = sides.floor();
        let disturbed = obstacles(baseline, contender, |kind| kind == OutcomeKind::Unstable);
        let (verdict, reason) = match disturbed {
            Some(reason) => (Verdict::Unclear, reason),
            None => verdict::judge(
                &ratio.interval,
                Bounds {
                    margin: self.job.measure.margin,
                    floor,
                },
            ),
        };
        let reason = match sides.launches() {
            Some(launches) if ratio.is_widened => widened(reason, launches),
            _ => reason,
        };
        Judged {
            ratio: Some(ratio),
            floor,
            verdict,
            reason,
        }
    }
}

/// A reason whose interval is as wide as launches make it: `launches` is what a launch of the one side and one of the
/// other scatter by together, and not the number of either, which stands in the table of floors.
pub(crate) fn widened(mut reason: String, launches: f64) -> String {
    reason += &format!(
        "; widened to the scatter of two launches, by twins at most {}",
        printed::floor(launches)
    );
    reason
}

/// The outcomes in the way of a verdict, each with whose it is.
fn obstacles(
    baseline: Entry<'_>,
    contender: Entry<'_>,
    hinders: impl Fn(OutcomeKind) -> bool,
) -> Option<String> {
    let said = |entry: Entry<'_>| {
        let outcome = &entry.slot.outcome;
        hinders(outcome.kind).then(|| format!("{}: {}", outcome.kind, outcome.reason))
    };
    match (said(baseline), said(contender)) {
        (None, None) => None,
        (Some(what), None) => Some(format!("baseline: {what}")),
        (None, Some(what)) => Some(format!("contender: {what}")),
        (Some(what), Some(same)) if what == same => Some(format!("both: {what}")),
        (Some(what), Some(other)) => Some(format!("baseline: {what}; contender: {other}")),
    }
}
