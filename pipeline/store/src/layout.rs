//! Where things lie in a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use schema::Digest;

use crate::{StoreError, atomic, stamp::Stamp};

/// Version of the layout.
const FORMAT: u32 = 1;

/// A folder of artifacts, to read from. To write, take its [`lock`](Store::lock).
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// A sealed heat, as its file name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SealedName {
    pub(crate) started: Stamp,
    pub(crate) digest: Digest,
}

impl Store {
    /// The store at this path. Nothing is created: a store that is not there is an empty one.
    ///
    /// # Errors
    /// The path is not a folder, cannot be read, or holds a store of another version.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = path.into();
        match std::fs::metadata(&root) {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(StoreError::NotAFolder { path: root });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(StoreError::NotAFolder { path: root });
            }
            Err(error) => return Err(StoreError::io("open", root)(error)),
        }
        let store = Self { root };
        store.check_format()?;
        Ok(store)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn check_format(&self) -> Result<(), StoreError> {
        let path = self.root.join("format");
        let Some(bytes) = atomic::read(&path, 64)? else {
            return Ok(());
        };
        let found = str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| {
                StoreError::corrupt(
                    &path,
                    "it should hold the number of the store's format; is this folder a store?",
                )
            })?;
        if found == FORMAT {
            Ok(())
        } else {
            Err(StoreError::Version {
                path,
                found,
                expected: FORMAT,
            })
        }
    }

    /// Creates what a writer needs. A version-control system is told to look away.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        for folder in ["heats", "runs", "tables", "site", "aside", "tmp"] {
            atomic::create_folder(&self.root.join(folder))?;
        }
        for (name, content) in [
            ("format", format!("{FORMAT}\n")),
            (".gitignore", "*\n".to_owned()),
        ] {
            let path = self.root.join(name);
            if !path.exists() {
                atomic::write(&self.tmp(), &path, content.as_bytes())?;
            }
        }
        Ok(())
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn heats(&self) -> PathBuf {
        self.root.join("heats")
    }

    pub(crate) fn heat_folder(&self, key: &Digest) -> PathBuf {
        self.heats().join(key.to_string())
    }

    pub(crate) fn key_file(&self, key: &Digest) -> PathBuf {
        self.heat_folder(key).join("key.json")
    }

    pub(crate) fn journal_folder(&self, key: &Digest) -> PathBuf {
        self.heat_folder(key).join("open")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    pub(crate) fn sealed_file(&self, key: &Digest, name: &SealedName) -> PathBuf {
        self.heat_folder(key).join(name.file_name())
    }

    /// The sealed heats of a key, oldest first.
    pub(crate) fn sealed(&self, key: &Digest) -> Result<Vec<SealedName>, StoreError> {
        let names = atomic::list(&self.heat_folder(key))?;
        let mut sealed: Vec<_> = names
            .iter()
            .filter_map(|name| SealedName::parse(name))
            .collect();
        sealed.sort_unstable();
        Ok(sealed)
    }

    /// The keys that have a folder.
    pub(crate) fn keys(&self) -> Result<Vec<Digest>, StoreError> {
        let names = atomic::list(&self.heats())?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }
}

impl SealedName {
    const SUFFIX: &str = ".heat.zst";

    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}{}", self.started, self.digest, Self::SUFFIX)
    }

    fn parse(name: &str) -> Option<Self> {
        let (started, digest) = name.strip_suffix(Self::SUFFIX)?.split_once('-')?;
        Some(Self {
            started: started.parse().ok()?,
            digest: digest.parse().ok()?,
        })
    }
}
