//! Run records, in the order in which they were written.

use std::path::PathBuf;

use schema::{
    Digest, RunRecord, plan,
    record::{self, HeatEntry, HeatResult},
};

use crate::{Corrupt, Store, StoreError, WriterLock, atomic, codec};

/// Ends the names of run records.
pub(crate) const SUFFIX: &str = ".run.zst";

/// Stands before [`SUFFIX`] where the run did not come to its end.
const INTERRUPTED: &str = ".interrupted";

/// A run of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRun {
    /// The hash of its record.
    pub digest: Digest,
    /// Whether somebody interrupted it; what it had not reached is still to be measured.
    pub interrupted: bool,
}

/// A run record, as its file name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunName {
    pub(crate) number: u64,
    pub(crate) digest: Digest,
    pub(crate) interrupted: bool,
}

impl RunName {
    fn parse(name: &str) -> Option<Self> {
        let (number, rest) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let digest = rest.strip_suffix(INTERRUPTED);
        Some(Self {
            number: number.parse().ok()?,
            digest: digest.unwrap_or(rest).parse().ok()?,
            interrupted: digest.is_some(),
        })
    }

    fn file_name(&self) -> String {
        let end = if self.interrupted { INTERRUPTED } else { "" };
        format!("{:06}-{}{end}{SUFFIX}", self.number, self.digest)
    }
}

impl Store {
    /// The runs, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs_in_order(&self) -> Result<Vec<KnownRun>, StoreError> {
        let known = |name: RunName| KnownRun {
            digest: name.digest,
            interrupted: name.interrupted,
        };
        Ok(self.run_names()?.into_iter().map(known).collect())
    }

    /// The record of the newest run that came to its end, with its hash. Only where none did, that
    /// of the newest which was interrupted: half a run must not take the place of a whole one.
    /// `None` where nothing was ever run.
    ///
    /// # Errors
    /// The store cannot be read, or the record is corrupt: an older one would pass for the newest.
    pub fn latest_run(&self) -> Result<Option<(Digest, RunRecord)>, StoreError> {
        let names = self.run_names()?;
        let whole = names.iter().rfind(|name| !name.interrupted);
        match whole.or(names.last()) {
            Some(name) => Ok(Some((name.digest, self.run(&name.digest)?))),
            None => Ok(None),
        }
    }

    /// The latest run that came to its end, if it left everything as this one would.
    ///
    /// # Errors
    /// As [`Store::latest_run`].
    pub fn latest_like(&self, run: &RunRecord) -> Result<Option<Digest>, StoreError> {
        self.newest_like(run, false)
    }

    /// The newest of the runs that were, or were not, interrupted, if it is like this one.
    fn newest_like(
        &self,
        run: &RunRecord,
        interrupted: bool,
    ) -> Result<Option<Digest>, StoreError> {
        let names = self.run_names()?;
        let Some(name) = names.iter().rfind(|name| name.interrupted == interrupted) else {
            return Ok(None);
        };
        let same = without_statuses(&self.run(&name.digest)?) == without_statuses(run);
        Ok(same.then_some(name.digest))
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
    /// Keeps the record of a run that came to its end, and returns its hash. A run that left
    /// everything as the latest one did is that run: nothing is written. Corrupt records are set
    /// aside.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put_run(&self, run: &RunRecord) -> Result<Digest, StoreError> {
        self.put_record(run, false)
    }

    /// Keeps the record of a run that was interrupted, and returns its hash; `None` where it has
    /// no heat to show, and nothing was kept. It is the latest run only where there is no other.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put_interrupted_run(&self, run: &RunRecord) -> Result<Option<Digest>, StoreError> {
        let is_sealed = |entry: &HeatEntry| matches!(entry.heat, HeatResult::Sealed(_));
        if run.heats.iter().any(is_sealed) {
            self.put_record(run, true).map(Some)
        } else {
            Ok(None)
        }
    }

    fn put_record(&self, run: &RunRecord, interrupted: bool) -> Result<Digest, StoreError> {
        // A latest record that cannot be read must not keep a new one from being written.
        if let Ok(Some(digest)) = self.newest_like(run, interrupted) {
            return Ok(digest);
        }
        let bytes = codec::line(run)
            .and_then(|json| codec::compress(&json))
            .map_err(|reason| StoreError::Invalid {
                what: "a run record".to_owned(),
                reason,
            })?;
        self.put_run_bytes(&bytes, interrupted)
    }

    pub(crate) fn put_run_bytes(
        &self,
        bytes: &[u8],
        interrupted: bool,
    ) -> Result<Digest, StoreError> {
        self.set_corrupt_runs_aside()?;
        let digest = Digest::of_bytes(bytes);
        let names = self.run_names()?;
        let last = names.last();
        if last.is_some_and(|name| name.digest == digest && name.interrupted == interrupted) {
            return Ok(digest);
        }
        let name = RunName {
            number: last.map_or(1, |name| name.number.saturating_add(1)),
            digest,
            interrupted,
        };
        self.put_file(&self.run_file(&name), bytes)?;
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
    for heat in run.plan.all_heats_mut() {
        heat.status = plan::Status::New;
    }
    run
}
