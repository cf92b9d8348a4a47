//! What leaving a base in one axis does, the largest effect first.

use std::collections::BTreeMap;

use schema::{
    plan::PlannedJob,
    tables::{ComparisonRow, ComparisonTable, Place},
};

/// The effects of the axes that a job varies, by how far their ratios are from 1 as seen; those without a
/// ratio last. They are pairs of the job's comparisons, in which all other varied axes stand at the base.
pub(crate) fn effects(job: &PlannedJob, comparisons: &[ComparisonTable]) -> Vec<Place> {
    let places = (0_u32..).zip(comparisons);
    let places = places.filter(|(_, table)| job.vary.get(&table.axis) == Some(&table.baseline));
    let places = places.flat_map(|(comparison, table)| {
        let rows = (0_u32..).zip(&table.rows);
        let rows = rows.filter(|(_, pair)| is_at_base(&pair.coordinates, &job.vary));
        rows.map(move |(row, pair)| (Place { comparison, row }, size(pair)))
    });
    let mut places: Vec<(Place, f64)> = places.collect();
    // Stable, so that equals keep the order of the manifest.
    places.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    places.into_iter().map(|(place, _)| place).collect()
}

fn is_at_base(coordinates: &BTreeMap<String, String>, base: &BTreeMap<String, String>) -> bool {
    let mut varied = coordinates
        .iter()
        .filter_map(|(axis, value)| Some((value, base.get(axis)?)));
    varied.all(|(value, base)| value == base)
}

fn size(pair: &ComparisonRow) -> f64 {
    let size = pair.ratio.map(|ratio| libm::log(ratio.centre).abs());
    size.filter(|size| size.is_finite()).unwrap_or(-1.0)
}
