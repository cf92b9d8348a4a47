//! Run records, in the order in which they were written.

use std::path::PathBuf;

use schema::{Digest, RunRecord, plan, record};

use crate::{Corrupt, Store, StoreError, WriterLock, atomic, codec};

/// Ends the names of run records.
pub(crate) const SUFFIX: &str = ".run.zst";

/// A run record, as its file name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunName {
    number: u64,
    pub(crate) digest: Digest,
}

impl RunName {
    fn parse(name: &str) -> Option<Self> {
        let (number, digest) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        Some(Self {
            number: number.parse().ok()?,
            digest: digest.parse().ok()?,
        })
    }

    fn file_name(&self) -> String {
        format!("{:06}-{}{SUFFIX}", self.number, self.digest)
    }
}

impl Store {
    /// The hashes of the run records, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs_in_order(&self) -> Result<Vec<Digest>, StoreError> {
        Ok(self
            .run_names()?
            .into_iter()
            .map(|name| name.digest)
            .collect())
    }

    /// The newest run record with its hash; `None` where nothing was ever run.
    ///
    /// # Errors
    /// The store cannot be read, or the record is corrupt: an older one would pass for the newest.
    pub fn latest_run(&self) -> Result<Option<(Digest, RunRecord)>, StoreError> {
        match self.run_names()?.last() {
            Some(name) => Ok(Some((name.digest, self.run(&name.digest)?))),
            None => Ok(None),
        }
    }

    /// The run record of this hash.
    ///
    /// # Errors
    /// It is not there, is corrupt, or of another version.
    pub fn run(&self, digest: &Digest) -> Result<RunRecord, StoreError> {
        let (path, bytes) = self.run_bytes(digest)?;
        decode(&bytes).map_err(|error| error.at(path))
    }

    pub(crate) fn run_bytes(&self, digest: &Digest) -> Result<(PathBuf, Vec<u8>), StoreError> {
        let missing = || StoreError::Missing {
            what: format!("run {}", digest.short()),
            store: self.path().to_owned(),
        };
        let names = self.run_names()?;
        let name = names
            .iter()
            .rfind(|name| name.digest == *digest)
            .ok_or_else(missing)?;
        let bytes = self.verified_run(name)?.ok_or_else(missing)?;
        Ok((self.run_file(name), bytes))
    }

    /// The bytes of a run record, if their hash is that of the name; `None` if the file is gone.
    fn verified_run(&self, name: &RunName) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.run_file(name);
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

    /// The run records that are not what was written, oldest first.
    /// [`WriterLock::set_aside`] moves them out of the way; writing a run does so by itself.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn corrupt_runs(&self) -> Result<Vec<Corrupt>, StoreError> {
        let mut corrupt = Vec::new();
        for name in self.run_names()? {
            let read = self.verified_run(&name).and_then(|bytes| match bytes {
                Some(bytes) => decode(&bytes)
                    .map(drop)
                    .map_err(|error| error.at(self.run_file(&name))),
                None => Ok(()),
            });
            match read {
                // One of another version is sound, and of use to that.
                Ok(()) | Err(StoreError::Version { .. }) => {}
                Err(StoreError::Corrupt(damage)) => corrupt.push(damage),
                Err(error) => return Err(error),
            }
        }
        Ok(corrupt)
    }

    pub(crate) fn run_names(&self) -> Result<Vec<RunName>, StoreError> {
        let names = atomic::list(&self.runs())?;
        let mut names: Vec<_> = names
            .iter()
            .filter_map(|name| RunName::parse(name))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn run_file(&self, name: &RunName) -> PathBuf {
        self.runs().join(name.file_name())
    }
}

impl WriterLock {
    /// Keeps a run record and returns its hash. A run that left everything as the latest one did
    /// is that run: nothing is written. Corrupt records are set aside.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put_run(&self, run: &RunRecord) -> Result<Digest, StoreError> {
        // A latest record that cannot be read must not keep a new one from being written.
        if let Ok(Some((digest, latest))) = self.latest_run()
            && without_statuses(&latest) == without_statuses(run)
        {
            return Ok(digest);
        }
        let bytes = codec::line(run)
            .and_then(|json| codec::compress(&json))
            .map_err(|reason| StoreError::Invalid {
                what: "a run record".to_owned(),
                reason,
            })?;
        self.put_run_bytes(&bytes)
    }

    pub(crate) fn put_run_bytes(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        self.set_corrupt_runs_aside()?;
        let digest = Digest::of_bytes(bytes);
        let names = self.run_names()?;
        let last = names.last();
        if last.is_some_and(|name| name.digest == digest) {
            return Ok(digest);
        }
        let number = last.map_or(1, |name| name.number.saturating_add(1));
        let path = self.run_file(&RunName { number, digest });
        self.put_file(&path, bytes)?;
        Ok(digest)
    }

    fn set_corrupt_runs_aside(&self) -> Result<(), StoreError> {
        for corrupt in self.corrupt_runs()? {
            self.set_aside(&corrupt)?;
        }
        Ok(())
    }
}

/// Why the bytes of a run record cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    Corrupt(String),
    Version(u32),
}

impl Unusable {
    pub(crate) fn at(self, path: PathBuf) -> StoreError {
        match self {
            Self::Corrupt(reason) => StoreError::corrupt(path, reason),
            Self::Version(found) => StoreError::Version {
                path,
                found,
                expected: record::VERSION,
            },
        }
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<RunRecord, Unusable> {
    let json = codec::decompress(bytes, codec::MAX_DOCUMENT_BYTES).map_err(Unusable::Corrupt)?;
    let run: RunRecord =
        serde_json::from_slice(&json).map_err(|error| Unusable::Corrupt(codec::quoted(error)))?;
    if run.version != record::VERSION {
        return Err(Unusable::Version(run.version));
    }
    if run.plan.version != plan::VERSION {
        return Err(Unusable::Version(run.plan.version));
    }
    Ok(run)
}

/// Statuses tell what a plan found, not what the run did.
fn without_statuses(run: &RunRecord) -> RunRecord {
    let mut run = run.clone();
    for heat in &mut run.plan.heats {
        heat.status = plan::Status::New;
    }
    run
}
