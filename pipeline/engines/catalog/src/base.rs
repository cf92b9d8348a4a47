//! Kits that stand on the installation of another: what a library adds to PyTorch is a few packages,
//! and PyTorch itself is gigabytes.
//!
//! Such a kit's lock file holds the packages that it adds. Its worker finds those first and its
//! base's behind them, and it is installed for the Python that its base was installed for. Its
//! identity includes its base's: where the base's lock file changes, it is another installation, and
//! heats that ran on it are stale.

use std::collections::BTreeSet;

use schema::Digest;

use crate::{
    CatalogError, Kit,
    kit::{BuiltIn, Origin, Program},
};

/// The kit that `kit` stands on, where it stands on one.
pub(crate) fn of<'a>(kits: &'a [Kit], kit: &Kit) -> Option<&'a Kit> {
    let name = kit.recipe()?.base.as_deref()?;
    in_folder(kits, name)
}

/// The kits that others stand on.
pub(crate) fn all(kits: &[Kit]) -> Vec<Kit> {
    let names: BTreeSet<_> = kits
        .iter()
        .filter_map(|kit| kit.recipe()?.base.as_deref())
        .collect();
    let is_base = |kit: &&Kit| folder(kit).is_some_and(|name| names.contains(name));
    kits.iter().filter(is_base).cloned().collect()
}

/// Makes the identity of each kit's base a part of the kit's own.
///
/// # Errors
/// When a kit stands on what cannot be stood on, or installs a package of its base's a second time.
pub(crate) fn settle(kits: &mut [Kit]) -> Result<(), CatalogError> {
    let digests = kits.iter().map(|kit| digest_on_base(kits, kit));
    let digests: Vec<Option<Digest>> = digests.collect::<Result<_, _>>()?;
    for (kit, digest) in kits.iter_mut().zip(digests) {
        if let Some(digest) = digest {
            kit.set_lock_digest(digest);
        }
    }
    Ok(())
}

/// The identity of what `kit` is installed from, its base included; `None` for a kit without one.
fn digest_on_base(kits: &[Kit], kit: &Kit) -> Result<Option<Digest>, CatalogError> {
    let Some(recipe) = kit.recipe() else {
        return Ok(None);
    };
    let Some(name) = &recipe.base else {
        return Ok(None);
    };
    let wrong = |message: String| CatalogError::BuiltIn {
        folder: folder(kit).unwrap_or_default().to_owned(),
        message: format!("[install] base = \"{name}\": {message}"),
    };
    let base = of(kits, kit).ok_or_else(|| wrong(String::from("there is no such folder")))?;
    let lock = match base.recipe() {
        Some(recipe) if is_python(base) && recipe.base.is_none() => &recipe.lock,
        _ => {
            return Err(wrong(String::from(
                "a base is a kit with a Python worker that stands on no other",
            )));
        }
    };
    let theirs: BTreeSet<_> = lock.pins.iter().map(|pin| &pin.name).collect();
    if let Some(twice) = recipe
        .lock
        .pins
        .iter()
        .find(|pin| theirs.contains(&pin.name))
    {
        return Err(wrong(format!("it has {} already", twice.name)));
    }
    let both = format!("{}\n{}\n", lock.digest, recipe.lock.digest);
    Ok(Some(Digest::of_bytes(both.as_bytes())))
}

fn is_python(kit: &Kit) -> bool {
    let Origin::BuiltIn(BuiltIn { program, .. }) = kit.origin() else {
        return false;
    };
    matches!(program, Program::Python(_))
}

/// The built-in kit of a folder.
pub(crate) fn in_folder<'a>(kits: &'a [Kit], name: &str) -> Option<&'a Kit> {
    kits.iter().find(|kit| folder(kit) == Some(name))
}

/// The folder of a built-in kit.
pub(crate) fn folder(kit: &Kit) -> Option<&str> {
    match kit.origin() {
        Origin::BuiltIn(built_in) => Some(&built_in.folder),
        Origin::Registered(_) => None,
    }
}
