//! Heats that were measured into other stores for this one.

use schema::{Digest, Heat};

use crate::{Store, StoreError, WriterLock, layout::Origin};

impl Store {
    /// The folder of what is measured for this store elsewhere.
    #[must_use]
    pub fn parts(&self) -> std::path::PathBuf {
        self.path().join("parts")
    }
}

impl WriterLock {
    /// Puts the newest heat that was measured for a key into `part` into this store, as if it had been measured
    /// into it; `None` where there is none.
    ///
    /// # Errors
    /// `part` cannot be read or is corrupt, or this store cannot be written.
    pub fn adopt(&self, part: &Store, key: &Digest) -> Result<Option<(Digest, Heat)>, StoreError> {
        let sealed = part.sealed(key)?;
        let measured = |name: &&crate::layout::SealedName| name.origin != Origin::Bundle;
        let Some(name) = sealed.iter().rev().find(measured) else {
            return Ok(None);
        };
        let heat = part.heat(key, &name.digest)?;
        let Some(bytes) = part.verified(key, name)? else {
            return Ok(None);
        };
        let digest = self.write_heat(&heat, &bytes, name.origin)?;
        Ok(Some((digest, heat)))
    }
}
