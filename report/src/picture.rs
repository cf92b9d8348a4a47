//! A chart with everything that a page says about it.

use serde::Serialize;

use crate::{
    ReportError,
    chart::{Drawer, Intervals},
    text,
    view::comparison::Contender,
};

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

/// The rows that a picture has room for, and a sentence about the rest.
pub(crate) fn first_rows<'a>(labels: &[&'a str]) -> (Vec<&'a str>, String) {
    let most = crate::chart::MOST_ROWS;
    let shown: Vec<&str> = labels.iter().take(most).copied().collect();
    let cut = if labels.len() > most {
        format!(
            " Drawn are the first {most} of {} settings; the table has all.",
            labels.len()
        )
    } else {
        String::new()
    };
    (shown, cut)
}
