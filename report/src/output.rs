//! The folder of the site: only what changed is touched, and nothing that is not ours.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use schema::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    ReportError,
    hold::{self, Attempt, Hold},
};

/// Lists what we wrote, so that the next rendering knows its own files.
const INDEX: &str = ".photofinish-site.json";
const INDEX_VERSION: u32 = 1;

/// Begins the names of the folders beside a site in which it is made.
const STAGING: &str = ".photofinish-site-";

/// How long another rendering into the same folder is waited for: longer than any should take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked whether the other one is done.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    version: u32,
    /// Path below the folder, and the hash of the content.
    files: BTreeMap<String, Digest>,
}

/// What a rendering did to the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// What [`fingerprint`] says of the folder as long as it holds this very site.
    pub site: Digest,
    /// Pages of the site.
    pub pages: usize,
    /// Files of the site, pages included.
    pub files: usize,
    /// Files that are new or have other content than before.
    pub written: usize,
    /// Files of an earlier rendering that belong no more.
    pub removed: usize,
    /// Size of all files together.
    pub bytes: u64,
}

/// A site in the making. Files go to a folder beside the target; [`Output::commit`] moves them.
#[derive(Debug)]
pub(crate) struct Output {
    target: Target,
    staging: tempfile::TempDir,
    /// Of the folder in which files are made; dropped after it.
    _staging_hold: Option<Hold>,
    before: Listing,
    now: Listing,
    changed: Vec<String>,
    bytes: u64,
}

