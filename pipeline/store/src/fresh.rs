//! A run that measures everything anew, remembered so that after an interruption the same command
//! goes on instead of beginning again.

use schema::Digest;
use serde::{Deserialize, Serialize};

use crate::{Store, StoreError, WriterLock, atomic, codec, stamp::Stamp};

/// An interrupted fresh run is gone on with within this time; later, its heats are history and
/// the next fresh run begins anew.
const RESUMABLE_MS: i64 = 12 * 60 * 60 * 1000;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fresh {
    /// Hash of the keys that it measures.
    keys: Digest,
    /// When it began, RFC 3339.
    since: String,
}

impl Store {
    /// When the fresh run over these keys began that was interrupted and is to be gone on with.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn interrupted_fresh(&self, keys: &[Digest]) -> Result<Option<String>, StoreError> {
        let bytes = match atomic::read(&self.path().join("fresh.json"), 4096) {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(StoreError::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(fresh) = serde_json::from_slice::<Fresh>(&bytes) else {
            return Ok(None);
        };
        let age = Stamp::from_rfc3339(&fresh.since).map(Stamp::age_ms);
        let resumable = age.is_some_and(|age| (0..RESUMABLE_MS).contains(&age));
        Ok((resumable && fresh.keys == Digest::of_value(&keys)).then_some(fresh.since))
    }
}

impl WriterLock {
    /// Remembers that a fresh run over these keys begins now, and returns that time.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin_fresh(&self, keys: &[Digest]) -> Result<String, StoreError> {
        let since = Stamp::now().to_rfc3339();
        let fresh = Fresh {
            keys: Digest::of_value(&keys),
            since: since.clone(),
        };
        let json = codec::line(&fresh).map_err(|reason| StoreError::Invalid {
            what: "a fresh run".to_owned(),
            reason,
        })?;
        self.put_file(&self.path().join("fresh.json"), &json)?;
        Ok(since)
    }

    /// Forgets the fresh run: it came to its end.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn end_fresh(&self) -> Result<(), StoreError> {
        atomic::remove(&self.path().join("fresh.json"))
    }
}
