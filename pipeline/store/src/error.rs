//! What can go wrong with a store, said so that the reader knows what to do.

use std::{io, path::PathBuf};

use crate::lock::Holder;

/// Why a store could not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {action} `{}`: {}", path.display(), explain(action, cause))]
    Io {
        /// What was tried, a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The path of the store is something else.
    #[error(
        "`{}` is not a folder, so it cannot be a store: move it away, or name another place with --store",
        path.display()
    )]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder holds somebody's files and no store.
    #[error(
        "`{}` is not empty and is no photofinish store: name another folder with --store",
        path.display()
    )]
    NotAStore {
        /// The folder.
        path: PathBuf,
    },
    /// Something that the store did not make lies where it keeps one of its own.
    #[error("`{}` {reason}", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
        /// What it is, and what to do about it.
        reason: String,
    },
    /// A file was to be written into a folder that is not there.
    #[error("folder `{}` does not exist", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Somebody else writes.
    #[error(
        "store `{}` is being written by {holder}: wait for it to end, or name another store with --store",
        path.display()
    )]
    Locked {
        /// The store.
        path: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// An artifact is not what was written.
    #[error(
        "{0}; `photofinish bench` measures it anew, or open the bundle that it came from once more"
    )]
    Corrupt(Corrupt),
    /// An artifact of another version of photofinish.
    #[error(
        "`{}` has format version {found}, this photofinish reads version {expected}: use the photofinish that wrote it, or another store",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that can be read.
        expected: u32,
    },
    /// There is no such artifact.
    #[error("no {what} in store `{}`", store.display())]
    Missing {
        /// What was looked for.
        what: String,
        /// Where.
        store: PathBuf,
    },
    /// What was to be written breaks a rule of the format: a bug of the caller.
    #[error("refused to write {what}: {reason}")]
    Invalid {
        /// What.
        what: String,
        /// Which rule.
        reason: String,
    },
    /// The file is something else.
    #[error("`{}` is no photofinish bundle", path.display())]
    NotABundle {
        /// The file.
        path: PathBuf,
    },
    /// A bundle cannot be written where it was to go.
    #[error("cannot write bundle `{}`: {cause}; free some space or name another place", path.display())]
    Unwritten {
        /// The bundle.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Whoever asked for it wants it no more; nothing was changed.
    #[error("interrupted")]
    Interrupted,
    /// A bundle cannot be trusted or read.
    #[error("bundle `{}`: {reason}", path.display())]
    Bundle {
        /// The bundle.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// An artifact that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is corrupt: {reason}", path.display())]
pub struct Corrupt {
    /// Where it lies.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl StoreError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io {
            action,
            path,
            cause,
        }
    }

    /// What could not be done in order to change `path`, by way of a temporary file or folder,
    /// whose name would tell nobody anything.
    pub(crate) fn temporary(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let failed = Self::io(action, path);
        move |cause| failed(cause.kind().into())
    }

    pub(crate) fn corrupt(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::Corrupt(Corrupt {
            path: path.into(),
            reason: reason.into(),
        })
    }

    /// The corrupt artifact, where that is what is wrong.
    #[must_use]
    pub fn as_corrupt(&self) -> Option<&Corrupt> {
        match self {
            Self::Corrupt(corrupt) => Some(corrupt),
            _ => None,
        }
    }
}

/// Begins what is done in order to read.
const READING: [&str; 4] = ["open", "read", "list", "look at"];

fn explain(action: &str, cause: &io::Error) -> String {
    let advice = match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space (`photofinish store gc` helps) and run the same command again"
        }
        io::ErrorKind::PermissionDenied if READING.contains(&action) => {
            "; make the store readable, or name another with --store"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; make the store writable, or name another with --store"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "; something else lies where the store keeps its files: move it away"
        }
        _ => "",
    };
    format!("{cause}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_is_not_told_to_write() {
        let refused = |action| {
            let cause = io::Error::from(io::ErrorKind::PermissionDenied);
            StoreError::io(action, "store/format")(cause).to_string()
        };
        for action in READING {
            assert!(refused(action).contains("make the store readable"));
        }
        for action in ["write", "create", "lock", "move"] {
            assert!(refused(action).contains("make the store writable"));
        }
    }
}
