//! What claims expect, read from their short language:
//! `[mostly] LEFT < [TIMES *] RIGHT [at AXIS VALUE, AXIS VALUE …]`, with `<`, `>` or `=` between step
//! times.

use std::collections::{BTreeMap, BTreeSet};

use schema::plan::{Claim, Expectation, Relation};

use crate::{
    axes::Axis,
    compare::Compared,
    context::{Context, key},
    points, suggest,
    tree::Step,
};

const FORM: &str = "write it like `onnxruntime/cpu < pytorch/eager at batch 1, model resnet18`: `<` takes less time, `>` more, `=` the same; `8 < 8 * 1` holds a step of 8 samples against 8 steps of one; `mostly` before it asks for most pairs, not for all";

/// The claims of the job, each checked.
pub(crate) fn resolve(
    context: &mut Context<'_>,
    axes: &[Axis],
    compared: &[Compared],
) -> Vec<Claim> {
    let job = context.job;
    let (mut claims, mut ids) = (Vec::new(), BTreeSet::new());
    for (entry, claim) in job.claims.iter().enumerate() {
        let at = |field: &str| [key("claims"), Step::Index(entry), key(field)];
        if !ids.insert(&claim.id) {
            context.error_with_help(
                &at("id"),
                format!("the claim `{}` is there twice", claim.id),
                "give each its own name",
            );
        }
        match expectation(&claim.expect, axes, compared) {
            Ok(expect) => claims.push(Claim {
                id: claim.id.to_string(),
                source: claim.source.to_string(),
                states: claim.states.to_string(),
                expect,
            }),
            Err((message, help)) => context.error_with_help(&at("expect"), message, help),
        }
    }
    claims
}

type Refusal = (String, String);

fn expectation(text: &str, axes: &[Axis], compared: &[Compared]) -> Result<Expectation, Refusal> {
    let malformed = |what: &str| (format!("the expectation {what}"), FORM.to_owned());
    let spaced = text.replace(',', " , ").replace(['\n', '\t'], " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (mostly, relation) = match words.as_slice() {
        ["mostly", relation @ ..] => (true, relation),
        relation => (false, relation),
    };
    let (left, relation, factor, rest) = match relation {
        [left, relation, right, rest @ ..] => (*left, *relation, *right, rest),
        _ => return Err(malformed("is not a relation between two values")),
    };
    let relation = match relation {
        "<" => Relation::Less,
        ">" => Relation::Greater,
        "=" | "==" => Relation::Equal,
        other => {
            return Err(malformed(&format!(
                "relates by `{other}`, which is none of `<`, `>`, `=`"
            )));
        }
    };
    let (times, right, rest) = match rest {
        ["*", right, rest @ ..] => (times(factor)?, *right, rest),
        _ => (1.0, factor, rest),
    };
    let axis = axis_of(left, right, axes, compared)?;
    let conditions: Vec<&[&str]> = match rest {
        [] => Vec::new(),
        ["at", conditions @ ..] => conditions
            .split(|word| matches!(*word, "," | "and"))
            .collect(),
        _ => {
            return Err(malformed(
                "ends in words that are no condition `at AXIS VALUE`",
            ));
        }
    };
    let mut at = BTreeMap::new();
    for condition in conditions {
        let [name, value] = condition else {
            return Err(malformed("has a condition that is not an axis and a value"));
        };
        let value = condition_value(name, value, axes, &axis.name)?;
        if at.insert((*name).to_owned(), value).is_some() {
            return Err(malformed(&format!("names the axis `{name}` twice")));
        }
    }
    let canonical = |value: &str| points::canonical(axis.kind, value);
    Ok(Expectation {
        text: words.join(" ").replace(" ,", ","),
        mostly,
        axis: axis.name.clone(),
        left: canonical(left),
        relation,
        times,
        right: canonical(right),
        at,
    })
}

/// How many times the time on the right.
fn times(word: &str) -> Result<f64, Refusal> {
    let times = word.parse().ok();
    let times = times.filter(|times: &f64| (1e-6..=1e6).contains(times));
    times.ok_or_else(|| {
        let message = format!("`{word}` is no number of times, from 0.000001 to 1000000");
        (message, FORM.to_owned())
    })
}

/// The compared axis that has both values.
fn axis_of<'a>(
    left: &str,
    right: &str,
    axes: &'a [Axis],
    compared: &[Compared],
) -> Result<&'a Axis, Refusal> {
    let has = |axis: &Axis, value: &str| axis.index(&points::canonical(axis.kind, value)).is_some();
    if left == right {
        return Err((
            format!("the expectation holds `{left}` against itself"),
            FORM.to_owned(),
        ));
    }
    let candidates = || {
        compared
            .iter()
            .filter_map(|compared| axes.get(compared.axis))
    };
    if let Some(axis) = candidates().find(|axis| has(axis, left) && has(axis, right)) {
        return Ok(axis);
    }
    if let Some(axis) = axes.iter().find(|axis| has(axis, left) && has(axis, right)) {
        let message = format!(
            "the expectation speaks of the axis `{}`, which the job does not compare",
            axis.name
        );
        return Err((
            message,
            format!(
                "add `compare: [{{ axis: {} }}]`, so that both are measured together",
                axis.name
            ),
        ));
    }
    let known: Vec<&str> = candidates().flat_map(Axis::texts).collect();
    let stranger = if candidates().any(|axis| has(axis, left)) {
        right
    } else {
        left
    };
    Err((
        format!("the expectation speaks of `{stranger}`, which no compared axis has"),
        suggest::among(stranger, known, "compared are"),
    ))
}

fn condition_value(
    name: &str,
    value: &str,
    axes: &[Axis],
    claimed: &str,
) -> Result<String, Refusal> {
    let Some(axis) = axes.iter().find(|axis| axis.name == name) else {
        let help = suggest::among(name, axes.iter().map(|axis| axis.name.as_str()), "its axes");
        return Err((format!("the matrix has no axis `{name}`"), help));
    };
    if axis.name == claimed {
        return Err((
            format!("the condition fixes `{name}`, which the expectation compares"),
            FORM.to_owned(),
        ));
    }
    let value = points::canonical(axis.kind, value);
    if axis.index(&value).is_none() {
        let help = suggest::among(&value, axis.texts(), "its values");
        return Err((format!("the axis `{name}` has no value `{value}`"), help));
    }
    Ok(value)
}
