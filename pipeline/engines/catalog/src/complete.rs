//! The record that an installation is complete, and the checks against it.
//!
//! Two files: `complete.json` is small, written last, and enough for the quick check that every
//! run makes; `files.json` lists every file with its size and hash.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use schema::Digest;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use crate::{CatalogError, adopt::Adopted, settings::is_program};

const VERSION: u32 = 1;
const COMPLETE: &str = "complete.json";
const FILES: &str = "files.json";

/// Files from this size on are in the quick check: the shared libraries.
const LARGE_BYTES: u64 = 1 << 20;

/// What `complete.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Complete {
    version: u32,
    /// The engine.
    engine: String,
    /// Hash of the lock file that it was installed from.
    lock: Digest,
    /// The Python whose wheels were taken, for example `cp312`.
    python: String,
    /// Where that Python is, where it runs the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interpreter: Option<PathBuf>,
    /// The Python whose packages it links to, where it has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adopted: Option<Adopted>,
    /// Size of all files together.
    bytes: u64,
    /// Hash of `files.json`.
    listing: Digest,
    /// Sizes of the large files.
    large: BTreeMap<String, u64>,
    /// Links, with what they point at.
    links: BTreeMap<String, String>,
}

/// A line of `files.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    bytes: u64,
    sha256: Digest,
}

type Listing = BTreeMap<String, Entry>;

/// How thoroughly an installation is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// The record, the links, and the sizes of the large files.
    Quick,
    /// The size of every file.
    Sizes,
    /// The hash of every file.
    Hashes,
}

/// What a look at an installation found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Whole,
    Broken(String),
}

/// What an installation must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Hash of the lock file.
    pub(crate) lock: Digest,
    /// The Python that it must be made for, where it stands on what is made for that.
    pub(crate) python: Option<&'a Path>,
}

/// Called with the number of bytes just read; answers whether to go on.
pub(crate) type Progress<'a> = dyn FnMut(u64) -> bool + 'a;

/// Looks at the installation in `home`.
///
/// # Errors
/// Only when `progress` said to stop.
pub(crate) fn look(
    home: &Path,
    wanted: Wanted<'_>,
    depth: Depth,
    progress: &mut Progress<'_>,
) -> Result<Found, CatalogError> {
    if fs::symlink_metadata(home).is_err() {
        return Ok(Found::Nothing);
    }
    match check(home, wanted, depth, progress) {
        Ok(()) => Ok(Found::Whole),
        Err(Flaw::Interrupted) => Err(CatalogError::Interrupted),
        Err(Flaw::What(what)) => Ok(Found::Broken(what)),
    }
}

/// Size of all files of the installation in `home`, as its record says; 0 without a record.
pub(crate) fn total_bytes(home: &Path) -> u64 {
    read::<Complete>(&home.join(COMPLETE)).map_or(0, |(complete, _)| complete.bytes)
}

/// The Python that runs the worker of the installation in `home`, where its record names one.
pub(crate) fn interpreter(home: &Path) -> Option<PathBuf> {
    let (complete, _) = read::<Complete>(&home.join(COMPLETE)).ok()?;
    complete.interpreter
}

/// What the installation in `home` links to, where it has no packages of its own.
pub(crate) fn adopted(home: &Path) -> Option<Adopted> {
    let (complete, _) = read::<Complete>(&home.join(COMPLETE)).ok()?;
    complete.adopted
}

/// Why an installation did not pass.
enum Flaw {
    What(String),
    Interrupted,
}

fn check(
    home: &Path,
    wanted: Wanted<'_>,
    depth: Depth,
    progress: &mut Progress<'_>,
) -> Result<(), Flaw> {
    let flaw = |what: String| Flaw::What(what);
    let (complete, _) = read::<Complete>(&home.join(COMPLETE)).map_err(flaw)?;
    if complete.version != VERSION || complete.lock != wanted.lock {
        return Err(flaw(format!("{COMPLETE} speaks of another installation")));
    }
    let interpreter = complete.interpreter.as_ref();
    if let Some(python) = interpreter.filter(|python| !is_program(python)) {
        return Err(flaw(format!("its Python, {}, is gone", python.display())));
    }
    if let Some(python) = wanted
        .python
        .filter(|&it| interpreter.is_none_or(|own| own != it))
    {
        return Err(flaw(format!(
            "what it stands on runs on {}, and it was made for another Python",
            python.display()
        )));
    }
    if let Some(changed) = complete.adopted.as_ref().and_then(Adopted::changed) {
        return Err(flaw(changed));
    }
    for link in complete.links.keys() {
        if !home.join(link).exists() {
            return Err(flaw(format!("{link} is missing")));
        }
    }
    for (name, bytes) in &complete.large {
        size(home, name, *bytes)?;
    }
    if depth == Depth::Quick {
        return Ok(());
    }
    let (listing, digest) = read::<Listing>(&home.join(FILES)).map_err(flaw)?;
    if digest != complete.listing {
        return Err(flaw(format!("{FILES} was changed")));
    }
    for (name, entry) in &listing {
        size(home, name, entry.bytes)?;
    }
    if depth == Depth::Sizes {
        return Ok(());
    }
    for (name, entry) in &listing {
        match hash_file(&home.join(name), progress) {
            Ok(hash) if hash == entry.sha256 => {}
            Ok(_) => return Err(flaw(format!("the content of {name} was changed"))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(Flaw::Interrupted);
            }
            Err(error) => return Err(flaw(format!("{name} cannot be read: {error}"))),
        }
    }
    Ok(())
}

