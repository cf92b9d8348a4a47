//! One writer at a time.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    ops::Deref,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{Store, StoreError, atomic, bundle, layout::LOCK_FILE, now};

/// Longest command that a lock names, in characters.
const COMMAND_CHARS: usize = 200;

/// Begins the names of scratch folders.
const SCRATCH_PREFIX: &str = "scratch-";

/// How the names begin of all that writers put into `tmp/`; nothing else is removed from there.
const PREFIXES: [&str; 3] = [atomic::WRITE_PREFIX, SCRATCH_PREFIX, bundle::PREFIX];

/// What [`WriterLock::check_room`] writes: more than a journal's line of an ordinary block.
const ROOM_BYTES: usize = 1 << 20;

/// How long the lock of a writer that was killed may outlive it: a worker that it was just
/// starting has a copy until it becomes another program.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// The right to write to a store, held until dropped. The system takes it back when the process
/// dies, however it dies.
#[derive(Debug)]
pub struct WriterLock {
    store: Store,
    file: File,
    /// What an earlier writer left and cannot be removed.
    leftovers: Vec<StoreError>,
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
}

impl Holder {
    /// Whether its process has ended: it may be a zombie, or no more.
    fn is_gone(&self) -> bool {
        match fs::read_to_string(format!("/proc/{}/stat", self.pid)) {
            // The state follows the program's name, which may hold anything (man 5 proc).
            Ok(stat) => stat
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])),
            Err(error) => self.pid != 0 && error.kind() == io::ErrorKind::NotFound,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return f.write_str("another process");
        }
        // The file may hold anything: nothing of it may steer a terminal.
        let (command, since) = (self.command.escape_debug(), self.since.escape_debug());
        write!(f, "process {} (`{command}`, since {since})", self.pid)
    }
}

impl Store {
    /// Takes the right to write, creating the store where there is none, and removes what an
    /// earlier writer left half-written. What of that cannot be removed is no obstacle:
    /// [`WriterLock::leftovers`] tells.
    ///
    /// # Errors
    /// Another process holds it (the error says which), the folder holds files and no store, or
    /// the store cannot be written.
    pub fn lock(&self) -> Result<WriterLock, StoreError> {
        // The folder may have become somebody else's since it was opened.
        self.check()?;
        atomic::create_folder(self.path())?;
        let path = self.path().join(LOCK_FILE);
        let mut file = open(&path)?;
        take(&mut file, self, &path)?;
        self.create()?;
        write_holder(&mut file).map_err(StoreError::io("write", &path))?;
        let mut lock = WriterLock {
            store: self.clone(),
            file,
            leftovers: Vec::new(),
        };
        lock.leftovers = lock.clean()?;
        Ok(lock)
    }
}

impl WriterLock {
    /// A folder for temporary files, removed when dropped, or by the next writer if this process
    /// is killed.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn scratch(&self) -> Result<tempfile::TempDir, StoreError> {
        let tmp = self.tmp();
        tempfile::Builder::new()
            .prefix(SCRATCH_PREFIX)
            .tempdir_in(&tmp)
            .map_err(StoreError::temporary("create a folder in", tmp))
    }

    /// Makes sure that there is room for more: a worker that fails while there is none says nothing
    /// about its engine.
    ///
    /// # Errors
    /// A megabyte cannot be written.
    pub fn check_room(&self) -> Result<(), StoreError> {
        let folder = self.scratch()?;
        let path = folder.path().join("room");
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&vec![1; ROOM_BYTES])?;
            file.sync_all()
        });
        written.map_err(StoreError::temporary("write to", self.tmp()))
    }

    /// What an earlier writer left in `tmp/` and cannot be removed: it takes room, and harms
    /// nothing.
    #[must_use]
    pub fn leftovers(&self) -> &[StoreError] {
        &self.leftovers
    }

    /// Removes what an earlier writer left in `tmp/`: files and folders by the names that writers
    /// give. Links are never ours. Returns what could not be removed.
    fn clean(&self) -> Result<Vec<StoreError>, StoreError> {
        let tmp = self.tmp();
        let mut stuck = Vec::new();
        for name in atomic::list(&tmp)? {
            let path = tmp.join(&name);
            let is_link = fs::symlink_metadata(&path).is_ok_and(|there| there.is_symlink());
            if !is_link && PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                stuck.extend(atomic::remove(&path).err());
            }
        }
        Ok(stuck)
    }
}

