//! Unpacks wheels and adds the pieces that an engine's description asks for.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    CatalogError, InstallEvent, InstallObserver, Python, Settings,
    child::{self, Ended, Follow},
    download::folder_bytes,
    kit::Recipe,
    lock::{Pin, Wheel},
    pip,
    place::{PACKAGES, packages},
};

/// Counting 12,000 files takes time that pip could use.
const COUNT_EVERY: Duration = Duration::from_millis(700);

/// Unpacks the wheels in `wheels/` of the staging folder into `home/` of it.
pub(crate) fn unpack(
    engine: &str,
    settings: &Settings,
    python: &Python,
    staging: &Path,
    wheels: &[(&Pin, &Wheel)],
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let (scratch, home) = (staging.join("tmp"), staging.join("home"));
    for folder in [&scratch, &home] {
        fs::create_dir_all(folder).map_err(CatalogError::io("make", folder))?;
    }
    let requirements = staging.join("requirements.txt");
    let mut text = String::new();
    for (pin, wheel) in wheels {
        let _ = writeln!(
            text,
            "{}=={} --hash=sha256:{}",
            pin.name, pin.version, wheel.sha256
        );
    }
    fs::write(&requirements, text).map_err(CatalogError::io("write", &requirements))?;
    let from = staging.join("wheels");
    let mut command = pip::install(python, &scratch, &requirements, &from, &packages(&home));
    let mut follow = Filling {
        engine,
        folders: [scratch, home],
        total_bytes: wheels.iter().map(|(_, wheel)| wheel.unpacked_bytes).sum(),
        counted: Instant::now(),
        observer,
    };
    match child::run(&mut command, &mut follow) {
        Err(error) => Err(CatalogError::io("start", &python.program)(error)),
        Ok(Ended::Interrupted) => Err(CatalogError::Interrupted),
        Ok(Ended::Exited { status, .. }) if status.success() => {
            follow.tell(follow.total_bytes);
            Ok(())
        }
        Ok(Ended::Exited { log, .. }) => Err(pip::failure(
            engine,
            String::from("unpack the wheels"),
            settings,
            log,
        )),
    }
}

/// Makes the links and small files of a recipe in `home`.
pub(crate) fn add_pieces(engine: &str, recipe: &Recipe, home: &Path) -> Result<(), CatalogError> {
    for (link, target) in &recipe.links {
        if !packages(home).join(target).exists() {
            let missing = format!("{PACKAGES}/{target}");
            return Err(CatalogError::Incomplete {
                engine: engine.to_owned(),
                missing,
            });
        }
        let path = with_parent(home, link)?;
        // Relative, since the whole folder is moved to its place when it is complete.
        let up: PathBuf = Path::new(link).components().skip(1).map(|_| "..").collect();
        symlink(up.join(PACKAGES).join(target), &path).map_err(CatalogError::io("write", path))?;
    }
    for (file, content) in &recipe.files {
        let path = with_parent(home, file)?;
        fs::write(&path, content).map_err(CatalogError::io("write", path))?;
    }
    Ok(())
}

fn with_parent(home: &Path, name: &str) -> Result<PathBuf, CatalogError> {
    let path = home.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(CatalogError::io("make", parent))?;
    }
    Ok(path)
}

/// Follows the unpacking by the size of what is there.
struct Filling<'a> {
    engine: &'a str,
    folders: [PathBuf; 2],
    total_bytes: u64,
    counted: Instant,
    observer: &'a mut dyn InstallObserver,
}

impl Filling<'_> {
    fn tell(&mut self, done_bytes: u64) {
        self.observer.event(InstallEvent::Unpack {
            engine: self.engine.to_owned(),
            done_bytes,
            total_bytes: self.total_bytes,
        });
    }
}

impl Follow for Filling<'_> {
    fn tick(&mut self) -> bool {
        if self.counted.elapsed() >= COUNT_EVERY {
            let done: u64 = self.folders.iter().map(|folder| folder_bytes(folder)).sum();
            self.tell(done.min(self.total_bytes));
            self.counted = Instant::now();
        }
        !self.observer.interrupted()
    }
}
