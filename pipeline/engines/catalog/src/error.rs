//! What can go wrong with engines, in words that say what to do next.

use std::{io, ops::Range, path::PathBuf};

use crate::excerpt;

/// Why an engine could not be described, installed or built.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file of the user's cannot be understood.
    #[error("{}:{line}:{column}: {message}{excerpt}", file.display())]
    Settings {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong with it.
        message: String,
        /// The line with a caret, after a line break; or nothing.
        excerpt: String,
    },
    /// A file that ships with photofinish is wrong: a mistake of the programmers'.
    #[error(
        "the built-in engine in `{folder}` is described wrongly: {message}; please report this"
    )]
    BuiltIn {
        /// The engine's folder.
        folder: String,
        /// What is wrong with it.
        message: String,
    },
    /// No such engine.
    #[error("unknown engine `{name}`; known engines: {known}")]
    UnknownEngine {
        /// The name that was given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The engine has no such variant.
    #[error("engine `{engine}` has no variant `{variant}`; its variants: {known}")]
    UnknownVariant {
        /// The engine.
        engine: String,
        /// The variant that was given.
        variant: String,
        /// The variants there are.
        known: String,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, for example `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of the user's cannot be read.
    #[error(
        "cannot read {}: {reason}; mend it, or name another folder with PHOTOFINISH_CONFIG",
        file.display()
    )]
    UserFile {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The folder that the user named is not there.
    #[error(
        "PHOTOFINISH_CONFIG names {}, which is no folder: make it, or unset the variable",
        folder.display()
    )]
    NoConfigFolder {
        /// What was named.
        folder: PathBuf,
    },
    /// No place for the cache can be told.
    #[error("no place for engines is known: set PHOTOFINISH_ENGINES to a folder, or HOME")]
    NoHome,
    /// The wheels do not run here.
    #[error("engine `{engine}` is installed from wheels for x86-64 Linux, and this is {platform}")]
    Platform {
        /// The engine.
        engine: String,
        /// This machine.
        platform: String,
    },
    /// No Python that could run pip.
    #[error("{0}")]
    Python(String),
    /// The disk is too full.
    #[error(
        "engine `{engine}` needs {} on the disk of {}, and {} are free: free some, or choose \
         another place with PHOTOFINISH_ENGINES",
        crate::observe::megabytes(*needed_bytes), path.display(), crate::observe::megabytes(*free_bytes)
    )]
    DiskFull {
        /// The engine.
        engine: String,
        /// The folder that would hold it.
        path: PathBuf,
        /// What download and unpacking need together.
        needed_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// Pip failed.
    #[error("pip could not {step} for engine `{engine}`: {hint}\n{log}")]
    Pip {
        /// The engine.
        engine: String,
        /// What it was to do, for example `download torch 2.11.0`.
        step: String,
        /// What to do about it.
        hint: String,
        /// The end of what pip wrote.
        log: String,
    },
    /// The connection was cut in the middle of a wheel, again and again.
    #[error(
        "the download of {file} for engine `{engine}` was cut off {attempts} times, at last after \
         {} of {}: check the network, and run the same command again; wheels that are whole are \
         kept",
        crate::observe::megabytes(*arrived_bytes), crate::observe::megabytes(*total_bytes)
    )]
    CutOff {
        /// The engine.
        engine: String,
        /// The wheel's file name.
        file: String,
        /// How often it was tried.
        attempts: u32,
        /// What had arrived, in bytes.
        arrived_bytes: u64,
        /// Its size, in bytes.
        total_bytes: u64,
    },
    /// A wheel is not the one that the lock file names.
    #[error(
        "{file} is not the wheel that the lock file of engine `{engine}` names ({found}): it was \
         not installed; check the package index that it came from"
    )]
    WrongWheel {
        /// The engine.
        engine: String,
        /// The wheel's file name.
        file: String,
        /// How it differs.
        found: String,
    },
    /// What pip unpacked lacks a file that the engine's description names.
    #[error("engine `{engine}` unpacked without {missing}, which its engine.toml names")]
    Incomplete {
        /// The engine.
        engine: String,
        /// The missing path below the installation.
        missing: String,
    },
    /// A Python of the user's does not have what an engine needs.
    #[error(
        "engine `{engine}` cannot be made of what {} has: {what}; install it there, or run `photofinish \
         engines install`, which downloads what is pinned",
        python.display()
    )]
    Adoption {
        /// The engine.
        engine: String,
        /// Whose packages were to be adopted.
        python: PathBuf,
        /// What stands against it.
        what: String,
    },
    /// Packages of the user's that an engine is made of are no longer what they were.
    #[error(
        "engine `{engine}` is made of packages of yours that have changed ({what}): run `photofinish \
         engines install --from PYTHON` to adopt them as they are, or with --pinned to download what is \
         pinned"
    )]
    AdoptedChanged {
        /// The engine.
        engine: String,
        /// How they have changed.
        what: String,
    },
    /// Cargo failed.
    #[error("cargo could not build {package}, the worker of engine `{engine}`:\n{log}")]
    Build {
        /// The engine.
        engine: String,
        /// The worker's package.
        package: String,
        /// The end of what cargo wrote.
        log: String,
    },
    /// The worker is missing and cannot be built here.
    #[error("{0}")]
    NoWorker(String),
    /// The user asked to stop.
    #[error("interrupted: wheels that are whole are kept, and the same command fetches the rest")]
    Interrupted,
}

impl CatalogError {
    /// An error of the operating system on a path; to be used with `map_err`.
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

    /// An error at a range of bytes of a settings file.
    pub(crate) fn settings(
        file: impl Into<PathBuf>,
        text: &str,
        span: &Range<usize>,
        message: &str,
    ) -> Self {
        let place = excerpt::place(text, span);
        Self::Settings {
            file: file.into(),
            line: place.line,
            column: place.column,
            message: excerpt::message(message),
            excerpt: place.excerpt,
        }
    }

    /// The same for what the TOML reader complains about.
    pub(crate) fn toml(file: impl Into<PathBuf>, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        Self::settings(file, text, &span, &excerpt::in_our_words(error.message()))
    }
}
