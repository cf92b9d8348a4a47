//! Axes that are varied around a base, the first value of each, a few at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    axes::{Axis, AxisKind},
    context::{Context, key, name},
    suggest,
    tree::Step,
};

/// Which axes leave their first value a few at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Varied {
    /// Their positions, as the manifest names them.
    pub(crate) axes: Vec<usize>,
    /// How many of them may leave it at once.
    pub(crate) at_once: usize,
}

impl Varied {
    /// Whether an axis is one of them.
    pub(crate) fn has(&self, axis: usize) -> bool {
        self.axes.contains(&axis)
    }

    /// The same without these axes, which have other values than the matrix's.
    pub(crate) fn without(&self, axes: &[usize]) -> Self {
        let left = self
            .axes
            .iter()
            .copied()
            .filter(|axis| !axes.contains(axis));
        Self {
            axes: left.collect(),
            at_once: self.at_once,
        }
    }

    /// The number of combinations of axes with so many values each; `None` if nobody can count them.
    pub(crate) fn combinations(&self, counts: &[usize]) -> Option<usize> {
        // By how many of the varied axes have left their first value: of one axis after another.
        let mut ways = vec![0_usize; self.at_once + 1];
        if let Some(base) = ways.first_mut() {
            *base = 1;
        }
        for (axis, count) in counts.iter().enumerate() {
            let mut next = Vec::with_capacity(ways.len());
            for (left, stay) in ways.iter().enumerate() {
                let sum = if self.has(axis) {
                    let before = left.checked_sub(1).and_then(|left| ways.get(left));
                    let leave = before
                        .copied()
                        .unwrap_or(0)
                        .checked_mul(count.saturating_sub(1))?;
                    let stay = if *count > 0 { *stay } else { 0 };
                    stay.checked_add(leave)?
                } else {
                    stay.checked_mul(*count)?
                };
                next.push(sum);
            }
            ways = next;
        }
        ways.into_iter().try_fold(0_usize, usize::checked_add)
    }
}

/// The axes by name, with their first values, as the plan holds them.
pub(crate) fn bases(varied: &Varied, axes: &[Axis]) -> BTreeMap<String, String> {
    let axes = varied.axes.iter().filter_map(|axis| axes.get(*axis));
    let bases = axes.filter_map(|axis| Some((axis.name.clone(), axis.texts().next()?.to_owned())));
    bases.collect()
}

/// The axes that the job varies, each checked.
pub(crate) fn resolve(context: &mut Context<'_>, axes: &[Axis]) -> Varied {
    let job = context.job;
    if job.pairs && job.vary.len() < 2 {
        context.error_with_help(
            &[name("pairs")],
            "there are no two axes that could differ at a time",
            "name them: `vary: [threads, layout]`",
        );
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (entry, axis) in job.vary.iter().enumerate() {
        if !context.has_room() {
            break;
        }
        let steps = [key("vary"), Step::Index(entry)];
        let known = axes
            .iter()
            .enumerate()
            .find(|(_, known)| known.name == *axis);
        let Some((position, known)) = known else {
            let names = axes.iter().map(|axis| axis.name.as_str());
            let help = suggest::among(axis, names, "its axes");
            context.error_with_help(&steps, format!("the matrix has no axis `{axis}`"), help);
            continue;
        };
        if matches!(known.kind, AxisKind::Model | AxisKind::Dimension) {
            context.error_with_help(
                &steps,
                format!("`{axis}` is no factor: it changes what a step has to compute"),
                "leave it in the matrix: each of its values has effects of its own",
            );
            continue;
        }
        if known.base < 2 {
            context.error_with_help(
                &steps,
                format!("the axis `{axis}` has one value: there is nothing to vary"),
                "name a second value in the matrix",
            );
        }
        if !seen.insert(position) {
            context.error_with_help(
                &steps,
                format!("the axis `{axis}` is there twice"),
                "keep one of them",
            );
            continue;
        }
        found.push(position);
    }
    Varied {
        axes: found,
        at_once: if job.pairs { 2 } else { 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_counted() {
        let all = Varied::default();
        assert_eq!(all.combinations(&[2, 3, 4]), Some(24));
        let one = Varied {
            axes: vec![1, 2],
            at_once: 1,
        };
        // For each of 2: the base, 2 others of the first, 3 others of the second.
        assert_eq!(one.combinations(&[2, 3, 4]), Some(2 * (1 + 2 + 3)));
        let two = Varied { at_once: 2, ..one };
        assert_eq!(two.combinations(&[2, 3, 4]), Some(24));
        let many = Varied {
            axes: (0..40).collect(),
            at_once: 2,
        };
        assert_eq!(many.combinations(&[3; 40]), Some(1 + 80 + 40 * 39 / 2 * 4));
        assert_eq!(all.combinations(&[usize::MAX, 2]), None);
    }
}
