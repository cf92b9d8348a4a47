//! What leaving a base in one axis does, on a job's page.

use std::collections::{BTreeMap, BTreeSet};

use schema::tables::JobTable;
use serde::Serialize;

use super::{
    comparison::{Family, Row},
    setting::Settings,
};
use crate::units;

/// The effects of a job, the largest first.
#[derive(Debug, Serialize)]
pub(crate) struct Effects {
    /// What all rows share; may be empty.
    shared: String,
    rows: Vec<Effect>,
}

/// An effect, with its place among the others.
#[derive(Debug, Serialize)]
struct Effect {
    /// To sort by.
    place: u64,
    /// Empty where no effect is beyond doubt.
    rank: String,
    /// The axis.
    factor: String,
    /// Its value in the base, in words.
    baseline: String,
    setting: String,
    row: Row,
}

impl Effects {
    /// `None` where nothing was varied around a base.
    pub(crate) fn new(job: &JobTable, families: &[Family]) -> Option<Self> {
        let varied: BTreeSet<&str> = job
            .effects
            .iter()
            .filter_map(|place| job.comparisons.get(place.comparison as usize))
            .map(|table| table.axis.as_str())
            .collect();
        let found: Vec<_> = job
            .effects
            .iter()
            .filter_map(|place| {
                let (comparison, row) = (place.comparison as usize, place.row as usize);
                let table = job.comparisons.get(comparison)?;
                let family = families.get(comparison)?;
                // The other varied axes stand at the base.
                let mut setting = table.rows.get(row)?.coordinates.clone();
                setting.retain(|axis, _| !varied.contains(axis.as_str()));
                Some((setting, table.axis.clone(), family, family.rows.get(row)?))
            })
            .collect();
        let coordinates: Vec<&BTreeMap<String, String>> =
            found.iter().map(|(setting, ..)| setting).collect();
        let settings = Settings::of(coordinates.iter().copied(), &job.axes, "");
        let rows: Vec<Effect> = (1_u64..)
            .zip(&found)
            .map(|(place, (setting, factor, family, row))| Effect {
                place,
                rank: match row.badge.tone {
                    "faster" | "slower" => units::count(place),
                    _ => String::new(),
                },
                factor: factor.clone(),
                baseline: family.baseline.name.clone(),
                setting: settings.label(setting),
                row: (*row).clone(),
            })
            .collect();
        (!rows.is_empty()).then(|| Self {
            shared: settings.shared(),
            rows,
        })
    }
}
