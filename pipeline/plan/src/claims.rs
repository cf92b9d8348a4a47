//! What claims expect, read from their short language:
//! `[mostly] LEFT < [TIMES *] RIGHT [at AXIS VALUE, AXIS VALUE …]`, with `<`, `>` or `=` between step
//! times, or whatever else the claim is about; of what may be held against a number
//! `[mostly] < NUMBER [at AXIS VALUE, AXIS VALUE …]`.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Measure,
    plan::{Claim, Expectation, Quantity, Relation},
};

use crate::{
    axes::Axis,
    compare::Compared,
    context::{Context, key},
    points, suggest,
    tree::Step,
};

const FORM: &str = "write it like `onnxruntime/cpu < pytorch/eager at batch 1, model resnet18`: `<` takes less time, `>` more, `=` the same; `8 < 8 * 1` holds a step of 8 samples against 8 steps of one; `mostly` before it asks for most pairs, not for all";

/// The same of claims that hold each cell against a number.
const FORM_OF_NUMBERS: &str = "write it like `< 512 at model resnet18` where the claim is about the `largest_batch`, and like `> 50%` where it is about `kernels`; `mostly` before it asks for most cells, not for all";

/// The claims of the job, each checked.
pub(crate) fn resolve(
    context: &mut Context<'_>,
    axes: &[Axis],
    compared: &[Compared],
    measure: &Measure,
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
        let quantity = claim.quantity;
        if let Some((message, help)) = not_measured(quantity, measure, job.profile) {
            context.error_with_help(&at("quantity"), message, help);
        }
        match expectation(&claim.expect, quantity, axes, compared) {
            Ok(expect) => claims.push(Claim {
                id: claim.id.to_string(),
                source: claim.source.to_string(),
                states: claim.states.to_string(),
                quantity,
                expect,
            }),
            Err((message, help)) => context.error_with_help(&at("expect"), message, help),
        }
    }
    claims
}

type Refusal = (String, String);

/// Why a job does not measure what a claim is about; `None` where it does.
fn not_measured(
    quantity: Quantity,
    measure: &Measure,
    is_profiled: bool,
) -> Option<(String, &'static str)> {
    let (is_measured, how) = match quantity {
        Quantity::StepTime | Quantity::Memory => return None,
        Quantity::Power | Quantity::Energy => (
            measure.energy_ns.is_some(),
            "ask for it: `measure: { energy: true }`",
        ),
        Quantity::LargestBatch => (
            measure.frontier.is_some(),
            "have it sought: `measure: { frontier: 512 }`",
        ),
        Quantity::Kernels => (is_profiled, "ask for it: `profile: true`"),
    };
    let message = format!(
        "the claim is about `{}`, which the job does not measure",
        quantity.word()
    );
    (!is_measured).then_some((message, how))
}

fn expectation(
    text: &str,
    quantity: Quantity,
    axes: &[Axis],
    compared: &[Compared],
) -> Result<Expectation, Refusal> {
    let malformed = |what: &str| (format!("the expectation {what}"), FORM.to_owned());
    let spaced = text.replace(',', " , ").replace(['\n', '\t'], " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (mostly, relation) = match words.as_slice() {
        ["mostly", relation @ ..] => (true, relation),
        relation => (false, relation),
    };
    if let [sign, number, rest @ ..] = relation
        && let Some(relation) = relation_of(sign)
    {
        return Ok(Expectation {
            text: words.join(" ").replace(" ,", ","),
            mostly,
            number: Some(number_of(quantity, relation, number)?),
            axis: String::new(),
            left: String::new(),
            relation,
            times: 1.0,
            right: String::new(),
            at: conditions(rest, axes, None)?,
        });
    }
    if quantity == Quantity::Kernels {
        let message = "kernels' share of a step is held against a number alone";
        return Err((message.to_owned(), FORM_OF_NUMBERS.to_owned()));
    }
    let (left, relation, factor, rest) = match relation {
        [left, relation, right, rest @ ..] => (*left, *relation, *right, rest),
        _ => return Err(malformed("is not a relation between two values")),
    };
    let Some(relation) = relation_of(relation) else {
        return Err(malformed(&format!(
            "relates by `{relation}`, which is none of `<`, `>`, `=`"
        )));
    };
    let (times, right, rest) = match rest {
        ["*", right, rest @ ..] => (times(factor)?, *right, rest),
        _ => (1.0, factor, rest),
    };
    let axis = axis_of(left, right, quantity, axes, compared)?;
    let at = conditions(rest, axes, Some(&axis.name))?;
    let canonical = |value: &str| points::canonical(axis.kind, value);
    Ok(Expectation {
        text: words.join(" ").replace(" ,", ","),
        mostly,
        number: None,
        axis: axis.name.clone(),
        left: canonical(left),
        relation,
        times,
        right: canonical(right),
        at,
    })
}

