//! What cells make of their devices: a roofline with its table on a job's page, and a section on a cell's.

use schema::{
    Tables,
    tables::{Bound, CeilingKind, CeilingRow, CellRow, JobTable, Roof, Share, ShareOfCeiling},
};
use serde::Serialize;

use super::{
    chrome,
    comparison::{Contender, distinct},
    setting::Settings,
};
use crate::{
    interval::{self, Estimate},
    marks::Marks,
    roofline::{self, Roofline, Scene, Spot},
    units,
    words::{self, Badge, Fact, fact},
};

/// The cells of a job that share a device, a number of threads and a precision, and so their ceilings.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    /// Counts from 1: unique on the page.
    number: usize,
    /// For example `cpu, 2 threads, fp32`.
    name: String,
    picture: Option<Roofline>,
    legend: Vec<Contender>,
    /// What is to be known of ceilings that were not measured as they should be.
    notes: Vec<String>,
    /// What all rows share; may be empty.
    shared: String,
    rows: Vec<Row>,
}

/// A cell.
#[derive(Debug, Serialize)]
struct Row {
    /// Name of its page.
    cell: String,
    setting: String,
    share: Option<Estimate>,
    share_value: Option<f64>,
    /// The ceiling that it is a share of, or why there is none.
    bound: String,
    flops: String,
    flops_value: f64,
    bytes: String,
    bytes_value: Option<f64>,
    intensity: String,
    intensity_value: Option<f64>,
}

/// The places of a job's cells, in their order. None where the run measured no ceiling at all.
pub(crate) fn places(
    tables: &Tables,
    marks: &Marks,
    job: &JobTable,
    rows: &[&CellRow],
) -> Vec<Place> {
    if tables.ceilings.is_empty() {
        return Vec::new();
    }
    let judged = |row: &&&CellRow| row.roof.is_some() && row.speed.is_some();
    let judged: Vec<&CellRow> = rows.iter().filter(judged).copied().collect();
    let key = |row: &CellRow| (row.cell.device, row.cell.threads, row.cell.precision);
    let mut places = Vec::new();
    for row in &judged {
        if !places.contains(&key(row)) {
            places.push(key(row));
        }
    }
    let here = |place| judged.iter().copied().filter(move |row| key(row) == place);
    let places = places.into_iter().enumerate();
    places
        .map(|(number, place)| {
            of_place(
                tables,
                marks,
                job,
                number + 1,
                &here(place).collect::<Vec<_>>(),
            )
        })
        .collect()
}

/// The axes that the name of a place tells of.
const NAMED: [&str; 3] = ["device", "precision", "threads"];

/// Cells that share a device, a number of threads and a precision.
fn of_place(
    tables: &Tables,
    marks: &Marks,
    job: &JobTable,
    number: usize,
    here: &[&CellRow],
) -> Place {
    // What the place's name says already.
    let own = |row: &&CellRow| {
        let mut own = row.coordinates.clone();
        own.retain(|axis, _| !NAMED.contains(&axis.as_str()));
        own
    };
    let own: Vec<_> = here.iter().map(own).collect();
    let settings = Settings::of(own.iter(), &job.axes, "");
    let label = |(row, own): (&&CellRow, _)| match row.outcome.is_measured() {
        true => settings.label(own),
        false => format!(
            "{}, {}",
            settings.label(own),
            words::outcome(row.outcome.kind).word
        ),
    };
    let labels: Vec<String> = here.iter().zip(&own).map(label).collect();
    let ceilings = here.first().map_or_else(Vec::new, |row| of(tables, row));
    let engines: Vec<String> = here.iter().map(|row| row.cell.engine.to_string()).collect();
    let legend = distinct(engines.iter().map(String::as_str)).into_iter();
    let name = here.first().map(|row| {
        let cell = &row.cell;
        let threads = counted(cell.threads);
        format!("{}, {threads}, {}", cell.device, cell.precision)
    });
    Place {
        number,
        name: name.unwrap_or_default(),
        picture: roofline::draw(&scene(here, &labels, &ceilings, marks)),
        legend: legend
            .map(|engine| Contender {
                name: words::value("engine", engine),
                mark: marks.of("engine", engine),
            })
            .collect(),
        notes: ceilings.iter().filter_map(|row| note(row)).collect(),
        shared: settings.shared(),
        rows: here
            .iter()
            .zip(labels)
            .filter_map(|(row, label)| line(row, label))
            .collect(),
    }
}

