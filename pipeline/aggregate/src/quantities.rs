//! What claims are about besides step times: pairs of cells held against each other in it, and cells
//! against a number.
//!
//! Power and energy are judged as step times are: block by block, with an interval, and against what
//! twins of the job differ by in them. Peak memory and the largest batch have no blocks: the one is held
//! against what twins differ by, the other is known as exactly as the search for it left it.

use schema::{
    Boundary, OutcomeKind, Plan,
    plan::{Quantity, Relation},
    printed::{self, percent, short, sides},
    tables::{Interval, Verdict},
    telemetry::Energy,
};
use statistics::{
    family::{Family, Ratio},
    samples::has_speed,
};

use crate::{
    compare::{Judge, Judged, obstacles},
    floor::{self, Floors},
    frontier,
    group::{Entry, Group},
    profile, sensors,
    slot::Slot,
    speed,
};

/// The noise of what is metered, of all jobs.
pub(crate) struct Meters {
    power: Floors,
    energy: Floors,
}

impl Meters {
    pub(crate) fn new(plan: &Plan, groups: &[Group<'_>]) -> Self {
        // Twins have equal batches.
        let of = |samples: Option<[u64; 2]>| {
            floor::floors_of(plan, groups, |_, original: &Slot, twin: &Slot| {
                let both = [&original.energy, &twin.energy];
                sensors::shared(both, samples).unwrap_or_default()
            })
        };
        Self {
            power: of(None),
            energy: of(Some([1, 1])),
        }
    }
}

/// Judges what the claims of a job are about.
pub(crate) struct Yardstick<'a> {
    pub(crate) judge: &'a Judge<'a>,
    groups: &'a [&'a Group<'a>],
    meters: &'a Meters,
}

/// A number of a cell: at least, and at most; unbounded where nobody knows.
type Range = (f64, Option<f64>);

impl<'a> Yardstick<'a> {
    pub(crate) const fn new(
        judge: &'a Judge<'a>,
        groups: &'a [&'a Group<'a>],
        meters: &'a Meters,
    ) -> Self {
        Self {
            judge,
            groups,
            meters,
        }
    }

