//! Installations without a download: the packages are those that a Python of the user's has already.
//!
//! A cluster without a network brings a PyTorch of its own; so does who wants another build of an engine
//! than the one that is pinned. Such an installation holds links to what that Python imports. The engine
//! itself must be there in the version that its kit is written for. What it stands on may differ from what
//! is pinned: the record names every package that has a part in what is linked, with its version and the
//! hash of its own list of files, and these are a part of the installation's identity, and so of the keys
//! of heats.

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

/// Prints each distribution that Python would import from, as a line of JSON: the first folder on its path
/// that has one of a name is where it is. pip moves what it is about to remove to names that begin with a
/// tilde. Runs with the user's environment, which may hold folders to import from.
const PROBE: &str = "\
import importlib.metadata, json, pathlib, re
seen = {}
for found in importlib.metadata.distributions():
    folder = str(found.locate_file(''))
    info = getattr(found, '_path', None)
    try:
        name = re.sub('[-_.]+', '-', found.metadata['Name'] or '').lower()
        files = found.files or []
    except Exception:
        name, files = re.sub('[-_.]+', '-', pathlib.Path(str(info)).name.split('-')[0]).lower(), []
    if not name or info is not None and pathlib.Path(str(info)).name.startswith('~'):
        continue
    if seen.setdefault(name, folder) != folder:
        continue
    record = next((it for it in files if it.name == 'RECORD' and it.parent.name.endswith('.dist-info')), None)
    told = {
        'name': name,
        'version': str(found.version),
        'folder': folder,
        'record': None if record is None else str(record),
    }
    parts = sorted({it.parts[0] for it in files if it.parts})
    line = json.dumps({**told, 'parts': parts})
    print('photofinish', line if len(line) < 8000 else json.dumps({**told, 'parts': []}))
";

/// What packages have beside what Python imports, wherever pip was told to put it.
const NOT_IMPORTED: [&str; 6] = ["__pycache__", "bin", "etc", "include", "man", "share"];

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
    packages: BTreeMap<String, Package>,
}

/// A package of a Python of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Package {
    version: String,
    /// Its list of files and their hashes.
    record: PathBuf,
    /// The hash of that list.
    sha256: Digest,
}

impl Adopted {
    /// What tells these packages from others, wherever they are.
    pub(crate) fn digest(&self) -> Digest {
        let each = |(name, package): (&String, &Package)| {
            format!("{name} {} {}\n", package.version, package.sha256)
        };
        let text: String = self.packages.iter().map(each).collect();
        Digest::of_bytes(text.as_bytes())
    }

    /// Which package is no longer what was adopted; `None` where all are.
    pub(crate) fn changed(&self) -> Option<String> {
        let mut packages = self.packages.iter();
        let (name, _) = packages.find(|(name, package)| package.is_changed(name))?;
        Some(format!(
            "{name} of {} is another one than was adopted",
            self.python.display()
        ))
    }
}

impl Package {
    /// Whether its list of files is another one, or a second one lies beside it: that of a package that was
    /// put over it.
    fn is_changed(&self, name: &str) -> bool {
        let hash = complete::hash_file(&self.record, &mut |_| true).ok();
        hash != Some(self.sha256) || records(name, &self.record).len() != 1
    }
}

/// The records of packages of this name beside that of this list of files.
fn records(name: &str, record: &Path) -> Vec<String> {
    let folder = record.parent().and_then(Path::parent);
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let names = entries.into_iter().flatten().filter_map(|entry| {
        let file = entry.ok()?.file_name().into_string().ok()?;
        let (package, _) = file.strip_suffix(".dist-info")?.rsplit_once('-')?;
        (canonical(package) == name).then_some(file)
    });
    names.collect()
}

