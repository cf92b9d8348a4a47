//! Where things lie in a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use schema::Digest;

use crate::{StoreError, atomic, stamp::Stamp};

/// Version of the layout.
const FORMAT: u32 = 1;

/// Tells that a folder is a store, and of which version. It is written before anything else.
const FORMAT_FILE: &str = "format";

/// Begins the name of the format while it is written.
const FORMAT_PREFIX: &str = ".format-";

/// Held by the writer.
pub(crate) const LOCK_FILE: &str = "lock";

/// What a store keeps things in.
const FOLDERS: [&str; 6] = ["heats", "runs", "tables", "site", "aside", "tmp"];

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
    pub(crate) origin: Origin,
}

/// Where a heat came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// It was measured into this store.
    Here,
    /// It was, and so disturbed that it tells nothing. It is there for its run, and answers no plan: the
    /// next run measures it again.
    Disturbed,
    /// A bundle brought it. It is there for the bundle's run, and answers no plan of this machine's:
    /// a key tells machines of a kind apart no further than their make.
    Bundle,
}

impl Store {
    /// The store at this path. Nothing is created: a store that is not there is an empty one.
    ///
    /// # Errors
    /// The path is not a folder, cannot be read, holds a store of another version, or holds files
    /// and no store.
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
        store.check()?;
        Ok(store)
    }

    /// A store of its own for as long as the folder that comes with it is kept.
    ///
    /// # Errors
    /// The system's folder for temporary files cannot be written.
    pub fn temporary() -> Result<(Self, tempfile::TempDir), StoreError> {
        let folder = tempfile::Builder::new()
            .prefix("photofinish-")
            .tempdir()
            .map_err(StoreError::temporary(
                "create a folder in",
                std::env::temp_dir(),
            ))?;
        Ok((Self::open(folder.path())?, folder))
    }

    /// Makes sure that there is a store: [`lock`](Store::lock) would make one.
    ///
    /// # Errors
    /// [`StoreError::Missing`] where nothing was ever written; or it cannot be read.
    pub fn require(&self) -> Result<(), StoreError> {
        if self.check_format()? {
            return Ok(());
        }
        Err(StoreError::Missing {
            what: "artifacts".to_owned(),
            store: self.root.clone(),
        })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Refuses a folder that is not ours to write to.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        // The format once more: another process may have made the store between the two looks.
        if !self.check_format()? && !self.is_unused()? && !self.check_format()? {
            let path = self.root.clone();
            return Err(StoreError::NotAStore { path });
        }
        for folder in FOLDERS {
            let path = self.root.join(folder);
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) if !metadata.is_dir() => {
                    let what = atomic::describe(metadata.file_type());
                    let reason = format!(
                        "is {what}, where the store keeps a folder: move it away, or name another store with --store"
                    );
                    return Err(StoreError::InTheWay { path, reason });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("look at", path)(error)),
            }
        }
        Ok(())
    }

    /// Whether there is a store; one that cannot be used is an error.
    fn check_format(&self) -> Result<bool, StoreError> {
        let path = self.root.join(FORMAT_FILE);
        let in_the_way = |reason: &str| StoreError::InTheWay {
            path: path.clone(),
            reason: format!(
                "{reason}: if this folder is a store, move that away and write `{FORMAT}` into a file of this name; if not, name another folder with --store"
            ),
        };
        let bytes = match atomic::read(&path, 64) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(false),
            Err(StoreError::Corrupt(corrupt)) => {
                let reason = format!("is no number of a format ({})", corrupt.reason);
                return Err(in_the_way(&reason));
            }
            Err(error) => return Err(error),
        };
        let found = str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| in_the_way("does not hold the number of the store's format"))?;
        if found == FORMAT {
            Ok(true)
        } else {
            Err(StoreError::Version {
                path,
                found,
                expected: FORMAT,
            })
        }
    }

    /// Whether the folder is empty, but for what a writer leaves that was killed before it wrote
    /// the format. A folder that is not there is unused too.
    fn is_unused(&self) -> Result<bool, StoreError> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(StoreError::io("list", &self.root)(error)),
        };
        for entry in entries {
            let name = entry
                .map_err(StoreError::io("list", &self.root))?
                .file_name();
            let ours = name == LOCK_FILE
                || name
                    .as_encoded_bytes()
                    .starts_with(FORMAT_PREFIX.as_bytes());
            if !ours {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Creates what a writer needs, the format first: whatever else is here, a store has that.
    /// A version-control system is told to look away.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        let format = self.root.join(FORMAT_FILE);
        if !self.check_format()? {
            for name in atomic::list(&self.root)? {
                if name.starts_with(FORMAT_PREFIX) {
                    atomic::remove(&self.root.join(name))?;
                }
            }
            let content = format!("{FORMAT}\n");
            atomic::write_by_way_of(&self.root, FORMAT_PREFIX, &format, content.as_bytes())?;
        }
        for folder in FOLDERS {
            atomic::create_folder(&self.root.join(folder))?;
        }
        let ignore = self.root.join(".gitignore");
        if std::fs::symlink_metadata(&ignore).is_err() {
            atomic::write(&self.tmp(), &ignore, b"*\n")?;
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

    pub(crate) fn aside(&self) -> PathBuf {
        self.root.join("aside")
    }

    pub(crate) fn sealed_file(&self, key: &Digest, name: &SealedName) -> PathBuf {
        self.heat_folder(key).join(name.file_name())
    }

    /// The sealed heats of a key, oldest first.
    pub(crate) fn sealed(&self, key: &Digest) -> Result<Vec<SealedName>, StoreError> {
        let names = atomic::list_own(&self.heat_folder(key))?;
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

    /// Stands behind the hash of a heat that a bundle brought.
    const OPENED: &str = ".opened";

    /// Stands behind the hash of one that was disturbed.
    const DISTURBED: &str = ".disturbed";

    pub(crate) fn file_name(&self) -> String {
        let origin = match self.origin {
            Origin::Here => "",
            Origin::Disturbed => Self::DISTURBED,
            Origin::Bundle => Self::OPENED,
        };
        format!("{}-{}{origin}{}", self.started, self.digest, Self::SUFFIX)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (started, rest) = name.strip_suffix(Self::SUFFIX)?.split_once('-')?;
        let marks = [
            (Self::OPENED, Origin::Bundle),
            (Self::DISTURBED, Origin::Disturbed),
        ];
        let marked = marks
            .into_iter()
            .find_map(|(mark, origin)| Some((rest.strip_suffix(mark)?, origin)));
        let (digest, origin) = marked.unwrap_or((rest, Origin::Here));
        Some(Self {
            started: started.parse().ok()?,
            digest: digest.parse().ok()?,
            origin,
        })
    }

    pub(crate) const fn is_own(&self) -> bool {
        matches!(self.origin, Origin::Here)
    }
}
