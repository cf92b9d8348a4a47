//! Packages of earlier launches, in files whose names hold the key and the hash of the content: a
//! file is complete from the first, and two that two launches make do not meet.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use schema::Digest;
use serde::Deserialize;

use super::{Facts, Ready};
use crate::{device::Place, failure::Fault, package::Package};

/// Where packages are kept.
pub(super) struct Shelf(Option<PathBuf>);

/// What a shelf has under a key.
pub(super) enum Found {
    /// A package.
    Ready(Ready),
    /// None.
    Nothing,
    /// One that is not what it says, and in which way. It is gone now.
    Damaged(String),
}

/// Why a package is not read.
pub(super) enum Unread {
    /// It is not what it should be, and in which way.
    Damaged(String),
    /// PyTorch does not load it, whatever it is.
    Fault(Fault),
}

impl Shelf {
    /// The one below the folder that a worker may keep things in; without one, every launch
    /// compiles for itself, as it does where that folder cannot be written to.
    pub(super) fn open(cache: Option<OsString>) -> Self {
        let folder = cache.map(|cache| PathBuf::from(cache).join("aot"));
        Self(folder.filter(|folder| fs::create_dir_all(folder).is_ok()))
    }

    /// What was kept under `key`, loaded.
    ///
    /// # Errors
    /// Why PyTorch does not load a package that is as it was written. It is kept: it may be this
    /// launch that lacks something, memory for example.
    pub(super) fn find(&self, key: &str, place: Place, scratch: &Path) -> Result<Found, Fault> {
        let Some(folder) = &self.0 else {
            return Ok(Found::Nothing);
        };
        let mut found = Found::Nothing;
        for path in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = path.path();
            let Some(content) = content_of(&path, key) else {
                continue;
            };
            let read = whole(&path, content)
                .map_err(Unread::Damaged)
                .and_then(|()| read(&path, key, place, scratch));
            match read {
                Ok(ready) => return Ok(Found::Ready(ready)),
                Err(Unread::Fault(fault)) => return Err(fault),
                Err(Unread::Damaged(how)) => {
                    // Or it would be looked at by every launch.
                    let _ = fs::remove_file(&path);
                    found = Found::Damaged(how);
                }
            }
        }
        Ok(found)
    }

    /// Keeps the package at `made` for later launches: completely, or not at all. Where that fails,
    /// the next launch compiles again.
    pub(super) fn put(&self, made: &Path, key: &str) {
        if let Some(folder) = &self.0 {
            let _ = put(made, folder, key);
        }
    }
}

/// The hash of its content, which the name of a file tells, if the file is kept under `key`.
fn content_of<'a>(path: &'a Path, key: &str) -> Option<&'a str> {
    let name = path.file_name()?.to_str()?.strip_suffix(".pt2")?;
    name.strip_prefix(key)?.strip_prefix('-')
}

/// Whether a file holds what its name tells. PyTorch loads a package without a look at the checksums
/// in it, and runs what is damaged.
fn whole(path: &Path, content: &str) -> Result<(), String> {
    match hash(path) {
        Ok(found) if found.to_string() == content => Ok(()),
        Ok(_) => Err("the package is damaged".to_owned()),
        Err(error) => Err(format!("the package cannot be read: {error}")),
    }
}

fn hash(path: &Path) -> io::Result<Digest> {
    Digest::of_reader(&mut File::open(path)?)
}

fn put(made: &Path, folder: &Path, key: &str) -> io::Result<()> {
    let content = hash(made)?;
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    io::copy(&mut File::open(made)?, &mut fresh)?;
    fresh.as_file().sync_all()?;
    fresh.persist(folder.join(format!("{key}-{content}.pt2")))?;
    Ok(())
}

/// What of a package's metadata is ours.
#[derive(Deserialize)]
struct Metadata {
    /// [`Facts`], as JSON.
    photofinish: String,
}

/// Loads the package at `path`, which must be the one that is called `key`.
///
/// # Errors
/// What is wrong, and with what.
pub(super) fn read(path: &Path, key: &str, place: Place, scratch: &Path) -> Result<Ready, Unread> {
    let package = Package::load(path, place, scratch);
    let package = package.map_err(|error| Unread::Fault(error.into()))?;
    let facts = facts(&package.facts()).map_err(|error| {
        Unread::Damaged(format!("the package does not say what it is: {error}"))
    })?;
    if facts.key != key {
        return Err(Unread::Damaged("the package is another one's".to_owned()));
    }
    Ok(Ready { package, facts })
}

fn facts(metadata: &str) -> serde_json::Result<Facts> {
    let Metadata { photofinish } = serde_json::from_str(metadata)?;
    serde_json::from_str(&photofinish)
}
