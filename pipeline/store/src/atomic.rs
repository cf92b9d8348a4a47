//! Files that appear whole or not at all.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use nix::{fcntl::OFlag, libc};

use crate::StoreError;

/// Begins the names of files that are being written.
pub(crate) const WRITE_PREFIX: &str = "write-";

/// For opening a file of ours whatever lies in its place: links are not followed, and a pipe
/// without a reader does not block.
pub(crate) const CAREFULLY: libc::c_int = OFlag::O_NOFOLLOW.bits() | OFlag::O_NONBLOCK.bits();

/// Writes `bytes` to `path` by way of a file in `tmp`, which must be on the same file system.
/// When this returns, both the content and the name have reached the disk.
pub(crate) fn write(tmp: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_by_way_of(tmp, WRITE_PREFIX, path, bytes)
}

/// [`write`], with the beginning of the temporary file's name.
pub(crate) fn write_by_way_of(
    tmp: &Path,
    prefix: &str,
    path: &Path,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let failed = |action| StoreError::io(action, path);
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        // Not private, as temporary files are: whoever may read the user's files may read a store's.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(tmp)
        .map_err(StoreError::temporary("write", path))?;
    // The file itself, whose errors are the system's own.
    file.as_file_mut()
        .write_all(bytes)
        .map_err(failed("write"))?;
    file.as_file().sync_all().map_err(failed("flush"))?;
    file.persist(path)
        .map_err(|error| StoreError::io("rename into", path)(error.error))?;
    sync_parent(path)
}

/// Moves a file or folder, and flushes both folders' lists of names.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(StoreError::io("move", from))?;
    sync_parent(to)?;
    sync_parent(from)
}

/// Removes a file, a folder with all that is in it, or a link (not what it points to). A folder
/// of ours that nobody may write or enter is no obstacle.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).or_else(|error| {
            if error.kind() != std::io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            open_up(path);
            fs::remove_dir_all(path)
        }),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Lets the owner of a folder, and of those in it, list, enter and write them. What cannot be
/// changed stays as it is.
fn open_up(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(there) = fs::symlink_metadata(&folder) else {
            continue;
        };
        if !there.is_dir() {
            continue;
        }
        let mut permissions = there.permissions();
        permissions.set_mode(permissions.mode() | 0o700);
        let _ = fs::set_permissions(&folder, permissions);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
}

/// What lies at a path that is neither a plain file nor absent, in words.
pub(crate) fn describe(kind: fs::FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_file() {
        "a file"
    } else {
        "a pipe, socket or device"
    }
}

/// Creates a folder, with those above it, and flushes the name.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(StoreError::io("create", path))?;
    sync_parent(path)
}

/// Flushes the list of names of the folder that holds `path`.
pub(crate) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    File::open(folder)
        .and_then(|handle| handle.sync_all())
        .map_err(StoreError::io("flush", folder))
}

/// Reads a file of at most `limit` bytes; `None` if there is none. Anything but a plain file in
/// its place is corrupt, and neither followed nor waited for.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    use std::io::Read;

    // A look before opening, which is an act on some devices, and one after, since what lies there
    // may have changed.
    match fs::symlink_metadata(path) {
        Ok(there) => expect_file(path, there.file_type())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    }
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(CAREFULLY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    };
    let there = file.metadata().map_err(StoreError::io("look at", path))?;
    expect_file(path, there.file_type())?;
    // Its length is a guess at what comes, which saves a dozen calls a file.
    let expected = usize::try_from(there.len().min(limit)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(expected.saturating_add(1));
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(StoreError::io("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(StoreError::corrupt(
            path,
            format!("it is longer than {limit} bytes"),
        ));
    }
    Ok(Some(bytes))
}

fn expect_file(path: &Path, kind: fs::FileType) -> Result<(), StoreError> {
    if kind.is_file() {
        return Ok(());
    }
    let reason = format!("it is {}, not a plain file", describe(kind));
    Err(StoreError::corrupt(path, reason))
}

/// [`list`] of a folder that only we make: anything else in its place is corrupt.
pub(crate) fn list_own(path: &Path) -> Result<Vec<String>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_dir() => {
            let reason = format!("it is {}, not a folder", describe(there.file_type()));
            Err(StoreError::corrupt(path, reason))
        }
        _ => list(path),
    }
}

/// The entries of a folder, by name in order; none if there is no such folder. Names that are not
/// UTF-8 are not ours and left out.
pub(crate) fn list(path: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", path)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", path))?;
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = folder.path().join("tmp");
        fs::create_dir(&tmp).unwrap();
        let target = folder.path().join("no/such/folder");
        let error = write(&tmp, &target, b"x").unwrap_err();
        assert!(error.to_string().contains("rename into"), "{error}");
        assert_eq!(list(&tmp).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn temporary_names_are_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let (tmp, target) = (folder.path().join("tmp"), folder.path().join("target"));
        let error = write(&tmp, &target, b"x").unwrap_err().to_string();
        let expected = format!("cannot write `{}`: entity not found", target.display());
        assert_eq!(error, expected);
    }

    #[test]
    fn a_file_over_the_limit_is_corrupt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(folder.path(), &path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap().unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().as_corrupt().is_some());
        assert_eq!(read(&folder.path().join("none"), 4).unwrap(), None);
    }
}
