//! Tables to site: pages, charts, downloads.
//!
//! [`render`] reads [`schema::Tables`] and writes a folder that works from anywhere: relative
//! links, nothing fetched from elsewhere, charts that are there without scripts. Equal tables make
//! equal bytes, whatever the time, the place and the language of the machine.

#![forbid(unsafe_code)]

mod axis;
mod chart;
mod curve;
mod embed;
mod error;
mod excerpt;
mod hold;
mod ids;
mod interval;
mod lines;
mod marks;
mod output;
mod picture;
mod roofline;
mod site;
mod speedup;
mod steady;
mod strip;
mod template;
mod text;
mod timeline;
mod units;
mod view;
mod words;

pub use error::ReportError;
pub use ids::check_tables;
pub use output::{Summary, check, fingerprint};
pub use site::{render, render_unless};
