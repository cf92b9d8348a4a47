//! Where workers are, how they are built from the checkout, and how those that need no building are
//! put in place.

mod cargo;
pub(crate) mod python;
mod stamp;

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    CatalogError, InstallEvent, InstallObserver, Kit, Settings,
    kit::{BuiltIn, Program, RustProgram},
    place::Place,
    settings::is_program,
};

use cargo::{Build, Target};
use stamp::Wanted;

/// The worker's program, where there is one.
pub(crate) fn program(program: &RustProgram, settings: &Settings) -> Option<PathBuf> {
    let name = &program.binary;
    let mut programs = settings.binaries.iter().map(|folder| folder.join(name));
    programs.find(|path| is_program(path))
}

/// Why there is no worker and none can be built; `None` when there is, or one can be.
pub(crate) fn missing(kit: &Kit, built_in: &BuiltIn, settings: &Settings) -> Option<String> {
    match &built_in.program {
        // It comes with photofinish.
        Program::Python(_) => None,
        Program::Rust(rust) => missing_rust(kit, rust, settings),
    }
}

fn missing_rust(kit: &Kit, rust: &RustProgram, settings: &Settings) -> Option<String> {
    if program(rust, settings).is_some() {
        return None;
    }
    let binary = &rust.binary;
    let beside = settings.binaries.first().map_or_else(
        || String::from("beside photofinish"),
        |folder| format!("in {}", folder.display()),
    );
    let absent = format!(
        "the worker of engine `{}` ({binary}) is not {beside}",
        kit.label()
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

/// Makes the worker of a kit, unless it is there and up to date.
pub(crate) fn build(
    kit: &Kit,
    built_in: &BuiltIn,
    settings: &Settings,
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let home = kit.lock().map(|lock| Place::of(kit, lock, settings).home());
    if let (Some(checkout), Some(home)) = (&settings.checkout, &home) {
        link(checkout, &built_in.folder, home)?;
    }
    match &built_in.program {
        Program::Python(python) => python::put(kit, python, settings, observer),
        Program::Rust(rust) => build_rust(kit, built_in, rust, home, settings, observer),
    }
}

fn build_rust(
    kit: &Kit,
    built_in: &BuiltIn,
    rust: &RustProgram,
    home: Option<PathBuf>,
    settings: &Settings,
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let ready = InstallEvent::Ready {
        engine: kit.label(),
    };
    let parts = (
        &settings.checkout,
        Target::of(settings),
        cargo::program(settings),
    );
    let (Some(checkout), Some(target), Some(cargo)) = parts else {
        // A worker that came with photofinish: its `hello` tells the supervisor what it is.
        return match missing_rust(kit, rust, settings) {
            Some(reason) => Err(CatalogError::NoWorker(reason)),
            None => {
                observer.event(ready);
                Ok(())
            }
        };
    };
    let program = target.folder.join(&rust.binary);
    let wanted = Wanted::of(kit, built_in, home);
    if wanted.is_met_by(&program) {
        observer.event(ready);
        return Ok(());
    }
    let build = Build {
        engine: &kit.label(),
        worker: rust,
        cargo,
        checkout,
        target,
    };
    observer.event(InstallEvent::Build {
        engine: kit.label(),
        package: rust.package.clone(),
    });
    if wanted.is_linked_elsewhere(&program) {
        // Cargo sees no change when the link points elsewhere: the files behind it are old.
        build.forget(observer)?;
    }
    build.run(observer)?;
    wanted.accept(&program)?;
    observer.event(InstallEvent::Built {
        engine: kit.label(),
        program,
    });
    Ok(())
}

/// Points `.engines/<folder>` of the checkout at an installation, so that plain cargo finds it, and
/// the tools that look at Python.
fn link(checkout: &Path, folder: &str, home: &Path) -> Result<(), CatalogError> {
    let path = checkout.join(".engines").join(folder);
    let links = path.parent().unwrap_or(checkout).to_owned();
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