/// A package's name as indexes compare it (PyPA, "Names and normalization").
fn canonical(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

/// What was found, before anything is linked.
pub(crate) struct Finding {
    pub(crate) adopted: Adopted,
    /// Where packages are not as they are pinned, in words.
    pub(crate) differing: Vec<String>,
    /// What is to be linked, by its name among the packages.
    links: BTreeMap<String, PathBuf>,
}

/// Finds what `python` has of a recipe's packages; `interpreter` is where it is.
///
/// # Errors
/// When the engine itself is missing, of another version or without a list of its files, or where it is not
/// clear which of two packages would be imported.
pub(crate) fn find(
    engine: &str,
    recipe: &Recipe,
    python: &Python,
    interpreter: PathBuf,
    observer: &mut dyn InstallObserver,
) -> Result<Finding, CatalogError> {
    let all = distributions(python, observer)?;
    let refused = |what: String| CatalogError::Adoption {
        engine: engine.to_owned(),
        python: interpreter.clone(),
        what,
    };
    let mut found = Finding {
        adopted: Adopted {
            python: interpreter.clone(),
            packages: BTreeMap::new(),
        },
        differing: Vec::new(),
        links: BTreeMap::new(),
    };
    for (index, pin) in recipe.lock.pins.iter().enumerate() {
        let names: Vec<&str> = recipe.names_of(&pin.name).collect();
        let is_named = |it: &&Distribution| names.contains(&it.name.as_str());
        let candidates: Vec<&Distribution> = all.iter().filter(is_named).collect();
        let chosen = choose(pin, &candidates, index == 0).map_err(&refused)?;
        let Some(chosen) = chosen else {
            found.differing.push(format!("no {}", pin.name));
            continue;
        };
        if chosen.name != pin.name || public(&chosen.version) != public(&pin.version) {
            found.differing.push(format!(
                "{} {} instead of {} {}",
                chosen.name, chosen.version, pin.name, pin.version
            ));
        }
        found.take(chosen).map_err(&refused)?;
    }
    found.take_sharers(&all).map_err(&refused)?;
    Ok(found)
}

/// Which of the packages that will do for a pinned one is taken; `None` where there is none that could be,
/// and it is not the engine itself. Of several the first that is of the pinned version is.
///
/// # Errors
/// What stands against the engine itself; two that have the same files.
fn choose<'a>(
    pin: &crate::lock::Pin,
    candidates: &[&'a Distribution],
    is_engine: bool,
) -> Result<Option<&'a Distribution>, String> {
    let (name, version) = (&pin.name, &pin.version);
    let is_pinned = |it: &&&Distribution| public(&it.version) == public(version);
    let exact = candidates.iter().find(is_pinned).copied();
    let chosen = match (exact, candidates.first()) {
        (Some(exact), _) => exact,
        (None, Some(other)) if !is_engine => other,
        (None, None) if !is_engine => return Ok(None),
        (None, other) => {
            let has = other.map_or_else(
                || String::from("does not have it"),
                |it| format!("has {}", it.version),
            );
            return Err(format!("{name} {version} is needed, and it {has}"));
        }
    };
    let mut others = candidates.iter().filter(|other| other.name != chosen.name);
    let shares = |other: &&&Distribution| {
        let mut parts = other.imported();
        other.folder == chosen.folder && parts.any(|part| chosen.parts.contains(part))
    };
    if let Some(other) = others.find(shares) {
        return Err(format!(
            "{} and {} have the same files in {}: which was installed last cannot be told",
            chosen.name,
            other.name,
            chosen.folder.display()
        ));
    }
    if chosen.record.is_none() {
        let unlisted = format!("{} has no list of its files (RECORD)", chosen.name);
        return if is_engine { Err(unlisted) } else { Ok(None) };
    }
    let holds_code = |part: &&str| !part.ends_with(".pth") && !part.starts_with("__editable__");
    if is_engine && !chosen.imported().any(|part| holds_code(&part)) {
        return Err(format!("{} is installed in editable form", chosen.name));
    }
    Ok(Some(chosen))
}

