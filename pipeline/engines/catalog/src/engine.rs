//! An engine: what it can do, and where its worker comes from.

use std::{collections::BTreeMap, collections::BTreeSet};

use schema::{Digest, EngineDescription, VariantDescription};
use serde::Deserialize;

use crate::{CatalogError, lock::Lock, registered::Registered};

/// An engine that ships with photofinish, or that the user registered.
#[derive(Debug, Clone)]
pub struct Engine {
    description: EngineDescription,
    worker: Digest,
    origin: Origin,
}

/// Where a worker comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// Built from a package of this workspace.
    BuiltIn(BuiltIn),
    /// A command of the user's.
    Registered(Registered),
}

/// How a built-in engine's worker is built and what it needs.
#[derive(Debug, Clone)]
pub(crate) struct BuiltIn {
    /// The engine's folder in the workspace, and the name of its link in `.engines/`.
    pub(crate) folder: String,
    pub(crate) worker: WorkerFile,
    /// What is installed; `None` where the worker needs nothing.
    pub(crate) recipe: Option<Recipe>,
}

/// What an installation consists of.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) lock: Lock,
    /// Links below the installation, to paths among the packages.
    pub(crate) links: BTreeMap<String, String>,
    /// Small files below the installation, with their content.
    pub(crate) files: BTreeMap<String, String>,
}

/// The `[worker]` section of an `engine.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerFile {
    pub(crate) package: String,
    pub(crate) binary: String,
    /// Environment variables that name a path among the packages.
    #[serde(default)]
    pub(crate) paths: BTreeMap<String, String>,
    /// Folders among the packages where the dynamic linker shall look as well.
    #[serde(default)]
    pub(crate) library_path: Vec<String>,
    /// Environment variables that a build shall not see.
    #[serde(default)]
    pub(crate) ignore_variables: Vec<String>,
}

/// An `engine.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EngineFile {
    name: String,
    title: String,
    version: String,
    summary: String,
    worker: WorkerFile,
    install: Option<InstallFile>,
    variants: Vec<VariantDescription>,
}

/// The `[install]` section of an `engine.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InstallFile {
    requirements: Vec<String>,
    #[expect(
        dead_code,
        reason = "read by the build script, which embeds the file it names"
    )]
    lock: String,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

impl Engine {
    /// An engine from the text of its `engine.toml` and of its lock file; `worker` is the digest
    /// of what its worker is built from, in hexadecimal.
    ///
    /// # Errors
    /// When one of the texts is wrong.
    pub fn built_in(
        folder: &str,
        engine: &str,
        lock: Option<&str>,
        worker: &str,
    ) -> Result<Self, CatalogError> {
        let wrong = |message: String| CatalogError::BuiltIn {
            folder: folder.to_owned(),
            message,
        };
        let file: EngineFile = toml::from_str(engine).map_err(|error| wrong(error.to_string()))?;
        let description = EngineDescription {
            name: file.name,
            title: file.title,
            version: file.version,
            summary: file.summary,
            variants: file.variants,
        };
        check(&description).map_err(wrong)?;
        let recipe = match (file.install, lock) {
            (None, _) => None,
            (Some(_), None) => return Err(wrong(String::from("[install] without a lock file"))),
            (Some(install), Some(lock)) => Some(recipe(install, lock).map_err(wrong)?),
        };
        Ok(Self {
            description,
            worker: worker
                .parse()
                .map_err(|_| wrong(String::from("no worker digest")))?,
            origin: Origin::BuiltIn(BuiltIn {
                folder: folder.to_owned(),
                worker: file.worker,
                recipe,
            }),
        })
    }

    pub(crate) fn registered(
        description: EngineDescription,
        worker: Digest,
        command: Registered,
    ) -> Self {
        Self {
            description,
            worker,
            origin: Origin::Registered(command),
        }
    }

    /// What it can do.
    #[must_use]
    pub fn description(&self) -> &EngineDescription {
        &self.description
    }

    /// The word used in manifests.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// The wheels that it is installed from; `None` where nothing is installed.
    #[must_use]
    pub fn lock(&self) -> Option<&Lock> {
        match &self.origin {
            Origin::BuiltIn(BuiltIn {
                recipe: Some(recipe),
                ..
            }) => Some(&recipe.lock),
            _ => None,
        }
    }

    /// What its worker is made of.
    #[must_use]
    pub fn worker(&self) -> Digest {
        self.worker
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Joins an `[install]` section with its lock file, which must pin just what the section asks for.
fn recipe(install: InstallFile, lock: &str) -> Result<Recipe, String> {
    let lock = Lock::parse(lock).map_err(|message| format!("lock file: {message}"))?;
    let locked: Vec<_> = lock
        .pins
        .iter()
        .map(|p| format!("{}=={}", p.name, p.version))
        .collect();
    if locked != install.requirements {
        return Err(format!(
            "engine.toml asks for {}, and its lock file holds {}: write the lock file again",
            install.requirements.join(", "),
            locked.join(", ")
        ));
    }
    Ok(Recipe {
        lock,
        links: install.links,
        files: install.files,
    })
}

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
        word("factor", name)?;
        if AXES.contains(&name.as_str()) {
            return Err(format!(
                "`{name}` is an axis of its own and cannot be a factor"
            ));
        }
        if factor.values.is_empty() || factor.values.iter().any(String::is_empty) {
            return Err(format!("factor `{name}` needs values, none of them empty"));
        }
        distinct(&format!("value of factor `{name}`:"), &factor.values)?;
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
