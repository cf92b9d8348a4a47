//! What devices can do at most, and how much of it cells make use of.

use schema::{
    Boundary, Device, Precision,
    plan::PlannedCell,
    protocol::Loaded,
    tables::{
        Bound, CeilingKind, CeilingRow, CellRow, Interval, Roof, Share, ShareOfCeiling, Speed,
    },
};
use statistics::{
    number::{rounded, rounded_down, rounded_up},
    percentile,
};

use crate::{
    cells::Cells,
    group::{Group, Origin},
    slot::Slot,
    speed,
};

/// Confidence of a ceiling's interval, so that with both ceilings' a cell's own leaves 90 % to its share.
const CONFIDENCE: f64 = 0.975;

/// The factor that has weights in one precision and operators in another.
const MIXED: &str = "mixed_precision";

/// The ceilings that these groups measured; their machines are entered among those of the cells.
pub(crate) fn rows(groups: Vec<Group<'_>>, cells: &mut Cells) -> Vec<CeilingRow> {
    let mut rows = Vec::new();
    for Group {
        planned,
        slots,
        origin,
        apart_s,
        ..
    } in groups
    {
        let apart_s = percentile::middle(apart_s).map(rounded);
        let origin = origin.as_ref();
        let environment = origin.map(|origin| cells.register(origin).0);
        // None has a twin, unless the plan is none of ours.
        let cells = planned.cells.iter().zip(slots);
        for (cell, slot) in cells.filter(|(cell, _)| cell.twin_of.is_none()) {
            let mut row = row(cell, slot, origin);
            row.group.clone_from(&planned.group);
            row.environment = environment;
            row.apart_s = apart_s;
            rows.push(row);
        }
    }
    rows
}

/// What the row says of the ceiling itself; its heat is entered by the caller.
fn row(planned: &PlannedCell, slot: Slot, origin: Option<&Origin>) -> CeilingRow {
    let cell = &planned.cell;
    let kind = kind(planned);
    let work = match kind {
        CeilingKind::Product => planned.flops as f64,
        CeilingKind::Reading => moved_bytes(planned.bytes, cell.precision),
    };
    let speed = speed::speed(planned, &slot, CONFIDENCE);
    CeilingRow {
        kind,
        device: cell.device,
        threads: cell.threads,
        precision: cell.precision,
        dims: cell.dims.clone(),
        rate: speed.and_then(|speed| rate(work, &speed.step_ns)),
        outcome: slot.outcome,
        group: String::new(),
        environment: None,
        started: origin.map(|origin| origin.started.clone()),
        finished: origin.map(|origin| origin.finished.clone()),
        apart_s: None,
    }
}

/// What a ceiling's cell is of, by what it does most: a product of matrices has hundreds of operations for
/// each byte, a pass over memory less than one.
fn kind(planned: &PlannedCell) -> CeilingKind {
    if planned.flops > planned.bytes {
        CeilingKind::Product
    } else {
        CeilingKind::Reading
    }
}

/// Least traffic of a step, in bytes; it is counted for numbers of four.
fn moved_bytes(bytes: u64, precision: Precision) -> f64 {
    bytes as f64 * precision.bytes() as f64 / Precision::Fp32.bytes() as f64
}

/// `work` of a step per second; `None` where there is none of it.
fn rate(work: f64, step_ns: &Interval) -> Option<Interval> {
    let per_second = |step_ns: f64| work * 1e9 / step_ns;
    (work > 0.0).then(|| Interval {
        low: step_ns.high.map(|ns| rounded_down(per_second(ns))),
        centre: rounded(per_second(step_ns.centre)),
        high: step_ns.low.map(|ns| rounded_up(per_second(ns))),
        ..*step_ns
    })
}

/// Enters into the rows of cells what they make of their devices.
pub(crate) fn judge(rows: &mut [CellRow], ceilings: &[CeilingRow]) {
    for row in rows {
        row.roof = roof(row, ceilings);
    }
}