/// The folder of the site, held: two renderings at once would mix their files.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    /// Whether it was missing.
    created: bool,
    /// `None` where the file system knows no locks.
    _hold: Option<Hold>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.created {
            // Succeeds only where nothing came of the rendering: the folder is empty.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl Output {
    /// Prepares to render into `target`, which must be missing, empty, or ours. Waits for another
    /// rendering into the same folder, and removes what killed ones left beside it.
    pub(crate) fn open(target: &Path) -> Result<Self, ReportError> {
        let target = std::path::absolute(target).map_err(ReportError::io("find", target))?;
        let Some(parent) = target.parent() else {
            return Err(ReportError::NotOurs(target));
        };
        check(&target)?;
        fs::create_dir_all(parent).map_err(ReportError::io("create", parent))?;
        let target = Target::take(&target)?;
        let before = listing(&target.path)?;
        remove_abandoned(parent);
        let (staging, staging_hold) = stage(parent)?;
        let now = Listing {
            version: INDEX_VERSION,
            files: BTreeMap::new(),
        };
        Ok(Self {
            target,
            staging,
            _staging_hold: staging_hold,
            before,
            now,
            changed: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds a file. `path` is relative, with `/` between its parts.
    pub(crate) fn put(&mut self, path: &str, content: &[u8]) -> Result<(), ReportError> {
        if !is_inside(path) {
            return Err(ReportError::Tables(format!(
                "a file would be named {path:?}"
            )));
        }
        self.bytes += content.len() as u64;
        if self
            .now
            .files
            .insert(path.to_owned(), Digest::of_bytes(content))
            .is_some()
        {
            return Err(ReportError::Tables(format!(
                "two files would be named `{path}`"
            )));
        }
        if is_same(&self.target.path.join(path), content) {
            return Ok(());
        }
        // Errors name the file that was wanted: the one that is staged is gone with us.
        let failed = || ReportError::io("write", self.target.path.join(path));
        let staged = self.staging.path().join(path);
        if let Some(folder) = staged.parent() {
            fs::create_dir_all(folder).map_err(failed())?;
        }
        fs::write(&staged, content).map_err(failed())?;
        self.changed.push(path.to_owned());
        Ok(())
    }

    /// Moves changed files to their places and removes those of ours that belong no more.
    ///
    /// The list of our files is written before and after: a rendering that is killed half-way
    /// leaves a folder whose every file is still known as ours.
    pub(crate) fn commit(self, pages: usize) -> Result<Summary, ReportError> {
        let obsolete: Vec<&String> = self
            .before
            .files
            .keys()
            .filter(|path| !self.now.files.contains_key(*path))
            .collect();
        if !self.changed.is_empty() || !obsolete.is_empty() || self.before.version == 0 {
            let mut both = Listing {
                version: INDEX_VERSION,
                files: self.before.files.clone(),
            };
            both.files.extend(self.now.files.clone());
            self.write_listing(&both)?;
        }
        for path in &self.changed {
            self.make_folders(path)?;
            move_file(
                &self.staging.path().join(path),
                &self.target.path.join(path),
            )?;
        }
        let mut removed = 0;
        for path in obsolete {
            removed += usize::from(self.remove(path)?);
        }
        // Of what was written here, not of what lies there: once the folder is let go, another
        // rendering may follow at any time.
        let site = self.write_listing(&self.now)?;
        Ok(Summary {
            site,
            pages,
            files: self.now.files.len(),
            written: self.changed.len(),
            removed,
            bytes: self.bytes,
        })
    }

    /// Returns the hash of the list.
    fn write_listing(&self, listing: &Listing) -> Result<Digest, ReportError> {
        let path = self.target.path.join(INDEX);
        let mut text = serde_json::to_vec_pretty(listing)
            .map_err(|error| ReportError::Tables(error.to_string()))?;
        text.push(b'\n');
        if !is_same(&path, &text) {
            let staged = self.staging.path().join(INDEX);
            fs::write(&staged, &text).map_err(ReportError::io("write", &path))?;
            move_file(&staged, &path)?;
        }
        Ok(Digest::of_bytes(&text))
    }

    /// Creates the folders of a file, none of them through a link to somewhere else.
    fn make_folders(&self, path: &str) -> Result<(), ReportError> {
        let mut folder = self.target.path.clone();
        let Some(parents) = Path::new(path).parent() else {
            return Ok(());
        };
        for part in parents {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    return Err(ReportError::InTheWay {
                        path: folder,
                        what: "not a folder",
                    });
                }
                Err(_) => fs::create_dir(&folder).map_err(ReportError::io("create", &folder))?,
            }
        }
        let file = self.target.path.join(path);
        match fs::symlink_metadata(&file) {
            Ok(found) if found.is_dir() => Err(ReportError::InTheWay {
                path: file,
                what: "a folder",
            }),
            _ => Ok(()),
        }
    }

    /// Removes a file that an earlier rendering wrote and that is still as it was written, and
    /// the folders that it leaves empty.
    fn remove(&self, path: &str) -> Result<bool, ReportError> {
        let file = self.target.path.join(path);
        let reached_by_link = Path::new(path)
            .ancestors()
            .skip(1)
            .any(|folder| self.target.path.join(folder).is_symlink() && folder != Path::new(""));
        let ours = self.before.files.get(path);
        let content = match fs::read(&file) {
            Ok(content) if !reached_by_link && !file.is_symlink() => content,
            _ => return Ok(false),
        };
        if ours != Some(&Digest::of_bytes(&content)) {
            return Ok(false);
        }
        fs::remove_file(&file).map_err(ReportError::io("remove", &file))?;
        for folder in Path::new(path)
            .ancestors()
            .skip(1)
            .filter(|folder| *folder != Path::new(""))
        {
            // Fails, as it should, for the first that still holds something.
            if fs::remove_dir(self.target.path.join(folder)).is_err() {
                break;
            }
        }
        Ok(true)
    }
}

impl Target {
    /// Creates the folder where it is missing, and holds it; waits until another lets it go.
    fn take(path: &Path) -> Result<Self, ReportError> {
        let began = Instant::now();
        loop {
            let created = match fs::create_dir(path) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(ReportError::io("create", path)(error)),
            };
            let target = |hold| Self {
                path: path.to_owned(),
                created,
                _hold: hold,
            };
            match hold::attempt(path).map_err(ReportError::io("open", path))? {
                Attempt::Held(hold) => return Ok(target(Some(hold))),
                Attempt::Unknowable => return Ok(target(None)),
                Attempt::Taken | Attempt::Gone if began.elapsed() < PATIENCE => {
                    std::thread::sleep(LOOK);
                }
                Attempt::Taken | Attempt::Gone => return Err(ReportError::Busy(path.to_owned())),
            }
        }
    }
}

