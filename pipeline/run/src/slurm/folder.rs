//! What a submission and its tasks tell each other, in files.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use schema::{Digest, Plan, record::HeatResult};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use store::{Store, StoreError, WriterLock};

use super::{
    Machine,
    queue::{Array, refused},
};
use crate::{RunError, home};

const SUBMISSION: &str = "submission.json";

/// So much of the end of a task's log is told.
const LOG_BYTES: u64 = 400;

/// What tasks are to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    /// The key of the heat that each part measures.
    pub(super) keys: Vec<Digest>,
}

/// What a task tells that came to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    /// The folder of the store that has it.
    store: String,
    pub(super) key: Digest,
    pub(super) result: HeatResult,
}

/// What a part left, if it has come to its end; within, why that is of no use.
pub(super) type Left<T> = Option<Result<T, String>>;

/// The folder of a submission.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Those that are there.
    pub(super) fn all(store: &Store) -> Result<Vec<Self>, RunError> {
        let parts = store.parts();
        let entries = match fs::read_dir(&parts) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("list", &parts)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(io_error("list", &parts))?.path();
            if path.is_dir() {
                found.push(Self { path });
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// A new one with what its tasks are to do.
    pub(super) fn create(store: &WriterLock, submission: &Submission) -> Result<Self, RunError> {
        let parts = std::path::absolute(store.parts()).map_err(io_error("find", &store.parts()))?;
        fs::create_dir_all(&parts).map_err(io_error("create", &parts))?;
        let made = tempfile::Builder::new()
            .prefix("photofinish-")
            .tempdir_in(&parts)
            .map_err(io_error("create a folder in", &parts))?;
        let folder = Self { path: made.keep() };
        write(&folder.path, SUBMISSION, submission)?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its jobs: no other submission has it.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The numbers of the parts that have come to their end.
    pub(super) fn done(&self) -> Result<Vec<usize>, RunError> {
        let entries = fs::read_dir(&self.path).map_err(io_error("list", &self.path))?;
        let mut done = Vec::new();
        for entry in entries {
            let name = entry.map_err(io_error("list", &self.path))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".json"));
            done.extend(number.and_then(|number| number.parse::<usize>().ok()));
        }
        done.sort_unstable();
        Ok(done)
    }

    /// What a part told, and the folder of the store that has it.
    pub(super) fn told(&self, part: usize) -> Result<Left<(Told, PathBuf)>, RunError> {
        let told: Told = match read(&self.path, &result_file(part)) {
            Ok(Some(told)) => told,
            Ok(None) => return Ok(None),
            Err(RunError::Slurm { reason, .. }) => return Ok(Some(Err(reason))),
            Err(error) => return Err(error),
        };
        // A name, and no way out of the folder.
        let store = Path::new(&told.store);
        if store.file_name() != Some(store.as_os_str()) {
            return Ok(Some(Err(format!(
                "`{}` is no store of its own",
                told.store.escape_debug()
            ))));
        }
        let store = self.path.join(store);
        Ok(Some(Ok((told, store))))
    }

    /// How often a part was begun.
    pub(super) fn starts(&self, part: usize) -> usize {
        let begins = store_prefix(part);
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&begins))
            .count()
    }

    /// Has a network's file system look what is there: it remembers for a while what was not.
    pub(super) fn look_again(&self) {
        // The folder changes, so what is remembered of it no longer holds.
        drop(tempfile::NamedTempFile::new_in(&self.path));
    }

    /// Why a part came to no result.
    pub(super) fn why(&self, arrays: &[Array], part: usize, word: &str) -> String {
        let place = |array: &Array| array.parts.iter().position(|it| *it == part);
        let named = arrays
            .iter()
            .find_map(|array| Some((array.job, place(array)?)));
        let log = named.map(|(job, place)| self.path.join(format!("{job}_{place}.log")));
        let mut end = log.and_then(|log| tail(&log).ok()).unwrap_or_default();
        home::hide(&mut end);
        match end.trim() {
            "" => format!("its task on the cluster ended {word}, and wrote nothing"),
            end => format!(
                "its task on the cluster ended {word}: {}",
                end.escape_debug().to_string().replace("\\n", "; ")
            ),
        }
    }

    pub(super) fn remove(&self) -> Result<(), RunError> {
        fs::remove_dir_all(&self.path).map_err(io_error("remove", &self.path))
    }
}

/// The end of a log.
fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(LOG_BYTES)))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

fn result_file(part: usize) -> String {
    format!("{part}.json")
}

fn store_prefix(part: usize) -> String {
    format!("{part}-")
}

/// A start of a task.
#[derive(Debug)]
pub struct Part {
    folder: PathBuf,
    part: usize,
    /// The folder of the store that it measures into, which no other start has.
    store: PathBuf,
}

impl Part {
    /// A start of the part of this number, from 0, of a submission.
    ///
    /// # Errors
    /// The submission's folder cannot be written.
    pub fn begin(folder: PathBuf, part: usize) -> Result<Self, RunError> {
        let made = tempfile::Builder::new()
            .prefix(&store_prefix(part))
            .tempdir_in(&folder)
            .map_err(io_error("create a folder in", &folder))?;
        Ok(Self {
            folder,
            part,
            store: made.keep(),
        })
    }

