//! Pairs of cells of one heat: their ratio and its verdict.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Boundary, Cell, OutcomeKind, Precision,
    plan::{Comparison, Pair, PlannedJob},
    printed::{self, Bounds},
    tables::{
        BreakEven, ComparisonRow, ComparisonTable, FirstPayback, FirstSteps, Payback, Resemblance,
        Verdict,
    },
};

use statistics::{
    family::{Family, Ratio, confidence_of_one},
    pair::{self, Shared},
    payback::{self, Cost},
    samples::has_speed,
    serial, verdict,
};

use crate::{
    error::AggregateError,
    floor::Floors,
    group::{Entry, Index},
    slot::Slot,
};

/// The judgement of a pair.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) ratio: Option<Ratio>,
    pub(crate) floor: Option<f64>,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    /// Says of which side nothing is computed in its precision, as `reason` does; empty where none is.
    pub(crate) otherwise: String,
}

impl Judged {
    /// Of a pair of which one has not what it takes.
    pub(crate) const fn unmeasured(reason: String) -> Self {
        Self {
            ratio: None,
            floor: None,
            verdict: Verdict::NotMeasured,
            reason,
            otherwise: String::new(),
        }
    }
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

    /// By how much what pairs say in a block resembles what they said in the block before.
    pub(crate) fn resemblance(&self, compared: &[Comparison]) -> Option<Resemblance> {
        let pairs = compared.iter().flat_map(|comparison| &comparison.pairs);
        let pairs = pairs.filter_map(|pair| {
            let of = |cell| self.cells.entry(&pair.group, cell);
            let both = [of(&pair.baseline)?, of(&pair.contender)?];
            // What was disturbed tells of what disturbed it.
            let is_sound = |entry: &Entry<'_>| entry.slot.outcome.kind == OutcomeKind::Measured;
            let [one, other] = both.iter().all(is_sound).then_some(both)?;
            let boundary = one.cell.cell.boundary;
            Some(pair::shared(&one.slot.blocks, &other.slot.blocks, boundary))
        });
        serial::resemblance(&pairs.collect::<Vec<_>>())
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
        let (payback, first_payback) = self.payback(judged.verdict, baseline, contender);
        let without_calibration = payback.is_some() && are_calibrated([baseline, contender]);
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
            payback,
            first_payback,
            without_calibration,
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

    /// Where of two contenders that differ in the axis alone, as far as both know a factor, the one that is ahead in the
    /// long run is ready later, as a rule or at its first start.
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
        let (early, late, slow, fast) = match self.pair(first, second).verdict {
            Verdict::Faster => (one, other, first, second),
            Verdict::Slower => (other, one, second, first),
            Verdict::Same | Verdict::Unclear | Verdict::NotMeasured => return None,
        };
        let (warm, first) = self.payback(Verdict::Faster, slow, fast);
        let warm = warm?;
        let at_first = first.map(|first| first.payback);
        let is_later =
            matches!(warm, Payback::After(_)) || matches!(at_first, Some(FirstSteps::After(_)));
        is_later.then(|| BreakEven {
            coordinates,
            early: early.value.clone(),
            early_cell: early.contender.clone(),
            late: late.value.clone(),
            late_cell: late.contender.clone(),
            warm,
            first,
            without_calibration: are_calibrated([slow, fast]),
        })
    }