/// The ceilings that a cell is held against: those of the machine as it was then.
fn of<'a>(tables: &'a Tables, row: &CellRow) -> Vec<&'a CeilingRow> {
    let (cell, environment) = (&row.cell, row.environment);
    let is_of = |row: &&CeilingRow| {
        let fits = row.kind == CeilingKind::Reading || row.precision == cell.precision;
        let is_here = (row.device, row.threads) == (cell.device, cell.threads);
        fits && is_here && row.environment == environment
    };
    tables.ceilings.iter().filter(is_of).collect()
}

/// Blocks that lie closer together than so many seconds lie in one mood of the machine, which lasts for tens of
/// them.
const AT_ONCE_S: f64 = 15.0;

/// When a ceiling was measured, which the store may have had before the run, and in how long a time.
fn when(row: &CeilingRow) -> Option<String> {
    let started = chrome::moment(row.started.as_deref()?);
    Some(match row.apart_s {
        Some(apart_s) if apart_s < AT_ONCE_S => {
            format!("{started}, blocks at once: the interval is that of one moment")
        }
        Some(apart_s) => {
            let apart = units::span((apart_s * 1e9) as u64);
            format!("{started}, a block every {apart}")
        }
        None => started,
    })
}

/// How a ceiling ended that was not simply measured, and when it was that has a rate.
fn note(row: &CeilingRow) -> Option<String> {
    let outcome = &row.outcome;
    let when = when(row).filter(|_| row.rate.is_some());
    let when = when.map(|when| format!("measured {when}"));
    let ended = (!outcome.is_measured()).then(|| {
        let ended = words::outcome(outcome.kind).word;
        match outcome.reason.as_str() {
            "" => ended.to_owned(),
            reason => format!("{ended}, {reason}"),
        }
    });
    let told: Vec<String> = ended.into_iter().chain(when).collect();
    (!told.is_empty()).then(|| format!("{}: {}", what(row), told.join("; ")))
}

/// `1 thread`, `2 threads`.
fn counted(threads: u32) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    }
}

/// What is drawn of cells: those whose traffic is known, below their ceilings.
fn scene(rows: &[&CellRow], labels: &[String], ceilings: &[&CeilingRow], marks: &Marks) -> Scene {
    let rate = |kind| {
        let row = highest(ceilings, kind)?;
        Some((row.precision, row.rate?.centre))
    };
    let cells = rows.iter().zip(labels).filter_map(|(row, label)| {
        let (roof, speed) = (row.roof.as_ref()?, row.speed.as_ref()?);
        let engine = row.cell.engine.to_string();
        Some(Spot {
            intensity: roof.intensity?,
            flops_per_second: speed.flops_per_second,
            mark: marks.of("engine", &engine),
            label: format!(
                "{label}: {}, {}",
                units::quantity(speed.flops_per_second, "FLOP/s"),
                told(&roof.share)
            ),
        })
    });
    let product = rate(CeilingKind::Product);
    Scene {
        reading: rate(CeilingKind::Reading).map_or(0.0, |(_, rate)| rate),
        product: product.map_or_else(Default::default, |(precision, rate)| {
            (precision.to_string(), rate)
        }),
        cells: cells.collect(),
    }
}

/// The ceiling of a kind with the highest rate.
fn highest<'a>(ceilings: &[&'a CeilingRow], kind: CeilingKind) -> Option<&'a CeilingRow> {
    let of_kind = ceilings.iter().filter(|row| row.kind == kind);
    let rated = of_kind.filter_map(|row| Some((*row, row.rate?.centre)));
    let rated = rated.filter(|(_, rate)| rate.is_finite());
    let highest = rated.max_by(|(_, one), (_, other)| one.total_cmp(other));
    highest.map(|(row, _)| row)
}