    /// The folder of the store that it measures into.
    #[must_use]
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// The plan, and the key of the heat that it measures.
    ///
    /// # Errors
    /// The submission cannot be read, or has no such part; or this is another machine than the plan is
    /// for, which then is the part's result.
    pub fn task(&self, machine: &Machine) -> Result<(Plan, Digest), RunError> {
        let lacking = |what: &str| refused("part", &format!("{} {what}", self.folder.display()));
        let submission: Option<Submission> = read(&self.folder, SUBMISSION)?;
        let submission = submission.ok_or_else(|| lacking("holds no submission"))?;
        let key = submission.keys.get(self.part).copied();
        let key = key.ok_or_else(|| lacking(&format!("has no part {}", self.part)))?;
        if let Some(difference) = difference(machine, &submission.machine) {
            let reason = format!(
                "the plan was made on another machine than the node that was to measure: {difference}; start the \
                 run on a node like those, with all of it: `srun --exclusive --mem=0`"
            );
            self.finish(key, HeatResult::NotReached(reason.clone()))?;
            return Err(lacking(&reason));
        }
        Ok((submission.plan, key))
    }

    /// Leaves what came of it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn finish(&self, key: Digest, result: HeatResult) -> Result<(), RunError> {
        let store = self.store.file_name().unwrap_or_default();
        let told = Told {
            store: store.to_string_lossy().into_owned(),
            key,
            result,
        };
        write(&self.folder, &result_file(self.part), &told)
    }
}

/// In which word two machines differ.
fn difference(own: &Machine, asked: &Machine) -> Option<String> {
    if own == asked {
        return None;
    }
    let words = |machine: &Machine| serde_json::to_value(machine).unwrap_or_default();
    let (own, asked) = (words(own), words(asked));
    let both = ["fingerprint", "conditions"];
    let differing = both.iter().find_map(|part| {
        let (own, asked) = (own.get(part)?.as_object()?, asked.get(part)?.as_object()?);
        let mut names = own.keys().chain(asked.keys());
        let name = names.find(|name| own.get(*name) != asked.get(*name))?;
        let told = |value: Option<&serde_json::Value>| {
            value.map_or_else(|| "nothing".to_owned(), ToString::to_string)
        };
        Some(format!(
            "`{name}` is {} there, and {} in the plan",
            told(own.get(name)),
            told(asked.get(name))
        ))
    });
    Some(differing.unwrap_or_else(|| "they differ".to_owned()))
}

/// Writes a file at once, so that who reads it on another node finds all of it or none.
fn write(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), RunError> {
    let path = folder.join(name);
    let json = serde_json::to_vec(value).map_err(|error| refused(name, &error.to_string()))?;
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(&json)?;
        file.as_file().sync_all()?;
        Ok(file.persist(&path)?)
    });
    written.map(drop).map_err(io_error("write", &path))
}

/// What a file holds; `None` where it is not there.
fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, RunError> {
    let path = folder.join(name);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| refused(name, &format!("it is not what was written: {error}")))?;
    Ok(Some(value))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunError + use<> {
    let path = path.to_owned();
    move |cause| {
        RunError::Store(StoreError::Io {
            action,
            path,
            cause,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_leaves_is_believed_only_where_it_can_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = Folder {
            path: folder.path().to_owned(),
        };
        assert!(left.told(0).expect("it can be read").is_none());
        let part = Part::begin(folder.path().to_owned(), 0).expect("a start");
        let key = Digest::of_bytes(b"key");
        let result = HeatResult::NotReached("no".to_owned());
        part.finish(key, result.clone()).expect("it can be written");
        let (told, store) = left
            .told(0)
            .expect("it can be read")
            .expect("it is there")
            .expect("sound");
        assert_eq!((told.key, told.result), (key, result));
        assert_eq!(store, part.store());
        assert_eq!((left.done().expect("a list"), left.starts(0)), (vec![0], 1));
        for (text, wrong) in [
            ("{", "it is not what was written"),
            (
                &format!(
                    r#"{{"store":"../../elsewhere","key":"{key}","result":{{"not_reached":"a"}}}}"#
                ),
                "is no store of its own",
            ),
        ] {
            fs::write(folder.path().join("0.json"), text).expect("a file");
            let told = left.told(0).expect("it can be read").expect("it is there");
            let reason = told.expect_err("it is wrong");
            assert!(reason.contains(wrong), "{reason}");
        }
    }

    #[test]
    fn a_log_is_told_without_what_steers_a_terminal() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = Folder {
            path: folder.path().to_owned(),
        };
        let arrays = [Array {
            job: 7,
            parts: vec![3],
        }];
        let said = left.why(&arrays, 3, "FAILED");
        assert!(said.ends_with("ended FAILED, and wrote nothing"), "{said}");
        fs::write(
            folder.path().join("7_0.log"),
            "x".repeat(1000) + "one\n\u{1b}[2Jtwo\n",
        )
        .expect("a log");
        let said = left.why(&arrays, 3, "FAILED");
        assert!(said.ends_with("xone; \\u{1b}[2Jtwo"), "{said}");
        assert!(said.len() < 600, "{said}");
    }
}
