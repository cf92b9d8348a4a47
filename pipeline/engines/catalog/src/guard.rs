//! One installer of an engine at a time.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
    process, thread,
    time::Duration,
};

use crate::{CatalogError, InstallEvent, InstallObserver};

const POLL: Duration = Duration::from_millis(200);

/// An advisory lock on a file that names its holder; released when dropped, or when the process
/// dies.
#[derive(Debug)]
pub(crate) struct Guard(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Guard {
    /// Takes the lock, waiting for its holder while the user does not ask to stop.
    pub(crate) fn take(
        path: &Path,
        engine: &str,
        observer: &mut dyn InstallObserver,
    ) -> Result<Self, CatalogError> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(CatalogError::io("open", path))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => {
                    return Err(CatalogError::io("lock", path)(error));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if observer.interrupted() {
                return Err(CatalogError::Interrupted);
            }
            if !told {
                let holder = holder(&mut file);
                observer.event(InstallEvent::Waiting {
                    engine: engine.to_owned(),
                    holder,
                });
                told = true;
            }
            thread::sleep(POLL);
        }
        name(&mut file).map_err(CatalogError::io("write", path))?;
        Ok(Self(file))
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(256).read_to_string(&mut text));
    match read {
        Ok(1..) => text.trim().to_owned(),
        _ => String::from("another process"),
    }
}

fn name(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {}", process::id())
}
