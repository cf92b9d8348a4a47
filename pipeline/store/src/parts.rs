//! Heats that were measured into other stores for this one.

use std::path::PathBuf;

use schema::{Digest, Heat};

use crate::{Store, StoreError, WriterLock, layout::SealedName};

impl Store {
    /// The folder of what is measured for this store elsewhere.
    #[must_use]
    pub fn parts(&self) -> PathBuf {
        self.path().join("parts")
    }
}

impl WriterLock {
    /// Puts a heat that was measured into `part` into this store, as if it had been measured into it.
    ///
    /// # Errors
    /// It is not there, is corrupt or of another version, or this store cannot be written.
    pub fn adopt(&self, part: &Store, key: &Digest, digest: &Digest) -> Result<Heat, StoreError> {
        let heat = part.heat(key, digest)?;
        let (path, bytes) = part.heat_bytes(key, digest)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(SealedName::parse);
        let name = name.ok_or_else(|| StoreError::corrupt(&path, "its name is none of a heat"))?;
        self.write_heat(&heat, &bytes, name.origin)?;
        Ok(heat)
    }
}
