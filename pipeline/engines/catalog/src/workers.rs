//! Where workers are, and how they are built from the checkout.

mod cargo;
mod stamp;

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    CatalogError, Engine, InstallEvent, InstallObserver, Settings, engine::BuiltIn, place::Place,
    settings::is_program,
};

use cargo::{Build, Target};
use stamp::Wanted;

/// The worker's program, where there is one.
pub(crate) fn program(built_in: &BuiltIn, settings: &Settings) -> Option<PathBuf> {
    let name = &built_in.worker.binary;
    let mut programs = settings.binaries.iter().map(|folder| folder.join(name));
    programs.find(|path| is_program(path))
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
    let absent = format!(
        "the worker of engine `{}` ({binary}) is not {beside}",
        engine.name()
    );
    if settings.checkout.is_none() {
        return Some(format!(
            "{absent}, and there is no checkout to build it from: run photofinish from its \
             checkout, or copy the worker there"
        ));
    }
    cargo::program(settings).is_none().then(|| {
        format!(
            "{absent}, and there is no cargo on the search path to build it with: install Rust \
             from https://rustup.rs"
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
    let ready = InstallEvent::Ready {
        engine: engine.name().to_owned(),
    };
    let home = engine
        .lock()
        .map(|lock| Place::of(engine, lock, settings).home());
    if let (Some(checkout), Some(home)) = (&settings.checkout, &home) {
        link(checkout, &built_in.folder, home)?;
    }
    let parts = (
        &settings.checkout,
        Target::of(settings),
        cargo::program(settings),
    );
    let (Some(checkout), Some(target), Some(cargo)) = parts else {
        // A worker that came with photofinish: its `hello` tells the supervisor what it is.
        return match missing(engine, built_in, settings) {
            Some(reason) => Err(CatalogError::NoWorker(reason)),
            None => {
                observer.event(ready);
                Ok(())
            }
        };
    };
    let program = target.folder.join(&built_in.worker.binary);
    let wanted = Wanted::of(engine, built_in, home);
    if wanted.is_met_by(&program) {
        observer.event(ready);
        return Ok(());
    }
    let build = Build {
        engine: engine.name(),
        worker: &built_in.worker,
        cargo,
        checkout,
        target,
    };
    observer.event(InstallEvent::Build {
        engine: engine.name().to_owned(),
        package: built_in.worker.package.clone(),
    });
    if wanted.is_linked_elsewhere(&program) {
        // Cargo sees no change when the link points elsewhere: the files behind it are old.
        build.forget(observer)?;
    }
    build.run(observer)?;
    wanted.accept(&program)?;
    observer.event(InstallEvent::Built {
        engine: engine.name().to_owned(),
        program,
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
