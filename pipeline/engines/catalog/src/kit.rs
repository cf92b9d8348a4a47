//! A kit: an engine, or the part of one that has a worker and an installation of its own.
//!
//! Most engines are one kit. `pytorch` is two: the variants that a Rust worker runs against
//! libtorch, and those that need Python and all of its packages. What one kit is built and installed
//! from decides nothing about the other, so that a change of the Python worker makes no heat of
//! `pytorch/eager` stale.

use std::{collections::BTreeMap, path::Path};

use schema::{Digest, EngineDescription, EngineVariant, VariantDescription};
use serde::Deserialize;

use crate::{
    CatalogError, builtin, lock::Lock, need::Need, place::PACKAGES, registered::Registered,
    vocabulary,
};

/// Variants of an engine that share a worker and an installation: of one that ships with
/// photofinish, or that the user registered.
#[derive(Debug, Clone)]
pub struct Kit {
    /// The engine, with the variants of this kit alone.
    description: EngineDescription,
    worker: Digest,
    /// Whether its worker is given the network as an ONNX file, too.
    takes_onnx: bool,
    origin: Origin,
    /// What variants need of other kits, by the variant's name.
    needs: BTreeMap<String, Need>,
}

/// Where a worker comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// Made from sources of this repository.
    BuiltIn(BuiltIn),
    /// A command of the user's.
    Registered(Registered),
}

/// How a built-in kit's worker is made and what it needs.
#[derive(Debug, Clone)]
pub(crate) struct BuiltIn {
    /// The kit's folder below `pipeline/engines`, and the name of its link in `.engines/`.
    pub(crate) folder: String,
    pub(crate) program: Program,
    /// Environment variables that name a path among the packages.
    pub(crate) paths: BTreeMap<String, String>,
    /// Folders among the packages where the dynamic linker shall look as well.
    pub(crate) library_path: Vec<String>,
    /// What the machine must have besides.
    pub(crate) libraries: Option<Libraries>,
    /// What it needs on a GPU besides.
    pub(crate) gpu: Option<GpuLibraries>,
    /// What is installed; `None` where the worker needs nothing.
    pub(crate) recipe: Option<Box<Recipe>>,
}

/// Shared libraries that no package index can be relied on to have: the user brings them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Libraries {
    /// Their file names.
    pub(crate) names: Vec<String>,
    /// What to do where one is missing.
    pub(crate) remedy: String,
}

/// Shared libraries that a worker needs on a GPU, and that come with another kit's packages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuLibraries {
    /// The folder of that kit.
    pub(crate) kit: String,
    /// Where they are among its packages.
    pub(crate) folders: Vec<String>,
}

/// What an installation consists of.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) lock: Lock,
    /// Packages that hold what others do, built otherwise: what may be adopted for them.
    pub(crate) instead: BTreeMap<String, Vec<String>>,
    /// The folder of the kit whose installation this one stands on.
    pub(crate) base: Option<String>,
    /// Links below the installation, to paths among the packages.
    pub(crate) links: BTreeMap<String, String>,
    /// Small files below the installation, with their content.
    pub(crate) files: BTreeMap<String, String>,
}

impl Recipe {
    /// The names of packages that will do where a pinned one is asked for; its own comes first.
    pub(crate) fn names_of<'a>(&'a self, pinned: &'a str) -> impl Iterator<Item = &'a str> {
        let instead = self.instead.get(pinned).into_iter().flatten();
        std::iter::once(pinned).chain(instead.map(String::as_str))
    }

    /// Whether a link or a file of its own lies in this folder of the packages'.
    pub(crate) fn adds_to(&self, folder: &str) -> bool {
        let folder = Path::new(PACKAGES).join(folder);
        let mut own = self.links.keys().chain(self.files.keys());
        own.any(|path| Path::new(path).starts_with(&folder))
    }
}

/// What a built-in kit's worker is.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// A program that cargo builds.
    Rust(RustProgram),
    /// A module that the Python of the installation runs.
    Python(PythonProgram),
}