/// A share in a few words.
fn told(share: &ShareOfCeiling) -> String {
    match share {
        ShareOfCeiling::Known(share) if share.is_above() => format!(
            "{}, {}",
            units::percent(share.share.centre),
            bound_by(share)
        ),
        ShareOfCeiling::Known(share) => format!(
            "{} of what {} allows",
            units::percent(share.share.centre),
            bound(share.bound)
        ),
        ShareOfCeiling::Unknown(reason) => reason.clone(),
    }
}

/// What keeps a cell from being faster, or that its ceiling does not.
fn bound_by(share: &Share) -> &'static str {
    match share.bound {
        Bound::Memory if share.is_above() => {
            "faster than memory was: traffic may stay in caches, or the ceiling was measured in a slower moment"
        }
        Bound::Compute if share.is_above() => {
            "faster than PyTorch\u{2019}s product was when the ceiling was measured"
        }
        of => bound(of),
    }
}

const fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "arithmetic",
        Bound::Memory => "memory",
    }
}

fn line(row: &CellRow, setting: String) -> Option<Row> {
    let (roof, speed) = (row.roof.as_ref()?, row.speed.as_ref()?);
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| units::NOTHING.to_owned());
    let share = known(roof).map(|share| &share.share);
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let (bytes, intensity) = (finite(roof.bytes_per_second), finite(roof.intensity));
    Some(Row {
        cell: row.id.0.clone(),
        setting,
        share: share.map(interval::share),
        share_value: finite(share.map(|share| share.centre)),
        bound: match &roof.share {
            ShareOfCeiling::Known(share) => bound_by(share).to_owned(),
            ShareOfCeiling::Unknown(reason) => reason.clone(),
        },
        flops: units::quantity(speed.flops_per_second, "FLOP/s"),
        flops_value: finite(Some(speed.flops_per_second)).unwrap_or(0.0),
        bytes: or_nothing(bytes.map(|bytes| units::quantity(bytes, "B/s"))),
        bytes_value: bytes,
        intensity: or_nothing(intensity.map(units::plain)),
        intensity_value: intensity,
    })
}

fn known(roof: &Roof) -> Option<&Share> {
    match &roof.share {
        ShareOfCeiling::Known(share) => Some(share),
        ShareOfCeiling::Unknown(_) => None,
    }
}

/// A cell's share of its ceiling.
#[derive(Debug, Serialize)]
pub(crate) struct CeilingView {
    /// Absent where it is not known.
    share: Option<Estimate>,
    /// What the share is of, or why it is not known.
    reason: String,
    /// What is to be said of a share above 100 %; empty where it is not.
    above: &'static str,
    facts: Vec<Fact>,
}

/// Said where a cell is above the ceiling of memory.
const ABOVE: &str = "That is more than memory delivered when its ceiling was measured, so it is not said to bound \
    the cell: traffic is counted as if every operator read its inputs from memory and wrote its output there, and \
    may stay in caches, or never be written since operators are fused; or the machine was slower then.";

/// Said where a cell is above that of arithmetic.
const ABOVE_PRODUCT: &str = "That is faster than PyTorch\u{2019}s product was when the ceiling was measured, so it is \
    not said to bound the cell: operations are counted by the textbook, and an engine may need fewer, or multiply \
    faster than PyTorch does in this precision; or the machine was slower then.";

