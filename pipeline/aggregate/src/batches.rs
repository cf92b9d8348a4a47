//! What batches say: how the time of a sample goes with them, and where the lead changes.

use std::collections::BTreeMap;

use schema::{
    CellId, OutcomeKind,
    plan::{PlannedJob, VERDICT_BLOCKS},
    printed::{self, Bounds, percent},
    tables::{ComparisonTable, CrossoverRow, Direction, TrendRow, TrendSize, Verdict},
};
use statistics::{
    crossover::crossover,
    family::confidence_of_line,
    noise::Sides,
    trend::{LEAST_SIZES, Line, Trend},
    verdict,
};

use crate::{
    compare::widened,
    floor::Floors,
    group::{Entry, Group},
    slot::Slot,
};

/// The axis whose values are sizes.
const AXIS: &str = "batch";

/// Cells of a heat that are equal in all but the batch.
struct Cells<'a> {
    coordinates: BTreeMap<String, String>,
    /// In the order of their batches.
    entries: BTreeMap<u64, Entry<'a>>,
}

/// The trends of a job. How many they are the plan decides, and nothing that was measured.
pub(crate) fn trends(job: &PlannedJob, groups: &[&Group<'_>], floors: &Floors) -> Vec<TrendRow> {
    if job.measure.blocks == 0 {
        return Vec::new();
    }
    let lines: Vec<Cells<'_>> = groups.iter().flat_map(|group| lines(group)).collect();
    let family = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let confidence = confidence_of_line(&job.measure, family);
    let rows = lines.iter().map(|cells| {
        let mut cell = cells.entries.values().map(|entry| &entry.cell.cell);
        let cell = cell.next();
        let sides = cell.map(|cell| floors.of_pair(&job.id, cell, cell));
        let bounds = Bounds {
            margin: job.measure.margin,
            floor: sides.as_ref().and_then(Sides::floor),
        };
        let launches = sides.and_then(|sides| sides.launches());
        row(cells, confidence, bounds, launches)
    });
    rows.collect()
}

fn lines<'a>(group: &'a Group<'_>) -> Vec<Cells<'a>> {
    let mut lines: BTreeMap<BTreeMap<String, String>, BTreeMap<u64, Entry<'a>>> = BTreeMap::new();
    for (cell, slot) in group.originals() {
        let mut coordinates = cell.coordinates.clone();
        if coordinates.remove(AXIS).is_some() {
            let entries = lines.entry(coordinates).or_default();
            entries.insert(cell.cell.batch(), Entry { cell, slot });
        }
    }
    let lines = lines.into_iter().map(|(coordinates, entries)| Cells {
        coordinates,
        entries,
    });
    lines
        .filter(|cells| cells.entries.len() >= LEAST_SIZES)
        .collect()
}

fn row(cells: &Cells<'_>, confidence: f64, bounds: Bounds, launches: Option<f64>) -> TrendRow {
    // What was disturbed is no ground for a trend.
    let is_sound = |slot: &Slot| slot.outcome.kind == OutcomeKind::Measured;
    let measured = cells
        .entries
        .iter()
        .filter(|(_, entry)| is_sound(entry.slot));
    let measured: Vec<(u64, &Entry<'_>)> = measured.map(|(batch, entry)| (*batch, entry)).collect();
    let steps: Vec<_> = measured
        .iter()
        .map(|(batch, entry)| (*batch, &entry.slot.blocks))
        .collect();
    let boundary = measured.first().map(|(_, entry)| entry.cell.cell.boundary);
    let trend = boundary
        .and_then(|boundary| Line::new(&steps, boundary, launches))
        .and_then(|line| line.trend(confidence, bounds));
    let ratios = trend
        .iter()
        .flat_map(|trend| trend.ratios.iter().copied().map(Some));
    let mut ratios = std::iter::once(None).chain(ratios);
    let reason = reason(trend.as_ref(), measured.len(), bounds);
    TrendRow {
        coordinates: cells.coordinates.clone(),
        direction: trend
            .as_ref()
            .map_or(Direction::NotMeasured, |trend| trend.direction),
        reason: match (trend.as_ref(), launches) {
            (Some(trend), Some(launches)) if trend.is_widened => widened(reason, launches),
            _ => reason,
        },
        p: trend.as_ref().map(|trend| trend.p),
        knee: trend.as_ref().map(|trend| trend.knee),
        blocks: trend.as_ref().map_or(0, |trend| trend.blocks),
        confidence,
        ends: trend.as_ref().map(|trend| trend.ends),
        is_widened: trend.as_ref().is_some_and(|trend| trend.is_widened),
        floor: bounds.floor,
        sizes: measured
            .into_iter()
            .map(|(batch, entry)| TrendSize {
                batch,
                cell: entry.cell.id.clone(),
                ratio: ratios.next().flatten(),
            })
            .collect(),
    }
}

fn reason(trend: Option<&Trend>, sizes: usize, bounds: Bounds) -> String {
    match trend.map(|trend| trend.direction) {
        Some(Direction::Falls) => format!(
            "on the whole a sample takes less time the larger the batch, from the smallest to the largest by \
             more than {}",
            held(trend, bounds)
        ),
        Some(Direction::Rises) => format!(
            "on the whole a sample takes more time the larger the batch, from the smallest to the largest by \
             more than {}",
            held(trend, bounds)
        ),
        Some(Direction::Unclear) if bounds.floor.is_none() => {
            "the noise floor is not known".to_owned()
        }
        Some(Direction::Unclear) if is_turned(trend, bounds) => format!(
            "the batches go one way on the whole, and from the smallest to the largest the other, by more than {}",
            held(trend, bounds)
        ),
        Some(Direction::Unclear) => format!(
            "the largest batch does not differ from the smallest beyond {}",
            held(trend, bounds)
        ),
        Some(_) => "on the whole a sample takes neither less nor more time".to_owned(),
        None if sizes < LEAST_SIZES => {
            format!("{sizes} batches were measured, fewer than {LEAST_SIZES}")
        }
        None => format!("fewer than {VERDICT_BLOCKS} blocks measured all of its batches"),
    }
}

/// Whether the largest batch differs from the smallest all the same, where that is no trend: to the other side.
fn is_turned(trend: Option<&Trend>, bounds: Bounds) -> bool {
    let judged = trend.map(|trend| verdict::judge(&trend.ends, bounds).0);
    matches!(judged, Some(Verdict::Faster | Verdict::Slower))
}

/// What a trend is held against, in words: the floor with as many digits as it takes beside the ratio.
fn held(trend: Option<&Trend>, bounds: Bounds) -> String {
    let floor = trend.and_then(|trend| printed::held(&trend.ends, bounds).floor);
    format!(
        "the {} margin and the {} floor",
        percent(bounds.margin),
        floor.unwrap_or_default()
    )
}

/// By batch, the ratio as seen and its verdict.
type Sizes = BTreeMap<u64, (f64, Verdict)>;

/// The places where the lead of a family's pairs changes.
pub(crate) fn crossovers(
    table: &ComparisonTable,
    batch: impl Fn(&CellId) -> Option<u64>,
) -> Vec<CrossoverRow> {
    if table.axis == AXIS {
        return Vec::new();
    }
    let mut lines: BTreeMap<(&str, BTreeMap<String, String>), Sizes> = BTreeMap::new();
    for row in &table.rows {
        let mut coordinates = row.coordinates.clone();
        let Some(batch) = coordinates.remove(AXIS).and_then(|_| batch(&row.contender)) else {
            continue;
        };
        let ratio = row.ratio.map_or(f64::NAN, |ratio| ratio.centre);
        let line = lines.entry((&row.value, coordinates)).or_default();
        line.insert(batch, (ratio, row.verdict));
    }
    let rows = lines
        .into_iter()
        .filter_map(|((value, coordinates), sizes)| {
            let sizes: Vec<_> = sizes
                .into_iter()
                .map(|(batch, (ratio, verdict))| (batch, ratio, verdict))
                .collect();
            Some(CrossoverRow {
                axis: table.axis.clone(),
                baseline: table.baseline.clone(),
                value: value.to_owned(),
                coordinates,
                crossover: crossover(&sizes)?,
            })
        });
    rows.collect()
}
