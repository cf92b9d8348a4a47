//! Where workers are, and how they are built from the checkout.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use schema::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    CatalogError, Engine, InstallEvent, InstallObserver, Settings, builtin,
    child::{self, Ended, Follow},
    engine::BuiltIn,
    place::Place,
    settings::is_program,
};

/// Lies beside a worker that we built: as long as it agrees, there is nothing for cargo to do.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    /// What the worker was built from.
    worker: Digest,
    /// The installation that it was linked against.
    installation: Option<PathBuf>,
    /// The program's size and time, so that a build of someone else's is noticed.
    bytes: u64,
    modified_ns: u64,
}

/// The worker's program, where there is one.
pub(crate) fn program(built_in: &BuiltIn, settings: &Settings) -> Option<PathBuf> {
    let name = &built_in.worker.binary;
    settings
        .binaries
        .iter()
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

/// Why there is no worker and none can be built; `None` when there is, or one can be.
pub(crate) fn missing(engine: &Engine, built_in: &BuiltIn, settings: &Settings) -> Option<String> {
    if program(built_in, settings).is_some() {
        return None;
    }
    let binary = &built_in.worker.binary;
    let beside = settings.binaries.first().map_or_else(
        || String::from("beside photofinish"),
        |folder| format!("in {}", folder.display()),
    );
    if settings.checkout.is_none() {
        return Some(format!(
            "the worker of engine `{}` ({binary}) is not {beside}, and there is no checkout to \
             build it from: run photofinish from its checkout, or copy the worker there",
            engine.name()
        ));
    }
    cargo(settings).is_none().then(|| {
        format!(
            "the worker of engine `{}` ({binary}) is not {beside}, and there is no cargo on the \
             search path to build it with: install Rust from https://rustup.rs",
            engine.name()
        )
    })
}

/// Builds the worker of an engine, unless it is there and up to date.
pub(crate) fn build(
    engine: &Engine,
    built_in: &BuiltIn,
    settings: &Settings,
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let name = engine.name();
    let installation = engine
        .lock()
        .map(|lock| Place::of(engine, lock, settings).home());
    let found = program(built_in, settings);
    if let (Some(checkout), Some(target)) = (&settings.checkout, Target::of(settings)) {
        if let Some(home) = &installation {
            link(checkout, &built_in.folder, home)?;
        }
        let program = target.folder.join(&built_in.worker.binary);
        let expected = stamp(engine.worker(), installation.clone(), &program);
        if expected.is_none() || read_stamp(&program) != expected {
            return run_cargo(engine, built_in, settings, &target, checkout, observer)
                .and_then(|()| write_stamp(engine, installation, &program))
                .map(|()| {
                    let engine = name.to_owned();
                    observer.event(InstallEvent::Built { engine, program });
                });
        }
    } else if found.is_none() {
        let reason = missing(engine, built_in, settings);
        return Err(CatalogError::NoWorker(reason.unwrap_or_else(|| {
            format!("the worker of engine `{name}` was not found")
        })));
    }
    observer.event(InstallEvent::Ready {
        engine: name.to_owned(),
    });
    Ok(())
}

/// Points `.engines/<folder>` of the checkout at an installation, so that plain cargo finds it.
fn link(checkout: &Path, folder: &str, home: &Path) -> Result<(), CatalogError> {
    let links = checkout.join(".engines");
    let path = links.join(folder);
    if fs::read_link(&path).is_ok_and(|target| target == home) {
        return Ok(());
    }
    let failed = |error: io::Error| CatalogError::io("write", &path)(error);
    fs::create_dir_all(&links).map_err(failed)?;
    // Renaming a link over another replaces it at once; over a folder it fails, and rightly so.
    let fresh = tempfile::tempdir_in(&links).map_err(failed)?;
    let link = fresh.path().join("link");
    symlink(home, &link).map_err(failed)?;
    fs::rename(&link, &path).map_err(failed)
}

/// Where cargo puts what it builds with our own profile.
struct Target {
    /// The folder of programs: `<target>/[<triple>/]<profile>`.
    folder: PathBuf,
    profile: String,
    root: PathBuf,
    triple: Option<&'static str>,
}

impl Target {
    fn of(settings: &Settings) -> Option<Self> {
        let built = Path::new(builtin::PROFILE_FOLDER);
        let name = built.file_name()?;
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

/// The cargo that started us, or the one on the search path.
fn cargo(settings: &Settings) -> Option<PathBuf> {
    std::env::var_os("CARGO")
        .map(PathBuf::from)
        .filter(|path| is_program(path))
        .or_else(|| settings.program("cargo"))
}

fn run_cargo(
    engine: &Engine,
    built_in: &BuiltIn,
    settings: &Settings,
    target: &Target,
    checkout: &Path,
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let package = &built_in.worker.package;
    let cargo = cargo(settings).ok_or_else(|| {
        CatalogError::NoWorker(format!(
            "there is no cargo on the search path to build the worker of engine `{}` with: \
             install Rust from https://rustup.rs",
            engine.name()
        ))
    })?;
    let mut command = Command::new(&cargo);
    command
        .current_dir(checkout)
        .args(["build", "--locked", "--package", package]);
    command
        .args(["--profile", &target.profile, "--target-dir"])
        .arg(&target.root);
    if let Some(triple) = target.triple {
        command.args(["--target", triple]);
    }
    command
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    let name = engine.name().to_owned();
    observer.event(InstallEvent::Build {
        engine: name.clone(),
        package: package.clone(),
    });
    let mut follow = Lines {
        engine: name.clone(),
        observer,
    };
    match child::run(&mut command, &mut follow) {
        Err(error) => Err(CatalogError::io("start", cargo)(error)),
        Ok(Ended::Interrupted) => Err(CatalogError::Interrupted),
        Ok(Ended::Exited { status, .. }) if status.success() => Ok(()),
        Ok(Ended::Exited { log, .. }) => Err(CatalogError::Build {
            engine: name,
            package: package.clone(),
            log,
        }),
    }
}

struct Lines<'a> {
    engine: String,
    observer: &'a mut dyn InstallObserver,
}

impl Follow for Lines<'_> {
    fn line(&mut self, line: &str) {
        let (engine, line) = (self.engine.clone(), line.to_owned());
        self.observer.event(InstallEvent::Cargo { engine, line });
    }

    fn tick(&mut self) -> bool {
        !self.observer.interrupted()
    }
}

fn stamp_path(program: &Path) -> PathBuf {
    program.with_extension("stamp.json")
}

/// The stamp that a program should have; `None` without a program.
fn stamp(worker: Digest, installation: Option<PathBuf>, program: &Path) -> Option<Stamp> {
    let meta = fs::metadata(program).ok()?;
    let since_epoch = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Stamp {
        worker,
        installation,
        bytes: meta.len(),
        modified_ns: u64::try_from(since_epoch.as_nanos()).ok()?,
    })
}

fn read_stamp(program: &Path) -> Option<Stamp> {
    serde_json::from_slice(&fs::read(stamp_path(program)).ok()?).ok()
}

fn write_stamp(
    engine: &Engine,
    installation: Option<PathBuf>,
    program: &Path,
) -> Result<(), CatalogError> {
    let stamp = stamp(engine.worker(), installation, program).ok_or_else(|| {
        let binary = program.display();
        CatalogError::NoWorker(format!(
            "cargo built no {binary}: is `binary` in engine.toml right?"
        ))
    })?;
    let path = stamp_path(program);
    let bytes =
        serde_json::to_vec(&stamp).map_err(|e| CatalogError::io("write", &path)(e.into()))?;
    fs::write(&path, bytes).map_err(CatalogError::io("write", path))
}
