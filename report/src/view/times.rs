//! The chart of a job's cells: step times with their intervals, grouped by what cells share.

use std::collections::{BTreeMap, BTreeSet};

use schema::tables::{CellRow, Interval, JobTable};

use super::{
    comparison::{Contender, distinct},
    setting::Settings,
};
use crate::{
    ReportError,
    chart::{Axis, Drawer, Intervals, Point, Quantity, Series},
    interval,
    marks::Marks,
    picture::{self, Picture},
    words,
};

/// A measured cell, ready to be placed.
struct Timed<'a> {
    label: String,
    value: &'a str,
    step: &'a Interval,
}

/// Draws the measured cells; `None` when there are none.
pub(crate) fn draw(
    job: &JobTable,
    cells: &[&CellRow],
    marks: &Marks,
    drawer: &mut Drawer,
) -> Result<Option<Picture>, ReportError> {
    // The axis whose values stand side by side, and the value that comes first.
    let (axis, first) = job.comparisons.first().map_or(("engine", ""), |table| {
        (table.axis.as_str(), table.baseline.as_str())
    });
    let settings = Settings::of(cells.iter().map(|row| &row.coordinates), &job.axes, axis);
    let timed: Vec<Timed<'_>> = cells
        .iter()
        .filter_map(|row| {
            let step = &row.speed.as_ref()?.step_ns;
            let value = row.coordinates.get(axis).map_or("", String::as_str);
            Some(Timed {
                label: settings.label(&row.coordinates),
                value,
                step,
            })
        })
        .collect();
    // Numbers in their order, and before words.
    let number = |value: &str| value.parse().unwrap_or(u64::MAX);
    let values: BTreeSet<(bool, u64, &str)> = timed
        .iter()
        .map(|cell| (cell.value != first, number(cell.value), cell.value))
        .collect();
    let labels = distinct(timed.iter().map(|cell| cell.label.as_str()));
    let room = picture::room(&labels, values.len());
    let places: BTreeMap<&str, usize> = room
        .rows
        .iter()
        .enumerate()
        .map(|(place, label)| (*label, place))
        .collect();
    let values: Vec<&str> = values
        .into_iter()
        .take(room.series)
        .map(|(_, _, value)| value)
        .collect();
    let contender = |value: &str| Contender {
        name: words::value(axis, value),
        mark: marks.of(axis, value),
    };
    let legend: Vec<Contender> = values.iter().map(|value| contender(value)).collect();
    let series = values.iter().zip(&legend).map(|(value, contender)| Series {
        name: contender.name.clone(),
        mark: contender.mark,
        points: timed
            .iter()
            .filter(|cell| cell.value == *value)
            .filter_map(|cell| point(*places.get(cell.label.as_str())?, cell, contender))
            .collect(),
    });
    let chart = Intervals {
        series: series.collect(),
        axis: Axis {
            name: "step time".to_owned(),
            quantity: Quantity::Time,
        },
        reference: None,
        rows: room.rows.into_iter().map(str::to_owned).collect(),
    };
    let caption = format!(
        "Step time of each measured cell with its interval; further left is faster.{}",
        room.cut
    );
    picture::draw("cells", &chart, drawer, caption, &legend)
}

fn point(place: usize, cell: &Timed<'_>, contender: &Contender) -> Option<Point> {
    let printed = interval::step_time(cell.step);
    let label = format!(
        "{}\n{} {} {}",
        cell.label, contender.name, printed.centre, printed.range
    );
    Point::new(place, cell.step, label)
}
