//! Combinations of a matrix: all of them, less `exclude`, plus `include`.

use std::collections::BTreeSet;

use schema::manifest::{Coordinates, Scalar};

use crate::{
    axes::{self, Axis, AxisKind},
    context::{Context, key, name},
    suggest,
    tree::Step,
    vary::Varied,
};

/// Most entries of `exclude`, `include` and the like.
const ENTRY_LIMIT: usize = 1000;

/// Most values that all entries of such a list name together.
const VALUE_LIMIT: usize = 10_000;

/// For each axis of the job the index of a value.
pub(crate) type Point = Vec<u32>;

/// Every combination to measure, in order; `None` when an error was noted. Values that only
/// `include` names are added to `axes`.
pub(crate) fn expand(
    context: &mut Context<'_>,
    axes: &mut [Axis],
    varied: &Varied,
    room: usize,
) -> Option<Vec<Point>> {
    let before = context.faults.len();
    bound(context);
    if context.faults.len() > before {
        return None;
    }
    let exclude: Vec<_> = (0..context.job.exclude.len())
        .map(|entry| excluded(context, axes, entry))
        .collect();
    let include: Vec<_> = (0..context.job.include.len())
        .map(|entry| included(context, axes, varied, entry))
        .collect();
    if context.faults.len() > before {
        return None;
    }
    let base: Vec<Vec<u32>> = axes.iter().map(|axis| indices(axis.base)).collect();
    let counts: Vec<usize> = axes.iter().map(|axis| axis.base).collect();
    let of_entry = |(choices, varied): &(Vec<Vec<u32>>, Varied)| {
        let counts: Vec<usize> = choices.iter().map(Vec::len).collect();
        varied.combinations(&counts)
    };
    let count = [varied.combinations(&counts)]
        .into_iter()
        .chain(include.iter().map(of_entry))
        .try_fold(0_usize, |sum, count| sum.checked_add(count?));
    if count.is_none_or(|count| count > room) {
        over_the_limit(context, axes, count);
        return None;
    }
    let mut points = BTreeSet::new();
    for_each(&base, varied, |point| {
        let is_out = |selector: &Selector| {
            selector
                .iter()
                .zip(point)
                .all(|(wanted, index)| wanted.as_ref().is_none_or(|wanted| wanted.contains(index)))
        };
        if !exclude.iter().any(is_out) {
            points.insert(point.to_vec());
        }
    });
    for (entry, (choices, varied)) in include.iter().enumerate() {
        let mut added = false;
        for_each(choices, varied, |point| {
            added |= points.insert(point.to_vec());
        });
        if !added {
            context.error_with_help(
                &[key("include"), Step::Index(entry)],
                "this entry adds nothing",
                "the matrix has these cells already",
            );
        }
    }
    if points.is_empty() {
        context.error_with_help(
            &[key("exclude")],
            "nothing is left after excluding",
            "exclude less, or drop the job",
        );
    }
    (context.faults.len() == before).then(|| points.into_iter().collect())
}

/// Each value of these lists is looked for among the axis's, and each entry in every combination.
fn bound(context: &mut Context<'_>) {
    let job = context.job;
    let lists = [
        ("exclude", Some(&job.exclude), job.exclude.len()),
        ("include", Some(&job.include), job.include.len()),
        ("compare", None, job.compare.len()),
        ("allow", None, job.allow.len()),
        ("claims", None, job.claims.len()),
    ];
    for (list, entries, count) in lists {
        let values = entries.into_iter().flat_map(|entries| entries.iter());
        let values: usize = values
            .flat_map(|entry| entry.0.values())
            .map(|values| values.len())
            .sum();
        if count > ENTRY_LIMIT || values > VALUE_LIMIT {
            context.error_with_help(
                &[name(list)],
                format!("this list is longer than {ENTRY_LIMIT} entries or {VALUE_LIMIT} values"),
                "a pattern such as `bert*` covers many values",
            );
        }
    }
}

fn over_the_limit(context: &mut Context<'_>, axes: &[Axis], count: Option<usize>) {
    let sizes: Vec<String> = axes
        .iter()
        .map(|axis| format!("{} {}", axis.base, axis.name))
        .collect();
    let count = count.map_or_else(|| "too many to count".to_owned(), |count| count.to_string());
    let limit = context.world.cell_limit;
    context.error_with_help(
        &[name("matrix")],
        format!("the matrix brings the plan over the limit of {limit} combinations: {count}"),
        if context.job.vary.is_empty() {
            format!(
                "its axes multiply: {}; name fewer values or raise the limit with --cell-limit",
                sizes.join(" × ")
            )
        } else {
            format!(
                "its axes have {}; name fewer values or raise the limit with --cell-limit",
                sizes.join(", ")
            )
        },
    );
}

fn indices(count: usize) -> Vec<u32> {
    (0..u32::try_from(count).unwrap_or(u32::MAX)).collect()
}

/// Calls `visit` with every combination, the last axis varying fastest; of axes that are varied no more
/// than may leave their first value at once.
fn for_each(choices: &[Vec<u32>], varied: &Varied, mut visit: impl FnMut(&[u32])) {
    fn descend(
        choices: &[Vec<u32>],
        varied: &Varied,
        left: usize,
        point: &mut Point,
        visit: &mut impl FnMut(&[u32]),
    ) {
        let Some((values, rest)) = choices.split_first() else {
            visit(point);
            return;
        };
        let is_varied = varied.has(point.len());
        for value in values {
            let leaves = usize::from(is_varied && *value != 0);
            let Some(left) = left.checked_sub(leaves) else {
                continue;
            };
            point.push(*value);
            descend(rest, varied, left, point, visit);
            point.pop();
        }
    }
    // As deep as there are axes: at most the 256 keys of a mapping.
    let mut point = Vec::with_capacity(choices.len());
    descend(choices, varied, varied.at_once, &mut point, &mut visit);
}

