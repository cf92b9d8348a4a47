//! The first look at a file that should be a bundle.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    path::Path,
};

use super::manifest::MANIFEST;
use crate::{StoreError, codec};

/// What every zstd frame begins with (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The name is the first field of tar's header, padded with zeros (POSIX, pax: ustar).
const TAR_NAME_BYTES: usize = 100;

/// Whether a file begins as bundles do. Needs no store; what follows is looked at when it is
/// opened.
///
/// # Errors
/// It cannot be read, or is no bundle.
pub fn looks_like(path: &Path) -> Result<(), StoreError> {
    open(path).map(drop)
}

/// Opens a file that begins as bundles do.
pub(super) fn open(path: &Path) -> Result<File, StoreError> {
    let refused = |reason| StoreError::Bundle {
        path: path.to_owned(),
        reason,
    };
    let not_a_bundle = || StoreError::NotABundle {
        path: path.to_owned(),
    };
    let unopened = |error: io::Error| refused(format!("it cannot be opened: {error}"));
    let unread = |error: io::Error| refused(format!("it cannot be read: {}", codec::quoted(error)));
    // Opening a pipe would wait for whoever writes to it.
    if !fs::metadata(path).map_err(unopened)?.is_file() {
        return Err(not_a_bundle());
    }
    let mut file = File::open(path).map_err(unopened)?;
    let mut magic = Vec::new();
    (&file)
        .take(ZSTD_MAGIC.len() as u64)
        .read_to_end(&mut magic)
        .map_err(unread)?;
    if magic != ZSTD_MAGIC {
        return Err(not_a_bundle());
    }
    file.rewind().map_err(unread)?;
    let mut name = Vec::new();
    codec::decoder(&file)
        .map_err(unread)?
        .take(TAR_NAME_BYTES as u64)
        .read_to_end(&mut name)
        .map_err(unread)?;
    let end = name.iter().position(|byte| *byte == 0);
    if end.and_then(|end| name.get(..end)) != Some(MANIFEST.as_bytes()) {
        return Err(not_a_bundle());
    }
    file.rewind().map_err(unread)?;
    Ok(file)
}