/// Creates a folder to make files in, and holds it, so that no other rendering removes it.
fn stage(parent: &Path) -> Result<(tempfile::TempDir, Option<Hold>), ReportError> {
    let failed = ReportError::temporary("create a folder in", parent);
    let create = || {
        tempfile::Builder::new()
            .prefix(STAGING)
            .tempdir_in(parent)
            .and_then(|staging| Ok((hold::attempt(staging.path())?, staging)))
    };
    let began = Instant::now();
    loop {
        match create() {
            Ok((Attempt::Held(hold), staging)) => return Ok((staging, Some(hold))),
            Ok((Attempt::Unknowable, staging)) => return Ok((staging, None)),
            // Another rendering was faster, and took it for abandoned.
            Ok((Attempt::Taken | Attempt::Gone, _)) if began.elapsed() < PATIENCE => {}
            Ok((Attempt::Taken | Attempt::Gone, _)) => {
                return Err(ReportError::Busy(parent.to_owned()));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Removes the folders that killed renderings left. One that cannot be removed is no obstacle.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(STAGING)
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_ours && let Ok(Attempt::Held(_hold)) = hold::attempt(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a site can be rendered into a folder: it must be missing, empty, or of an earlier
/// rendering.
///
/// # Errors
/// When it holds something else, or cannot be looked at.
pub fn check(target: &Path) -> Result<(), ReportError> {
    listing(target).map(drop)
}

/// What identifies the site in a folder: the hash of its list of files. `None` when the folder
/// holds no site, or a file of it is missing. Two folders with the same fingerprint held the same
/// site when they were rendered; the files' content is not read.
#[must_use]
pub fn fingerprint(target: &Path) -> Option<Digest> {
    let listing = listing(target).ok()?;
    let whole = !listing.files.is_empty()
        && listing
            .files
            .keys()
            .all(|path| fs::symlink_metadata(target.join(path)).is_ok_and(|found| found.is_file()));
    let text = fs::read(target.join(INDEX)).ok()?;
    whole.then(|| Digest::of_bytes(&text))
}

/// What an earlier rendering wrote; an error when the folder holds something else.
fn listing(target: &Path) -> Result<Listing, ReportError> {
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
        Err(error) => return Err(ReportError::io("look at", target)(error)),
        Ok(_) if !target.is_dir() => {
            return Err(ReportError::InTheWay {
                path: target.to_owned(),
                what: "not a folder",
            });
        }
        Ok(_) => {}
    }
    let mut entries = fs::read_dir(target).map_err(ReportError::io("list", target))?;
    if entries.next().is_none() {
        return Ok(Listing::default());
    }
    let known: Option<Listing> = fs::read(target.join(INDEX))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .filter(|listing: &Listing| listing.version == INDEX_VERSION);
    match known {
        Some(listing) if listing.files.keys().all(|path| is_inside(path)) => Ok(listing),
        _ => Err(ReportError::NotOurs(target.to_owned())),
    }
}

fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

fn is_same(path: &Path, content: &[u8]) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.len() == content.len() as u64)
        && fs::read(path).is_ok_and(|found| found == content)
}

/// Renames; copies where the target is another file system (a mounted volume).
fn move_file(from: &Path, to: &Path) -> Result<(), ReportError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => fs::copy(from, to)
            .map(|_| ())
            .map_err(ReportError::io("write", to)),
        done => done.map_err(ReportError::io("write", to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(target: &Path, files: &[(&str, &str)]) -> Result<Summary, ReportError> {
        let mut output = Output::open(target)?;
        for (path, text) in files {
            output.put(path, text.as_bytes())?;
        }
        output.commit(0)
    }

    #[test]
    fn only_what_changed_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("deep/site");
        let first = render(&site, &[("a.html", "one"), ("b/c.html", "two")]).unwrap();
        assert_eq!(
            (first.files, first.written, first.removed, first.bytes),
            (2, 2, 0, 6)
        );
        let before = fs::metadata(site.join("a.html"))
            .unwrap()
            .modified()
            .unwrap();
        let again = render(&site, &[("a.html", "one"), ("b/c.html", "two")]).unwrap();
        assert_eq!((again.written, again.removed), (0, 0));
        let third = render(&site, &[("a.html", "one"), ("d.html", "3")]).unwrap();
        assert_eq!((third.written, third.removed), (1, 1));
        assert_eq!(
            fs::metadata(site.join("a.html"))
                .unwrap()
                .modified()
                .unwrap(),
            before
        );
        assert!(!site.join("b").exists());
        assert_eq!(
            fs::read_dir(folder.path().join("deep")).unwrap().count(),
            1,
            "nothing staged is left"
        );
    }

    #[test]
    fn a_rendering_waits_for_another_into_the_same_folder() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site");
        let mut first = Output::open(&site).unwrap();
        first.put("a.html", b"one").unwrap();
        let other = site.clone();
        let second = std::thread::spawn(move || render(&other, &[("b.html", "two")]).unwrap());
        std::thread::sleep(LOOK * 5);
        assert!(!second.is_finished());
        let first = first.commit(0).unwrap();
        let second = second.join().unwrap();
        assert_ne!(first.site, second.site);
        assert_eq!(fingerprint(&site), Some(second.site));
        // The second knew the files of the first, and nothing of either is mixed or left.
        assert_eq!((second.removed, site.join("a.html").exists()), (1, false));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_killed_renderings_left_is_removed_and_what_living_ones_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let abandoned = folder.path().join(format!("{STAGING}killed"));
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join("a.html"), "half").unwrap();
        let link = folder.path().join(format!("{STAGING}link"));
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let mut living = Output::open(&folder.path().join("one")).unwrap();
        assert!(!abandoned.exists() && link.is_symlink());
        living.put("a.html", b"one").unwrap();
        render(&folder.path().join("two"), &[("b.html", "two")]).unwrap();
        living.commit(0).unwrap();
        assert!(folder.path().join("one/a.html").exists());
    }

    #[test]
    fn a_foreign_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(
            render(folder.path(), &[]),
            Err(ReportError::NotOurs(_))
        ));
        fs::write(
            folder.path().join(INDEX),
            r#"{"version":1,"files":{"../x":"00"}}"#,
        )
        .unwrap();
        assert!(matches!(
            render(folder.path(), &[]),
            Err(ReportError::NotOurs(_))
        ));
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(
            render(&file, &[]),
            Err(ReportError::InTheWay { .. })
        ));
    }

    #[test]
    fn the_name_of_a_temporary_folder_is_not_told() {
        // Nobody may create anything there, whoever runs this.
        let error = render(Path::new("/proc/site"), &[]).unwrap_err();
        let expected = "failed to create `/proc/site`: ";
        let said = error.to_string();
        assert!(said.starts_with(expected), "{said}");
        assert!(!said.contains(".photofinish-site-"), "{said}");
    }

    #[test]
    fn what_others_wrote_or_changed_stays() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site");
        render(&site, &[("a/x.html", "one"), ("a/y.html", "two")]).unwrap();
        fs::write(site.join("a/x.html"), "mine now").unwrap();
        fs::write(site.join("a/notes.txt"), "mine").unwrap();
        let summary = render(&site, &[("z.html", "3")]).unwrap();
        assert_eq!(summary.removed, 1);
        assert_eq!(
            fs::read_to_string(site.join("a/x.html")).unwrap(),
            "mine now"
        );
        assert!(site.join("a/notes.txt").exists());
    }

    #[test]
    fn links_do_not_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let (site, elsewhere) = (folder.path().join("site"), folder.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        render(&site, &[("z.html", "3")]).unwrap();
        std::os::unix::fs::symlink(&elsewhere, site.join("cells")).unwrap();
        let refused = render(&site, &[("z.html", "3"), ("cells/a.html", "x")]);
        assert!(matches!(refused, Err(ReportError::InTheWay { .. })));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn paths_that_leave_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for bad in ["../x", "/x", "", "a/../../x"] {
            assert!(
                render(&folder.path().join("site"), &[(bad, "")]).is_err(),
                "{bad}"
            );
        }
    }
}
