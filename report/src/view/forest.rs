//! The chart of a family of verdicts: ratios with their intervals, a row a setting.

use std::collections::BTreeMap;

use schema::tables::{ComparisonRow, ComparisonTable, JobTable};

use super::comparison::{Contender, Family, Row, distinct};
use crate::{
    ReportError,
    chart::{Axis, Drawer, Intervals, Point, Quantity, Series, no_difference},
    picture::{self, Picture},
    text, units,
};

/// Draws the family; `None` when none of its pairs has a ratio.
pub(crate) fn draw(
    family: &Family,
    job: &JobTable,
    table: &ComparisonTable,
    drawer: &mut Drawer,
) -> Result<Option<Picture>, ReportError> {
    let labels = distinct(family.rows.iter().map(|row| row.setting.as_str()));
    let room = picture::room(&labels, family.contenders.len());
    let places: BTreeMap<&str, usize> = room
        .rows
        .iter()
        .enumerate()
        .map(|(place, label)| (*label, place))
        .collect();
    let contenders: Vec<Contender> = family
        .contenders
        .iter()
        .take(room.series)
        .cloned()
        .collect();
    let pairs = || family.rows.iter().zip(&table.rows);
    let series = contenders.iter().map(|contender| Series {
        name: contender.name.clone(),
        mark: contender.mark,
        points: pairs()
            .filter(|(row, _)| row.contender.name == contender.name)
            .filter_map(|(row, pair)| point(*places.get(row.setting.as_str())?, row, pair))
            .collect(),
    });
    let margin = job.measure.margin;
    let chart = Intervals {
        series: series.collect(),
        axis: Axis {
            name: format!(
                "time ÷ time of {}",
                text::shorten(&family.baseline.name, 40)
            ),
            quantity: Quantity::Ratio,
        },
        reference: Some(no_difference(margin)),
        rows: room.rows.into_iter().map(str::to_owned).collect(),
    };
    let caption = format!(
        "Time of each contender divided by that of {}, with its interval; left of the line is faster. The band is the margin of {}.{}",
        family.baseline.name,
        units::chosen(margin),
        room.cut,
    );
    picture::draw(&family.id, &chart, drawer, caption, &contenders)
}

fn point(place: usize, row: &Row, pair: &ComparisonRow) -> Option<Point> {
    let (ratio, printed) = (pair.ratio.as_ref()?, row.ratio.as_ref()?);
    let label = format!(
        "{}\n{} {} {}\n{}",
        row.setting, row.contender.name, printed.centre, printed.range, row.badge.word
    );
    Point::new(place, ratio, label)
}