/// A worker written in Rust.
#[derive(Debug, Clone)]
pub(crate) struct RustProgram {
    /// The package of the workspace that builds it.
    pub(crate) package: String,
    /// Its file name.
    pub(crate) binary: String,
    /// Environment variables that a build shall not see.
    pub(crate) ignore_variables: Vec<String>,
}

/// A worker written in Python.
#[derive(Debug, Clone)]
pub(crate) struct PythonProgram {
    /// The module to run, as `python -m` does.
    pub(crate) module: String,
    /// Its files.
    pub(crate) sources: Sources,
}

/// Files with their text, by their path below the folder that Python imports from.
pub type Sources = &'static [(&'static str, &'static str)];

/// The `[worker]` section of an `engine.toml`: `package` and `binary` of a Rust worker, or `module`
/// and `packages` of a Python worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerFile {
    package: Option<String>,
    binary: Option<String>,
    module: Option<String>,
    /// The Python packages that the worker consists of: folders beside the kit's.
    #[expect(
        dead_code,
        reason = "read by the build script, which embeds the files of the folders it names"
    )]
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    paths: BTreeMap<String, String>,
    #[serde(default)]
    library_path: Vec<String>,
    #[serde(default)]
    ignore_variables: Vec<String>,
    libraries: Option<Libraries>,
    gpu: Option<GpuLibraries>,
    #[serde(default)]
    onnx: bool,
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
    #[serde(default)]
    needs: BTreeMap<String, Need>,
    variants: Vec<VariantDescription>,
}

/// The `[install]` section of an `engine.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InstallFile {
    requirements: Vec<String>,
    #[serde(default)]
    instead: BTreeMap<String, Vec<String>>,
    base: Option<String>,
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

impl Kit {
    /// A kit from the text of its `engine.toml` and of its lock file; `worker` is the digest
    /// of what its worker is made from, in hexadecimal, and `sources` are the files of a Python
    /// worker, by their path.
    ///
    /// # Errors
    /// When one of the texts is wrong.
    pub fn built_in(
        folder: &str,
        engine: &str,
        lock: Option<&str>,
        worker: &str,
        sources: Sources,
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
        vocabulary::check(&description).map_err(wrong)?;
        let recipe = match (file.install, lock) {
            (None, _) => None,
            (Some(_), None) => return Err(wrong(String::from("[install] without a lock file"))),
            (Some(install), Some(lock)) => Some(Box::new(recipe(install, lock).map_err(wrong)?)),
        };
        let program = program(&file.worker, sources).map_err(wrong)?;
        if matches!(program, Program::Python(_)) && recipe.is_none() {
            // It says which Python runs the worker.
            return Err(wrong(String::from("a Python worker needs [install]")));
        }
        let base = recipe.as_ref().and_then(|recipe| recipe.base.as_ref());
        if matches!(program, Program::Rust(_)) && base.is_some() {
            // Nothing would tell it where its base's packages are.
            return Err(wrong(String::from("a Rust worker stands on no other kit")));
        }
        Ok(Self {
            description,
            worker: worker
                .parse()
                .map_err(|_| wrong(String::from("no worker digest")))?,
            takes_onnx: file.worker.onnx,
            origin: Origin::BuiltIn(BuiltIn {
                folder: folder.to_owned(),
                program,
                paths: file.worker.paths,
                library_path: file.worker.library_path,
                libraries: file.worker.libraries,
                gpu: file.worker.gpu,
                recipe,
            }),
            needs: file.needs,
        })
    }

    pub(crate) fn registered(
        description: EngineDescription,
        worker: Digest,
        takes_onnx: bool,
        command: Registered,
    ) -> Self {
        Self {
            description,
            worker,
            takes_onnx,
            origin: Origin::Registered(command),
            needs: BTreeMap::new(),
        }
    }

    /// The engine, with the variants of this kit alone.
    #[must_use]
    pub fn description(&self) -> &EngineDescription {
        &self.description
    }

