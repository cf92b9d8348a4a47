//! Installations without a download: the packages are those that a Python of the user's has already.
//!
//! A cluster without a network, or a vendor's container, brings a PyTorch of its own; so does who wants
//! another build of an engine than the one that is pinned, ONNX Runtime's for GPUs, say. Such an
//! installation holds links to what that Python imports. The engine itself must be there in the version
//! that its kit is written for. What it stands on may differ from what is pinned: the record names every
//! package with its version and the hash of its own list of files, and these are a part of the
//! installation's identity, and so of the keys of heats.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use schema::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    CatalogError, InstallObserver, Python,
    child::{self, Ended, Follow},
    complete,
    kit::Recipe,
    place::packages,
};

/// Prints each distribution among the names given that Python would import from, as a line of JSON:
/// the first of a name on its path is the one. Runs with the user's environment, which may hold
/// folders to import from.
const PROBE: &str = "\
import importlib.metadata, json, re, sys
canonical = lambda name: re.sub('[-_.]+', '-', name).lower()
wanted, seen = set(sys.argv[1:]), set()
for found in importlib.metadata.distributions():
    name = canonical(found.metadata['Name'] or '')
    if name not in wanted or name in seen:
        continue
    seen.add(name)
    files = found.files or []
    record = next((it for it in files if it.name == 'RECORD' and it.parent.name.endswith('.dist-info')), None)
    print('photofinish', json.dumps({
        'name': name,
        'version': found.version,
        'folder': str(found.locate_file('')),
        'record': None if record is None else str(record),
        'parts': sorted({it.parts[0] for it in files}),
    }))
";

/// What a Python says of one of its packages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Distribution {
    name: String,
    version: String,
    /// The folder that its files are in.
    folder: PathBuf,
    /// Its list of files, below that; `None` where it has none.
    record: Option<PathBuf>,
    /// What it has directly in that folder.
    parts: BTreeSet<String>,
}

/// Where the packages of an installation are that holds none of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adopted {
    /// The Python that has them.
    pub(crate) python: PathBuf,
    /// By name.
    pub(crate) packages: BTreeMap<String, Package>,
}

/// A package of a Python of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Package {
    version: String,
    /// Its list of files and their hashes.
    record: PathBuf,
    /// The hash of that list.
    sha256: Digest,
}

impl Adopted {
    /// What tells these packages from others.
    pub(crate) fn digest(&self) -> Digest {
        let each = |(name, package): (&String, &Package)| {
            format!("{name} {} {}\n", package.version, package.sha256)
        };
        let text: String = self.packages.iter().map(each).collect();
        Digest::of_bytes(text.as_bytes())
    }

    /// Which package is no longer what was adopted; `None` where all are.
    pub(crate) fn changed(&self) -> Option<String> {
        let is_changed = |package: &Package| {
            complete::hash_file(&package.record, &mut |_| true).ok() != Some(package.sha256)
        };
        let mut packages = self.packages.iter();
        let (name, _) = packages.find(|(_, package)| is_changed(package))?;
        let python = self.python.display();
        Some(format!(
            "{name} of {python} is another one than was adopted; `engines install --from {python}` \
             adopts it anew"
        ))
    }
}

/// Fills `home` with links to what `python` has of a recipe's packages. Gives what to remember of them,
/// and in words where versions are other ones than those that are pinned.
///
/// # Errors
/// When the engine itself is missing or of another version, or two packages have files of one name in
/// different folders.
pub(crate) fn adopt(
    engine: &str,
    recipe: &Recipe,
    python: &Python,
    home: &Path,
    observer: &mut dyn InstallObserver,
) -> Result<(Adopted, Vec<String>), CatalogError> {
    let found = distributions(recipe, python, observer)?;
    let refused = |what: String| CatalogError::Adoption {
        engine: engine.to_owned(),
        python: python.program.clone(),
        what,
    };
    let mut differing = Vec::new();
    let mut links: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut adopted = BTreeMap::new();
    for (index, pin) in recipe.lock.pins.iter().enumerate() {
        let names = recipe.names_of(&pin.name);
        let candidates: Vec<&Distribution> = names.filter_map(|name| found.get(name)).collect();
        let is_pinned = |it: &&&Distribution| public(&it.version) == public(&pin.version);
        let exact = candidates.iter().find(is_pinned);
        let (name, version) = (&pin.name, &pin.version);
        // The first requirement is the engine itself.
        let chosen = match (exact, candidates.first()) {
            (Some(exact), _) => exact,
            (None, Some(other)) if index > 0 => other,
            (None, None) if index > 0 => {
                differing.push(format!("no {name}"));
                continue;
            }
            (None, other) => {
                let has = other.map_or_else(
                    || String::from("does not have it"),
                    |it| format!("has {}", it.version),
                );
                return Err(refused(format!("{name} {version} is needed, and it {has}")));
            }
        };
        if chosen.name != *name || public(&chosen.version) != public(version) {
            let (found, its) = (&chosen.name, &chosen.version);
            differing.push(format!("{found} {its} instead of {name} {version}"));
        }
        let package = package(chosen).map_err(&refused)?;
        adopted.insert(chosen.name.clone(), package);
        for part in &chosen.parts {
            let Some(target) = target(chosen, part) else {
                continue;
            };
            match links.get(part) {
                Some(other) if *other != target => {
                    let (one, other) = (target.display(), other.display());
                    return Err(refused(format!(
                        "its packages have files of {part} in two places, {other} and {one}"
                    )));
                }
                _ => links.insert(part.clone(), target),
            };
        }
    }
    let to = packages(home);
    fs::create_dir_all(&to).map_err(CatalogError::io("make", &to))?;
    for (part, target) in links {
        link(&target, &to.join(&part), recipe.adds_to(&part))?;
    }
    let adopted = Adopted {
        python: python.program.clone(),
        packages: adopted,
    };
    Ok((adopted, differing))
}