/// Whether a file is there, and of this size.
fn size(home: &Path, name: &str, bytes: u64) -> Result<(), Flaw> {
    match fs::symlink_metadata(home.join(name)) {
        Ok(meta) if meta.is_file() && meta.len() == bytes => Ok(()),
        Ok(meta) if meta.is_file() => Err(Flaw::What(format!(
            "{name} holds {} bytes instead of {bytes}",
            meta.len()
        ))),
        Ok(_) => Err(Flaw::What(format!("{name} is no file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Flaw::What(format!("{name} is missing")))
        }
        Err(error) => Err(Flaw::What(format!("{name} cannot be read: {error}"))),
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<(T, Digest), String> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{name} is missing"),
        _ => format!("{name} cannot be read: {error}"),
    })?;
    let value = serde_json::from_slice(&bytes).map_err(|error| format!("{name}: {error}"))?;
    Ok((value, Digest::of_bytes(&bytes)))
}

/// What the record of an installation says of where it came from.
pub(crate) struct Installed<'a> {
    /// What is installed.
    pub(crate) engine: &'a str,
    /// Hash of the lock file.
    pub(crate) lock: Digest,
    /// The tag of the Python whose wheels were taken.
    pub(crate) python: &'a str,
    /// That Python, where it runs the worker.
    pub(crate) interpreter: Option<PathBuf>,
    /// What it links to, where it has no packages of its own.
    pub(crate) adopted: Option<Adopted>,
}

/// Lists every file in `home` and writes the record that it is complete. Everything is on the
/// disk when this returns.
pub(crate) fn seal(
    home: &Path,
    installed: Installed<'_>,
    progress: &mut Progress<'_>,
) -> Result<(), CatalogError> {
    let (listing, links) = list(home, progress)?;
    let listing_digest = write(home, FILES, &listing)?;
    let large = |(name, entry): (&String, &Entry)| {
        (entry.bytes >= LARGE_BYTES).then(|| (name.clone(), entry.bytes))
    };
    let complete = Complete {
        version: VERSION,
        engine: installed.engine.to_owned(),
        lock: installed.lock,
        python: installed.python.to_owned(),
        interpreter: installed.interpreter,
        adopted: installed.adopted,
        bytes: listing.values().map(|entry| entry.bytes).sum(),
        listing: listing_digest,
        large: listing.iter().filter_map(large).collect(),
        links,
    };
    write(home, COMPLETE, &complete)?;
    // One flush of the file system is seconds cheaper than one for each of 12,000 files.
    let folder = File::open(home).map_err(CatalogError::io("open", home))?;
    nix::unistd::syncfs(&folder)
        .map_err(|errno| CatalogError::io("flush", home)(io::Error::from(errno)))
}

fn list(
    home: &Path,
    progress: &mut Progress<'_>,
) -> Result<(Listing, BTreeMap<String, String>), CatalogError> {
    let mut listing = Listing::new();
    let mut links = BTreeMap::new();
    for entry in WalkDir::new(home).min_depth(1) {
        let entry = entry.map_err(|error| CatalogError::io("list", home)(error.into()))?;
        let path = entry.path();
        let utf8 = |text: &Path| {
            text.to_str().map(str::to_owned).ok_or_else(|| {
                CatalogError::io("list", path)(io::Error::other("its name is not UTF-8"))
            })
        };
        let name = utf8(path.strip_prefix(home).unwrap_or(path))?;
        if entry.path_is_symlink() {
            let target = fs::read_link(path).map_err(CatalogError::io("read", path))?;
            links.insert(name, utf8(&target)?);
        } else if entry.file_type().is_file() {
            let sha256 = hash_file(path, progress).map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => CatalogError::Interrupted,
                _ => CatalogError::io("read", path)(error),
            })?;
            let bytes = entry
                .metadata()
                .map_err(|e| CatalogError::io("read", path)(e.into()))?
                .len();
            listing.insert(name, Entry { bytes, sha256 });
        }
    }
    Ok((listing, links))
}

/// Writes a JSON file whose content is on the disk before its name is.
fn write<T: Serialize>(home: &Path, name: &str, value: &T) -> Result<Digest, CatalogError> {
    let path = home.join(name);
    let failed = |error: io::Error| CatalogError::io("write", &path)(error);
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| failed(error.into()))?;
    bytes.push(b'\n');
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(home)
        .map_err(failed)?;
    file.write_all(&bytes).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(Digest::of_bytes(&bytes))
}

/// The SHA-256 of a file. An [`io::ErrorKind::Interrupted`] means that `progress` said to stop.
pub(crate) fn hash_file(path: &Path, progress: &mut Progress<'_>) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(buffer.get(..count).unwrap_or_default());
        if !progress(count as u64) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    let mut hex = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex.parse().map_err(io::Error::other)
}
