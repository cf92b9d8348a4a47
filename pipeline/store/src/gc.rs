//! Removing what no kept run names, nor a run that may still be gone on with.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use schema::{Digest, RunRecord, record::HeatResult};

use crate::{
    ArtifactKind, Corrupt, Store, StoreError, WriterLock, aside, atomic,
    runs::{self, RunName},
};

/// What an interrupted run left and things set aside are kept this long: somebody may still want
/// to go on, or to look.
const PATIENCE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What was, or would be, removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GcReport {
    /// Run records.
    pub runs: u64,
    /// Sealed heats.
    pub heats: u64,
    /// Open journals that nobody touched for 30 days.
    pub journals: u64,
    /// Tables and sites.
    pub artifacts: u64,
    /// Corrupt artifacts set aside more than 30 days ago.
    pub aside: u64,
    /// Their size on disk.
    pub bytes: u64,
    /// Run records that should be kept and cannot be read, or were set aside in the last 30 days.
    /// The heats that they name are not known, so where there is one no heat was removed.
    pub unreadable: Vec<Corrupt>,
}

impl Store {
    /// What [`WriterLock::gc`] would remove now. Needs no lock and writes nothing; where a writer
    /// is at work at the same time, some of it may be gone or new before this returns.
    ///
    /// # Errors
    /// There is no store, or it cannot be read.
    pub fn gc_preview(&self, keep_runs: usize) -> Result<GcReport, StoreError> {
        self.require()?;
        Ok(Sweep::plan(self, keep_runs)?.report)
    }
}

impl WriterLock {
    /// Removes all runs but the newest `keep_runs` that came to their end, and every heat, table
    /// and site that none of those names. With `dry_run`, only counts.
    ///
    /// For 30 days a run that was interrupted stays, with its heats, unless it was gone on with;
    /// and so does a heat that no run names, since the one that measured it was killed. A kept run
    /// that is corrupt is set aside; while that is young, every heat stays.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn gc(&self, keep_runs: usize, dry_run: bool) -> Result<GcReport, StoreError> {
        let mut sweep = Sweep::plan(self, keep_runs)?;
        if dry_run {
            return Ok(sweep.report);
        }
        for corrupt in &sweep.corrupt {
            if let Some(place) = self.set_aside(corrupt)? {
                let moved = sweep.report.unreadable.iter_mut();
                for entry in moved.filter(|entry| entry.path == corrupt.path) {
                    entry.path.clone_from(&place);
                }
            }
        }
        for path in &sweep.doomed {
            atomic::remove(path)?;
        }
        for folder in &sweep.emptied {
            // A folder in which somebody else keeps a file stays.
            let _ = fs::remove_dir(folder);
        }
        Ok(sweep.report)
    }
}

/// What is to be done, nothing of it done yet.
struct Sweep<'a> {
    store: &'a Store,
    report: GcReport,
    /// Files and folders to remove.
    doomed: Vec<PathBuf>,
    /// Folders that are then empty.
    emptied: Vec<PathBuf>,
    /// Run records to set aside.
    corrupt: Vec<Corrupt>,
}

impl<'a> Sweep<'a> {
    fn plan(store: &'a Store, keep_runs: usize) -> Result<Self, StoreError> {
        let mut sweep = Self {
            store,
            report: GcReport::default(),
            doomed: Vec::new(),
            emptied: Vec::new(),
            corrupt: Vec::new(),
        };
        let (kept, doomed) = divide(store, keep_runs)?;
        let kept_runs: BTreeSet<Digest> = kept.iter().map(|name| name.digest).collect();
        let (mut kept_heats, mut doomed_heats) = (BTreeSet::new(), BTreeSet::new());
        for run in &kept_runs {
            sweep.read_run(run, &mut kept_heats)?;
        }
        for name in &doomed {
            // The heats of one that cannot be read are taken for those of a run that was killed.
            if let Ok(record) = store.run(&name.digest) {
                doomed_heats.extend(heats_of(&record));
            }
            sweep.report.runs += sweep.doom(store.run_file(name));
        }
        sweep.plan_aside()?;
        let everything = !sweep.report.unreadable.is_empty();
        sweep.plan_heats(|heat, file| {
            let of_a_killed_run = || !doomed_heats.contains(heat) && !is_old(file);
            everything || kept_heats.contains(heat) || of_a_killed_run()
        })?;
        sweep.plan_artifacts(&kept_runs)?;
        Ok(sweep)
    }

