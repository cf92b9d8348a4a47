//! Comparisons: pairs of cells that differ in one axis.

use std::collections::BTreeSet;

use schema::plan::{Comparison, Pair};

use crate::{
    axes::Axis,
    cells::Cells,
    context::{Context, key, name},
    points::{self, Point},
    suggest,
    tree::Step,
};

/// A comparison of the manifest, its words found in the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Position of the axis.
    pub(crate) axis: usize,
    /// Index of the baseline among its values.
    pub(crate) baseline: u32,
}

/// A pair of cells, by their positions in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Linked {
    pub(crate) baseline: usize,
    pub(crate) contender: usize,
    /// Index of the contender's value.
    value: u32,
}

/// The comparisons of the job, each checked.
pub(crate) fn resolve(context: &mut Context<'_>, axes: &[Axis]) -> Vec<Compared> {
    let job = context.job;
    let mut found: Vec<Compared> = Vec::new();
    for (entry, compare) in job.compare.iter().enumerate() {
        let at = |field: &str| [key("compare"), Step::Index(entry), key(field)];
        let Some(position) = axes.iter().position(|axis| axis.name == compare.axis) else {
            let help = suggest::among(
                &compare.axis,
                axes.iter().map(|axis| axis.name.as_str()),
                "its axes",
            );
            context.error_with_help(
                &at("axis"),
                format!("the matrix has no axis `{}`", compare.axis),
                help,
            );
            continue;
        };
        let Some(axis) = axes.get(position) else {
            continue;
        };
        if axis.values.len() < 2 {
            context.error_with_help(
                &at("axis"),
                format!(
                    "the axis `{}` has one value: there is nothing to compare",
                    axis.name
                ),
                "name a second value in the matrix",
            );
        }
        let baseline = compare.baseline.as_ref().map_or(Some(0), |value| {
            let text = points::canonical(axis.kind, &value.to_string());
            axis.index(&text)
                .and_then(|index| u32::try_from(index).ok())
        });
        let Some(baseline) = baseline else {
            let given = compare
                .baseline
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            let help = suggest::among(&given, axis.texts(), "its values");
            context.error_with_help(
                &at("baseline"),
                format!("the axis `{}` has no value `{given}`", axis.name),
                help,
            );
            continue;
        };
        let compared = Compared {
            axis: position,
            baseline,
        };
        if found.contains(&compared) {
            context.error_with_help(
                &[key("compare"), Step::Index(entry)],
                "this comparison is there twice",
                "keep one of them",
            );
        }
        found.push(compared);
    }
    if !job.claims.is_empty() && job.compare.is_empty() {
        context.error_with_help(
            &[name("claims")],
            "claims are judged by comparisons, and the job has none",
            "add `compare: [{ axis: engine }]`",
        );
    }
    found
}

/// The pairs of a comparison, in the order of the contenders; and the number of cells that have no
/// baseline.
pub(crate) fn pairs(compared: Compared, points: &[Point], cells: &Cells) -> (Vec<Linked>, usize) {
    let (mut found, mut seen, mut alone) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut paired = BTreeSet::new();
    for (point, cell) in points.iter().zip(&cells.of_point) {
        let Some(value) = point
            .get(compared.axis)
            .copied()
            .filter(|value| *value != compared.baseline)
        else {
            continue;
        };
        let mut opposite = point.clone();
        if let Some(index) = opposite.get_mut(compared.axis) {
            *index = compared.baseline;
        }
        let baseline = points
            .binary_search(&opposite)
            .ok()
            .and_then(|at| cells.of_point.get(at));
        match baseline {
            // An axis that does not apply to the cell does not make it differ from itself.
            Some(baseline) if baseline == cell => {}
            Some(baseline) => {
                paired.insert(*cell);
                if seen.insert((*baseline, *cell)) {
                    found.push(Linked {
                        baseline: *baseline,
                        contender: *cell,
                        value,
                    });
                }
            }
            None => drop(alone.insert(*cell)),
        }
    }
    (found, alone.difference(&paired).count())
}

/// The comparison as the plan holds it; `group` tells the group of a cell.
pub(crate) fn planned(
    compared: Compared,
    linked: &[Linked],
    axes: &[Axis],
    cells: &Cells,
    group: impl Fn(usize) -> String,
) -> Option<Comparison> {
    let axis = axes.get(compared.axis)?;
    let text = |index: u32| {
        axis.values
            .get(index as usize)
            .map(|(text, _)| text.clone())
    };
    let pairs = linked.iter().filter_map(|pair| {
        let (baseline, contender) = (
            cells.cells.get(pair.baseline)?,
            cells.cells.get(pair.contender)?,
        );
        let mut coordinates = baseline.coordinates.clone();
        coordinates.extend(contender.coordinates.clone());
        coordinates.remove(&axis.name);
        Some(Pair {
            group: group(pair.contender),
            baseline: baseline.id.clone(),
            contender: contender.id.clone(),
            value: text(pair.value)?,
            coordinates,
        })
    });
    Some(Comparison {
        axis: axis.name.clone(),
        baseline: text(compared.baseline)?,
        pairs: pairs.collect(),
    })
}
