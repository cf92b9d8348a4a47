//! Corrupt artifacts are kept for whoever wants to know what happened, out of the way.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Corrupt, StoreError, WriterLock, atomic, stamp::Stamp};

impl WriterLock {
    /// Moves a corrupt artifact to `aside/`, with a note beside it that says what is wrong, and
    /// returns its new place; `None` if somebody removed it meanwhile.
    ///
    /// # Errors
    /// It lies outside this store, or cannot be moved.
    pub fn set_aside(&self, corrupt: &Corrupt) -> Result<Option<PathBuf>, StoreError> {
        let inside = corrupt
            .path
            .strip_prefix(self.path())
            .map_err(|_| StoreError::Invalid {
                what: format!("`{}` aside", corrupt.path.display()),
                reason: "it lies outside the store".to_owned(),
            })?;
        if fs::symlink_metadata(&corrupt.path).is_err() {
            return Ok(None);
        }
        let folder = self.aside();
        let flat: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
        let name = format!("{}-{}", Stamp::now(), shorten(&flat.join("-")));
        let taken = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
        let name = (1..)
            .map(|copy| {
                if copy == 1 {
                    name.clone()
                } else {
                    format!("{copy}-{name}")
                }
            })
            .find(|name| !taken(name))
            .unwrap_or(name);
        let place = folder.join(&name);
        let note = format!("{corrupt}\n");
        atomic::write(
            &self.tmp(),
            &folder.join(format!("{name}.reason.txt")),
            note.as_bytes(),
        )?;
        atomic::rename(&corrupt.path, &place)?;
        Ok(Some(place))
    }

    /// Writes a file in its place, from which anything but a plain file is set aside first.
    pub(crate) fn put_file(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        if let Ok(there) = fs::symlink_metadata(path)
            && !there.is_file()
        {
            self.make_room(path, there.file_type())?;
        }
        atomic::write(&self.tmp(), path, bytes)
    }

    /// Creates a folder in its place, from which anything but a folder is set aside first.
    pub(crate) fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        if let Ok(there) = fs::symlink_metadata(path)
            && !there.is_dir()
        {
            self.make_room(path, there.file_type())?;
        }
        atomic::create_folder(path)
    }

    fn make_room(&self, path: &Path, kind: fs::FileType) -> Result<(), StoreError> {
        self.set_aside(&Corrupt {
            path: path.to_owned(),
            reason: format!("it is {}, out of place", atomic::describe(kind)),
        })?;
        Ok(())
    }
}

/// How long ago something was set aside, in milliseconds, as its name tells; `None` where the name
/// is not one that [`WriterLock::set_aside`] gives.
pub(crate) fn age_ms(name: &str) -> Option<i64> {
    // A number may stand before the time, where the name was taken.
    let mut parts = name.split('-').take(2);
    parts.find_map(|part| part.parse().ok()).map(Stamp::age_ms)
}

/// Names of files are limited to 255 bytes; the end of the path tells most.
fn shorten(name: &str) -> String {
    let characters = name.chars().count();
    name.chars().skip(characters.saturating_sub(160)).collect()
}
