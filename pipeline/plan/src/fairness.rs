//! Comparisons, and claims, whose cells differ in more than the compared axis.
//!
//! Settings are held against each other by what they come to: `auto` by what it is in the cell's
//! mode, and where an engine has no choice, by what its description says that it does
//! ([`VariantDescription::fixed`]), or that another value brings with it
//! ([`schema::FactorDescription::brings`]).

use std::collections::{BTreeMap, BTreeSet};

use models::{rewrite, zoo::AUTOTUNE};
use schema::{
    AUTO, Cell, CellId, EngineVariant, Mode, Precision, VariantDescription,
    plan::{Claim, Comparison, Expectation, PlannedCell, PlannedHeat},
};

use crate::{World, networks::Networks};

/// What cells are judged by.
#[derive(Clone, Copy)]
pub(crate) struct Grounds<'a> {
    pub(crate) world: &'a World,
    pub(crate) networks: &'a Networks,
}

impl<'a> Grounds<'a> {
    fn variant(&self, name: &EngineVariant) -> Option<&'a VariantDescription> {
        self.world.variant(name)
    }

    /// Whether a switch has a part in a cell, whatever its engine does of itself.
    fn has_part(&self, factor: &str, cell: &Cell) -> bool {
        match factor {
            CUDA_GRAPHS => !cell.device.is_cpu(),
            AUTOTUNE => !cell.device.is_cpu() && self.networks.is_concerned(&cell.model, factor),
            FOREACH => !cell.device.is_cpu() && cell.mode == Mode::Training,
            MIXED_PRECISION => matches!(cell.precision, Precision::Bf16 | Precision::Fp16),
            _ => self.networks.is_concerned(&cell.model, factor),
        }
    }
}

/// What of a comparison is not fair, once for each two values of its axis.
pub(crate) fn unfair(
    comparison: &Comparison,
    cells: &BTreeMap<&CellId, &PlannedCell>,
    grounds: &Grounds<'_>,
) -> Vec<String> {
    let axis = &comparison.axis;
    let pairs = pairs_of(comparison, cells);
    let found = pairs.flat_map(|(names, cells)| told(axis, names, cells, grounds));
    let found: BTreeSet<String> = found.collect();
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
    grounds: &Grounds<'_>,
) -> Vec<String> {
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for ([_, value], cells) in pairs_of(comparison, cells) {
        let own = found.entry(value).or_default();
        own.extend(left_in_words(&comparison.axis, cells, grounds));
    }
    let differing = found.into_iter().filter(|(_, what)| !what.is_empty());
    differing
        .map(|(value, what)| {
            let what = join(what);
            let baseline = &comparison.baseline;
            format!("{baseline} and {value} run as their users get them, and differ in {what}")
        })
        .collect()
}

/// What the manifest has engines of a comparison do otherwise than their users get it, by switches that the other
/// side has not: no manifest can make that equal, and who reads the result should know.
pub(crate) fn one_sided(
    compared: (&[Comparison], &[Claim]),
    cells: &BTreeMap<&CellId, &PlannedCell>,
    heats: &[PlannedHeat],
    grounds: &Grounds<'_>,
) -> BTreeSet<String> {
    let pairs = all_pairs(compared, cells, heats);
    let sides = pairs.flat_map(|(axis, ([first, second], [one, other]))| {
        [
            (axis, one, first, other, second),
            (axis, other, second, one, first),
        ]
    });
    let in_words = sides.flat_map(|(axis, cell, name, without, its_name)| {
        let [own, others] = [cell, without].map(|cell| grounds.variant(&cell.cell.engine));
        let factors = cell.cell.factors.iter();
        let factors = factors.filter(move |(factor, _)| {
            *factor != axis && is_set(factor, cell, own) && !is_known(factor, others)
        });
        factors.map(move |(factor, value)| {
            format!("`{factor}: {value}` is asked of {name}, and {its_name} has no such switch")
        })
    });
    in_words.collect()
}

