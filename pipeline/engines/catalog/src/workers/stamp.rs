//! Whether a worker is up to date, told without starting cargo.
//!
//! A worker holds the digest of its sources and, when it is linked against an installation, that
//! installation's path. Searching a large program for both takes a while, so a stamp beside it
//! remembers that they were found.

use std::{
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use memchr::memmem;
use schema::Digest;
use serde::{Deserialize, Serialize};

use crate::{CatalogError, Kit, kit::BuiltIn, place::packages};

/// What a worker must be.
pub(super) struct Wanted {
    engine: String,
    /// Digest of its sources.
    worker: Digest,
    /// The installation that it uses.
    home: Option<PathBuf>,
    /// The folder that it is linked against, where it is.
    linked: Option<PathBuf>,
}

/// The file beside a worker.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    worker: Digest,
    home: Option<PathBuf>,
    /// The program's size and time, so that another build is noticed.
    bytes: u64,
    modified_ns: u64,
}

impl Wanted {
    pub(super) fn of(kit: &Kit, built_in: &BuiltIn, home: Option<PathBuf>) -> Self {
        let folder = built_in.library_path.first();
        // A worker's build script names the real folder, links resolved.
        let linked = home
            .as_ref()
            .zip(folder)
            .map(|(home, folder)| packages(home).join(folder))
            .map(|folder| folder.canonicalize().unwrap_or(folder));
        Self {
            engine: kit.label(),
            worker: kit.worker(),
            home,
            linked,
        }
    }

    /// Whether a program is there and is what is wanted.
    pub(super) fn is_met_by(&self, program: &Path) -> bool {
        let Some(stamp) = self.stamp(program) else {
            return false;
        };
        let read = || fs::read(stamp_path(program)).ok();
        if read().and_then(|bytes| serde_json::from_slice(&bytes).ok()) == Some(stamp) {
            return true;
        }
        let built = holds(program, self.worker.to_string().as_bytes())
            && !self.is_linked_elsewhere(program);
        // Without a stamp the next look takes longer, and comes to the same.
        built && self.write_stamp(program).is_ok()
    }

    /// Whether a program is there, but linked against another installation.
    pub(super) fn is_linked_elsewhere(&self, program: &Path) -> bool {
        let linked = self.linked.as_ref();
        linked.is_some_and(|to| program.exists() && !holds(program, to.as_os_str().as_bytes()))
    }

    /// Stamps a program that cargo just built, if it was built from the sources that we know.
    pub(super) fn accept(&self, program: &Path) -> Result<(), CatalogError> {
        if !program.exists() {
            return Err(CatalogError::NoWorker(format!(
                "cargo built no {}: is `binary` in engine.toml right?",
                program.display()
            )));
        }
        if !holds(program, self.worker.to_string().as_bytes()) {
            return Err(CatalogError::NoWorker(format!(
                "the worker of engine `{}` is built from other sources, or by another compiler, \
                 than photofinish itself: build photofinish again, then its workers",
                self.engine
            )));
        }
        self.write_stamp(program)
    }

    /// The stamp that a program should have; `None` without a program.
    fn stamp(&self, program: &Path) -> Option<Stamp> {
        let meta = fs::metadata(program).ok()?;
        let since_epoch = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Stamp {
            worker: self.worker,
            home: self.home.clone(),
            bytes: meta.len(),
            modified_ns: u64::try_from(since_epoch.as_nanos()).ok()?,
        })
    }

    fn write_stamp(&self, program: &Path) -> Result<(), CatalogError> {
        let path = stamp_path(program);
        let bytes = serde_json::to_vec(&self.stamp(program))
            .map_err(|error| CatalogError::io("write", &path)(error.into()))?;
        fs::write(&path, bytes).map_err(CatalogError::io("write", path))
    }
}

fn stamp_path(program: &Path) -> PathBuf {
    program.with_extension("stamp.json")
}

/// Whether a file holds these bytes somewhere.
fn holds(file: &Path, needle: &[u8]) -> bool {
    fs::read(file).is_ok_and(|bytes| memmem::find(&bytes, needle).is_some())
}
