//! Engines as the rest of the program knows them: the kits of one engine are one description.

use schema::EngineDescription;

use crate::{
    CatalogError, Kit,
    kit::{BuiltIn, Origin},
};

/// The engines that kits make up, in the kits' order, which has those of one engine side by side.
/// The first kit gives an engine its summary.
pub(crate) fn engines(kits: &[Kit]) -> Result<Vec<EngineDescription>, CatalogError> {
    let mut engines: Vec<EngineDescription> = Vec::new();
    for (index, kit) in kits.iter().enumerate() {
        let before = kits.get(..index).unwrap_or_default();
        let mut siblings = before.iter().filter(|other| other.name() == kit.name());
        match engines.last_mut() {
            Some(engine) if engine.name == kit.name() => {
                siblings
                    .try_for_each(|sibling| fit(sibling, kit))
                    .map_err(|message| wrong(kit, message))?;
                engine.variants.extend(kit.description().variants.clone());
            }
            _ => engines.push(kit.description().clone()),
        }
    }
    Ok(engines)
}

/// Whether two kits can be parts of the same engine; says why not.
fn fit(one: &Kit, other: &Kit) -> Result<(), String> {
    let (first, second) = (one.description(), other.description());
    let what = |what: &str, one: &str, other: &str| {
        format!("{what} is `{other}`, and `{one}` in another folder of the engine")
    };
    if first.title != second.title {
        return Err(what("title", &first.title, &second.title));
    }
    if first.version != second.version {
        return Err(what("version", &first.version, &second.version));
    }
    let mut variants = second.variants.iter();
    if let Some(twice) = variants.find(|variant| first.variant(&variant.name).is_some()) {
        return Err(format!("variant `{}` is another folder's, too", twice.name));
    }
    // The hash of the lock file names the installation.
    let lock = |kit: &Kit| kit.lock().map(|lock| lock.digest);
    if lock(one).is_some() && lock(one) == lock(other) {
        return Err(String::from("its lock file is another folder's, too"));
    }
    Ok(())
}

fn wrong(kit: &Kit, message: String) -> CatalogError {
    let folder = match kit.origin() {
        Origin::BuiltIn(BuiltIn { folder, .. }) => folder.clone(),
        Origin::Registered(_) => kit.name().to_owned(),
    };
    CatalogError::BuiltIn { folder, message }
}
