//! What a variant needs of another kit.
//!
//! The worker of `pytorch/aot` is that of `pytorch/eager`, and runs what PyTorch's compiler made; the
//! compiler is written in Python, and is a module of the kit whose worker is. Such a variant is
//! installed with both kits and cannot be used without either, and what both are made from is a
//! part of the keys of its heats; the other variants of its kit know nothing of it.

use std::collections::BTreeMap;

use schema::{Digest, EngineVariant};
use serde::Deserialize;
use worker::WorkerCommand;

use crate::{
    CatalogError, Kit, Settings,
    base::{folder, in_folder},
    kit::{Origin, Program, PythonProgram},
    place::Place,
    workers,
};

/// A `[needs.VARIANT]` section of an `engine.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Need {
    /// The folder of the other kit.
    pub(crate) kit: String,
    /// The module of its worker's packages that compiles for the variant.
    pub(crate) compiler: String,
}

/// The kit that a variant needs besides its own, and what for.
pub(crate) fn of<'a>(kits: &'a [Kit], variant: &EngineVariant) -> Option<(&'a Kit, &'a Need)> {
    let need = kits.iter().find_map(|kit| {
        let need = kit.needs().get(&variant.variant)?;
        (kit.name() == variant.engine).then_some(need)
    })?;
    Some((in_folder(kits, &need.kit)?, need))
}

/// Whether what kits say that they need is there.
///
/// # Errors
/// When a section names no variant of its kit, or no other kit of the engine with a Python worker
/// that stands on none.
pub(crate) fn check(kits: &[Kit]) -> Result<(), CatalogError> {
    for kit in kits {
        for (variant, need) in kit.needs() {
            let wrong = |message: String| CatalogError::BuiltIn {
                folder: folder(kit).unwrap_or_default().to_owned(),
                message: format!("[needs.{variant}]: {message}"),
            };
            if kit.description().variant(variant).is_none() {
                return Err(wrong(String::from("there is no such variant")));
            }
            let other = in_folder(kits, &need.kit);
            let fits = |other: &&Kit| {
                let stands_alone = other.recipe().is_some_and(|recipe| recipe.base.is_none());
                other.name() == kit.name() && stands_alone && python(other).is_some()
            };
            if other.filter(fits).is_none() {
                return Err(wrong(format!(
                    "`{}` is no kit of the engine with a Python worker that stands on no other",
                    need.kit
                )));
            }
        }
    }
    Ok(())
}

/// The identity of a variant's installation: its own kit's, and what the other one is installed and
/// made from. `others` is what the other one is installed from.
pub(crate) fn identity(own: Option<Digest>, other: &Kit, others: Option<Digest>) -> Option<Digest> {
    let parts = [own, others, Some(other.worker())];
    let lines: String = parts
        .iter()
        .flatten()
        .map(|digest| format!("{digest}\n"))
        .collect();
    Some(Digest::of_bytes(lines.as_bytes()))
}

/// How the compiler is started; `None` where its files are not in place. `env` are the variables of a
/// worker of that kit.
pub(crate) fn compiler(
    other: &Kit,
    need: &Need,
    env: BTreeMap<String, String>,
    settings: &Settings,
) -> Option<WorkerCommand> {
    let program = python(other)?;
    let place = Place::of(other, other.lock()?, settings);
    workers::python::command(program, &need.compiler, other.worker(), &place, None, env)
}

fn python(kit: &Kit) -> Option<&PythonProgram> {
    match kit.origin() {
        Origin::BuiltIn(built_in) => match &built_in.program {
            Program::Python(program) => Some(program),
            Program::Rust(_) => None,
        },
        Origin::Registered(_) => None,
    }
}
