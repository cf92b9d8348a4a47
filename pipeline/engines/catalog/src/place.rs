//! Where the parts of an installation are.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use schema::Digest;

use crate::{CatalogError, Kit, Settings, lock::Lock};

/// The installed packages, below an installation.
pub(crate) const PACKAGES: &str = "site-packages";

/// The paths of one kit's installation.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder of all engines.
    pub(crate) root: PathBuf,
    /// `<engine>-<lock hash>`, and the hash of what is adopted behind it.
    pub(crate) name: String,
    /// Whether packages of the user's are in the place of those that are pinned.
    pub(crate) is_adopted: bool,
}

impl Place {
    /// Of what is in use: what is pinned, unless packages of the user's are in its place.
    pub(crate) fn of(kit: &Kit, lock: &Lock, settings: &Settings) -> Self {
        let pinned = Self::pinned(kit, lock, settings);
        let chosen = fs::read_link(pinned.choice()).ok();
        let name = chosen.as_deref().and_then(file_name).map(str::to_owned);
        match name {
            Some(name) => Self {
                name,
                is_adopted: true,
                ..pinned
            },
            None => pinned,
        }
    }

    /// Of what is pinned, whether or not it is in use.
    pub(crate) fn pinned(kit: &Kit, lock: &Lock, settings: &Settings) -> Self {
        Self {
            root: settings.engines.clone(),
            name: format!("{}-{}", kit.name(), lock.digest.short()),
            is_adopted: false,
        }
    }

    /// Of packages of the user's that may be in the place of what is pinned, by the hash of what they are
    /// and where. They have a place of their own: nothing that was made for others is taken for theirs.
    pub(crate) fn adopted(&self, what: &Digest) -> Self {
        Self {
            name: format!("{}-{}", self.name, what.short()),
            is_adopted: true,
            ..self.clone()
        }
    }

    /// Puts these packages of the user's in the place of what is pinned, or puts that back.
    pub(crate) fn choose(&self, adopted: Option<&Self>) -> Result<(), CatalogError> {
        let choice = self.choice();
        let failed = |error: io::Error| CatalogError::io("write", &choice)(error);
        let Some(adopted) = adopted else {
            return match fs::remove_file(&choice) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        };
        // Renaming a link over another replaces it at once.
        let fresh = tempfile::tempdir_in(self.staging()).map_err(failed)?;
        let link = fresh.path().join("link");
        symlink(&adopted.name, &link).map_err(failed)?;
        fs::rename(&link, &choice).map_err(failed)
    }

    /// A link that says what is in the place of what is pinned.
    fn choice(&self) -> PathBuf {
        self.root.join(format!("{}.adopted", self.name))
    }

    /// The finished installation.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Held by who installs this kit; names them.
    pub(crate) fn guard(&self) -> PathBuf {
        self.root.join(format!("{}.lock", self.name))
    }

    /// What the kit's worker may keep from one launch to the next.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root.join("cache").join(&self.name)
    }

    /// Where unfinished installations are.
    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    /// Where finished downloads are.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }

    /// The packages of the finished installation.
    pub(crate) fn packages(&self) -> PathBuf {
        packages(&self.home())
    }
}

/// The name of a file or folder, where a path is no more than that.
fn file_name(path: &Path) -> Option<&str> {
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
}

/// The packages below an installation, finished or not.
pub(crate) fn packages(home: &Path) -> PathBuf {
    home.join(PACKAGES)
}