fn roof(row: &CellRow, ceilings: &[CeilingRow]) -> Option<Roof> {
    let speed = row.speed.as_ref()?;
    if row.flops == 0 || row.bytes == 0 {
        return None;
    }
    if row.cell.precision.is_int8() {
        return Some(uncounted(
            "PyTorch eager, by which ceilings are measured, multiplies no integers",
        ));
    }
    match row.cell.boundary {
        Boundary::Step => {}
        Boundary::Device => {
            return Some(uncounted(
                "its time is the device's alone, and ceilings are of steps by the host's clock",
            ));
        }
        Boundary::Request => {
            return Some(uncounted(
                "its time holds copies to the host and from it, and ceilings are of steps without",
            ));
        }
    }
    // Theirs may be more than a ceiling's, whose process and threads are one worker's.
    if row.cell.at_once() > 1 {
        return Some(uncounted(
            "several workers share its step, and ceilings are of one worker's threads",
        ));
    }
    let otherwise = row.got_ready().and_then(Loaded::computed_otherwise);
    if otherwise.is_some() {
        return Some(uncounted(
            "nothing of it is computed in its own precision, in which ceilings are measured",
        ));
    }
    if row
        .cell
        .factors
        .get(MIXED)
        .is_some_and(|value| value == "on")
    {
        return Some(uncounted(
            "a part of its numbers is in fp32 and a part is not, which the graph does not tell",
        ));
    }
    let bytes = moved_bytes(row.bytes, row.cell.precision);
    let share = share(row, bytes, speed, ceilings);
    Some(Roof {
        bytes_per_second: Some(rounded(bytes * 1e9 / speed.step_ns.centre)),
        intensity: Some(rounded(row.flops as f64 / bytes)),
        share: share.map_or_else(ShareOfCeiling::Unknown, ShareOfCeiling::Known),
    })
}

/// Where bytes cannot be counted, for this reason.
fn uncounted(reason: &str) -> Roof {
    Roof {
        bytes_per_second: None,
        intensity: None,
        share: ShareOfCeiling::Unknown(reason.to_owned()),
    }
}

/// The share of the ceiling, or why it is not known.
fn share(
    row: &CellRow,
    bytes: f64,
    speed: &Speed,
    ceilings: &[CeilingRow],
) -> Result<Share, String> {
    let of = |kind| ceiling(kind, row, ceilings);
    let product = of(CeilingKind::Product)?;
    let reading = of(CeilingKind::Reading)?;
    let flops = row.flops as f64;
    // What takes longer at its ceiling is the lower one here.
    let [computing, moving] = [flops / product.centre, bytes / reading.centre];
    let at_ceiling_ns = |product: Option<f64>, reading: Option<f64>| {
        Some((flops / product?).max(bytes / reading?) * 1e9)
    };
    let step_ns = &speed.step_ns;
    let divided = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    // All three intervals hold together with the confidence that is left when the errors of each are
    // taken off (Bonferroni).
    let confidences = [step_ns, product, reading].map(|it| it.confidence);
    let errors: f64 = confidences.iter().map(|confidence| 1.0 - confidence).sum();
    Ok(Share {
        share: Interval {
            low: divided(at_ceiling_ns(product.high, reading.high), step_ns.high).map(rounded_down),
            centre: rounded(computing.max(moving) * 1e9 / step_ns.centre),
            high: divided(at_ceiling_ns(product.low, reading.low), step_ns.low).map(rounded_up),
            blocks: step_ns.blocks.min(product.blocks).min(reading.blocks),
            confidence: rounded((1.0 - errors).max(0.0)),
        },
        bound: match computing >= moving {
            true => Bound::Compute,
            false => Bound::Memory,
        },
        allowed_flops_per_second: rounded(flops / computing.max(moving)),
    })
}

/// The largest rate that was measured for what a cell does where it does it, on the machine as it was then.
fn ceiling<'a>(
    kind: CeilingKind,
    row: &CellRow,
    ceilings: &'a [CeilingRow],
) -> Result<&'a Interval, String> {
    let (cell, environment) = (&row.cell, row.environment);
    let (device, threads) = (cell.device, cell.threads);
    let is_of = |row: &&CeilingRow| {
        let fits = kind == CeilingKind::Reading || row.precision == cell.precision;
        fits && row.kind == kind && row.device == device && row.threads == threads
    };
    let found = || ceilings.iter().filter(is_of);
    let usable = |rate: &&Interval| rate.centre.is_finite() && rate.centre > 0.0;
    let here = found().filter(|row| row.environment == environment);
    let rates = here.filter_map(|row| row.rate.as_ref()).filter(usable);
    if let Some(highest) = rates.max_by(|one, other| one.centre.total_cmp(&other.centre)) {
        return Ok(highest);
    }
    let what = named(kind, cell.precision, device, threads);
    if found().any(|row| row.rate.is_some() && row.environment != environment) {
        return Err(format!(
            "{what} was measured on another machine, or on this one as it was set up then"
        ));
    }
    Err(match found().next().map(|row| &row.outcome) {
        Some(outcome) if outcome.reason.is_empty() => {
            format!("{what} is not known: {}", outcome.kind)
        }
        Some(outcome) => format!("{what} is not known: {}", outcome.reason),
        None => format!("the run did not measure {what}"),
    })
}

/// A ceiling in words.
fn named(kind: CeilingKind, precision: Precision, device: Device, threads: u32) -> String {
    let threads = match threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    };
    match kind {
        CeilingKind::Product => {
            format!("how fast {device} multiplies matrices in {precision} with {threads}")
        }
        CeilingKind::Reading => format!("how fast {device} reads memory with {threads}"),
    }
}