    /// The engine's name: the word used in manifests.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// What to call it where another kit of the same engine may be meant: the engine's name, and
    /// the language in which a nested folder's worker is written, for example `pytorch (python)`; a
    /// folder that is named otherwise than its engine says how: `tensorrt (python, rtx)`.
    #[must_use]
    pub fn label(&self) -> String {
        let name = self.name();
        match &self.origin {
            Origin::BuiltIn(built_in) => match built_in.folder.split_once('/') {
                Some((language, folder)) => {
                    let rest = folder.strip_prefix(name).unwrap_or(folder);
                    match rest.trim_start_matches(['_', '-']) {
                        "" => format!("{name} ({language})"),
                        more => format!("{name} ({language}, {more})"),
                    }
                }
                None => name.to_owned(),
            },
            Origin::Registered(_) => self.name().to_owned(),
        }
    }

    /// Its variants, as manifests write them.
    pub fn variants(&self) -> impl Iterator<Item = EngineVariant> + '_ {
        self.description
            .variants
            .iter()
            .map(|variant| EngineVariant {
                engine: self.description.name.clone(),
                variant: variant.name.clone(),
            })
    }

    /// The wheels that it is installed from; `None` where nothing is installed.
    #[must_use]
    pub fn lock(&self) -> Option<&Lock> {
        self.recipe().map(|recipe| &recipe.lock)
    }

    pub(crate) fn recipe(&self) -> Option<&Recipe> {
        match &self.origin {
            Origin::BuiltIn(built_in) => built_in.recipe.as_deref(),
            Origin::Registered(_) => None,
        }
    }

    /// Gives what it is installed from another identity: one that includes its base's.
    pub(crate) fn set_lock_digest(&mut self, digest: Digest) {
        if let Origin::BuiltIn(BuiltIn {
            recipe: Some(recipe),
            ..
        }) = &mut self.origin
        {
            recipe.lock.digest = digest;
        }
    }

    /// What its worker is made of.
    #[must_use]
    pub fn worker(&self) -> Digest {
        self.worker
    }

    /// Whether its worker is given the network as an ONNX file besides the graph.
    #[must_use]
    pub fn takes_onnx(&self) -> bool {
        self.takes_onnx
    }

    /// What decides how its worker computes: what the worker is made of, and what writes ONNX where
    /// it takes that. A Rust worker that reads ONNX is built with the writer.
    pub(crate) fn made_of(&self) -> Digest {
        if !self.takes_onnx {
            return self.worker;
        }
        let both = format!("{}\n{}\n", self.worker, builtin::ONNX_WRITER);
        Digest::of_bytes(both.as_bytes())
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn needs(&self) -> &BTreeMap<String, Need> {
        &self.needs
    }
}

/// What a `[worker]` section names: one kind of program, completely.
fn program(file: &WorkerFile, sources: Sources) -> Result<Program, String> {
    match (&file.package, &file.binary, &file.module) {
        (Some(package), Some(binary), None) => Ok(Program::Rust(RustProgram {
            package: package.clone(),
            binary: binary.clone(),
            ignore_variables: file.ignore_variables.clone(),
        })),
        (None, None, Some(_)) if sources.is_empty() => {
            Err(String::from("[worker] `packages` hold no file of Python's"))
        }
        (None, None, Some(module)) => Ok(Program::Python(PythonProgram {
            module: module.clone(),
            sources,
        })),
        _ => Err(String::from(
            "[worker] names either `package` and `binary`, or `module`",
        )),
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
    let is_pinned = |name: &&String| lock.pins.iter().any(|pin| pin.name == **name);
    if let Some(name) = install.instead.keys().find(|name| !is_pinned(name)) {
        return Err(format!(
            "[install] `instead` speaks of {name}, which is not required"
        ));
    }
    // Where packages are links, a folder below one of them is the user's.
    let mut own = install.links.keys().chain(install.files.keys());
    let is_deep = |path: &&String| {
        let mut parts = Path::new(path.as_str()).components();
        path.starts_with(PACKAGES) && parts.by_ref().count() > 3
    };
    if let Some(path) = own.find(is_deep) {
        return Err(format!(
            "[install] {path} lies deeper in the packages than in one's own folder"
        ));
    }
    Ok(Recipe {
        lock,
        instead: install.instead,
        base: install.base,
        links: install.links,
        files: install.files,
    })
}