/// In what the two sides of a claim differ that nobody asks for, where no comparison tells it.
pub(crate) fn left_alone_by_claim(
    claim: &Claim,
    comparisons: &[Comparison],
    heats: &[PlannedHeat],
    grounds: &Grounds<'_>,
) -> Vec<String> {
    let axis = &claim.expect.axis;
    let pairs = pairs_of_its_own(claim, comparisons, heats);
    let found = pairs.flat_map(|(_, cells)| left_in_words(axis, cells, grounds));
    let found: BTreeSet<String> = found.collect();
    if found.is_empty() {
        return Vec::new();
    }
    let what = join(found);
    let (id, Expectation { left, right, .. }) = (&claim.id, &claim.expect);
    vec![format!(
        "the claim `{id}`: {left} and {right} run as their users get them, and differ in {what}"
    )]
}

fn join(what: BTreeSet<String>) -> String {
    what.into_iter().collect::<Vec<_>>().join(", ")
}

/// What of two cells is left to their engines and differs, but for the axis and what comes with it.
fn left_in_words(
    axis: &str,
    [first, second]: [&PlannedCell; 2],
    grounds: &Grounds<'_>,
) -> Vec<String> {
    let with_axis = with_axis(axis, [first, second], grounds);
    let factors = left(first, second, grounds).into_iter();
    let others = factors.filter(|(factor, ..)| *factor != axis && !with_axis.contains_key(*factor));
    others
        .map(|(factor, a, b)| format!("{factor} ({a} and {b})"))
        .collect()
}

/// What the values of the axes bring with them, in words, of the pairs of all comparisons, and of those
/// that claims alone speak of: it changes with the axis, and is a part of what is compared.
pub(crate) fn brought_by_axes(
    compared: (&[Comparison], &[Claim]),
    cells: &BTreeMap<&CellId, &PlannedCell>,
    heats: &[PlannedHeat],
    grounds: &Grounds<'_>,
) -> BTreeSet<String> {
    let pairs = all_pairs(compared, cells, heats);
    let in_words = pairs.flat_map(|(axis, ([first, second], cells))| {
        let with_axis = with_axis(axis, cells, grounds).into_iter();
        with_axis.map(move |(factor, [a, b])| {
            format!(
                "{second} differs from {first} in {factor} as well ({b} and {a}), which a comparison over \
                 {axis} cannot tell apart"
            )
        })
    });
    in_words.collect()
}

/// What differs between two cells because the values of the axis bring it with them.
fn with_axis<'a>(
    axis: &str,
    cells: [&'a PlannedCell; 2],
    grounds: &Grounds<'a>,
) -> BTreeMap<&'a str, [&'a str; 2]> {
    let variants = cells.map(|cell| grounds.variant(&cell.cell.engine));
    let mut found = BTreeMap::new();
    for (cell, variant) in cells.iter().zip(variants) {
        let factor = variant.and_then(|variant| variant.factors.get(axis));
        let value = cell.cell.factors.get(axis);
        let brings = factor
            .zip(value)
            .and_then(|(it, value)| it.brings.get(value));
        for name in brings.into_iter().flat_map(BTreeMap::keys) {
            let [first, second] = cells;
            let effects = effect(name, &first.cell, variants[0], grounds).zip(effect(
                name,
                &second.cell,
                variants[1],
                grounds,
            ));
            if let Some((a, b)) = effects.filter(|(a, b)| !is_same(name, a, b)) {
                found.insert(name.as_str(), [a, b]);
            }
        }
    }
    found
}

/// What differs between two cells of what is left to their engines, with what it comes to in each.
fn left<'a>(
    first: &'a PlannedCell,
    second: &'a PlannedCell,
    grounds: &Grounds<'a>,
) -> Vec<(&'a str, &'a str, &'a str)> {
    let variants = (
        grounds.variant(&first.cell.engine),
        grounds.variant(&second.cell.engine),
    );
    let own = |cell: &'a PlannedCell, variant: Option<&'a VariantDescription>| {
        let fixed = variant.into_iter().flat_map(|variant| variant.fixed.keys());
        let named = cell.cell.factors.keys().chain(fixed);
        named.chain(brought(&cell.cell, variant).map(|(name, _)| name))
    };
    let factors: BTreeSet<&String> = own(first, variants.0)
        .chain(own(second, variants.1))
        .collect();
    let factors = factors.into_iter();
    let factors = factors.filter(|factor| is_of_the_engine(factor, first, second, variants));
    let effects = factors.filter_map(|factor| {
        let a = effect(factor, &first.cell, variants.0, grounds)?;
        let b = effect(factor, &second.cell, variants.1, grounds)?;
        (!is_same(factor, a, b)).then_some((factor.as_str(), a, b))
    });
    effects.collect()
}

