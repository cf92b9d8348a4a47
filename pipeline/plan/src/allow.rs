//! Outcomes that do not fail a run.

use std::collections::BTreeMap;

use schema::{manifest::Scalar, plan::Allow};

use crate::{
    axes::Axis,
    context::{Context, key},
    points,
    tree::Step,
};

/// Most rules of a job: an entry's lists multiply.
const RULE_LIMIT: usize = 1000;

/// The rules of the job, one for each combination of an entry's lists.
pub(crate) fn resolve(context: &mut Context<'_>, axes: &[Axis]) -> Vec<Allow> {
    let job = context.job;
    let mut rules = Vec::new();
    for (entry, allow) in job.allow.iter().enumerate() {
        let root = [key("allow"), Step::Index(entry)];
        let named = points::named(context, axes, &allow.coordinates, &root);
        let count = named
            .iter()
            .try_fold(allow.outcome.len(), |count, (_, _, values)| {
                count.checked_mul(values.len())
            });
        if count.is_none_or(|count| count > RULE_LIMIT - rules.len().min(RULE_LIMIT)) {
            context.error_with_help(
                &root,
                "the lists of this entry bring the job to more than 1,000 rules",
                "use a pattern such as `tensorrt/*`",
            );
            continue;
        }
        if allow.outcome.is_empty() {
            context.error_with_help(
                &root,
                "this entry allows no outcome",
                "name one, for example `outcome: unavailable`",
            );
        }
        let mut choices: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
        for (_, axis, values) in named {
            let extended = |choice: &BTreeMap<String, String>, value: &Scalar| {
                let mut choice = choice.clone();
                choice.insert(
                    axis.name.clone(),
                    points::canonical(axis.kind, &value.to_string()),
                );
                choice
            };
            choices = choices
                .iter()
                .flat_map(|choice| values.iter().map(move |value| extended(choice, value)))
                .collect();
        }
        for outcome in allow.outcome.iter() {
            rules.extend(choices.iter().map(|coordinates| Allow {
                coordinates: coordinates.clone(),
                outcome: *outcome,
            }));
        }
    }
    rules
}
