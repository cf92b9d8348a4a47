//! What devices can do at most, and the columns of what cells make of it.

use schema::{
    Tables,
    tables::{CellRow, Share, ShareOfCeiling},
};

use super::csv::{Sheet, decimal, interval, number, pairs, text};
use crate::ExportError;

/// Names of the columns of cells.
pub(super) const COLUMNS: [&str; 8] = [
    "bytes_per_second",
    "flops_per_byte",
    "ceiling_share",
    "ceiling_share_low",
    "ceiling_share_high",
    "ceiling_bound",
    "ceiling_flops_per_second",
    "ceiling_unknown",
];

/// Their values.
pub(super) fn values(row: &CellRow) -> Vec<String> {
    let roof = row.roof.as_ref();
    let (share, unknown) = match roof.map(|roof| &roof.share) {
        Some(ShareOfCeiling::Known(share)) => (Some(share), None),
        Some(ShareOfCeiling::Unknown(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    let [centre, low, high, ..] = interval(share.map(|share| &share.share));
    vec![
        decimal(roof.and_then(|roof| roof.bytes_per_second)),
        decimal(roof.and_then(|roof| roof.intensity)),
        centre,
        low,
        high,
        share.map_or_else(String::new, bound),
        decimal(share.map(|share| share.allowed_flops_per_second)),
        unknown.map_or_else(String::new, text),
    ]
}

/// The ceiling that a share is of, and whether that is one at all.
fn bound(share: &Share) -> String {
    match share.bound_by() {
        Some(bound) => text(bound.word()),
        None => text(format!("above {}", share.bound.word())),
    }
}

const CEILINGS: [&str; 16] = [
    "device",
    "threads",
    "precision",
    "kind",
    "dims",
    "outcome",
    "reason",
    "rate",
    "rate_low",
    "rate_high",
    "blocks",
    "confidence",
    "group",
    "started",
    "finished",
    "apart_s",
];

/// A line a ceiling.
pub(super) fn ceilings(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("ceilings.csv", &CEILINGS)?;
    for row in &tables.ceilings {
        let mut values = vec![
            text(row.device),
            number(Some(row.threads)),
            text(row.precision),
            text(row.kind.word()),
            pairs(&row.dims),
            text(row.outcome.kind),
            text(&row.outcome.reason),
        ];
        values.extend(interval(row.rate.as_ref()));
        values.push(text(&row.group));
        let moments = [&row.started, &row.finished].into_iter();
        values.extend(moments.map(|moment| moment.as_ref().map_or_else(String::new, text)));
        values.push(decimal(row.apart_s));
        sheet.row(values)?;
    }
    sheet.finish()
}