    /// Collects the heats that a kept run names.
    fn read_run(
        &mut self,
        run: &Digest,
        heats: &mut BTreeSet<(Digest, Digest)>,
    ) -> Result<(), StoreError> {
        match self.store.run(run) {
            Ok(record) => heats.extend(heats_of(&record)),
            Err(StoreError::Corrupt(damage)) => {
                self.report.unreadable.push(damage.clone());
                self.corrupt.push(damage);
            }
            Err(StoreError::Version { path, found, .. }) => {
                let reason = format!("it has format version {found}");
                self.report.unreadable.push(Corrupt { path, reason });
            }
            // Another process removed it while we only look.
            Err(StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn plan_aside(&mut self) -> Result<(), StoreError> {
        let folder = self.store.aside();
        for name in atomic::list(&folder)? {
            let Some(age_ms) = aside::age_ms(&name) else {
                continue;
            };
            let path = folder.join(&name);
            if u128::try_from(age_ms).is_ok_and(|age| age > PATIENCE.as_millis()) {
                self.report.aside += self.doom(path);
            } else if name.ends_with(runs::SUFFIX) {
                let reason = "it was set aside".to_owned();
                self.report.unreadable.push(Corrupt { path, reason });
            }
        }
        Ok(())
    }

    fn plan_heats(
        &mut self,
        is_kept: impl Fn(&(Digest, Digest), &Path) -> bool,
    ) -> Result<(), StoreError> {
        for key in self.store.keys()? {
            let mut left = 0;
            let names = match self.store.sealed(&key) {
                Ok(names) => names,
                // No folder of ours: the next run sets it aside.
                Err(StoreError::Corrupt(_)) => continue,
                Err(error) => return Err(error),
            };
            for name in names {
                let file = self.store.sealed_file(&key, &name);
                if is_kept(&(key, name.digest), &file) {
                    left += 1;
                } else {
                    self.report.heats += self.doom(file);
                }
            }
            let journal = self.store.journal_folder(&key);
            if fs::symlink_metadata(&journal).is_ok() {
                if is_old(&journal) {
                    self.report.journals += self.doom(journal);
                } else {
                    left += 1;
                }
            }
            if left == 0 {
                self.doom(self.store.key_file(&key));
                self.emptied.push(self.store.heat_folder(&key));
            }
        }
        Ok(())
    }

    fn plan_artifacts(&mut self, kept: &BTreeSet<Digest>) -> Result<(), StoreError> {
        for kind in ArtifactKind::ALL {
            for name in atomic::list(&self.store.path().join(kind.folder()))? {
                let Ok(key) = name.parse() else { continue };
                // A corrupt one is worth nothing to anybody: it is made again when needed.
                let named = matches!(
                    self.store.artifact_run(kind, &key),
                    Ok(Some(run)) if kept.contains(&run)
                );
                if !named {
                    self.report.artifacts += self.doom(self.store.artifact_file(kind, &key));
                }
            }
        }
        Ok(())
    }

    /// Marks a file or folder for removal; 1, to be counted.
    fn doom(&mut self, path: PathBuf) -> u64 {
        self.report.bytes = self.report.bytes.saturating_add(size(&path));
        self.doomed.push(path);
        1
    }
}

/// The runs to keep, and those to remove.
fn divide(store: &Store, keep_runs: usize) -> Result<(Vec<RunName>, Vec<RunName>), StoreError> {
    let (interrupted, mut whole): (Vec<_>, Vec<_>) = store
        .run_names()?
        .into_iter()
        .partition(|name| name.interrupted);
    // What each reached, for seeing which of those that were interrupted came to their end later.
    let mut reached: Vec<(u64, BTreeSet<Digest>)> = Vec::new();
    if !interrupted.is_empty() {
        for name in &whole {
            if let Ok(record) = store.run(&name.digest) {
                let keys = heats_of(&record).map(|(key, _)| key).collect();
                reached.push((name.number, keys));
            }
        }
    }
    let is_resumable = |name: &RunName| {
        let was_gone_on_with = || {
            store.run(&name.digest).is_ok_and(|record| {
                reached.iter().any(|(number, keys)| {
                    *number > name.number
                        && record.heats.iter().all(|entry| keys.contains(&entry.key))
                })
            })
        };
        !is_old(&store.run_file(name)) && !was_gone_on_with()
    };
    let mut kept = whole.split_off(whole.len().saturating_sub(keep_runs));
    let mut doomed = whole;
    let (resumable, over): (Vec<_>, Vec<_>) = interrupted.into_iter().partition(is_resumable);
    kept.extend(resumable);
    doomed.extend(over);
    Ok((kept, doomed))
}

/// The heats that a run names: keys, and the hashes of contents.
fn heats_of(record: &RunRecord) -> impl Iterator<Item = (Digest, Digest)> + '_ {
    record.heats.iter().filter_map(|entry| match entry.heat {
        HeatResult::Sealed(content) => Some((entry.key, content)),
        HeatResult::NotReached(_) => None,
    })
}

fn size(path: &Path) -> u64 {
    let mut total = 0_u64;
    let mut pending: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                let names = atomic::list(&path).unwrap_or_default();
                pending.extend(names.into_iter().map(|name| path.join(name)));
            }
            Ok(metadata) => total = total.saturating_add(metadata.len()),
            Err(_) => {}
        }
    }
    total
}

/// Untouched for longer than our patience. What cannot be dated is young.
fn is_old(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok())
        .is_some_and(|age| age > PATIENCE)
}
