//! Pairs of cells of one heat: their ratio and its verdict.

use schema::{
    Boundary, OutcomeKind,
    plan::{Comparison, Pair, PlannedJob},
    printed::Bounds,
    tables::{ComparisonRow, ComparisonTable, Interval, Payback, Verdict},
};

use statistics::{
    family::confidence_of_one,
    interval, pair,
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
    pub(crate) ratio: Option<Interval>,
    pub(crate) floor: Option<f64>,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
}

/// Judges pairs of a job, all at the same simultaneous confidence.
pub(crate) struct Judge<'a> {
    pub(crate) job: &'a PlannedJob,
    pub(crate) cells: &'a Index<'a>,
    pub(crate) floors: &'a Floors,
    /// Confidence of each single interval.
    pub(crate) confidence: f64,
    /// Number of verdicts that share the error.
    pub(crate) family: u32,
}

impl Judge<'_> {
    /// A family's table.
    pub(crate) fn table(&self, comparison: &Comparison) -> Result<ComparisonTable, AggregateError> {
        let rows: Result<Vec<_>, _> = comparison.pairs.iter().map(|pair| self.row(pair)).collect();
        Ok(ComparisonTable {
            axis: comparison.axis.clone(),
            baseline: comparison.baseline.clone(),
            family: self.family,
            confidence_each: self.confidence,
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
            ratio: judged.ratio,
            floor: judged.floor,
            verdict: judged.verdict,
            reason: judged.reason,
            payback: self.payback(judged.verdict, baseline, contender),
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
        let times = libm::log(times);
        let logs: Vec<f64> = shared.logs.iter().map(|log| log - times).collect();
        let Some(ratio) = interval::of_logs(&logs, self.confidence, shared.resolution) else {
            return unmeasured("no block measured both".to_owned());
        };
        let floor = self
            .floors
            .of_pair(&self.job.id, &baseline.cell.cell, &contender.cell.cell);
        let disturbed = obstacles(baseline, contender, |kind| kind == OutcomeKind::Unstable);
        let (verdict, reason) = match disturbed {
            Some(reason) => (Verdict::Unclear, reason),
            None => verdict::judge(
                &ratio,
                Bounds {
                    margin: self.job.measure.margin,
                    floor,
                },
            ),
        };
        Judged {
            ratio: Some(ratio),
            floor,
            verdict,
            reason,
        }
    }
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
