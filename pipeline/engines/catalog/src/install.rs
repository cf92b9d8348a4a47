//! Brings a kit into the user's cache.
//!
//! Everything is made in a staging folder and moved to its place as the last act, so that an
//! installation is complete or not there. Wheels that were downloaded stay for the next attempt.

use std::{fs, io, path::Path, thread, time::Duration};

use nix::sys::statvfs::statvfs;
use schema::Digest;

use crate::{
    CatalogError, InstallEvent, InstallObserver, Kit, Python, Settings,
    adopt::{self, Adopted},
    complete::{self, Depth, Found, Installed, Wanted},
    download::Downloads,
    guard::Guard,
    kit::{BuiltIn, Origin, Program, Recipe},
    lock::{Lock, Pin, Wheel},
    place::Place,
    unpack,
};

/// Where the packages of an installation come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// From where they came before; what is pinned, where there is nothing.
    Chosen,
    /// From the package index, whatever was adopted.
    Pinned,
    /// From a Python of the user's, which has them.
    Adopted(&'a Python),
}

/// Sees to it that a kit is in place and passes the check of this depth; `base_python` is the Python
/// that its base was installed for, where it stands on one.
pub(crate) fn install(
    kit: &Kit,
    base_python: Option<&Path>,
    source: Source<'_>,
    settings: &Settings,
    depth: Depth,
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let name = &kit.label();
    let ready = InstallEvent::Ready {
        engine: name.to_owned(),
    };
    let Origin::BuiltIn(BuiltIn {
        recipe: Some(recipe),
        program,
        ..
    }) = kit.origin()
    else {
        observer.event(ready);
        return Ok(());
    };
    let pinned = Place::pinned(kit, &recipe.lock, settings);
    let wanted = Wanted {
        lock: recipe.lock.digest,
        python: base_python,
    };
    let attempt = |place| Installation {
        name,
        recipe,
        place,
        settings,
        base_python,
        runs_python: matches!(program, Program::Python(_)),
    };
    let place = match source {
        Source::Chosen => Place::of(kit, &recipe.lock, settings),
        Source::Pinned => pinned.clone(),
        Source::Adopted(python) => return attempt(&pinned).adopt(python, wanted, observer),
    };
    match look(name, wanted, &place, depth, observer)? {
        Found::Whole => {
            pinned.choose(Some(&place).filter(|place| place.is_adopted))?;
            observer.event(ready);
            return Ok(());
        }
        // What is the user's is not mended by a download that nobody asked for.
        found if place.is_adopted => return Err(changed(name, found)),
        Found::Broken(_) | Found::Nothing => {}
    }
    if let Some(platform) = foreign_platform() {
        return Err(CatalogError::Platform {
            engine: name.to_owned(),
            platform,
        });
    }
    fs::create_dir_all(place.staging()).map_err(CatalogError::io("make", place.staging()))?;
    let _guard = Guard::take(&place.guard(), name, observer)?;
    // Whoever held the guard before may have done the work.
    match look(name, wanted, &place, depth, observer)? {
        Found::Whole => {
            pinned.choose(None)?;
            observer.event(ready);
            return Ok(());
        }
        Found::Broken(what) => {
            observer.event(InstallEvent::Broken {
                engine: name.to_owned(),
                what,
            });
        }
        Found::Nothing => {}
    }
    clear_staging(&place);
    attempt(&place).make(observer)?;
    pinned.choose(None)?;
    observer.event(InstallEvent::Installed {
        engine: name.to_owned(),
        path: place.home(),
    });
    Ok(())
}

/// Why packages of the user's cannot be used any more.
pub(crate) fn changed(engine: &str, found: Found) -> CatalogError {
    CatalogError::AdoptedChanged {
        engine: engine.to_owned(),
        what: match found {
            Found::Broken(what) => what,
            Found::Whole | Found::Nothing => String::from("its links are gone"),
        },
    }
}

/// The name of this platform where the wheels do not run on it.
pub(crate) fn foreign_platform() -> Option<String> {
    let ours = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    (!ours).then(|| format!("{} {}", std::env::consts::OS, std::env::consts::ARCH))
}

fn look(
    name: &str,
    wanted: Wanted<'_>,
    place: &Place,
    depth: Depth,
    observer: &mut dyn InstallObserver,
) -> Result<Found, CatalogError> {
    let home = place.home();
    let total_bytes = if depth == Depth::Hashes {
        complete::total_bytes(&home)
    } else {
        0
    };
    let mut checked = Checked {
        name,
        done_bytes: 0,
        total_bytes,
        observer,
    };
    complete::look(&home, wanted, depth, &mut |bytes| checked.add(bytes))
}

