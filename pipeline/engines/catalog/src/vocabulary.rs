//! Whether what an engine says of itself can be written in manifests, and makes sense.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use schema::{AUTO, EngineDescription, FactorDescription, Refusal, Scope, VariantDescription};

/// Axes of a manifest's matrix that are no factors: a factor of that name could not be written.
const AXES: [&str; 16] = [
    "batch",
    "boundary",
    "device",
    "engine",
    "frames",
    "host_language",
    "image",
    "mode",
    "model",
    "optimizer",
    "precision",
    "seq",
    "strategy",
    "target",
    "threads",
    "world_size",
];

/// Whether a description makes sense; says what does not.
pub(crate) fn check(engine: &EngineDescription) -> Result<(), String> {
    word("engine", &engine.name)?;
    if engine.variants.is_empty() {
        return Err(String::from("it has no variants"));
    }
    distinct(
        "variant",
        engine.variants.iter().map(|variant| &variant.name),
    )?;
    engine.variants.iter().try_for_each(|variant| {
        check_variant(variant).map_err(|message| format!("variant `{}`: {message}", variant.name))
    })
}

/// Whether a variant's description fits the vocabulary of manifests, besides its name's being unique.
pub(crate) fn check_variant(variant: &VariantDescription) -> Result<(), String> {
    word("variant", &variant.name)?;
    let lists = [
        ("devices", variant.devices.is_empty()),
        ("precisions", variant.precisions.is_empty()),
        ("modes", variant.modes.is_empty()),
        ("strategies", variant.strategies.is_empty()),
        ("boundaries", variant.boundaries.is_empty()),
    ];
    if let Some((name, _)) = lists.iter().find(|(_, empty)| *empty) {
        return Err(format!("`{name}` is empty"));
    }
    if let Some(device) = variant
        .devices
        .iter()
        .find(|d| !["cpu", "cuda"].contains(&d.as_str()))
    {
        return Err(format!(
            "unknown device `{device}`; devices are `cpu` and `cuda`"
        ));
    }
    for (name, factor) in &variant.factors {
        check_factor(variant, name, factor)?;
    }
    let mut lacks = variant.lacks.iter();
    if let Some((precision, _)) =
        lacks.find(|(precision, _)| variant.precisions.contains(precision))
    {
        return Err(format!(
            "`lacks` gives a reason for `{precision}`, which is among its precisions"
        ));
    }
    if let Some((precision, _)) = variant.lacks.iter().find(|(_, reason)| reason.is_empty()) {
        return Err(format!("`lacks` gives no reason for `{precision}`"));
    }
    distinct("network", &variant.networks)?;
    for refusal in &variant.refuses {
        check_refusal(variant, refusal)
            .map_err(|message| format!("`refuses` \"{}\": {message}", refusal.reason))?;
    }
    check_said(variant, "what is fixed", &variant.fixed)
}

/// Whether what a variant refuses is a part of what it has, and not all of it.
fn check_refusal(variant: &VariantDescription, refusal: &Refusal) -> Result<(), String> {
    if refusal.reason.is_empty() {
        return Err(String::from("it gives no reason"));
    }
    if refusal.factors.is_empty() && refusal.strategies.is_empty() {
        return Err(String::from(
            "it names no factor and no strategy; what is refused whatever they are is not listed among \
             what the variant has",
        ));
    }
    let foreign = |strange: &dyn Display, what: &str| {
        Err(format!("`{strange}` is not among the variant's {what}"))
    };
    if let Some((strange, what)) = strange_to(variant, refusal.scope()) {
        return foreign(&strange, what);
    }
    let mut about = refusal.networks.iter();
    let strange = about.find(|about| !variant.networks.contains(about));
    if let Some(strange) = strange.filter(|_| !variant.networks.is_empty()) {
        return foreign(strange, "networks");
    }
    for (name, values) in &refusal.factors {
        let Some(factor) = variant.factors.get(name) else {
            return foreign(name, "factors");
        };
        if let Some(strange) = values.iter().find(|value| !factor.values.contains(value)) {
            return foreign(strange, &format!("values of `{name}`"));
        }
        if values.is_empty() {
            return Err(format!("it names no value of `{name}`"));
        }
    }
    Ok(())
}

