//! Downloads wheels, one by one, into a folder that outlives an interrupted attempt.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

use crate::{
    CatalogError, InstallEvent, InstallObserver, Python, Settings,
    child::{self, Ended, Follow},
    complete::hash_file,
    lock::{Pin, Wheel},
    pip,
    place::Place,
};

/// How often a wheel is asked for whose download is cut off.
const ATTEMPTS: u32 = 3;

/// How an attempt to download a wheel failed.
struct Failed {
    error: CatalogError,
    /// What had arrived, in bytes, if it did not arrive whole.
    cut_off: Option<u64>,
    /// Whether another attempt may go better.
    again: bool,
}

impl From<CatalogError> for Failed {
    fn from(error: CatalogError) -> Self {
        Self {
            error,
            cut_off: None,
            again: false,
        }
    }
}

/// The wheels of one installation.
pub(crate) struct Downloads<'a> {
    pub(crate) engine: &'a str,
    pub(crate) place: &'a Place,
    pub(crate) settings: &'a Settings,
    pub(crate) python: &'a Python,
    /// A folder of this attempt's own.
    pub(crate) staging: &'a Path,
}

impl Downloads<'_> {
    /// Sees to it that a wheel is there, and links it to `wheels/` of the staging folder, where
    /// no other installer can take it away.
    pub(crate) fn fetch(
        &self,
        pin: &Pin,
        wheel: &Wheel,
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let kept = self.place.downloads().join(&wheel.file);
        let ours = self.staging.join("wheels").join(&wheel.file);
        if link(&kept, &ours)? {
            match self.verify(&ours, wheel, observer) {
                Err(CatalogError::WrongWheel { .. }) => remove(&ours)?,
                verified => return verified,
            }
        }
        let fetched = self.download(pin, wheel, observer)?;
        self.verify(&fetched, wheel, observer)?;
        let folder = self.place.downloads();
        fs::create_dir_all(&folder).map_err(CatalogError::io("make", folder))?;
        fs::rename(&fetched, &ours).map_err(CatalogError::io("write", &ours))?;
        // A damaged wheel of that name makes room.
        match fs::remove_file(&kept) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CatalogError::io("remove", kept)(error))
            }
            _ => link(&ours, &kept).map(drop),
        }
    }

    /// Downloads a wheel, again where the connection is cut.
    fn download(
        &self,
        pin: &Pin,
        wheel: &Wheel,
        observer: &mut dyn InstallObserver,
    ) -> Result<PathBuf, CatalogError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.attempt(pin, wheel, observer) {
                Ok(path) => return Ok(path),
                Err(failed) if failed.again && attempts < ATTEMPTS => {}
                Err(Failed {
                    cut_off: Some(arrived_bytes),
                    ..
                }) => {
                    return Err(CatalogError::CutOff {
                        engine: self.engine.to_owned(),
                        file: wheel.file.clone(),
                        attempts,
                        arrived_bytes,
                        total_bytes: wheel.download_bytes,
                    });
                }
                Err(failed) => return Err(failed.error),
            }
        }
    }

    fn attempt(
        &self,
        pin: &Pin,
        wheel: &Wheel,
        observer: &mut dyn InstallObserver,
    ) -> Result<PathBuf, Failed> {
        let (scratch, to) = (self.staging.join("tmp"), self.staging.join("fetched"));
        for folder in [&scratch, &to] {
            fs::create_dir_all(folder).map_err(CatalogError::io("make", folder))?;
        }
        let requirements = self.staging.join("requirements.txt");
        let text = format!(
            "{}=={} --hash=sha256:{}\n",
            pin.name, pin.version, wheel.sha256
        );
        fs::write(&requirements, text).map_err(CatalogError::io("write", &requirements))?;
        let mut command = pip::download(self.python, self.settings, &scratch, &requirements, &to);
        let mut follow = Growing {
            downloads: self,
            wheel,
            observer,
            told_bytes: None,
            seen: BTreeMap::new(),
        };
        match child::run(&mut command, &mut follow) {
            Err(error) => Err(CatalogError::io("start", &self.python.program)(error).into()),
            Ok(Ended::Interrupted) => Err(CatalogError::Interrupted.into()),
            Ok(Ended::Exited { status, log }) if !status.success() => {
                let step = format!("download {} {}", pin.name, pin.version);
                Err(self.failed(step, log, wheel, follow.arrived_bytes()))
            }
            Ok(Ended::Exited { .. }) => {
                follow.tell(wheel.download_bytes);
                Ok(self.only_wheel(&to, wheel)?)
            }
        }
    }

    /// Tells content that did not arrive whole from content that is another.
    fn failed(&self, step: String, log: String, wheel: &Wheel, arrived: Option<u64>) -> Failed {
        let mismatch = pip::is_mismatch(&log);
        let short = arrived.filter(|&bytes| bytes < wheel.download_bytes);
        let cut_off = if pip::is_cut_off(&log) {
            Some(arrived.unwrap_or(0))
        } else {
            short.filter(|_| mismatch)
        };
        Failed {
            // What came and went too fast to be seen may have been cut off as well.
            again: cut_off.is_some() || mismatch && arrived.is_none(),
            cut_off,
            error: pip::failure(self.engine, step, self.settings, log),
        }
    }

    /// What pip downloaded. An index may call the same file by a longer name.
    fn only_wheel(&self, folder: &Path, wheel: &Wheel) -> Result<PathBuf, CatalogError> {
        let list = || -> io::Result<Option<PathBuf>> {
            let mut files = fs::read_dir(folder)?;
            files
                .next()
                .transpose()
                .map(|entry| entry.map(|entry| entry.path()))
        };
        list()
            .map_err(CatalogError::io("list", folder))?
            .ok_or_else(|| CatalogError::WrongWheel {
                engine: self.engine.to_owned(),
                file: wheel.file.clone(),
                found: String::from("pip downloaded nothing"),
            })
    }

    /// Whether a file is the wheel that the lock names.
    fn verify(
        &self,
        path: &Path,
        wheel: &Wheel,
        observer: &dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let wrong = |found: String| CatalogError::WrongWheel {
            engine: self.engine.to_owned(),
            file: wheel.file.clone(),
            found,
        };
        let bytes = fs::metadata(path)
            .map_err(CatalogError::io("read", path))?
            .len();
        if bytes != wheel.download_bytes {
            return Err(wrong(format!(
                "{bytes} bytes instead of {}",
                wheel.download_bytes
            )));
        }
        match hash_file(path, &mut |_| !observer.interrupted()) {
            Ok(hash) if hash == wheel.sha256 => Ok(()),
            Ok(hash) => Err(wrong(format!("its SHA-256 is {hash}"))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                Err(CatalogError::Interrupted)
            }
            Err(error) => Err(CatalogError::io("read", path)(error)),
        }
    }
}

