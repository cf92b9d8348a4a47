//! Files of the user's, read only beneath one folder, and never more of them than is allowed.

use std::{
    fs::File,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    path::{Component, Path},
};

use bytes::Bytes;
use nix::{
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};

use super::ReadError;

/// Largest model file: a protobuf message stays below 2 GiB; larger weights lie beside it.
pub(super) const LARGEST_FILE: u64 = (1 << 31) - 1;

/// What begins a file that Git LFS keeps in place of one that was not fetched.
const LFS: &[u8; 23] = b"version https://git-lfs";

/// A file below `folder`. No part of the way to it may be a link, so that neither a manifest nor a
/// model can lead us out of the folder, whatever happens to the folder meanwhile. (A second name of a file, a
/// hard link, is no link: only who may write into the folder can make one there, of a file of their own as a
/// rule, and tools that keep equal files once do so everywhere.)
pub(crate) fn beneath(folder: &Path, path: &str) -> Result<File, ReadError> {
    let refused = |reason: &str| ReadError::Unreadable(format!("`{path}` {reason}"));
    let parts: Vec<_> = Path::new(path)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    let is_plain = parts
        .iter()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.contains('\0') {
        return Err(refused("is no name of a file"));
    }
    if !is_plain {
        return Err(refused("leads out of the folder"));
    }
    let Some((name, folders)) = parts.split_last() else {
        return Err(refused("names no file"));
    };
    let failed = |errno: nix::errno::Errno| match errno {
        // What is a link where it must not be.
        nix::errno::Errno::ELOOP | nix::errno::Errno::ENOTDIR => {
            refused("is reached through a link, or through something that is no folder")
        }
        _ => ReadError::Unreadable(format!("`{path}` cannot be read: {}", errno.desc())),
    };
    let enter = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_PATH;
    let mut at: OwnedFd = open(folder, enter, Mode::empty()).map_err(failed)?;
    for part in folders {
        at = openat(
            &at,
            part.as_os_str(),
            enter | OFlag::O_NOFOLLOW,
            Mode::empty(),
        )
        .map_err(failed)?;
    }
    // A pipe must not keep us waiting for its writer.
    let take = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::from(openat(&at, name.as_os_str(), take, Mode::empty()).map_err(failed)?);
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    if !is_file {
        return Err(refused("is no regular file"));
    }
    let mut start = [0; LFS.len()];
    if file.read_exact_at(&mut start, 0).is_ok() && start == *LFS {
        let reason = "is what Git LFS keeps in place of the file; `git lfs pull` fetches that";
        return Err(ReadError::Malformed(format!("`{path}` {reason}")));
    }
    Ok(file)
}

/// All of a model file.
pub(super) fn whole(file: File) -> Result<Bytes, ReadError> {
    let too_large = || {
        ReadError::Malformed(format!(
            "the file has more than {LARGEST_FILE} bytes, and a protobuf message has fewer; \
             export it with its weights in a file beside it"
        ))
    };
    let failed = |error: io::Error| ReadError::Unreadable(format!("it cannot be read: {error}"));
    let length = file.metadata().map_err(failed)?.len();
    if length > LARGEST_FILE {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(too_large());
    }
    Ok(Bytes::from(bytes))
}

/// Calls `visit` with the bytes of a part of a file, piece by piece.
pub(super) fn pieces(
    file: &File,
    offset: u64,
    length: u64,
    mut visit: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    const PIECE: u64 = 1 << 20;
    let mut buffer = vec![0; PIECE.min(length) as usize];
    let mut done = 0;
    while done < length {
        let size = PIECE.min(length - done);
        let piece = buffer.get_mut(..size as usize).unwrap_or_default();
        file.read_exact_at(piece, offset + done)?;
        visit(piece)?;
        done += size;
    }
    Ok(())
}