/// A cell's share of its ceiling; `None` where its costs are not known, it has no speed, or the run measured
/// no ceiling at all.
pub(crate) fn of_cell(tables: &Tables, row: &CellRow) -> Option<CeilingView> {
    if tables.ceilings.is_empty() {
        return None;
    }
    let (roof, speed) = (row.roof.as_ref()?, row.speed.as_ref()?);
    let mut facts = vec![fact(
        "Operations",
        units::quantity(speed.flops_per_second, "FLOP/s"),
    )];
    let bytes = roof.bytes_per_second;
    facts.extend(bytes.map(|bytes| fact("Traffic by the graph", units::quantity(bytes, "B/s"))));
    facts.extend(
        roof.intensity
            .map(|intensity| fact("Operations for each byte", units::plain(intensity))),
    );
    let share = match &roof.share {
        ShareOfCeiling::Unknown(reason) => {
            return Some(CeilingView {
                share: None,
                reason: reason.clone(),
                above: "",
                facts,
            });
        }
        ShareOfCeiling::Known(share) => share,
    };
    facts.push(fact(
        "The ceiling there",
        units::quantity(share.allowed_flops_per_second, "FLOP/s"),
    ));
    let ceilings = of(tables, row);
    let kinds = [CeilingKind::Product, CeilingKind::Reading];
    let held = kinds.into_iter();
    for ceiling in held.filter_map(|kind| highest(&ceilings, kind)) {
        facts.extend(ceiling.rate.as_ref().map(|rate| {
            let rate = interval::rate(rate, unit(ceiling.kind));
            let ended = match ceiling.outcome.is_measured() {
                true => String::new(),
                false => format!(", {}", words::outcome(ceiling.outcome.kind).word),
            };
            let when = when(ceiling).map(|when| format!(", measured {when}"));
            fact(
                what(ceiling),
                format!(
                    "{} {}{ended}{}",
                    rate.centre,
                    rate.range,
                    when.unwrap_or_default()
                ),
            )
        }));
    }
    let above = match share.bound {
        // An interval that holds all of it says nothing that would need an explanation.
        _ if !share.is_above() => "",
        Bound::Memory => ABOVE,
        Bound::Compute => ABOVE_PRODUCT,
    };
    Some(CeilingView {
        share: Some(interval::share(&share.share)),
        reason: bound(share.bound).to_owned(),
        above,
        facts,
    })
}

/// What a cell does most of, in a tile: with its share of the ceiling where that is known. `None` without a
/// speed, and where its costs are not known.
pub(crate) fn tile(row: &CellRow) -> Option<Fact> {
    let (roof, speed) = (row.roof.as_ref(), row.speed.as_ref()?);
    let flops = units::quantity(speed.flops_per_second, "FLOP/s");
    if row.is_outline() {
        return None;
    }
    let Some(share) = roof.and_then(known) else {
        return Some(fact("Arithmetic", flops));
    };
    let of_ceiling = format!("{} of the ceiling", units::percent(share.share.centre));
    let bytes = roof.and_then(|roof| roof.bytes_per_second);
    Some(match bytes.filter(|_| share.bound == Bound::Memory) {
        Some(bytes) => fact(
            format!("Traffic by the graph, {of_ceiling}"),
            units::quantity(bytes, "B/s"),
        ),
        None => fact(format!("Arithmetic, {of_ceiling}"), flops),
    })
}

/// A ceiling on the page of machines.
#[derive(Debug, Serialize)]
pub(crate) struct CeilingLine {
    place: String,
    what: String,
    work: String,
    rate: Option<Estimate>,
    when: String,
    badge: Badge,
    reason: String,
}

/// The ceilings of a machine. One that measured none has those of its run that never started.
pub(crate) fn of_machine(tables: &Tables, machine: usize) -> Vec<CeilingLine> {
    let is_here = |row: &&CeilingRow| row.environment.unwrap_or(0) as usize == machine;
    let here = tables.ceilings.iter().filter(is_here);
    here.map(|row| CeilingLine {
        place: format!("{}, {}", row.device, counted(row.threads)),
        what: what(row),
        work: work(row),
        rate: row
            .rate
            .as_ref()
            .map(|rate| interval::rate(rate, unit(row.kind))),
        when: when(row).unwrap_or_else(|| units::NOTHING.to_owned()),
        badge: words::outcome(row.outcome.kind),
        reason: row.outcome.reason.clone(),
    })
    .collect()
}

fn what(row: &CeilingRow) -> String {
    match row.kind {
        CeilingKind::Product => format!("Products of matrices in {}", row.precision),
        CeilingKind::Reading => "Reading memory".to_owned(),
    }
}

/// How much was done in a step.
fn work(row: &CeilingRow) -> String {
    let sizes = row.dims.values().map(|size| units::count(*size));
    let size = sizes.collect::<Vec<_>>().join(" × ");
    match row.kind {
        CeilingKind::Product => format!("two matrices of {size} rows"),
        CeilingKind::Reading => format!("{size} MiB"),
    }
}

const fn unit(kind: CeilingKind) -> &'static str {
    match kind {
        CeilingKind::Product => "FLOP/s",
        CeilingKind::Reading => "B/s",
    }
}
