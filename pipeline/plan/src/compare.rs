//! Comparisons: pairs of cells that differ in one axis.

use std::collections::BTreeSet;

use schema::{
    manifest::Claim,
    plan::{Comparison, Pair, PlannedCell},
};

use crate::{
    axes::Axis,
    cells::Cells,
    context::{Context, key, name},
    points::{self, Point},
    suggest,
    tree::Step,
    vary::Varied,
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

/// The comparisons of the job, each checked: those that it names, and one with the base over each axis
/// that it varies.
pub(crate) fn resolve(context: &mut Context<'_>, axes: &[Axis], varied: &Varied) -> Vec<Compared> {
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
    for axis in &varied.axes {
        let with_base = Compared {
            axis: *axis,
            baseline: 0,
        };
        if !found.contains(&with_base) {
            found.push(with_base);
        }
    }
    // What is held against a number, or needs no heat in common, needs no comparison either.
    let is_of_pairs = |claim: &Claim| !claim.quantity.has_number();
    let are_judged = !job.compare.is_empty() || !job.vary.is_empty();
    if job.claims.iter().any(is_of_pairs) && !are_judged {
        context.error_with_help(
            &[name("claims")],
            "claims are judged by comparisons, and the job has none",
            "add `compare: [{ axis: engine }]`",
        );
    }
    found
}

/// What a comparison comes to.
pub(crate) struct Family {
    /// In the order of the contenders.
    pub(crate) pairs: Vec<Linked>,
    /// The number of cells whose baseline the job leaves out.
    pub(crate) alone: usize,
    /// The number of cells that do not know the axis.
    pub(crate) strangers: usize,
}

/// The pairs of a comparison, and the cells that are in none.
pub(crate) fn family(compared: Compared, axes: &[Axis], points: &[Point], cells: &Cells) -> Family {
    let (mut found, mut seen, mut alone) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut paired = BTreeSet::new();
    let has_axis = |cell: &PlannedCell| {
        axes.get(compared.axis)
            .is_some_and(|axis| cell.coordinates.contains_key(&axis.name))
    };
    for (point, at) in points.iter().zip(&cells.of_point) {
        // What does not know the axis does not differ in it.
        if !cells.cells.get(*at).is_some_and(has_axis) {
            continue;
        }
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
            Some(baseline) => {
                paired.insert(*at);
                if seen.insert((*baseline, *at)) {
                    found.push(Linked {
                        baseline: *baseline,
                        contender: *at,
                        value,
                    });
                }
            }
            None => drop(alone.insert(*at)),
        }
    }
    Family {
        pairs: found,
        alone: alone.difference(&paired).count(),
        strangers: cells.cells.iter().filter(|cell| !has_axis(cell)).count(),
    }
}

/// Refuses comparisons that compare nothing.
pub(crate) fn refuse_empty(
    context: &mut Context<'_>,
    axes: &[Axis],
    families: &[(Compared, Family)],
) {
    for (entry, (compared, family)) in families.iter().enumerate() {
        let Some(axis) = axes.get(compared.axis).filter(|_| family.pairs.is_empty()) else {
            continue;
        };
        let baseline = axis.texts().nth(compared.baseline as usize);
        let value = format!("`{}: {}`", axis.name, baseline.unwrap_or_default());
        let is_named = entry < context.job.compare.len();
        let help = if !is_named {
            format!(
                "what the job has beside {value} does not know the axis or is excluded: leave it out of `vary`, or \
                 give it another base"
            )
        } else if family.alone > 0 {
            format!(
                "the job leaves out {value} wherever it has another value: exclude less, or name another baseline"
            )
        } else {
            format!("the job has no value but {value} there: exclude less, or drop the comparison")
        };
        let varied = context
            .job
            .vary
            .iter()
            .position(|varied| *varied == axis.name);
        let steps = match varied {
            Some(entry) if !is_named => vec![key("vary"), Step::Index(entry)],
            _ => vec![key("compare"), Step::Index(entry), key("axis")],
        };
        context.error_with_help(
            &steps,
            format!("no two cells differ in the axis `{}` alone", axis.name),
            help,
        );
    }
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
