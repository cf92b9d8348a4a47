//! What the store knows: the newest heat of every key, verified, and the one that was begun.

use schema::{
    Digest,
    plan::{KnownHeat, KnownState},
    record,
};

use zstd::zstd_safe::DCtx;

use crate::{
    Corrupt, Fresh, Store, StoreError, atomic, codec, journal::KeyFile, layout::SealedName,
    stamp::Stamp,
};

/// The heats of a store, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Known {
    /// For every key the newest sealed heat that was measured here and whose content is sound, then
    /// the open one; each where there is one.
    pub heats: Vec<KnownHeat>,
    /// Artifacts that are not what was written. They do not count as known;
    /// [`WriterLock::set_aside`](crate::WriterLock::set_aside) moves them out of the way.
    pub corrupt: Vec<Corrupt>,
}

impl Store {
    /// The newest heats of every key, in the order of keys, content hashes verified.
    ///
    /// A heat that began in the future was measured while the clock was wrong; it counts as older
    /// than all others.
    ///
    /// # Errors
    /// The store cannot be read. Corrupt artifacts are no error: they are listed.
    pub fn known_heats(&self) -> Result<Known, StoreError> {
        self.known(None)
    }

    /// [`known_heats`](Self::known_heats), those alone that were measured or begun for a fresh
    /// run.
    ///
    /// # Errors
    /// Likewise.
    pub fn known_heats_of(&self, fresh: &Fresh) -> Result<Known, StoreError> {
        self.known(Some(fresh))
    }

    fn known(&self, fresh: Option<&Fresh>) -> Result<Known, StoreError> {
        let mut known = Known::default();
        let mut memory = DCtx::create();
        for key in self.keys()? {
            self.learn(&key, fresh, &mut known, &mut memory)?;
        }
        Ok(known)
    }

    /// Adds what is known of a key, and counts.
    fn learn(
        &self,
        key: &Digest,
        fresh: Option<&Fresh>,
        known: &mut Known,
        memory: &mut DCtx<'static>,
    ) -> Result<(), StoreError> {
        let Known { heats, corrupt } = known;
        // First of all: a link in the place of the folder would lead all that follows astray.
        let names = match self.sealed(key) {
            Ok(names) => names,
            Err(StoreError::Corrupt(damage)) => {
                corrupt.push(damage);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let file = match self.read_key_file(key) {
            Ok(Some(file)) => file,
            // Killed between making the folder and writing the file: nothing is known yet.
            // Written by another version: its key names that version, so no plan asks for it.
            Ok(None) | Err(StoreError::Version { .. }) => return Ok(()),
            Err(StoreError::Corrupt(damage)) => {
                corrupt.push(damage);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let entry = |group, state, started| KnownHeat {
            group,
            key: *key,
            key_parts: file.key_parts.clone(),
            state,
            started,
        };
        let mut damaged = Vec::new();
        let now = Stamp::now();
        let (past, future): (Vec<_>, Vec<_>) = names
            .iter()
            .rev()
            .filter(|name| name.is_own())
            .filter(|name| fresh.is_none_or(|fresh| fresh.counts(&name.digest)))
            .partition(|name| name.started <= now);
        for name in past.into_iter().chain(future) {
            let verified = self.verified(key, name);
            match verified.and_then(|bytes| self.belongs(key, name, bytes, memory)) {
                Ok(Some(group)) => {
                    let state = KnownState::Sealed(name.digest);
                    heats.push(entry(group, state, name.started.to_rfc3339()));
                    break;
                }
                Ok(None) => {}
                Err(StoreError::Corrupt(damage)) => {
                    damaged.push(name);
                    corrupt.push(damage);
                }
                Err(error) => return Err(error),
            }
        }
        let lines = match self.open_lines(key) {
            Ok(lines) => lines,
            Err(StoreError::Corrupt(damage)) => {
                corrupt.push(damage);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The first alone: with it, those after it go aside when the heat is gone on with.
        corrupt.extend(lines.rest.into_iter().next());
        let Some(header) = lines.header else {
            return Ok(());
        };
        // Sealing removes the journal last: one that lies beside its own heat is a leftover.
        let started = Stamp::from_rfc3339(&header.started);
        let is_its_own = |name: &SealedName| {
            name.is_own() && Some(name.started) == started && !damaged.contains(&name)
        };
        let counts = fresh.is_none_or(|fresh| fresh.counts_open(&header));
        if counts && !names.iter().any(is_its_own) {
            let blocks = u32::try_from(lines.blocks.len()).unwrap_or(u32::MAX);
            heats.push(entry(
                header.group,
                KnownState::Open(blocks),
                header.started,
            ));
        }
        Ok(())
    }

    /// The group that a heat was measured for, by its first line, which must name the key in whose
    /// folder it lies.
    fn belongs(
        &self,
        key: &Digest,
        name: &SealedName,
        bytes: Option<Vec<u8>>,
        memory: &mut DCtx<'static>,
    ) -> Result<Option<String>, StoreError> {
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let flaw = match codec::purpose_of(&bytes, memory) {
            Ok(found) if found.key == *key => return Ok(Some(found.group)),
            Ok(_) => "it was measured for another key".to_owned(),
            Err(reason) => reason,
        };
        Err(StoreError::corrupt(self.sealed_file(key, name), flaw))
    }

    pub(crate) fn read_key_file(&self, key: &Digest) -> Result<Option<KeyFile>, StoreError> {
        let path = self.key_file(key);
        let Some(bytes) = atomic::read(&path, codec::MAX_LINE_BYTES)? else {
            return Ok(None);
        };
        let file: KeyFile = serde_json::from_slice(&bytes)
            .map_err(|error| StoreError::corrupt(&path, codec::quoted(error)))?;
        if file.version != record::VERSION {
            return Err(StoreError::Version {
                path,
                found: file.version,
                expected: record::VERSION,
            });
        }
        if file.key != *key || Digest::of_value(&file.key_parts) != *key {
            return Err(StoreError::corrupt(
                path,
                "its parts do not make up its key",
            ));
        }
        Ok(Some(file))
    }
}