/// What of a claim is not fair to judge. What it shares with a comparison is told of that.
pub(crate) fn unfair_claim(
    claim: &Claim,
    comparisons: &[Comparison],
    heats: &[PlannedHeat],
    grounds: &Grounds<'_>,
) -> Vec<String> {
    let axis = &claim.expect.axis;
    let pairs = pairs_of_its_own(claim, comparisons, heats);
    let found = pairs.flat_map(|(names, cells)| told(axis, names, cells, grounds));
    let found: BTreeSet<String> = found.collect();
    found
        .into_iter()
        .map(|what| format!("the claim `{}` is not judged fairly: {what}", claim.id))
        .collect()
}

/// Two cells, with what each is called.
type Pair<'a> = ([&'a str; 2], [&'a PlannedCell; 2]);

/// The pairs of cells that are compared.
fn pairs_of<'a>(
    comparison: &'a Comparison,
    cells: &'a BTreeMap<&CellId, &'a PlannedCell>,
) -> impl Iterator<Item = Pair<'a>> {
    comparison.pairs.iter().filter_map(|pair| {
        let names = [comparison.baseline.as_str(), pair.value.as_str()];
        let cells = [cells.get(&pair.baseline)?, cells.get(&pair.contender)?];
        Some((names, cells.map(|cell| *cell)))
    })
}

/// The pairs of all comparisons, and those that claims alone speak of, each with its axis.
fn all_pairs<'a>(
    (comparisons, claims): (&'a [Comparison], &'a [Claim]),
    cells: &'a BTreeMap<&CellId, &'a PlannedCell>,
    heats: &'a [PlannedHeat],
) -> impl Iterator<Item = (&'a String, Pair<'a>)> {
    let of_comparisons = comparisons.iter().flat_map(|comparison| {
        let pairs = pairs_of(comparison, cells);
        pairs.map(|pair| (&comparison.axis, pair))
    });
    let of_claims = claims.iter().flat_map(move |claim| {
        let pairs = pairs_of_its_own(claim, comparisons, heats);
        pairs.map(|pair| (&claim.expect.axis, pair))
    });
    of_comparisons.chain(of_claims)
}

/// The pairs of cells that a claim speaks of, and no comparison.
fn pairs_of_its_own<'a>(
    claim: &'a Claim,
    comparisons: &[Comparison],
    heats: &'a [PlannedHeat],
) -> impl Iterator<Item = Pair<'a>> {
    let Expectation {
        axis, left, right, ..
    } = &claim.expect;
    let is_compared = |comparison: &Comparison| {
        comparison.axis == *axis && [left, right].contains(&&comparison.baseline)
    };
    let is_compared = comparisons.iter().any(is_compared);
    let heats = heats.iter().filter(move |_| !is_compared);
    let names = [left.as_str(), right.as_str()];
    heats.flat_map(move |heat| {
        let cells = heat.cells.iter().filter(|cell| cell.twin_of.is_none());
        let pairs = claim.expect.pairs(cells.map(|cell| (cell, ())));
        let pairs = pairs.into_iter();
        pairs.map(move |[(first, ()), (second, ())]| (names, [first, second]))
    })
}

/// In what besides the axis, and what its values bring with them, two cells differ, in words.
fn told(
    axis: &str,
    names: [&str; 2],
    cells: [&PlannedCell; 2],
    grounds: &Grounds<'_>,
) -> Vec<String> {
    let [first, second] = names;
    let with_axis = with_axis(axis, cells, grounds);
    differences(cells[0], cells[1], grounds)
        .into_iter()
        .filter(|(what, ..)| *what != axis && !with_axis.contains_key(*what))
        .map(|(what, a, b)| format!("{what} differs between {first} ({a}) and {second} ({b})"))
        .collect()
}

