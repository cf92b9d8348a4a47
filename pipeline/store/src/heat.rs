//! Sealed heats: reading, and the rules that every heat obeys.

use schema::{
    Digest, Heat,
    record::{self, Block, HeatHeader, Reference},
};

use crate::{Store, StoreError, atomic, codec, layout::SealedName, stamp::Stamp};

impl Store {
    /// The heat with this content, measured for this key.
    ///
    /// # Errors
    /// It is not there, is corrupt, or of another version.
    pub fn heat(&self, key: &Digest, digest: &Digest) -> Result<Heat, StoreError> {
        let (path, bytes) = self.heat_bytes(key, digest)?;
        let heat = codec::heat(&bytes).map_err(|reason| StoreError::corrupt(&path, reason))?;
        if heat.header.version != record::VERSION {
            let found = heat.header.version;
            return Err(StoreError::Version {
                path,
                found,
                expected: record::VERSION,
            });
        }
        check(&heat).map_err(|reason| StoreError::corrupt(&path, reason))?;
        if heat.header.key != *key {
            return Err(StoreError::corrupt(
                &path,
                "it was measured for another key",
            ));
        }
        Ok(heat)
    }

    /// The verified bytes of a heat's file.
    pub(crate) fn heat_bytes(
        &self,
        key: &Digest,
        digest: &Digest,
    ) -> Result<(std::path::PathBuf, Vec<u8>), StoreError> {
        let missing = || StoreError::Missing {
            what: format!("heat {} of key {}", digest.short(), key.short()),
            store: self.path().to_owned(),
        };
        let mut damage = None;
        // One that was measured here and is damaged may lie beside its sound copy out of a bundle.
        for name in self.sealed(key)? {
            if name.digest != *digest {
                continue;
            }
            match self.verified(key, &name) {
                Ok(Some(bytes)) => return Ok((self.sealed_file(key, &name), bytes)),
                Ok(None) => {}
                Err(error @ StoreError::Corrupt(_)) => damage = damage.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Err(damage.unwrap_or_else(missing))
    }

    /// The bytes of a sealed heat, if their hash is that of the name; `None` if the file is gone.
    pub(crate) fn verified(
        &self,
        key: &Digest,
        name: &SealedName,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.sealed_file(key, name);
        let Some(bytes) = atomic::read(&path, codec::MAX_FILE_BYTES)? else {
            return Ok(None);
        };
        if Digest::of_bytes(&bytes) != name.digest {
            return Err(StoreError::corrupt(
                path,
                "its content is not what its name says",
            ));
        }
        Ok(Some(bytes))
    }
}

/// The rules that tie the parts of a heat together; readers rely on them when they index.
pub(crate) fn check(heat: &Heat) -> Result<(), String> {
    check_header(&heat.header)?;
    check_reference(&heat.header, &heat.reference)?;
    for (place, block) in heat.blocks.iter().enumerate() {
        check_block(&heat.header, place, block)?;
    }
    check_slots(
        "outcomes of the footer",
        heat.footer.outcomes.len(),
        &heat.header,
    )
}

pub(crate) fn check_header(header: &HeatHeader) -> Result<(), String> {
    if header.key != Digest::of_value(&header.key_parts) {
        return Err("its key is not the hash of the key's parts".to_owned());
    }
    if Stamp::from_rfc3339(&header.started).is_none() {
        return Err(format!(
            "`{}` is no time of day",
            header.started.escape_debug()
        ));
    }
    let cells = header.cells.len();
    let twins = header.cells.iter().filter_map(|cell| cell.twin_of);
    for twin in twins {
        if twin as usize >= cells {
            return Err(format!(
                "a cell is the twin of slot {twin}, but there are {cells} cells"
            ));
        }
    }
    Ok(())
}

pub(crate) fn check_reference(header: &HeatHeader, reference: &Reference) -> Result<(), String> {
    check_slots("parities", reference.parity.len(), header)?;
    check_slots("obstacles", reference.obstacles.len(), header)?;
    check_slots("logs of parity", reference.logs.len(), header)
}

pub(crate) fn check_block(header: &HeatHeader, place: usize, block: &Block) -> Result<(), String> {
    if block.index as usize != place {
        return Err(format!(
            "block {} is in the place of block {place}",
            block.index
        ));
    }
    match block
        .launches
        .iter()
        .find(|launch| launch.slot as usize >= header.cells.len())
    {
        Some(launch) => Err(format!(
            "block {place} launches slot {}, but there are {} cells",
            launch.slot,
            header.cells.len()
        )),
        None => Ok(()),
    }
}

fn check_slots(what: &str, found: usize, header: &HeatHeader) -> Result<(), String> {
    let cells = header.cells.len();
    if found == cells {
        Ok(())
    } else {
        Err(format!("{found} {what} for {cells} cells"))
    }
}
