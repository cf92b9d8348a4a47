//! A run that measures everything anew, remembered so that after an interruption the same command
//! goes on instead of beginning again.

use std::collections::BTreeSet;

use schema::{Digest, record::HeatHeader};
use serde::{Deserialize, Serialize};

use crate::{Store, StoreError, WriterLock, atomic, codec, stamp::Stamp};

/// An interrupted fresh run is gone on with within this time; later, its heats are history and
/// the next fresh run begins anew.
const RESUMABLE_MS: i64 = 12 * 60 * 60 * 1000;

/// A run that measures everything anew: what there was before it does not count for it.
///
/// That is told from what there was, not from times: a clock that was set back between two runs
/// would make the earlier one's heats the later ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fresh {
    /// Hash of the keys that it measures.
    keys: Digest,
    /// When it began, RFC 3339.
    since: String,
    /// The heats that there were: the sealed ones by their content, the open ones by their header.
    before: BTreeSet<Digest>,
}

impl Fresh {
    /// Whether a sealed heat was measured for this run.
    #[must_use]
    pub fn counts(&self, heat: &Digest) -> bool {
        !self.before.contains(heat)
    }

    /// Whether an open heat was begun for this run.
    #[must_use]
    pub fn counts_open(&self, header: &HeatHeader) -> bool {
        !self.before.contains(&Digest::of_value(header))
    }
}

impl Store {
    /// The fresh run over these keys that was interrupted and is to be gone on with.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn interrupted_fresh(&self, keys: &[Digest]) -> Result<Option<Fresh>, StoreError> {
        let bytes = match atomic::read(&self.path().join("fresh.json"), codec::MAX_LINE_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(StoreError::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(fresh) = serde_json::from_slice::<Fresh>(&bytes) else {
            return Ok(None);
        };
        let age = Stamp::from_rfc3339(&fresh.since).map(Stamp::age_ms);
        let resumable = age.is_some_and(|age| (0..RESUMABLE_MS).contains(&age));
        Ok((resumable && fresh.keys == Digest::of_value(&keys)).then_some(fresh))
    }

    /// What there is of a heat, sealed and open. Nothing where something else lies in its place.
    fn marks(&self, key: &Digest) -> Result<Vec<Digest>, StoreError> {
        let found = self
            .sealed(key)
            .and_then(|sealed| Ok((sealed, self.open_lines(key)?.header)));
        match found {
            Ok((sealed, open)) => Ok(sealed
                .iter()
                .map(|name| name.digest)
                .chain(open.map(|header| Digest::of_value(&header)))
                .collect()),
            Err(StoreError::Corrupt(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl WriterLock {
    /// Remembers that a fresh run over these keys begins now.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn begin_fresh(&self, keys: &[Digest]) -> Result<Fresh, StoreError> {
        let mut before = BTreeSet::new();
        for key in keys {
            before.extend(self.marks(key)?);
        }
        let fresh = Fresh {
            keys: Digest::of_value(&keys),
            since: Stamp::now().to_rfc3339(),
            before,
        };
        let json = codec::line(&fresh).map_err(|reason| StoreError::Invalid {
            what: "a fresh run".to_owned(),
            reason,
        })?;
        self.put_file(&self.path().join("fresh.json"), &json)?;
        Ok(fresh)
    }

    /// Forgets the fresh run: it came to its end.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn end_fresh(&self) -> Result<(), StoreError> {
        atomic::remove(&self.path().join("fresh.json"))
    }
}