/// What differs between two cells, with the value of each.
fn differences<'a>(
    first: &'a PlannedCell,
    second: &'a PlannedCell,
    grounds: &Grounds<'a>,
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
    let variants = (grounds.variant(&a.engine), grounds.variant(&b.engine));
    let brought = brought(a, variants.0).chain(brought(b, variants.1));
    let mut factors: BTreeSet<&String> = a.factors.keys().chain(b.factors.keys()).collect();
    factors.extend(brought.map(|(name, _)| name));
    for factor in factors {
        if is_of_the_engine(factor, first, second, variants) {
            continue;
        }
        let effects = (
            effect(factor, a, variants.0, grounds),
            effect(factor, b, variants.1, grounds),
        );
        if let (Some(a), Some(b)) = effects {
            all.push((factor, word(a), word(b)));
        }
    }
    all.retain(|(what, a, b)| !is_same(what, a, b));
    all
}

/// Whether a manifest sets a factor to something else than a variant's users get.
fn is_set(factor: &str, cell: &PlannedCell, variant: Option<&VariantDescription>) -> bool {
    let of = &cell.cell;
    let default = variant.and_then(|variant| variant.default_of(factor, of.situation()));
    let asked = cell.coordinates.get(factor);
    asked.is_some_and(|value| default.is_some_and(|default| default != value))
}

/// Whether a variant has a factor, or says how it does without.
fn is_known(factor: &str, variant: Option<&VariantDescription>) -> bool {
    variant.is_some_and(|variant| {
        variant.factors.contains_key(factor) || variant.fixed.contains_key(factor)
    })
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
    let is_asked = |cell: &PlannedCell, variant: Option<&VariantDescription>| {
        let brings = |(name, value): (&String, &String)| {
            let asked = variant.and_then(|variant| variant.factors.get(name));
            let brought = asked.and_then(|asked| asked.brings.get(value));
            brought.is_some_and(|brought| brought.contains_key(factor))
        };
        cell.coordinates.contains_key(factor) || cell.coordinates.iter().any(brings)
    };
    if is_asked(first, variants.0) || is_asked(second, variants.1) {
        return false;
    }
    let is_about_precisions = || {
        let known = [variants.0, variants.1].into_iter().flatten();
        let mut known = known.filter_map(|variant| variant.factors.get(factor));
        known.any(|description| !description.precisions.is_empty())
    };
    let is_one_engine = first.cell.engine.engine == second.cell.engine.engine;
    rewrite::is_about_operators(factor)
        || OF_THE_PROCESS.contains(&factor)
        || !(is_one_engine || is_about_precisions())
}

/// What a library does with its threads and its memory, whichever engine it is a variant of.
const OF_THE_PROCESS: [&str; 2] = ["affinity", ALLOCATOR];

/// Who keeps the memory that a step gives back.
const ALLOCATOR: &str = "allocator";

/// Those that keep it, so that the next step finds its pages there. An engine whose `own` it is keeps it where it
/// has a pool of its own, which the processor decides, and a plan takes it that it has.
const KEEPERS: [&str; 3] = ["arena", "keep", "own"];

/// Whether two values of a factor come to the same.
fn is_same(factor: &str, a: &str, b: &str) -> bool {
    a == b || (factor == ALLOCATOR && [a, b].iter().all(|value| KEEPERS.contains(value)))
}

/// Whether a GPU replays what it was told once.
const CUDA_GRAPHS: &str = "cuda_graphs";
/// How an optimiser gives a GPU its work.
const FOREACH: &str = "foreach";
/// Whether weights are kept wider than products are computed in.
const MIXED_PRECISION: &str = "mixed_precision";

/// What the values of a cell's factors bring with them.
fn brought<'a>(
    cell: &'a Cell,
    variant: Option<&'a VariantDescription>,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    let factors = variant.into_iter().flat_map(|variant| &variant.factors);
    let values = factors.filter_map(|(name, factor)| factor.brings.get(cell.factors.get(name)?));
    values.flatten()
}

/// What a factor comes to in a cell; `None` where nobody knows, or it has no part there.
fn effect<'a>(
    factor: &str,
    cell: &'a Cell,
    variant: Option<&'a VariantDescription>,
    grounds: &Grounds<'_>,
) -> Option<&'a str> {
    if !grounds.has_part(factor, cell) {
        return None;
    }
    // Whatever the switch itself is set to.
    if let Some((_, value)) = brought(cell, variant).find(|(name, _)| *name == factor) {
        return Some(value);
    }
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
