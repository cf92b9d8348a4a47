//! The table of a job's cells, and their chart.

use std::collections::BTreeMap;

use schema::tables::{CellRow, JobTable};
use serde::Serialize;

use super::{comparison::Contender, setting::Settings};
use crate::{
    ReportError,
    chart::{Axis, Drawer, Intervals, Point, Series},
    interval::{self, Estimate},
    marks::Marks,
    picture::{self, Picture},
    units,
    words::{self, Badge},
};

/// A cell as a row.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) id: String,
    /// Its coordinates, in the order of the columns.
    pub(crate) coordinates: Vec<String>,
    pub(crate) step: Option<Estimate>,
    pub(crate) step_value: Option<f64>,
    pub(crate) rate: String,
    pub(crate) rate_value: Option<f64>,
    pub(crate) p95: String,
    pub(crate) p95_value: Option<u64>,
    pub(crate) parity: String,
    pub(crate) parity_value: Option<f64>,
    pub(crate) memory: String,
    pub(crate) memory_value: Option<u64>,
    pub(crate) badge: Badge,
    pub(crate) reason: String,
}

/// The row of a cell.
pub(crate) fn line(row: &CellRow, axes: &[String]) -> Line {
    let speed = row.speed.as_ref();
    let p95 = speed.and_then(|speed| percentile(&speed.percentiles_ns, 95));
    let parity = row.parity.as_ref().map(|parity| parity.error);
    let memory = row.memory.as_ref().map(peak_bytes);
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| units::NOTHING.to_owned());
    Line {
        id: row.id.0.clone(),
        coordinates: axes
            .iter()
            .map(|axis| row.coordinates.get(axis).cloned().unwrap_or_default())
            .collect(),
        step: speed.map(|speed| interval::step_time(&speed.step_ns)),
        step_value: speed
            .map(|speed| speed.step_ns.centre)
            .filter(|value| value.is_finite()),
        rate: or_nothing(speed.map(|speed| units::rate(speed.items_per_second))),
        rate_value: speed
            .map(|speed| speed.items_per_second)
            .filter(|value| value.is_finite()),
        p95: or_nothing(p95.map(units::time_ns)),
        p95_value: p95,
        parity: or_nothing(parity.map(units::error)),
        parity_value: parity.filter(|value| value.is_finite()),
        memory: or_nothing(memory.map(units::bytes)),
        memory_value: memory,
        badge: words::outcome(row.outcome.kind),
        reason: row.outcome.reason.clone(),
    }
}

/// Memory of the device where the cell ran on one, else of the host.
pub(crate) fn peak_bytes(memory: &schema::protocol::Memory) -> u64 {
    memory
        .peak_device_bytes
        .unwrap_or(memory.peak_resident_bytes)
}

/// A percentile, by whichever name it goes: `p95` or `95`.
pub(crate) fn percentile(percentiles: &BTreeMap<String, u64>, rank: u8) -> Option<u64> {
    percentiles
        .get(&format!("p{rank}"))
        .or_else(|| percentiles.get(&rank.to_string()))
        .copied()
}

/// Step times with their intervals, grouped by what the cells share.
pub(crate) fn draw(
    job: &JobTable,
    cells: &[&CellRow],
    marks: &Marks,
    drawer: &mut Drawer,
) -> Result<Option<Picture>, ReportError> {
    let axis = job
        .comparisons
        .first()
        .map_or("engine", |comparison| comparison.axis.as_str());
    let measured: Vec<(&CellRow, &schema::tables::Interval)> = cells
        .iter()
        .filter_map(|row| Some((*row, &row.speed.as_ref()?.step_ns)))
        .collect();
    let Some(unit_of) = measured
        .iter()
        .map(|(_, step)| step.centre)
        .filter(|ns| ns.is_finite() && *ns > 0.0)
        .reduce(f64::min)
    else {
        return Ok(None);
    };
    let (scale, unit) = units::time_unit(unit_of);
    let settings = Settings::of(cells.iter().map(|row| &row.coordinates), &job.axes, axis);
    let mut labels: Vec<String> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    // The baseline comes first.
    let baseline = job
        .comparisons
        .first()
        .map_or("", |comparison| comparison.baseline.as_str());
    let mut series: BTreeMap<(bool, &str), Vec<Point>> = BTreeMap::new();
    for (row, step) in measured {
        let label = settings.label(&row.coordinates);
        let place = *places.entry(label.clone()).or_insert_with(|| {
            labels.push(label.clone());
            labels.len() - 1
        });
        if place >= crate::chart::MOST_ROWS {
            continue;
        }
        let value = row.coordinates.get(axis).map_or("", String::as_str);
        let printed = interval::step_time(step);
        let label = format!(
            "{label}\n{} {} {}",
            words::value(axis, value),
            printed.centre,
            printed.range
        );
        series
            .entry((value != baseline, value))
            .or_default()
            .extend(Point::new(place, step, scale, label));
    }
    let legend: Vec<Contender> = series
        .keys()
        .map(|(_, value)| Contender {
            name: words::value(axis, value),
            mark: marks.of(axis, value),
        })
        .collect();
    let all: Vec<&str> = labels.iter().map(String::as_str).collect();
    let (shown, cut) = picture::first_rows(&all);
    let chart = Intervals {
        rows: shown.iter().map(|label| (*label).to_owned()).collect(),
        series: series
            .into_values()
            .zip(&legend)
            .map(|(points, contender)| Series {
                name: contender.name.clone(),
                mark: contender.mark,
                points,
            })
            .collect(),
        axis: Axis {
            name: format!("step time in {unit}"),
            suffix: String::new(),
            from_zero: true,
        },
        reference: None,
    };
    let caption =
        format!("Step time of each measured cell with its interval; further left is faster.{cut}");
    picture::draw("cells", &chart, drawer, caption, &legend)
}
