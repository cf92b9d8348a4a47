//! Folders that one rendering holds, until it lets go or dies, however it dies.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// A folder that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold(#[expect(dead_code, reason = "held, not read")] File);

/// What became of an attempt to hold a folder.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It is ours.
    Held(Hold),
    /// It is somebody else's.
    Taken,
    /// It is not there, or no more the one that was opened.
    Gone,
    /// Its file system cannot tell who holds what.
    Unknowable,
}

/// Tries to hold a folder, by an advisory lock of the folder itself: no file is left in it.
pub(crate) fn attempt(folder: &Path) -> io::Result<Attempt> {
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let file = match File::open(folder) {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(Attempt::Gone),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Taken),
        Err(TryLockError::Error(_)) => return Ok(Attempt::Unknowable),
    }
    // Between opening and locking, another may have removed the folder, and even made it anew.
    let opened = file.metadata()?;
    match fs::metadata(folder) {
        Ok(there) if (there.dev(), there.ino()) == (opened.dev(), opened.ino()) => {
            Ok(Attempt::Held(Hold(file)))
        }
        Ok(_) => Ok(Attempt::Gone),
        Err(error) if absent(&error) => Ok(Attempt::Gone),
        Err(error) => Err(error),
    }
}