/// Removes what interrupted attempts left. Only called while the guard is held; an attempt of
/// another engine has another name.
fn clear_staging(place: &Place) {
    let prefix = format!("{}.", place.name);
    for entry in fs::read_dir(place.staging())
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            remove_tree(&entry.path());
        }
    }
}

/// Removes a folder into which a dying process may still be writing. What cannot be removed costs
/// disk, and the next attempt tries again.
fn remove_tree(folder: &Path) {
    for _ in 0..5 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                thread::sleep(Duration::from_millis(50));
            }
            _ => return,
        }
    }
}

/// What is left to download of wheels, and what they take unpacked, in bytes.
fn sizes(place: &Place, wheels: &[(&Pin, &Wheel)]) -> (u64, u64) {
    let missing = |wheel: &Wheel| !place.downloads().join(&wheel.file).exists();
    let download_bytes = wheels
        .iter()
        .filter(|(_, wheel)| missing(wheel))
        .map(|(_, wheel)| wheel.download_bytes)
        .sum();
    let disk_bytes = wheels.iter().map(|(_, wheel)| wheel.unpacked_bytes).sum();
    (download_bytes, disk_bytes)
}

/// What an installation would download, and take on the disk, in bytes: with the Python that is
/// found, or at most where none will do.
pub(crate) fn sizes_ahead(lock: &Lock, place: &Place, settings: &Settings) -> (u64, u64) {
    Python::find(settings, &mut Quiet)
        .ok()
        .and_then(|python| Some(sizes(place, &lock.wheels_for(&python.tag).ok()?)))
        .unwrap_or_else(|| lock.largest_bytes())
}

/// Watches nothing, and stops nothing.
struct Quiet;

impl InstallObserver for Quiet {
    fn event(&mut self, _: InstallEvent) {}

    fn interrupted(&self) -> bool {
        false
    }
}

/// One attempt to install a kit.
struct Installation<'a> {
    name: &'a str,
    recipe: &'a Recipe,
    place: &'a Place,
    settings: &'a Settings,
    base_python: Option<&'a Path>,
    /// Whether its worker needs the Python whose wheels are taken.
    runs_python: bool,
}

