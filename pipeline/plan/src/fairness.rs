//! Comparisons, and claims, whose cells differ in more than the compared axis.
//!
//! Settings are held against each other by what they come to: `auto` by what it is in the cell's
//! mode, and where an engine has no choice, by what its description says that it does
//! ([`VariantDescription::fixed`]).

use std::collections::{BTreeMap, BTreeSet};

use models::rewrite;
use schema::{
    AUTO, Cell, CellId, VariantDescription,
    plan::{Claim, Comparison, Expectation, PlannedCell, PlannedHeat},
};

use crate::World;

/// What of a comparison is not fair, once for each two values of its axis.
pub(crate) fn unfair(
    comparison: &Comparison,
    cells: &BTreeMap<&CellId, &PlannedCell>,
    world: &World,
) -> Vec<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let axis = &comparison.axis;
    for pair in &comparison.pairs {
        let (Some(first), Some(second)) = (cells.get(&pair.baseline), cells.get(&pair.contender))
        else {
            continue;
        };
        let names = [comparison.baseline.as_str(), pair.value.as_str()];
        found.extend(told(axis, names, [first, second], world));
    }
    found
        .into_iter()
        .map(|what| format!("the comparison over {axis} is not fair: {what}"))
        .collect()
}

/// In what the engines of a comparison differ that nobody asks for, once for each two of them: it is what
/// their users get, and worth knowing.
pub(crate) fn left_alone(
    comparison: &Comparison,
    cells: &BTreeMap<&CellId, &PlannedCell>,
    world: &World,
) -> Vec<String> {
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for pair in &comparison.pairs {
        let (Some(first), Some(second)) = (cells.get(&pair.baseline), cells.get(&pair.contender))
        else {
            continue;
        };
        let own = found.entry(&pair.value).or_default();
        let factors = left(first, second, world).into_iter();
        let others = factors.filter(|(factor, ..)| *factor != comparison.axis);
        own.extend(others.map(|(factor, a, b)| format!("{factor} ({a} and {b})")));
    }
    let differing = found.into_iter().filter(|(_, what)| !what.is_empty());
    differing
        .map(|(value, what)| {
            let what: Vec<String> = what.into_iter().collect();
            format!(
                "{} and {value} run as their users get them, and differ in {}",
                comparison.baseline,
                what.join(", ")
            )
        })
        .collect()
}

/// What differs between two cells of what is left to their engines, with what it comes to in each.
fn left<'a>(
    first: &'a PlannedCell,
    second: &'a PlannedCell,
    world: &'a World,
) -> Vec<(&'a str, &'a str, &'a str)> {
    let variants = (
        world.variant(&first.cell.engine),
        world.variant(&second.cell.engine),
    );
    let known = |cell: &'a PlannedCell, variant: Option<&'a VariantDescription>| {
        let fixed = variant.into_iter().flat_map(|variant| variant.fixed.keys());
        cell.cell.factors.keys().chain(fixed)
    };
    let factors: BTreeSet<&String> = known(first, variants.0)
        .chain(known(second, variants.1))
        .collect();
    let factors = factors.into_iter();
    let factors = factors.filter(|factor| is_of_the_engine(factor, first, second, variants));
    let effects = factors.filter_map(|factor| {
        let a = effect(factor, &first.cell, variants.0)?;
        let b = effect(factor, &second.cell, variants.1)?;
        (a != b).then_some((factor.as_str(), a, b))
    });
    effects.collect()
}

/// What of a claim is not fair to judge. What it shares with a comparison is told of that.
pub(crate) fn unfair_claim(
    claim: &Claim,
    comparisons: &[Comparison],
    heats: &[PlannedHeat],
    world: &World,
) -> Vec<String> {
    let Expectation {
        axis, left, right, ..
    } = &claim.expect;
    let names = [left.as_str(), right.as_str()];
    let is_compared = |comparison: &Comparison| {
        comparison.axis == *axis && names.contains(&comparison.baseline.as_str())
    };
    if comparisons.iter().any(is_compared) {
        return Vec::new();
    }
    let mut found: BTreeSet<String> = BTreeSet::new();
    for heat in heats {
        let cells = heat.cells.iter().filter(|cell| cell.twin_of.is_none());
        for [(first, ()), (second, ())] in claim.expect.pairs(cells.map(|cell| (cell, ()))) {
            found.extend(told(axis, names, [first, second], world));
        }
    }
    found
        .into_iter()
        .map(|what| format!("the claim `{}` is not judged fairly: {what}", claim.id))
        .collect()
}

