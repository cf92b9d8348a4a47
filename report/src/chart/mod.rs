//! Charts: options for ECharts, drawn here to SVG and, where scripts run, again in the browser.

mod draw;
mod intervals;
mod svg;

pub(crate) use draw::Drawer;
pub(crate) use intervals::{Axis, Intervals, Point, Quantity, Series, no_difference};
