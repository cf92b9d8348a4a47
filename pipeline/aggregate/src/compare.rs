//! Pairs of cells of one heat: their ratio and its verdict.

use std::collections::BTreeMap;

use schema::{
    OutcomeKind,
    plan::{Comparison, Pair, PlannedJob},
    printed::Bounds,
    tables::{ComparisonRow, ComparisonTable, Interval, Verdict},
};

use crate::{
    error::AggregateError,
    floor::Floors,
    group::{Entry, Index},
    interval,
    slot::has_speed,
    verdict,
};

/// Differences between two cells in the blocks that measured both.
pub(crate) struct Shared {
    /// ln(contender ÷ baseline), a value per block, in the order of blocks.
    pub(crate) logs: Vec<f64>,
    /// What the clock's resolution may have done to any of them.
    pub(crate) resolution: f64,
}

/// Compares block by block.
pub(crate) fn shared(baseline: &BTreeMap<u32, f64>, contender: &BTreeMap<u32, f64>) -> Shared {
    let mut shared = Shared {
        logs: Vec::new(),
        resolution: 0.0,
    };
    for (block, &reference) in baseline {
        if let Some(&time) = contender.get(block) {
            shared.logs.push(libm::log(time / reference));
            let blurred = interval::resolution(reference) + interval::resolution(time);
            shared.resolution = shared.resolution.max(blurred);
        }
    }
    shared
}

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

/// Confidence of each of `family` intervals that hold together with `confidence`: Bonferroni, in
/// the form of Dunn, "Multiple comparisons among means", JASA 56 (1961).
pub(crate) fn shared_confidence(confidence: f64, family: u32) -> f64 {
    let each = 1.0 - (1.0 - confidence) / f64::from(family.max(1));
    // 0.05 has no finite binary form: twelve digits print what was meant.
    let printed = format!("{each:.12}").parse().unwrap_or(each);
    let sharpest = 1.0 - f64::EPSILON;
    if printed < sharpest {
        printed
    } else {
        each.min(sharpest)
    }
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
        let judged = self.pair(find(&pair.baseline)?, find(&pair.contender)?);
        Ok(ComparisonRow {
            coordinates: pair.coordinates.clone(),
            baseline: pair.baseline.clone(),
            contender: pair.contender.clone(),
            value: pair.value.clone(),
            ratio: judged.ratio,
            floor: judged.floor,
            verdict: judged.verdict,
            reason: judged.reason,
        })
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
        let shared = shared(&baseline.slot.blocks, &contender.slot.blocks);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_shared_and_never_vanishes() {
        assert_eq!(shared_confidence(0.95, 0), 0.95);
        assert_eq!(shared_confidence(0.95, 1), 0.95);
        assert_eq!(shared_confidence(0.95, 12), 0.995_833_333_333);
        let sharp = shared_confidence(1.0 - f64::EPSILON / 2.0, u32::MAX);
        assert!(sharp < 1.0, "{sharp}");
        let ratio = interval::of_logs(&[0.0, 0.01, 0.02, 0.0, 0.01, 0.02], sharp, 0.0).unwrap();
        assert!(ratio.low.is_some() && ratio.high.is_some(), "{ratio:?}");
    }

    #[test]
    fn only_shared_blocks_are_compared() {
        let shared = shared(
            &BTreeMap::from([(0, 100.0), (1, 200.0), (5, 400.0)]),
            &BTreeMap::from([(1, 200.0), (2, 1.0), (5, 100.0)]),
        );
        assert_eq!(shared.logs, [0.0, -4_f64.ln()]);
        assert_eq!(shared.resolution, 1.0 / 400.0 + 1.0 / 100.0);
    }
}
