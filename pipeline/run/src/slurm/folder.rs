//! What a submission and its tasks tell each other, in files.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use schema::{Digest, Plan, record::HeatResult};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use store::{Store, StoreError, WriterLock};

use super::{Machine, queue::Array};
use crate::RunError;

const SUBMISSION: &str = "submission.json";
const ARRAYS: &str = "arrays.json";

/// So much of a task's log is told.
const LOG_CHARS: usize = 400;

/// What tasks are to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    /// The key of the heat that each part measures.
    pub(super) keys: Vec<Digest>,
}

/// What a start of a task tells that came to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Told {
    start: u32,
    key: Digest,
    result: HeatResult,
}

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
            .prefix("slurm-")
            .tempdir_in(&parts)
            .map_err(io_error("create a folder in", &parts))?;
        let folder = Self { path: made.keep() };
        folder.write(SUBMISSION, submission)?;
        folder.keep(&[])?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What its tasks are to do; `None` where it was left before that was written.
    pub(super) fn submission(&self) -> Result<Option<Submission>, RunError> {
        self.read(SUBMISSION)
    }

    /// Keeps what was handed in, for whoever goes on.
    pub(super) fn keep(&self, arrays: &[Array]) -> Result<(), RunError> {
        self.write(ARRAYS, &arrays)
    }

    pub(super) fn arrays(&self) -> Result<Vec<Array>, RunError> {
        Ok(self.read(ARRAYS)?.unwrap_or_default())
    }

    /// What came of a part, and the store that has it.
    pub(super) fn result(
        &self,
        part: usize,
    ) -> Result<Option<(PathBuf, Digest, HeatResult)>, RunError> {
        let told: Option<Told> = self.read(&result_file(part))?;
        Ok(told.map(|Told { start, key, result }| {
            let part = Part::new(self.path.clone(), part, start);
            (part.store(), key, result)
        }))
    }

    /// Why a part came to no result.
    pub(super) fn why(&self, part: usize, word: &str) -> String {
        let end = self
            .arrays()
            .ok()
            .and_then(|arrays| {
                let place = |array: &Array| array.parts.iter().position(|it| *it == part);
                let (array, place) = arrays.iter().find_map(|it| Some((it, place(it)?)))?;
                let log = self.path.join(format!("{}_{place}.log", array.job));
                let log = fs::read(log).ok()?;
                let log = String::from_utf8_lossy(&log);
                let skipped = log.chars().count().saturating_sub(LOG_CHARS);
                Some(log.chars().skip(skipped).collect::<String>())
            })
            .unwrap_or_default();
        match end.trim() {
            "" => format!("its task on the cluster ended {word}, and wrote nothing"),
            end => format!("its task on the cluster ended {word}: {end}"),
        }
    }

    pub(super) fn remove(&self) -> Result<(), RunError> {
        fs::remove_dir_all(&self.path).map_err(io_error("remove", &self.path))
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), RunError> {
        write(&self.path, name, value)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RunError> {
        read(&self.path, name)
    }
}

/// A start of a task.
#[derive(Debug, Clone)]
pub struct Part {
    folder: PathBuf,
    part: usize,
    start: u32,
}

impl Part {
    /// The part of this number of a submission, at its start of this number; both from 0.
    #[must_use]
    pub const fn new(folder: PathBuf, part: usize, start: u32) -> Self {
        Self {
            folder,
            part,
            start,
        }
    }

    /// The folder of the store that it measures into.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.join(format!("{}-{}", self.part, self.start))
    }

    /// The plan, and the key of the heat that it measures.
    ///
    /// # Errors
    /// The submission cannot be read, or has no such part; or this is another machine than the plan is
    /// for, which then is the part's result.
    pub fn task(&self, machine: &Machine) -> Result<(Plan, Digest), RunError> {
        let lacking = |what: &str| RunError::Slurm {
            command: "part".to_owned(),
            reason: format!("{} {what}", self.folder.display()),
        };
        let submission: Option<Submission> = read(&self.folder, SUBMISSION)?;
        let submission = submission.ok_or_else(|| lacking("holds no submission"))?;
        let key = submission.keys.get(self.part).copied();
        let key = key.ok_or_else(|| lacking(&format!("has no part {}", self.part)))?;
        if let Some(difference) = difference(machine, &submission.machine) {
            let reason = format!(
                "the plan was made on another machine than the node that was to measure: {difference}; start the \
                 run on a node like those, for instance by `srun`"
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
        let start = self.start;
        write(
            &self.folder,
            &result_file(self.part),
            &Told { start, key, result },
        )
    }
}

fn result_file(part: usize) -> String {
    format!("{part}.json")
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
        let names = own.keys().chain(asked.keys());
        let name = names
            .into_iter()
            .find(|name| own.get(*name) != asked.get(*name))?;
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
    let json = serde_json::to_vec(value).map_err(|error| RunError::Slurm {
        command: name.to_owned(),
        reason: error.to_string(),
    })?;
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(&json)?;
        file.as_file().sync_all()?;
        Ok(file.persist(&path)?)
    });
    written.map(drop).map_err(io_error("write", &path))
}

fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, RunError> {
    let path = folder.join(name);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| RunError::Slurm {
        command: path.display().to_string(),
        reason: format!("it is not what was written: {error}"),
    })?;
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