/// In what besides the axis two cells differ, in words.
fn told(axis: &str, names: [&str; 2], cells: [&PlannedCell; 2], world: &World) -> Vec<String> {
    let [first, second] = names;
    differences(cells[0], cells[1], world)
        .into_iter()
        .filter(|(what, ..)| *what != axis)
        .map(|(what, a, b)| format!("{what} differs between {first} ({a}) and {second} ({b})"))
        .collect()
}

/// What differs between two cells, with the value of each.
fn differences<'a>(
    first: &'a PlannedCell,
    second: &'a PlannedCell,
    world: &'a World,
) -> Vec<(&'a str, String, String)> {
    let (a, b) = (&first.cell, &second.cell);
    let word = |word: &str| word.to_owned();
    let mut all = vec![
        (
            "host language",
            word(a.host_language.word()),
            word(b.host_language.word()),
        ),
        (
            "precision",
            word(a.precision.word()),
            word(b.precision.word()),
        ),
        ("threads", a.threads.to_string(), b.threads.to_string()),
    ];
    let variants = (world.variant(&a.engine), world.variant(&b.engine));
    let factors: BTreeSet<&String> = a.factors.keys().chain(b.factors.keys()).collect();
    for factor in factors {
        if is_of_the_engine(factor, first, second, variants) {
            continue;
        }
        let effects = (effect(factor, a, variants.0), effect(factor, b, variants.1));
        if let (Some(a), Some(b)) = effects {
            all.push((factor, word(a), word(b)));
        }
    }
    all.retain(|(_, a, b)| a != b);
    all
}

/// Whether a factor is left to the engines, each of which does as it does: that is what its users
/// get, and no other setting of a switch. It is so where the manifest does not ask for a value: of an
/// operator, which is a kernel of the engine's where it has one, and of anything between two engines.
/// Variants of one engine are there to be told apart, and a factor that is about some precisions
/// alone says what they mean.
fn is_of_the_engine(
    factor: &str,
    first: &PlannedCell,
    second: &PlannedCell,
    variants: (Option<&VariantDescription>, Option<&VariantDescription>),
) -> bool {
    let is_asked = |cell: &PlannedCell| cell.coordinates.contains_key(factor);
    if is_asked(first) || is_asked(second) {
        return false;
    }
    let is_about_precisions = || {
        let known = [variants.0, variants.1].into_iter().flatten();
        let mut known = known.filter_map(|variant| variant.factors.get(factor));
        known.any(|description| !description.precisions.is_empty())
    };
    let is_one_engine = first.cell.engine.engine == second.cell.engine.engine;
    rewrite::is_about_operators(factor) || !(is_one_engine || is_about_precisions())
}

/// What a factor comes to in a cell; `None` where nobody knows, or it has no part there.
fn effect<'a>(
    factor: &str,
    cell: &'a Cell,
    variant: Option<&'a VariantDescription>,
) -> Option<&'a str> {
    let Some(value) = cell.factors.get(factor) else {
        return variant?.fixed.get(factor).map(String::as_str);
    };
    let comes_to = variant
        .and_then(|variant| variant.factors.get(factor))
        .and_then(|description| description.auto.get(&cell.mode));
    match comes_to {
        Some(_) if value == AUTO && is_spelt_out(cell) => None,
        Some(known) if value == AUTO => Some(known),
        _ => Some(value),
    }
}

/// Whether layers are spelt out position by position: that may be too much for what is usually best,
/// and how much it is a plan does not know.
fn is_spelt_out(cell: &Cell) -> bool {
    let form = cell.factors.get(rewrite::RECURRENT);
    form.is_some_and(|form| form == rewrite::UNROLLED)
}
