//! What an installation tells while it works.

use std::path::PathBuf;

/// Watches an installation and may stop it.
pub trait InstallObserver {
    /// Something happened.
    fn event(&mut self, event: InstallEvent);

    /// Whether the user asked to stop. Asked about ten times a second.
    fn interrupted(&self) -> bool;
}

/// A step of an installation or of a worker's build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallEvent {
    /// The engine is in place already, or needs no installation.
    Ready {
        /// The engine.
        engine: String,
    },
    /// An installation was found broken and is mended by installing it again.
    Broken {
        /// The engine.
        engine: String,
        /// What is wrong with it.
        what: String,
    },
    /// Another process is installing the same engine; we wait for it.
    Waiting {
        /// The engine.
        engine: String,
        /// Who holds the lock.
        holder: String,
    },
    /// An installation begins.
    Begin {
        /// The engine.
        engine: String,
        /// What is left to download, in bytes.
        download_bytes: u64,
        /// What the installation takes on the disk once unpacked, in bytes.
        disk_bytes: u64,
        /// Where it goes.
        path: PathBuf,
    },
    /// A wheel is being downloaded; told whenever more has arrived.
    Download {
        /// The engine.
        engine: String,
        /// The wheel's file name.
        wheel: String,
        /// What has arrived, in bytes.
        done_bytes: u64,
        /// Its size, in bytes.
        total_bytes: u64,
    },
    /// The wheels are being unpacked.
    Unpack {
        /// The engine.
        engine: String,
        /// What has been unpacked, in bytes.
        done_bytes: u64,
        /// The size of all, in bytes.
        total_bytes: u64,
    },
    /// Every file's hash is being taken.
    Check {
        /// The engine.
        engine: String,
        /// What has been read, in bytes.
        done_bytes: u64,
        /// The size of all, in bytes.
        total_bytes: u64,
    },
    /// The packages of a Python of the user's are taken as they are.
    Adopted {
        /// The engine.
        engine: String,
        /// That Python.
        python: PathBuf,
        /// Which of them differ from those that are pinned, in words.
        differing: Vec<String>,
    },
    /// The installation is complete.
    Installed {
        /// The engine.
        engine: String,
        /// Where it is.
        path: PathBuf,
    },
    /// A worker is being built.
    Build {
        /// The engine.
        engine: String,
        /// The worker's package.
        package: String,
    },
    /// A line that cargo wrote, for example `Compiling serde v1.0.228`.
    Cargo {
        /// The engine.
        engine: String,
        /// The line, without its indentation.
        line: String,
    },
    /// A worker is built.
    Built {
        /// The engine.
        engine: String,
        /// The program.
        program: PathBuf,
    },
}

/// A size as people read it: megabytes of a million bytes, as package indexes give them.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