/// Gives a file a second name, or a copy where the file system knows no second names. Answers
/// whether there is such a file.
fn link(from: &Path, to: &Path) -> Result<bool, CatalogError> {
    match fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CatalogError::io("write", to)(error)),
    }
}

fn remove(path: &Path) -> Result<(), CatalogError> {
    fs::remove_file(path).map_err(CatalogError::io("remove", path))
}

/// Follows a download by the size of what has arrived: pip tells a pipe nothing.
struct Growing<'a> {
    downloads: &'a Downloads<'a>,
    wheel: &'a Wheel,
    observer: &'a mut dyn InstallObserver,
    told_bytes: Option<u64>,
    /// The wheels that pip was seen to write, held open: pip removes what it does not like, and
    /// its size is what tells why.
    seen: BTreeMap<PathBuf, fs::File>,
}

impl Growing<'_> {
    /// How much of the wheel came; `None` where none was seen to come.
    fn arrived_bytes(&self) -> Option<u64> {
        let sizes = self.seen.values().filter_map(|file| file.metadata().ok());
        sizes.map(|meta| meta.len()).max()
    }

    /// Takes hold of wheels that pip writes.
    fn hold(&mut self, folder: &Path) {
        for entry in WalkDir::new(folder).into_iter().flatten() {
            let path = entry.path();
            let is_wheel = path.extension().is_some_and(|extension| extension == "whl");
            if is_wheel
                && !self.seen.contains_key(path)
                && let Ok(file) = fs::File::open(path)
            {
                self.seen.insert(path.to_owned(), file);
            }
        }
    }

    fn tell(&mut self, done_bytes: u64) {
        if self.told_bytes == Some(done_bytes) {
            return;
        }
        self.told_bytes = Some(done_bytes);
        self.observer.event(InstallEvent::Download {
            engine: self.downloads.engine.to_owned(),
            wheel: self.wheel.file.clone(),
            done_bytes,
            total_bytes: self.wheel.download_bytes,
        });
    }
}

impl Follow for Growing<'_> {
    fn tick(&mut self) -> bool {
        let staging = self.downloads.staging;
        self.hold(&staging.join("tmp"));
        // While pip moves the wheel it is in both folders: the larger of the two is what we have.
        let arrived =
            folder_bytes(&staging.join("tmp")).max(folder_bytes(&staging.join("fetched")));
        self.tell(arrived.min(self.wheel.download_bytes));
        !self.observer.interrupted()
    }
}

/// Size of all files below a folder; those that vanish meanwhile do not count.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    WalkDir::new(folder)
        .into_iter()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum()
}