    /// The verdict about `left`, held against so many times `right`: `faster` where it has less.
    pub(crate) fn pair(
        &self,
        quantity: Quantity,
        [left, right]: [Entry<'_>; 2],
        times: f64,
    ) -> Judged {
        match quantity {
            Quantity::StepTime => self.judge.pair_times(right, left, times),
            Quantity::Power | Quantity::Energy => self.metered(quantity, left, right, times),
            Quantity::Memory => self.memory(left, right, times),
            Quantity::LargestBatch => self.batches(left, right, times),
            Quantity::Kernels => {
                let reason = "kernels' share of a step is held against a number alone";
                Judged::unmeasured(reason.to_owned())
            }
        }
    }

    fn metered(&self, quantity: Quantity, left: Entry<'_>, right: Entry<'_>, times: f64) -> Judged {
        if let Some(reason) = obstacles(right, left, |kind| !has_speed(kind)) {
            return Judged::unmeasured(reason);
        }
        for (side, entry) in [("baseline", right), ("contender", left)] {
            if let Some(reason) = unmetered(entry) {
                return Judged::unmeasured(format!("{side}: {reason}"));
            }
        }
        let samples = [right, left].map(|entry| entry.cell.cell.samples());
        let (floors, samples) = match quantity {
            Quantity::Energy => (&self.meters.energy, Some(samples)),
            _ => (&self.meters.power, None),
        };
        let shared = match sensors::shared([&right.slot.energy, &left.slot.energy], samples) {
            Ok(shared) => shared,
            Err(reason) => return Judged::unmeasured(reason.to_owned()),
        };
        let job = self.judge.job;
        let heats = self.groups.iter().map(|group| group.planned);
        let judge = Judge {
            floors,
            family: Family::of(&job.measure, job.family_of_claims(heats, quantity)),
            ..*self.judge
        };
        judge.of_shared(right, left, &shared, times)
    }

    fn memory(&self, left: Entry<'_>, right: Entry<'_>, times: f64) -> Judged {
        let is_known = |kind: OutcomeKind| kind.is_complete() || has_speed(kind);
        if let Some(reason) = obstacles(right, left, |kind| !is_known(kind)) {
            return Judged::unmeasured(reason);
        }
        let Some((of_left, of_right)) = peak(left).zip(peak(right)) else {
            return Judged::unmeasured("the engine does not tell of its memory".to_owned());
        };
        let ratio = of_left / of_right / times;
        let Some(floor) = self.scatter_of_memory(&[left, right]) else {
            let reason = "no twin tells what peak memory differs by from launch to launch";
            return Judged {
                verdict: Verdict::Unclear,
                ..certain(ratio, (ratio, Some(ratio)), self.margin(), 0.0, reason)
            };
        };
        let what = format!("the most that twins differ by is {}", printed::floor(floor));
        certain(ratio, (ratio, Some(ratio)), self.margin(), floor, &what)
    }

    /// The most that the peaks of two identical cells of these engines differ by in this job, as a relative
    /// difference; `None` where one has no twin.
    fn scatter_of_memory(&self, entries: &[Entry<'_>]) -> Option<f64> {
        let of = |entry: &Entry<'_>| {
            let (engine, device) = (&entry.cell.cell.engine, entry.cell.cell.device);
            let twins = self.groups.iter().flat_map(|group| group.twins());
            let twins = twins
                .filter(|(cell, ..)| cell.cell.engine == *engine && cell.cell.device == device);
            let apart = twins.filter_map(|(cell, original, twin)| {
                let [one, other] = [original, twin].map(|slot| peak(Entry { cell, slot }));
                let ratio = one? / other?;
                Some(ratio.max(ratio.recip()) - 1.0)
            });
            apart.reduce(f64::max)
        };
        let of_both: Option<Vec<f64>> = entries.iter().map(of).collect();
        of_both?.into_iter().reduce(f64::max)
    }

    fn batches(&self, left: Entry<'_>, right: Entry<'_>, times: f64) -> Judged {
        if let Some(reason) = self.several_machines() {
            return Judged::unmeasured(reason);
        }
        if let Some(reason) = obstacles(right, left, |kind| !is_sought(kind)) {
            return Judged::unmeasured(reason);
        }
        let (of_left, of_right) = match (batches(left), batches(right)) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(reason), _) | (_, Err(reason)) => return Judged::unmeasured(reason),
        };
        let nothing = |range: Range| range.1 == Some(0.0);
        match (nothing(of_left), nothing(of_right)) {
            (true, true) => return Judged::unmeasured("not one sample fits of either".to_owned()),
            (true, false) => return of_nothing(Verdict::Faster, "contender"),
            (false, true) => return of_nothing(Verdict::Slower, "baseline"),
            (false, false) => {}
        }
        let ratio = of_left.0 / of_right.0 / times;
        let low = of_right.1.map_or(0.0, |most| of_left.0 / most / times);
        let high = of_left.1.map(|most| most / of_right.0 / times);
        let what = "the ends are what the search for the batches leaves open";
        certain(ratio, (low, high), self.margin(), 0.0, what)
    }

    /// Batches that were sought on several machines are not held against each other.
    fn several_machines(&self) -> Option<String> {
        let origins = self.groups.iter().filter_map(|group| group.origin.as_ref());
        let mut machines = origins.map(|origin| &origin.environment.fingerprint);
        let first = machines.next()?;
        machines
            .any(|other| other != first)
            .then(|| "the batches were sought on several machines".to_owned())
    }

    fn margin(&self) -> f64 {
        self.judge.job.measure.margin
    }
}

/// The verdict about a cell, held against a number: `faster` where it has less.
pub(crate) fn cell(
    quantity: Quantity,
    entry: Entry<'_>,
    relation: Relation,
    number: f64,
) -> Judged {
    let range = match quantity {
        Quantity::LargestBatch => batches(entry),
        Quantity::Kernels => kernels(entry),
        _ => Err("it is held against no number".to_owned()),
    };
    let (low, high) = match range {
        Ok(range) => range,
        Err(reason) => return Judged::unmeasured(reason),
    };
    // What is exactly the number is neither more nor less.
    let is_less = high.is_some_and(|high| high < number);
    let is_more = low > number;
    let verdict = match relation {
        Relation::Less if low >= number => Verdict::Slower,
        Relation::Greater if high.is_some_and(|high| high <= number) => Verdict::Faster,
        _ if is_less => Verdict::Faster,
        _ if is_more => Verdict::Slower,
        _ => Verdict::Unclear,
    };
    Judged {
        ratio: Some(Ratio {
            interval: known(low, (low, high)),
            is_widened: false,
        }),
        floor: None,
        verdict,
        reason: "the number lies between the ends".to_owned(),
        otherwise: String::new(),
    }
}

/// The numbers of a cell in print: `61.2 % to 100 %`, `12 to 15`, `at least 512`.
pub(crate) fn in_print(quantity: Quantity, low: f64, high: Option<f64>) -> String {
    let number = |value: f64| match quantity {
        Quantity::Kernels => percent(value),
        _ => short(value, 12),
    };
    match high {
        None => format!("at least {}", number(low)),
        Some(high) if high == low => number(low),
        Some(high) => format!("{} to {}", number(low), number(high)),
    }
}

/// Why a cell has no energy.
fn unmetered(entry: Entry<'_>) -> Option<String> {
    let energy = &entry.slot.energy;
    let is_measured = |energy: &Energy| matches!(energy, Energy::Measured(_));
    if energy.values().any(is_measured) {
        return None;
    }
    let told = energy.values().find_map(|energy| match energy {
        Energy::Unavailable(reason) => Some(reason.clone()),
        Energy::Measured(_) => None,
    });
    Some(told.unwrap_or_else(|| "no energy was recorded".to_owned()))
}