/// What `python` has of a recipe's packages, and of those that may stand in for them.
fn distributions(
    recipe: &Recipe,
    python: &Python,
    observer: &mut dyn InstallObserver,
) -> Result<BTreeMap<String, Distribution>, CatalogError> {
    let mut answers = Answers {
        observer,
        lines: Vec::new(),
    };
    let mut command = python.command();
    let pins = recipe.lock.pins.iter();
    command.args(["-c", PROBE]);
    command.args(pins.flat_map(|pin| recipe.names_of(&pin.name)));
    let ended = child::run(&mut command, &mut answers);
    let log = match ended.map_err(CatalogError::io("start", &python.program))? {
        Ended::Interrupted => return Err(CatalogError::Interrupted),
        Ended::Exited { status, .. } if status.success() => String::new(),
        Ended::Exited { log, .. } => log,
    };
    let parsed = answers.lines.iter().map(|line| {
        let found: Distribution = serde_json::from_str(line)?;
        Ok((found.name.clone(), found))
    });
    let parsed: Result<_, serde_json::Error> = parsed.collect();
    match parsed {
        Ok(found) if log.is_empty() => Ok(found),
        Ok(_) => Err(CatalogError::Python(format!(
            "{} could not list its packages: {log}",
            python.program.display()
        ))),
        Err(error) => Err(CatalogError::Python(format!(
            "{} listed a package that cannot be understood: {error}",
            python.program.display()
        ))),
    }
}

/// Links to a package's file or folder; to what is in the folder, where the installation adds to it: what
/// is the user's stays as it is.
fn link(target: &Path, to: &Path, is_added_to: bool) -> Result<(), CatalogError> {
    let link =
        |target: &Path, to: &Path| symlink(target, to).map_err(CatalogError::io("write", to));
    if !is_added_to {
        return link(target, to);
    }
    fs::create_dir(to).map_err(CatalogError::io("make", to))?;
    for entry in fs::read_dir(target).map_err(CatalogError::io("list", target))? {
        let entry = entry.map_err(CatalogError::io("list", target))?;
        link(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A version without what says who built it, as `2.11.0` of `2.11.0+cu130` (PyPA, "Version specifiers").
fn public(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

/// What to remember of a package.
///
/// # Errors
/// When it does not say what belongs to it.
fn package(found: &Distribution) -> Result<Package, String> {
    let unlisted = || {
        format!(
            "{} in {} has no list of its files (RECORD): install it with pip",
            found.name,
            found.folder.display()
        )
    };
    let record = found.record.as_ref().ok_or_else(unlisted)?;
    let record = found.folder.join(record);
    let sha256 = complete::hash_file(&record, &mut |_| true)
        .map_err(|error| format!("{} cannot be read: {error}", record.display()))?;
    Ok(Package {
        version: found.version.clone(),
        record,
        sha256,
    })
}

/// What to link to of a package's files; `None` for programs and for compiled modules, which no worker
/// imports.
fn target(found: &Distribution, part: &str) -> Option<PathBuf> {
    let mut components = Path::new(part).components();
    let is_name = matches!(components.next(), Some(Component::Normal(_)));
    let target = found.folder.join(part);
    (is_name && components.next().is_none() && part != "__pycache__" && target.exists())
        .then_some(target)
}

struct Answers<'a> {
    observer: &'a mut dyn InstallObserver,
    lines: Vec<String>,
}

impl Follow for Answers<'_> {
    fn line(&mut self, line: &str) {
        if let Some(answer) = line.strip_prefix("photofinish ") {
            self.lines.push(answer.to_owned());
        }
    }

    fn tick(&mut self) -> bool {
        !self.observer.interrupted()
    }
}
