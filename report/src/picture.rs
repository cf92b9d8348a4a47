//! A chart with everything that a page says about it.

use serde::Serialize;

use crate::{
    ReportError,
    chart::{Drawer, Intervals},
    text,
    view::comparison::Contender,
};

/// More rows than this make a list, not a picture.
const MOST_ROWS: usize = 40;

/// More contenders than this cannot be told apart.
const MOST_SERIES: usize = 12;

/// A chart, drawn.
#[derive(Debug, Serialize)]
pub(crate) struct Picture {
    /// Safe markup.
    pub(crate) svg: String,
    /// The option for the browser, fit for a `script` element.
    pub(crate) option: String,
    pub(crate) caption: String,
    pub(crate) legend: Vec<Contender>,
}

/// Draws the chart, named as nothing else on the page; `None` when it has no point.
pub(crate) fn draw(
    name: &str,
    chart: &Intervals,
    drawer: &mut Drawer,
    caption: String,
    legend: &[Contender],
) -> Result<Option<Picture>, ReportError> {
    if chart.is_empty() {
        return Ok(None);
    }
    let option = chart.option()?;
    let svg = drawer.draw(&option, chart.height(), name)?;
    let option = text::script_json(&option.to_string());
    Ok(Some(Picture {
        svg,
        option,
        caption,
        legend: legend.to_vec(),
    }))
}

/// What a picture has room for, and a sentence about the rest.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    /// Labels of the rows that are drawn.
    pub(crate) rows: Vec<&'a str>,
    /// How many contenders are drawn.
    pub(crate) series: usize,
    /// Empty when everything is.
    pub(crate) cut: String,
}

/// The first rows and the first contenders: a picture of thousands shows nothing.
pub(crate) fn room<'a>(labels: &[&'a str], contenders: usize) -> Room<'a> {
    let rows: Vec<&str> = labels.iter().take(MOST_ROWS).copied().collect();
    let series = contenders.min(MOST_SERIES);
    let cut = if rows.len() < labels.len() || series < contenders {
        let contenders = match contenders {
            1 => String::new(),
            all => format!(" and {series} of {all} contenders"),
        };
        let (drawn, all) = (rows.len(), labels.len());
        format!(" Drawn are the first {drawn} of {all} settings{contenders}; the table has all.")
    } else {
        String::new()
    };
    Room { rows, series, cut }
}