/// Peak memory where a cell computes, in bytes.
fn peak(entry: Entry<'_>) -> Option<f64> {
    let bytes = entry
        .slot
        .memory
        .as_ref()?
        .peak_bytes(entry.cell.cell.device)?;
    (bytes > 0).then_some(bytes as f64)
}

/// Whether a cell that ended so got as far as having its largest batch sought: not one sample may fit.
fn is_sought(kind: OutcomeKind) -> bool {
    kind.is_complete() || kind == OutcomeKind::OutOfMemory
}

/// The largest batch of a cell: what fits, and what may fit at most.
fn batches(entry: Entry<'_>) -> Result<Range, String> {
    let outcome = &entry.slot.outcome;
    if !is_sought(outcome.kind) {
        return Err(format!("{}: {}", outcome.kind, outcome.reason));
    }
    let Some(sought) = entry.slot.frontier.clone() else {
        return Err("no batch was tried".to_owned());
    };
    let found = frontier::frontier(sought, entry.cell.cell.device);
    // What ended for another reason than memory says nothing of what fits.
    let full = found.tries.iter();
    let full = full.filter(|it| it.outcome.kind == OutcomeKind::OutOfMemory);
    let full = full
        .map(|it| it.batch)
        .filter(|&batch| found.fits.is_none_or(|fits| batch > fits));
    let most = full.min().map(|batch| batch.saturating_sub(1) as f64);
    match (found.fits, most) {
        (None, None) => Err(match found.end {
            Some(end) => format!(
                "batch {}: {}: {}",
                end.batch, end.outcome.kind, end.outcome.reason
            ),
            None => "no batch was tried".to_owned(),
        }),
        (fits, most) => Ok((fits.unwrap_or(0) as f64, most)),
    }
}

/// What rounding outward forgives, since a share is a quotient of rounded numbers.
const SLACK: f64 = 1e-6;

/// Kernels' share of a step of a cell, to a tenth of a percent, rounded outward.
fn kernels(entry: Entry<'_>) -> Result<Range, String> {
    let profiled = &entry.slot.profiled;
    let outcome = &entry.slot.outcome;
    if !has_speed(outcome.kind) {
        return Err(format!("{}: {}", outcome.kind, outcome.reason));
    }
    let Some(profiled) = profiled else {
        return Err("it was not profiled".to_owned());
    };
    let Some(profile) = &profiled.profile else {
        let outcome = &profiled.outcome;
        return Err(format!("{}: {}", outcome.kind, outcome.reason));
    };
    // A profile is of the step alone, by the host's clock.
    let is_of_steps = entry.cell.cell.boundary == Boundary::Step;
    let Some(step_ns) = speed::step_ns(entry.slot).filter(|_| is_of_steps) else {
        return Err("no step time tells what the profiler costs".to_owned());
    };
    let [low, high] = profile::kernels(profile, step_ns);
    Ok((
        (low * 1000.0 + SLACK).floor() / 1000.0,
        Some((high * 1000.0 - SLACK).ceil() / 1000.0),
    ))
}

/// The verdict about a ratio that lies between two ends for sure.
fn certain(ratio: f64, (low, high): Range, margin: f64, floor: f64, what: &str) -> Judged {
    let [faster, slower] = sides(margin.max(floor));
    let [least, greatest] = sides(margin);
    let is_within = low >= least && high.is_some_and(|high| high <= greatest);
    let in_print = percent(margin);
    let (verdict, said) = if high.is_some_and(|high| high < faster) || low > slower {
        let verdict = match low > slower {
            true => Verdict::Slower,
            false => Verdict::Faster,
        };
        (verdict, format!("it lies outside the {in_print} margin"))
    } else if is_within && floor <= margin {
        (
            Verdict::Same,
            format!("it lies inside the {in_print} margin"),
        )
    } else if floor > margin {
        (
            Verdict::Unclear,
            "it is not beyond what twins differ by".to_owned(),
        )
    } else {
        (
            Verdict::Unclear,
            format!("it is not wholly outside the {in_print} margin"),
        )
    };
    Judged {
        ratio: Some(Ratio {
            interval: known(ratio, (low, high)),
            is_widened: false,
        }),
        floor: Some(floor),
        verdict,
        reason: format!("{said}; {what}"),
        otherwise: String::new(),
    }
}

/// Where not one sample fits of one of two cells.
fn of_nothing(verdict: Verdict, which: &str) -> Judged {
    Judged {
        verdict,
        ..Judged::unmeasured(format!("{which}: not one sample fits"))
    }
}

/// An interval that no block tells, and that holds for sure.
fn known(centre: f64, (low, high): Range) -> Interval {
    Interval {
        low: Some(low),
        centre,
        high,
        blocks: 0,
        confidence: 1.0,
    }
}
