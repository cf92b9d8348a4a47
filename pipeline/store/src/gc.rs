//! Removing what no kept run names.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use schema::{Digest, record::HeatResult};

use crate::{ArtifactKind, Corrupt, Store, StoreError, WriterLock, aside, atomic, runs};

/// Open journals and things set aside are kept this long: somebody may still want to go on, or
/// to look.
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
    /// Removes all runs but the newest `keep_runs`, and every heat, table and site that none of
    /// those names. With `dry_run`, only counts. A kept run that is corrupt is set aside; while
    /// that is young, every heat stays.
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
        let mut names = store.run_names()?;
        let kept = names.split_off(names.len().saturating_sub(keep_runs));
        let kept_runs: BTreeSet<Digest> = kept.iter().map(|name| name.digest).collect();
        let mut kept_heats = BTreeSet::new();
        for run in &kept_runs {
            sweep.read_run(run, &mut kept_heats)?;
        }
        for name in &names {
            sweep.report.runs += sweep.doom(store.run_file(name));
        }
        sweep.plan_aside()?;
        let everything = !sweep.report.unreadable.is_empty();
        sweep.plan_heats(|heat| everything || kept_heats.contains(heat))?;
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
            Ok(record) => heats.extend(record.heats.iter().filter_map(|entry| match entry.heat {
                HeatResult::Sealed(content) => Some((entry.key, content)),
                HeatResult::NotReached(_) => None,
            })),
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
        is_kept: impl Fn(&(Digest, Digest)) -> bool,
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
                if is_kept(&(key, name.digest)) {
                    left += 1;
                } else {
                    self.report.heats += self.doom(self.store.sealed_file(&key, &name));
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