impl Distribution {
    /// What it has for Python to import, by its name in the folder.
    fn imported(&self) -> impl Iterator<Item = &str> {
        let is_name = |part: &&str| {
            let mut components = Path::new(part).components();
            matches!(components.next(), Some(Component::Normal(_))) && components.next().is_none()
        };
        let parts = self.parts.iter().map(String::as_str).filter(is_name);
        parts.filter(|part| !part.ends_with(".dist-info") && !NOT_IMPORTED.contains(part))
    }
}

impl Finding {
    /// Takes a package: its files are linked, and it is recorded.
    fn take(&mut self, package: &Distribution) -> Result<(), String> {
        self.record(package)?;
        // Who asks for a package's version reads it there.
        let info = package.record.as_deref().and_then(Path::parent);
        let info = info.and_then(Path::to_str);
        for part in package.imported().chain(info) {
            let target = package.folder.join(part);
            match self.links.get(part) {
                Some(other) if *other != target => {
                    let (one, other) = (target.display(), other.display());
                    return Err(format!(
                        "its packages have files of {part} in two places, {other} and {one}"
                    ));
                }
                _ if !target.exists() => continue,
                _ => self.links.insert(part.to_owned(), target),
            };
        }
        Ok(())
    }

    /// Records whoever else has files in what is linked: folders that many packages share, as NVIDIA's do,
    /// come whole.
    fn take_sharers(&mut self, all: &[Distribution]) -> Result<(), String> {
        for other in all {
            let is_linked = |part: &str| self.links.get(part) == Some(&other.folder.join(part));
            if other.imported().any(is_linked) && !self.adopted.packages.contains_key(&other.name) {
                self.record(other)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, package: &Distribution) -> Result<(), String> {
        let name = &package.name;
        let record = package.record.as_ref();
        let record = record.ok_or_else(|| format!("{name} has no list of its files (RECORD)"))?;
        let record = package.folder.join(record);
        let twins = records(name, &record);
        if twins.len() > 1 {
            return Err(format!(
                "{name} is recorded {} times in {} ({}): install it anew there",
                twins.len(),
                package.folder.display(),
                twins.join(", ")
            ));
        }
        let sha256 = complete::hash_file(&record, &mut |_| true)
            .map_err(|error| format!("{} cannot be read: {error}", record.display()))?;
        let version = package.version.clone();
        let package = Package {
            version,
            record,
            sha256,
        };
        self.adopted.packages.insert(name.clone(), package);
        Ok(())
    }

    /// Fills `home` with links to the packages.
    pub(crate) fn link(&self, recipe: &Recipe, home: &Path) -> Result<(), CatalogError> {
        let to = packages(home);
        fs::create_dir_all(&to).map_err(CatalogError::io("make", &to))?;
        for (part, target) in &self.links {
            link(target, &to.join(part), recipe.adds_to(part))?;
        }
        Ok(())
    }
}

/// What `python` would import from.
fn distributions(
    python: &Python,
    observer: &mut dyn InstallObserver,
) -> Result<Vec<Distribution>, CatalogError> {
    let mut answers = Answers {
        observer,
        lines: Vec::new(),
    };
    let mut command = python.command();
    command.args(["-c", PROBE]);
    let program = python.program.display();
    let log = match child::run(&mut command, &mut answers) {
        Err(error) => return Err(CatalogError::io("start", &python.program)(error)),
        Ok(Ended::Interrupted) => return Err(CatalogError::Interrupted),
        Ok(Ended::Exited { status, .. }) if status.success() => None,
        Ok(Ended::Exited { log, .. }) => Some(log),
    };
    if let Some(log) = log {
        let message = format!("{program} could not list its packages: {log}");
        return Err(CatalogError::Python(message));
    }
    let parsed = answers.lines.iter().map(|line| serde_json::from_str(line));
    parsed.collect::<Result<_, _>>().map_err(|error| {
        CatalogError::Python(format!(
            "{program} listed a package that cannot be understood: {error}"
        ))
    })
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