fn relation_of(word: &str) -> Option<Relation> {
    match word {
        "<" => Some(Relation::Less),
        ">" => Some(Relation::Greater),
        "=" | "==" => Some(Relation::Equal),
        _ => None,
    }
}

/// Where the claim is made: what follows its relation, of whose axis no condition may be.
fn conditions(
    words: &[&str],
    axes: &[Axis],
    claimed: Option<&str>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let malformed = |what: &str| (format!("the expectation {what}"), FORM.to_owned());
    let conditions: Vec<&[&str]> = match words {
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
        let value = condition_value(name, value, axes, claimed)?;
        if at.insert((*name).to_owned(), value).is_some() {
            return Err(malformed(&format!("names the axis `{name}` twice")));
        }
    }
    Ok(at)
}

/// The number that each cell is held against.
fn number_of(quantity: Quantity, relation: Relation, word: &str) -> Result<f64, Refusal> {
    let refused = |message: String| (message, FORM_OF_NUMBERS.to_owned());
    if !quantity.has_number() {
        let message = format!(
            "`{}` is held against that of another value, and not against a number",
            quantity.word()
        );
        return Err((message, FORM.to_owned()));
    }
    if relation == Relation::Equal {
        let message = "nothing that is measured equals a number: ask by `<` or `>`";
        return Err(refused(message.to_owned()));
    }
    let (number, what) = match quantity {
        Quantity::LargestBatch => {
            let batch = word
                .parse()
                .ok()
                .filter(|batch| (1..=1 << 20).contains(batch));
            (batch.map(|batch: u32| f64::from(batch)), "batch")
        }
        _ => {
            let share = word.strip_suffix('%').and_then(|share| share.parse().ok());
            let share = share.filter(|share: &f64| (0.0..=100.0).contains(share));
            (share.map(|share| share / 100.0), "share in percent")
        }
    };
    number.ok_or_else(|| refused(format!("`{word}` is no {what}")))
}

/// How many times what is on the right.
fn times(word: &str) -> Result<f64, Refusal> {
    let times = word.parse().ok();
    let times = times.filter(|times: &f64| (1e-6..=1e6).contains(times));
    times.ok_or_else(|| {
        let message = format!("`{word}` is no number of times, from 0.000001 to 1000000");
        (message, FORM.to_owned())
    })
}

/// The compared axis that has both values. Largest batches are none of a heat, so that those of any axis
/// may be held against each other.
fn axis_of<'a>(
    left: &str,
    right: &str,
    quantity: Quantity,
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
    let is_candidate = |position: usize| {
        quantity == Quantity::LargestBatch
            || compared.iter().any(|compared| compared.axis == position)
    };
    let candidates = || {
        let all = axes.iter().enumerate();
        all.filter_map(|(position, axis)| is_candidate(position).then_some(axis))
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
    let (what, are) = match quantity {
        Quantity::LargestBatch => ("axis", "values are"),
        _ => ("compared axis", "compared are"),
    };
    Err((
        format!("the expectation speaks of `{stranger}`, which no {what} has"),
        suggest::among(stranger, known, are),
    ))
}

fn condition_value(
    name: &str,
    value: &str,
    axes: &[Axis],
    claimed: Option<&str>,
) -> Result<String, Refusal> {
    let Some(axis) = axes.iter().find(|axis| axis.name == name) else {
        let help = suggest::among(name, axes.iter().map(|axis| axis.name.as_str()), "its axes");
        return Err((format!("the matrix has no axis `{name}`"), help));
    };
    if claimed == Some(axis.name.as_str()) {
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
