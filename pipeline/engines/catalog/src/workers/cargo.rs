//! Runs cargo as it was run to build this program.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    CatalogError, InstallEvent, InstallObserver, Settings, builtin,
    child::{self, Ended, Follow},
    kit::RustProgram,
    settings::is_program,
};

/// The cargo that started us, or the one on the search path.
pub(super) fn program(settings: &Settings) -> Option<PathBuf> {
    env::var_os("CARGO")
        .map(PathBuf::from)
        .filter(|path| is_program(path))
        .or_else(|| settings.program("cargo"))
}

/// Where cargo puts what it builds with our own profile.
pub(super) struct Target {
    /// The folder of programs: `<target>/[<triple>/]<profile>`.
    pub(super) folder: PathBuf,
    profile: String,
    root: PathBuf,
    triple: Option<&'static str>,
}

impl Target {
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        let name = Path::new(builtin::PROFILE_FOLDER).file_name()?;
        // Our own folder, when cargo put us there; else the one that this library was built in.
        let folder = settings
            .binaries
            .iter()
            .find(|folder| folder.file_name() == Some(name))?;
        let parent = folder.parent()?;
        let by_triple = parent.file_name() == Some(OsStr::new(builtin::TARGET));
        let profile = name.to_str()?;
        Some(Self {
            folder: folder.clone(),
            // Cargo's one exception to naming the folder after the profile.
            profile: if profile == "debug" { "dev" } else { profile }.to_owned(),
            root: if by_triple { parent.parent()? } else { parent }.to_owned(),
            triple: by_triple.then_some(builtin::TARGET),
        })
    }
}

/// A build of one worker.
pub(super) struct Build<'a> {
    pub(super) engine: &'a str,
    pub(super) worker: &'a RustProgram,
    pub(super) cargo: PathBuf,
    pub(super) checkout: &'a Path,
    pub(super) target: Target,
}

impl Build<'_> {
    /// Builds it.
    ///
    /// Of the whole workspace: features of crates are the union over the packages that cargo is told,
    /// and with a union for each worker what they have in common would be compiled once for each.
    pub(super) fn run(&self, observer: &mut dyn InstallObserver) -> Result<(), CatalogError> {
        let which = ["--workspace", "--bin", &self.worker.binary];
        self.cargo("build", &which, observer)
    }

    /// Removes what cargo knows of the worker's package, and of no other.
    pub(super) fn forget(&self, observer: &mut dyn InstallObserver) -> Result<(), CatalogError> {
        self.cargo("clean", &["--package", &self.worker.package], observer)
    }

    fn cargo(
        &self,
        verb: &str,
        which: &[&str],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let Target {
            profile,
            root,
            triple,
            ..
        } = &self.target;
        let mut command = Command::new(&self.cargo);
        command
            .current_dir(self.checkout)
            .args([verb, "--locked", "--profile", profile, "--target-dir"])
            .arg(root)
            .args(which);
        if let Some(triple) = triple {
            command.args(["--target", triple]);
        }
        for name in &self.worker.ignore_variables {
            command.env_remove(name);
        }
        command
            .env("CARGO_TERM_COLOR", "never")
            .env("CARGO_TERM_PROGRESS_WHEN", "never");
        let mut follow = Lines {
            engine: self.engine,
            observer,
        };
        match child::run(&mut command, &mut follow) {
            Err(error) => Err(CatalogError::io("start", &self.cargo)(error)),
            Ok(Ended::Interrupted) => Err(CatalogError::Interrupted),
            Ok(Ended::Exited { status, .. }) if status.success() => Ok(()),
            Ok(Ended::Exited { log, .. }) => Err(CatalogError::Build {
                engine: self.engine.to_owned(),
                package: self.worker.package.clone(),
                log,
            }),
        }
    }
}

/// Hands cargo's lines on.
struct Lines<'a> {
    engine: &'a str,
    observer: &'a mut dyn InstallObserver,
}

impl Follow for Lines<'_> {
    fn line(&mut self, line: &str) {
        let (engine, line) = (self.engine.to_owned(), line.to_owned());
        self.observer.event(InstallEvent::Cargo { engine, line });
    }

    fn tick(&mut self) -> bool {
        !self.observer.interrupted()
    }
}
