//! What later stages made, by the key that they choose: tables and sites.

use std::path::PathBuf;

use schema::Digest;

use crate::{Store, StoreError, WriterLock, atomic, codec};

/// Which stage made an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactKind {
    /// Tables, made by `aggregate`.
    Tables,
    /// What a site was rendered from, made by `report`.
    Site,
}

impl ArtifactKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Tables, Self::Site];

    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Site => "site",
        }
    }
}

/// What an artifact's file begins with: the hash of the rest, and of the run that it was made for.
const HEADER_BYTES: usize = 130;

impl Store {
    /// The artifact of this key; `None` if there is none.
    ///
    /// # Errors
    /// It is corrupt (make it again: [`WriterLock::put`] replaces it), or cannot be read.
    pub fn get(&self, kind: ArtifactKind, key: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.artifact_file(kind, key);
        let Some(bytes) = atomic::read(&path, codec::MAX_FILE_BYTES)? else {
            return Ok(None);
        };
        let corrupt = |reason: String| StoreError::corrupt(&path, reason);
        let (_, body) = split(&bytes).map_err(corrupt)?;
        codec::decompress(body, codec::MAX_DOCUMENT_BYTES)
            .map(Some)
            .map_err(corrupt)
    }

    /// The run for which the artifact in this file was made.
    pub(crate) fn artifact_run(
        &self,
        kind: ArtifactKind,
        key: &Digest,
    ) -> Result<Option<Digest>, StoreError> {
        let path = self.artifact_file(kind, key);
        let Some(bytes) = atomic::read(&path, codec::MAX_FILE_BYTES)? else {
            return Ok(None);
        };
        let (run, _) = split(&bytes).map_err(|reason| StoreError::corrupt(&path, reason))?;
        Ok(Some(run))
    }

    pub(crate) fn artifact_file(&self, kind: ArtifactKind, key: &Digest) -> PathBuf {
        self.path().join(kind.folder()).join(key.to_string())
    }
}

impl WriterLock {
    /// Keeps an artifact, made for this run, under its key. An equal one is not written again.
    ///
    /// # Errors
    /// It is too long, or the store cannot be written.
    pub fn put(
        &self,
        kind: ArtifactKind,
        key: &Digest,
        run: &Digest,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let body = codec::compress(bytes).map_err(|reason| StoreError::Invalid {
            what: format!("{} {}", kind.folder(), key.short()),
            reason,
        })?;
        let mut file = format!("{} {run}\n", Digest::of_bytes(&body)).into_bytes();
        file.extend_from_slice(&body);
        let path = self.artifact_file(kind, key);
        if matches!(atomic::read(&path, codec::MAX_FILE_BYTES), Ok(Some(there)) if there == file) {
            return Ok(());
        }
        self.put_file(&path, &file)
    }
}

/// The run and the compressed content of an artifact's file, its hash verified.
fn split(bytes: &[u8]) -> Result<(Digest, &[u8]), String> {
    let header = || "it does not begin with two hashes".to_owned();
    let (head, body) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(header)?;
    let text = str::from_utf8(head).map_err(|_| header())?;
    let (content, run) = text
        .strip_suffix('\n')
        .and_then(|line| line.split_once(' '))
        .ok_or_else(header)?;
    let content: Digest = content.parse().map_err(|_| header())?;
    let run = run.parse().map_err(|_| header())?;
    if Digest::of_bytes(body) != content {
        return Err("its content is not what it says".to_owned());
    }
    Ok((run, body))
}