impl Installation<'_> {
    /// Puts links to the packages of a Python of the user's in the place of what is pinned.
    fn adopt(
        &self,
        python: &Python,
        wanted: Wanted<'_>,
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let staging = self.place.staging();
        fs::create_dir_all(&staging).map_err(CatalogError::io("make", &staging))?;
        let _guard = Guard::take(&self.place.guard(), self.name, observer)?;
        clear_staging(self.place);
        let interpreter = python.executable(observer)?;
        let found = adopt::find(
            self.name,
            self.recipe,
            python,
            interpreter.clone(),
            observer,
        )?;
        let place = self.place.adopted(&Digest::of_value(&found.adopted));
        let is_there = look(self.name, wanted, &place, Depth::Quick, observer)? == Found::Whole;
        observer.event(InstallEvent::Adopted {
            engine: self.name.to_owned(),
            python: interpreter,
            differing: found.differing.clone(),
        });
        if !is_there {
            let folder = self.staging_folder()?;
            let home = folder.path().join("home");
            found.link(self.recipe, &home)?;
            unpack::add_pieces(self.name, self.recipe, &home)?;
            self.seal(python, &home, 0, Some(found.adopted), observer)?;
            move_in(&place, folder.path(), &home)?;
        }
        self.place.choose(Some(&place))?;
        observer.event(InstallEvent::Installed {
            engine: self.name.to_owned(),
            path: place.home(),
        });
        Ok(())
    }

    fn staging_folder(&self) -> Result<tempfile::TempDir, CatalogError> {
        tempfile::Builder::new()
            .prefix(&format!("{}.", self.place.name))
            .tempdir_in(self.place.staging())
            .map_err(CatalogError::io("make a folder in", self.place.staging()))
    }

    fn make(&self, observer: &mut dyn InstallObserver) -> Result<(), CatalogError> {
        let python = self.python(observer)?;
        let wheels = self
            .recipe
            .lock
            .wheels_for(&python.tag)
            .map_err(CatalogError::Python)?;
        self.begin(&wheels, observer)?;
        let folder = self.staging_folder()?;
        let staging = folder.path();
        self.download(&python, staging, &wheels, observer)?;
        unpack::unpack(
            self.name,
            self.settings,
            &python,
            staging,
            &wheels,
            observer,
        )?;
        let home = staging.join("home");
        unpack::add_pieces(self.name, self.recipe, &home)?;
        let total_bytes = wheels.iter().map(|(_, wheel)| wheel.unpacked_bytes).sum();
        self.seal(&python, &home, total_bytes, None, observer)?;
        move_in(self.place, staging, &home)?;
        self.drop_wheels(&wheels);
        Ok(())
    }

    /// The Python to take wheels for: the base's, whose packages the worker imports as well.
    fn python(&self, observer: &mut dyn InstallObserver) -> Result<Python, CatalogError> {
        match self.base_python {
            None => Python::find(self.settings, observer),
            Some(python) => {
                let settings = Settings {
                    python: Some(python.to_owned()),
                    ..self.settings.clone()
                };
                Python::find(&settings, observer)
            }
        }
    }

    /// Tells what is ahead, and refuses what the disk cannot hold.
    fn begin(
        &self,
        wheels: &[(&Pin, &Wheel)],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let (download_bytes, disk_bytes) = sizes(self.place, wheels);
        observer.event(InstallEvent::Begin {
            engine: self.name.to_owned(),
            download_bytes,
            disk_bytes,
            path: self.place.home(),
        });
        // Small files take whole blocks: 5 % more, as 12,000 files of torch show.
        let needed_bytes = download_bytes + disk_bytes + disk_bytes / 20;
        let root = &self.place.root;
        let free_bytes = free_bytes(root).map_err(CatalogError::io("look at the disk of", root))?;
        if free_bytes < needed_bytes {
            return Err(CatalogError::DiskFull {
                engine: self.name.to_owned(),
                path: root.clone(),
                needed_bytes,
                free_bytes,
            });
        }
        Ok(())
    }

    fn download(
        &self,
        python: &Python,
        staging: &Path,
        wheels: &[(&Pin, &Wheel)],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let folder = staging.join("wheels");
        fs::create_dir(&folder).map_err(CatalogError::io("make", folder))?;
        let downloads = Downloads {
            engine: self.name,
            place: self.place,
            settings: self.settings,
            python,
            staging,
        };
        wheels
            .iter()
            .try_for_each(|(pin, wheel)| downloads.fetch(pin, wheel, observer))
    }

    fn seal(
        &self,
        python: &Python,
        home: &Path,
        total_bytes: u64,
        adopted: Option<Adopted>,
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let interpreter = if self.runs_python {
            Some(python.executable(observer)?)
        } else {
            None
        };
        let mut checked = Checked {
            name: self.name,
            done_bytes: 0,
            total_bytes,
            observer,
        };
        let sealed = Installed {
            engine: self.name,
            lock: self.recipe.lock.digest,
            python: &python.tag,
            interpreter,
            adopted,
        };
        complete::seal(home, sealed, &mut |bytes| checked.add(bytes))
    }

    /// The wheels are unpacked and checked: they would only take room.
    fn drop_wheels(&self, wheels: &[(&Pin, &Wheel)]) {
        if self.settings.keep_wheels {
            return;
        }
        for (_, wheel) in wheels {
            // A wheel that stays costs disk, nothing else.
            let _ = fs::remove_file(self.place.downloads().join(&wheel.file));
        }
    }
}

/// Moves a finished installation to its place; a broken one makes room first.
fn move_in(place: &Place, staging: &Path, home: &Path) -> Result<(), CatalogError> {
    let to = place.home();
    if fs::symlink_metadata(&to).is_ok() {
        fs::rename(&to, staging.join("broken")).map_err(CatalogError::io("move away", &to))?;
    }
    fs::rename(home, &to).map_err(CatalogError::io("write", &to))?;
    let root = &place.root;
    fs::File::open(root)
        .and_then(|folder| folder.sync_all())
        .map_err(CatalogError::io("flush", root))
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = statvfs(folder)?;
    Ok(disk.blocks_available().saturating_mul(disk.fragment_size()))
}

/// Tells how much has been read, about once every 16 MiB.
struct Checked<'a> {
    name: &'a str,
    done_bytes: u64,
    total_bytes: u64,
    observer: &'a mut dyn InstallObserver,
}

impl Checked<'_> {
    fn add(&mut self, bytes: u64) -> bool {
        let before = self.done_bytes >> 24;
        self.done_bytes += bytes;
        if self.done_bytes >> 24 != before {
            self.observer.event(InstallEvent::Check {
                engine: self.name.to_owned(),
                done_bytes: self.done_bytes.min(self.total_bytes),
                total_bytes: self.total_bytes,
            });
        }
        !self.observer.interrupted()
    }
}