    /// When a contender that this verdict is about has paid for getting ready: in the launches of blocks, and at its
    /// first start. Getting ready is timed by the host: by a device's clock, which leaves out what the host does, no
    /// steps pay for it. Nor do steps that get more or less done than those they are held against.
    fn payback(
        &self,
        verdict: Verdict,
        baseline: Entry<'_>,
        contender: Entry<'_>,
    ) -> (Option<Payback>, Option<FirstPayback>) {
        let (own, others) = (&baseline.cell.cell, &contender.cell.cell);
        if own.boundary == Boundary::Device || !is_same_work(own, others) {
            return (None, None);
        }
        let cost = |entry: Entry<'_>, block: &u32| {
            Some(Cost {
                ready: *entry.slot.ready.get(block)?,
                step: entry.slot.blocks.get(block)?.step_ns,
            })
        };
        let blocks = baseline.slot.ready.keys();
        let blocks: Vec<[Cost; 2]> = blocks
            .filter_map(|block| Some([cost(baseline, block)?, cost(contender, block)?]))
            .collect();
        let confidence = confidence_of_one(&self.job.measure);
        let first = || {
            let ready = [baseline.slot.first_ready()?, contender.slot.first_ready()?];
            let is_cold = |slot: &Slot| slot.first.as_ref().is_some_and(|first| first.is_cold);
            Some(FirstPayback {
                payback: payback::first(verdict, ready, &blocks, confidence)?,
                is_cold: [baseline.slot, contender.slot].into_iter().all(is_cold),
            })
        };
        (payback::payback(verdict, &blocks, confidence), first())
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
        if let Some(reason) = obstacles(baseline, contender, |kind| !has_speed(kind)) {
            return Judged::unmeasured(reason);
        }
        let boundary = baseline.cell.cell.boundary;
        let shared = pair::shared(&baseline.slot.blocks, &contender.slot.blocks, boundary);
        self.of_shared(baseline, contender, &shared, times)
    }

    /// The verdict that what two cells share block by block allows, held against these floors.
    pub(crate) fn of_shared(
        &self,
        baseline: Entry<'_>,
        contender: Entry<'_>,
        shared: &Shared,
        times: f64,
    ) -> Judged {
        let sides = self
            .floors
            .of_pair(&self.job.id, &baseline.cell.cell, &contender.cell.cell);
        let Some(ratio) = self.family.ratio(shared, times, sides.launches()) else {
            return Judged::unmeasured("no block measured both".to_owned());
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
        let otherwise = computed_otherwise(baseline, contender);
        let reason = reason + &otherwise;
        Judged {
            ratio: Some(ratio),
            floor,
            verdict,
            reason,
            otherwise,
        }
    }
}

/// Says of which side nothing is computed in the precision that it is said to be of.
fn computed_otherwise(baseline: Entry<'_>, contender: Entry<'_>) -> String {
    fn told(entry: Entry<'_>) -> Option<&str> {
        entry.slot.loaded.as_ref()?.computed_otherwise()
    }
    match (told(baseline), told(contender)) {
        (None, None) => String::new(),
        (Some(both), Some(other)) if both == other => format!("; both are {both}"),
        (baseline, contender) => {
            let sides = [("baseline", baseline), ("contender", contender)];
            let told = sides
                .into_iter()
                .filter_map(|(side, told)| Some((side, told?)));
            told.map(|(side, told)| format!("; the {side} is {told}"))
                .collect()
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

/// Whether one of them is on grids that calibration found.
fn are_calibrated(entries: [Entry<'_>; 2]) -> bool {
    let of = |entry: &Entry<'_>| entry.cell.cell.precision == Precision::Int8Static;
    entries.iter().any(of)
}

/// Whether a step of the one gets as much done as a step of the other: so many samples of this size through this
/// network, and in training by this rule. Precisions, engines and other switches are ways to do it.
fn is_same_work(one: &Cell, other: &Cell) -> bool {
    let is_same_step = one.model == other.model
        && one.dims == other.dims
        && one.mode == other.mode
        && one.optimizer == other.optimizer
        && one.samples() == other.samples();
    let dropouts = [one, other].map(|cell| cell.factors.get("dropout"));
    let drop_alike = match dropouts {
        [Some(one), Some(other)] => one == other,
        _ => true,
    };
    is_same_step && drop_alike
}

/// The outcomes in the way of a verdict, each with whose it is.
pub(crate) fn obstacles(
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