impl Deref for WriterLock {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // The name of a holder that is gone would only mislead. The lock itself would go with the
        // file handle, but a process that is being forked at this moment has a copy of that.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// Opens the file to be locked, creating it; anything else in its place is left alone.
fn open(path: &Path) -> Result<File, StoreError> {
    let in_the_way = |kind: fs::FileType| StoreError::InTheWay {
        path: path.to_owned(),
        reason: format!(
            "is {}, where the store keeps the file that its writer holds: remove it, or name another store with --store",
            atomic::describe(kind)
        ),
    };
    if let Ok(there) = fs::symlink_metadata(path)
        && !there.is_file()
    {
        return Err(in_the_way(there.file_type()));
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .custom_flags(atomic::CAREFULLY)
        .open(path)
        .map_err(StoreError::io("lock", path))?;
    let kind = file
        .metadata()
        .map_err(StoreError::io("look at", path))?
        .file_type();
    if kind.is_file() {
        Ok(file)
    } else {
        Err(in_the_way(kind))
    }
}

/// Takes the lock of the file.
fn take(file: &mut File, store: &Store, path: &Path) -> Result<(), StoreError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = read_holder(file);
        if !holder.is_gone() || began.elapsed() > LAST_BREATH {
            let path = store.path().to_owned();
            return Err(StoreError::Locked { path, holder });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    // An earlier look may have left the cursor behind the text.
    let _ = file.rewind();
    let unknown = Holder {
        pid: 0,
        command: String::new(),
        since: String::new(),
    };
    match file.take(4096).read_to_string(&mut text) {
        Ok(_) => serde_json::from_str(&text).unwrap_or(unknown),
        Err(_) => unknown,
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let command = words.join(" ").chars().take(COMMAND_CHARS).collect();
    let holder = Holder {
        pid: std::process::id(),
        command,
        since: now(),
    };
    let text = serde_json::to_string(&holder).map_err(io::Error::other)?;
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writer_learns_who_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let lock = store.lock().unwrap();
        let error = store.lock().unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(lock);
        store.lock().unwrap();
    }

    #[test]
    fn a_writer_that_is_gone_is_waited_out() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let lock = store.lock().unwrap();
        // As if the writer had been killed while it started a worker, which lives a moment longer.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let text = format!("{{\"pid\":{pid},\"command\":\"x\",\"since\":\"y\"}}");
        fs::write(folder.path().join("lock"), text).unwrap();
        let copy = lock.file.try_clone().unwrap();
        std::mem::forget(lock);
        let waiter = std::thread::spawn(move || store.lock().map(drop));
        std::thread::sleep(Duration::from_millis(50));
        copy.unlock().unwrap();
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn a_hostile_lock_file_cannot_steer_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let _lock = store.lock().unwrap();
        let evil = "{\"pid\":7,\"command\":\"\\u001b[2Jx\",\"since\":\"\\u0007\"}";
        fs::write(folder.path().join("lock"), evil).unwrap();
        let error = store.lock().unwrap_err().to_string();
        assert!(!error.chars().any(char::is_control), "{error:?}");
        fs::write(folder.path().join("lock"), [0xff; 9000]).unwrap();
        assert!(
            store
                .lock()
                .unwrap_err()
                .to_string()
                .contains("another process")
        );
    }

    #[test]
    fn leftovers_are_removed_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        drop(store.lock().unwrap());
        fs::write(store.tmp().join("write-abc"), "half").unwrap();
        fs::create_dir(store.tmp().join("bundle-x")).unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        drop(store.lock().unwrap());
        assert_eq!(atomic::list(&store.tmp()).unwrap(), Vec::<String>::new());
        assert!(folder.path().join("notes.txt").exists());
    }

    #[test]
    fn a_file_in_the_place_of_the_store_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "x").unwrap();
        let error = Store::open(&path).unwrap_err().to_string();
        assert!(error.contains("is not a folder"), "{error}");
        let error = Store::open(path.join("below")).unwrap_err().to_string();
        assert!(error.contains("is not a folder"), "{error}");
    }

    #[test]
    fn a_store_of_another_version_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("format"), "99\n").unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("format version 99"), "{error}");
        fs::write(folder.path().join("format"), "hello").unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("write `1`"), "{error}");
    }
}
