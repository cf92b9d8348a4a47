//! Removing what no kept run names.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use schema::{Digest, record::HeatResult};

use crate::{ArtifactKind, StoreError, WriterLock, atomic};

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
}

impl WriterLock {
    /// Removes all runs but the newest `keep_runs`, and every heat, table and site that none of
    /// those names. With `dry_run`, only counts.
    ///
    /// # Errors
    /// A kept run cannot be read (then nothing is removed, since what it names is not known), or
    /// the store cannot be written.
    pub fn gc(&self, keep_runs: usize, dry_run: bool) -> Result<GcReport, StoreError> {
        let mut names = self.run_names()?;
        let kept = names.split_off(names.len().saturating_sub(keep_runs));
        let kept_runs: BTreeSet<Digest> = kept.iter().map(|name| name.digest).collect();
        let mut kept_heats = BTreeSet::new();
        for digest in &kept_runs {
            for heat in self.run(digest)?.heats {
                if let HeatResult::Sealed(content) = heat.heat {
                    kept_heats.insert((heat.key, content));
                }
            }
        }
        let mut broom = Broom { dry_run, bytes: 0 };
        let mut report = GcReport::default();
        for name in &names {
            report.runs += broom.sweep(&self.run_file(name))?;
        }
        self.sweep_heats(&kept_heats, &mut broom, &mut report)?;
        self.sweep_artifacts(&kept_runs, &mut broom, &mut report)?;
        let aside = self.path().join("aside");
        for name in atomic::list(&aside)? {
            let path = aside.join(name);
            if is_old(&path) {
                report.aside += broom.sweep(&path)?;
            }
        }
        report.bytes = broom.bytes;
        Ok(report)
    }

    fn sweep_heats(
        &self,
        kept: &BTreeSet<(Digest, Digest)>,
        broom: &mut Broom,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        for key in self.keys()? {
            let mut left = 0;
            for name in self.sealed(&key)? {
                if kept.contains(&(key, name.digest)) {
                    left += 1;
                } else {
                    report.heats += broom.sweep(&self.sealed_file(&key, &name))?;
                }
            }
            let journal = self.journal_folder(&key);
            if journal.exists() {
                if is_old(&journal) {
                    report.journals += broom.sweep(&journal)?;
                } else {
                    left += 1;
                }
            }
            if left == 0 {
                broom.sweep(&self.key_file(&key))?;
                if !broom.dry_run {
                    // A folder in which somebody else keeps a file stays.
                    let _ = fs::remove_dir(self.heat_folder(&key));
                }
            }
        }
        Ok(())
    }

    fn sweep_artifacts(
        &self,
        kept: &BTreeSet<Digest>,
        broom: &mut Broom,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        for kind in ArtifactKind::ALL {
            for name in atomic::list(&self.path().join(kind.folder()))? {
                let Ok(key) = name.parse() else { continue };
                // A corrupt one is worth nothing to anybody: it is made again when needed.
                let named =
                    matches!(self.artifact_run(kind, &key), Ok(Some(run)) if kept.contains(&run));
                if !named {
                    report.artifacts += broom.sweep(&self.artifact_file(kind, &key))?;
                }
            }
        }
        Ok(())
    }
}

struct Broom {
    dry_run: bool,
    bytes: u64,
}

impl Broom {
    /// Removes a file or folder; 1, to be counted.
    fn sweep(&mut self, path: &Path) -> Result<u64, StoreError> {
        self.bytes = self.bytes.saturating_add(size(path));
        if !self.dry_run && path.exists() {
            let removed = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.map_err(StoreError::io("remove", path))?;
        }
        Ok(1)
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
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok())
        .is_some_and(|age| age > PATIENCE)
}
