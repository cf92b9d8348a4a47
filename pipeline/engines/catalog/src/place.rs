//! Where the parts of an installation are.

use std::path::{Path, PathBuf};

use crate::{Kit, Settings, lock::Lock};

/// The installed packages, below an installation.
pub(crate) const PACKAGES: &str = "site-packages";

/// The paths of one kit's installation.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder of all engines.
    pub(crate) root: PathBuf,
    /// `<engine>-<lock hash>`.
    pub(crate) name: String,
}

impl Place {
    pub(crate) fn of(kit: &Kit, lock: &Lock, settings: &Settings) -> Self {
        Self {
            root: settings.engines.clone(),
            name: format!("{}-{}", kit.name(), lock.digest.short()),
        }
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

/// The packages below an installation, finished or not.
pub(crate) fn packages(home: &Path) -> PathBuf {
    home.join(PACKAGES)
}