/// What of a scope a variant does not have, and what that is one of.
fn strange_to(variant: &VariantDescription, scope: Scope<'_>) -> Option<(String, &'static str)> {
    let precision = scope
        .precisions
        .iter()
        .find(|about| !variant.precisions.contains(about));
    let mode = || {
        scope
            .modes
            .iter()
            .find(|about| !variant.modes.contains(about))
    };
    let device = || {
        scope
            .devices
            .iter()
            .find(|about| !variant.devices.contains(about))
    };
    let strategy = || {
        scope
            .strategies
            .iter()
            .find(|about| !variant.strategies.contains(about))
    };
    precision
        .map(|strange| (strange.to_string(), "precisions"))
        .or_else(|| mode().map(|strange| (strange.to_string(), "modes")))
        .or_else(|| device().map(|strange| (strange.clone(), "devices")))
        .or_else(|| strategy().map(|strange| (strange.to_string(), "strategies")))
}

/// Whether a factor of a variant can be written in a manifest, and makes sense.
fn check_factor(
    variant: &VariantDescription,
    name: &str,
    factor: &FactorDescription,
) -> Result<(), String> {
    word("factor", name)?;
    if AXES.contains(&name) {
        return Err(format!(
            "`{name}` is an axis of its own and cannot be a factor"
        ));
    }
    if factor.values.is_empty() || factor.values.iter().any(String::is_empty) {
        return Err(format!("factor `{name}` needs values, none of them empty"));
    }
    distinct(&format!("value of factor `{name}`:"), &factor.values)?;
    if let Some((strange, what)) = strange_to(variant, factor.scope()) {
        return Err(format!(
            "factor `{name}` is about `{strange}`, which is not among the variant's {what}"
        ));
    }
    let is_value = |value: &str| factor.values.iter().any(|known| known == value);
    let comes_to = |value: &String| is_value(AUTO) && value != AUTO && is_value(value);
    if !factor.auto.values().all(comes_to) {
        return Err(format!(
            "factor `{name}`: `auto` says which of its other values the value `{AUTO}` comes to"
        ));
    }
    let is_number = |value: &String| value.parse().is_ok_and(|parts: u64| parts > 0);
    if factor.divides.is_some() && !factor.values.iter().all(is_number) {
        return Err(format!(
            "factor `{name}`: what it `divides` is split into as many parts as its values say, which \
             are numbers from 1 on"
        ));
    }
    for (value, brought) in &factor.brings {
        if !is_value(value) {
            return Err(format!(
                "factor `{name}`: `brings` speaks of `{value}`, which is not among its values"
            ));
        }
        let what = format!("factor `{name}`: what `{value}` brings");
        check_brought(variant, name, &what, brought)?;
        let mut fixed = brought
            .keys()
            .filter(|name| variant.fixed.contains_key(*name));
        if let Some(fixed) = fixed.next() {
            return Err(format!("{what}: `{fixed}` is fixed"));
        }
    }
    Ok(())
}

/// Whether what a value of the factor `name` brings is said of switches of others, or of another of the variant's in
/// the words of that one.
fn check_brought(
    variant: &VariantDescription,
    name: &str,
    what: &str,
    brought: &BTreeMap<String, String>,
) -> Result<(), String> {
    let mut of_others = brought.clone();
    of_others.retain(|switch, _| switch == name || !variant.factors.contains_key(switch));
    check_said(variant, what, &of_others)?;
    for (switch, value) in brought {
        let own = variant.factors.get(switch);
        if own.is_some_and(|own| !own.values.contains(value)) {
            return Err(format!(
                "{what}: `{value}` is not among the values of `{switch}`"
            ));
        }
    }
    Ok(())
}

/// Whether what is said of switches of others, in their words, is of none that the variant has.
fn check_said(
    variant: &VariantDescription,
    what: &str,
    said: &BTreeMap<String, String>,
) -> Result<(), String> {
    for (name, value) in said {
        word("factor", name)?;
        if variant.factors.contains_key(name) {
            return Err(format!("{what}: `{name}` is a factor of the variant"));
        }
        if value.is_empty() {
            return Err(format!("{what}: `{name}` has no value"));
        }
    }
    Ok(())
}

/// Names end up in paths, keys and pages.
fn word(what: &str, name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(fits)
    {
        return Ok(());
    }
    Err(format!(
        "`{name}` cannot name {} {what}: a name begins with a letter and holds at most 64 of \
         a-z, 0-9, `_` and `-`",
        if what == "engine" { "an" } else { "a" }
    ))
}

fn distinct<'a>(what: &str, names: impl IntoIterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(format!("{what} `{twice}` is there twice")),
        None => Ok(()),
    }
}
