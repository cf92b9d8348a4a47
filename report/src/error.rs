//! What can go wrong between tables and site.

use std::{io, path::PathBuf};

/// Why no site was rendered. The folder is left as it was, or can be rendered into again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The tables contradict themselves, or name something that cannot be a file.
    #[error(
        "the tables cannot be shown: {0}; aggregate them again, or ask whoever made the bundle"
    )]
    Tables(String),
    /// The folder holds something else.
    #[error(
        "`{}` is not empty and was not made by photofinish: choose another folder, or empty it",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// Something stands where a folder or a file of the site belongs.
    #[error("`{}` is {what}: remove it, or choose another folder", .path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
        /// What was found.
        what: &'static str,
    },
    /// Another rendering holds the folder, for too long to wait for it.
    #[error(
        "another photofinish has been rendering into `{}` for long: wait for it, or choose another folder",
        .0.display()
    )]
    Busy(PathBuf),
    /// The file system refused.
    #[error("failed to {action} `{}`: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Whoever asked for the site wants it no more; the folder is as it was.
    #[error("interrupted")]
    Interrupted,
    /// A template does not fit what it is given: a bug of ours.
    #[error("failed to render {page}: {message} (this is a bug in photofinish, please report it)")]
    Template {
        /// The page.
        page: String,
        /// What minijinja said.
        message: String,
    },
    /// ECharts could not draw: a bug of ours.
    #[error("failed to draw a chart: {0} (this is a bug in photofinish, please report it)")]
    Chart(String),
}

impl ReportError {
    /// What could not be done by way of a temporary file or folder, whose name would tell nobody
    /// anything.
    pub(crate) fn temporary(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let failed = Self::io(action, path);
        move |source| failed(source.kind().into())
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