/// For each axis the values that match; `None`: all.
type Selector = Vec<Option<BTreeSet<u32>>>;

fn excluded(context: &mut Context<'_>, axes: &[Axis], entry: usize) -> Selector {
    let mut selector = vec![None; axes.len()];
    let root = [key("exclude"), Step::Index(entry)];
    let job = context.job;
    let Some(coordinates) = job.exclude.get(entry) else {
        return selector;
    };
    for (position, axis, values) in named(context, axes, coordinates, &root) {
        let mut wanted = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            let found = matching(axis, value);
            if found.is_empty() && context.has_room() {
                let steps = [
                    root[0].clone(),
                    root[1].clone(),
                    key(&axis.name),
                    Step::Index(index),
                ];
                let help = suggest::among(&value.to_string(), axis.texts(), "its values");
                context.error_with_help(
                    &steps,
                    format!("the axis `{}` has no value `{value}`", axis.name),
                    help,
                );
            }
            wanted.extend(found);
        }
        if let Some(slot) = selector.get_mut(position) {
            *slot = Some(wanted);
        }
    }
    selector
}

/// Indices of the values that equal `value`, or begin with it where it ends in `*`.
pub(crate) fn matching(axis: &Axis, value: &Scalar) -> Vec<u32> {
    let value = value.to_string();
    let fits = |text: &str| match value.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == canonical(axis.kind, &value),
    };
    indices(axis.values.len())
        .into_iter()
        .zip(axis.texts())
        .filter(|(_, text)| fits(text))
        .map(|(index, _)| index)
        .collect()
}

/// A value as its axis writes it: `cuda` is `cuda:0`.
pub(crate) fn canonical(kind: AxisKind, value: &str) -> String {
    match (kind, value) {
        (AxisKind::Device, "cuda") => "cuda:0".to_owned(),
        _ => value.to_owned(),
    }
}

/// For each axis the values of an entry, and the axes that are varied among those that it does not name.
fn included(
    context: &mut Context<'_>,
    axes: &mut [Axis],
    varied: &Varied,
    entry: usize,
) -> (Vec<Vec<u32>>, Varied) {
    let mut choices: Vec<Vec<u32>> = axes.iter().map(|axis| indices(axis.base)).collect();
    let root = [key("include"), Step::Index(entry)];
    let job = context.job;
    let Some(coordinates) = job.include.get(entry) else {
        return (choices, varied.clone());
    };
    let positions: Vec<usize> = named(context, axes, coordinates, &root)
        .iter()
        .map(|(position, ..)| *position)
        .collect();
    let varied = varied.without(&positions);
    for position in positions {
        let Some(axis) = axes.get_mut(position) else {
            continue;
        };
        let Some(values) = coordinates.0.get(&axis.name) else {
            continue;
        };
        let mut wanted = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let steps = [
                root[0].clone(),
                root[1].clone(),
                key(&axis.name),
                Step::Index(index),
            ];
            // A model of the user's is known here by its path, once the matrix has it.
            let known = match axis.kind {
                AxisKind::Model => axis.index(&value.to_string()),
                _ => None,
            };
            let at = match known {
                Some(at) => at,
                None => {
                    let typed = axes::typed(context, &axis.name, axis.kind, value, &steps);
                    let Some((text, typed)) = typed else {
                        continue;
                    };
                    axis.index(&text).unwrap_or_else(|| {
                        axis.values.push((text, typed));
                        axis.values.len() - 1
                    })
                }
            };
            wanted.extend(u32::try_from(at));
        }
        if let Some(slot) = choices.get_mut(position) {
            *slot = wanted;
        }
    }
    (choices, varied)
}

/// The axes that an entry names, with their positions; what the matrix does not have is an error.
pub(crate) fn named<'a>(
    context: &mut Context<'_>,
    axes: &'a [Axis],
    coordinates: &'a Coordinates,
    root: &[Step],
) -> Vec<(usize, &'a Axis, &'a [Scalar])> {
    if coordinates.0.is_empty() && root.first() != Some(&key("allow")) {
        context.error_with_help(
            root,
            "this entry names no axis",
            "write it like `{ model: bert_tiny, batch: 8 }`",
        );
    }
    let mut found = Vec::new();
    for (axis, values) in &coordinates.0 {
        let mut steps = root.to_vec();
        match axes.iter().position(|known| known.name == *axis) {
            Some(_) if values.is_empty() => {
                steps.push(key(axis));
                context.error_with_help(
                    &steps,
                    "this list is empty",
                    "name at least one value, or leave the axis out",
                );
            }
            Some(position) => {
                found.extend(axes.get(position).map(|axis| (position, axis, &**values)));
            }
            None => {
                steps.push(name(axis));
                let help =
                    suggest::among(axis, axes.iter().map(|axis| axis.name.as_str()), "its axes");
                context.error_with_help(&steps, format!("the matrix has no axis `{axis}`"), help);
            }
        }
    }
    found
}
