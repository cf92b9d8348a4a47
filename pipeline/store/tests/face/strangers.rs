//! Folders, links and pipes that are not ours: nothing of them is lost, and none of them is in
//! the way for ever.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use photofinish_store::{ArtifactKind, Store, StoreError, WriterLock};
use schema::Digest;

use crate::common::*;

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    let mine = folder.path().join("tmp/thesis.tex");
    fs::write(&mine, "mine").unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error:?}");
    assert!(
        error.to_string().ends_with(
            "is not empty and is no photofinish store: name another folder with --store"
        ),
        "{error}"
    );
    assert!(mine.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_filled_after_it_was_opened_is_refused_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    assert!(matches!(store.lock(), Err(StoreError::NotAStore { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_writer_that_was_killed_while_it_made_the_store_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    fs::write(folder.path().join(".format-Xy12"), "").unwrap();
    let store = Store::open(folder.path()).unwrap();
    drop(store.lock().unwrap());
    assert!(!folder.path().join(".format-Xy12").exists());
    // Or later: the format is there before any folder is.
    fs::remove_dir(folder.path().join("tmp")).unwrap();
    fs::remove_dir(folder.path().join("heats")).unwrap();
    fs::remove_file(folder.path().join(".gitignore")).unwrap();
    drop(Store::open(folder.path()).unwrap().lock().unwrap());
    assert!(folder.path().join("heats").is_dir());
}

#[test]
fn of_many_that_make_the_store_at_once_none_takes_it_for_a_strangers() {
    for _ in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(
                    || match Store::open(&path).and_then(|store| store.lock().map(drop)) {
                        Ok(()) | Err(StoreError::Locked { .. }) => {}
                        Err(error) => panic!("{error}"),
                    },
                );
            }
        });
    }
}

#[test]
fn folders_of_the_store_that_are_links_are_refused() {
    for name in ["heats", "runs", "tables", "site", "aside", "tmp"] {
        let (folder, store) = store();
        drop(store.lock().unwrap());
        let victim = folder.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("write-thesis"), "mine").unwrap();
        let place = store.path().join(name);
        fs::remove_dir(&place).unwrap();
        symlink("../victim", &place).unwrap();
        for error in [
            store.lock().unwrap_err(),
            Store::open(store.path()).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                text.contains(name) && text.contains("is a symbolic link"),
                "{text}"
            );
        }
        assert!(victim.join("write-thesis").exists(), "{name}");
    }
}

#[test]
fn only_our_own_leftovers_are_removed() {
    let (folder, store) = store();
    drop(store.lock().unwrap());
    let victim = folder.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("thesis.tex"), "mine").unwrap();
    let tmp = store.path().join("tmp");
    fs::write(tmp.join("thesis.tex"), "mine").unwrap();
    symlink(&victim, tmp.join("write-link")).unwrap();
    fs::create_dir(tmp.join("scratch-x")).unwrap();
    symlink(&victim, tmp.join("scratch-x/inner")).unwrap();
    fs::write(tmp.join("write-x"), "half").unwrap();
    fs::create_dir(tmp.join("bundle-x")).unwrap();
    drop(store.lock().unwrap());
    let mut left: Vec<_> = fs::read_dir(&tmp)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["thesis.tex", "write-link"]);
    assert!(victim.join("thesis.tex").exists());
}

#[test]
fn what_lies_in_the_place_of_the_lock_is_named_and_not_written() {
    let (folder, store) = store();
    drop(store.lock().unwrap());
    let lock = store.path().join("lock");
    let victim = folder.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    fs::remove_file(&lock).unwrap();
    symlink(&victim, &lock).unwrap();
    let error = store.lock().unwrap_err().to_string();
    assert!(
        error.contains("is a symbolic link") && error.contains("remove it"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let error = store.lock().unwrap_err().to_string();
    assert!(error.contains("is a folder"), "{error}");
}

/// What may lie in the place of a file.
#[derive(Debug, Clone, Copy)]
enum Stranger {
    Folder,
    Pipe,
    Dangling,
    LinkToFile,
    Socket,
}

const STRANGERS: [Stranger; 5] = [
    Stranger::Folder,
    Stranger::Pipe,
    Stranger::Dangling,
    Stranger::LinkToFile,
    Stranger::Socket,
];

impl Stranger {
    /// Takes the place of a file.
    fn replace(self, path: &Path) {
        let bytes = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        match self {
            Self::Folder => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("mine"), "mine").unwrap();
            }
            Self::Pipe => nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            Self::Dangling => symlink("nowhere", path).unwrap(),
            Self::LinkToFile => {
                // A good copy, but not ours: who made the link may change it at any time.
                let copy = path.ancestors().find(|above| above.join("lock").exists());
                let copy = copy.unwrap().with_file_name("copy");
                fs::write(&copy, bytes).unwrap();
                symlink(copy, path).unwrap();
            }
            Self::Socket => {
                // Paths of sockets are short: bind it elsewhere, then move it.
                let short = tempfile::tempdir().unwrap();
                let socket = short.path().join("s");
                drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
                fs::rename(&socket, path).unwrap();
            }
        }
    }
}

/// Sets aside what is corrupt, as every run begins; returns how much it was.
fn tidy(store: &Store, lock: &WriterLock) -> usize {
    let mut corrupt = store.known_heats().unwrap().corrupt;
    corrupt.extend(store.corrupt_runs().unwrap());
    for entry in &corrupt {
        lock.set_aside(entry).unwrap().unwrap();
    }
    corrupt.len()
}

#[test]
fn strangers_in_the_place_of_heats_are_set_aside() {
    for stranger in STRANGERS {
        let (_folder, store) = store();
        let lock = store.lock().unwrap();
        let header = header("g");
        for key_file in [false, true] {
            seal(&lock, header.clone());
            let mut place = sealed_file(&store, &header.key);
            if key_file {
                place.set_file_name("key.json");
            }
            stranger.replace(&place);
            assert!(
                store.known_heats().unwrap().heats.is_empty(),
                "{stranger:?}"
            );
            lock.gc(9, true).unwrap();
            assert_eq!(tidy(&store, &lock), 1, "{stranger:?}");
            assert!(fs::symlink_metadata(&place).is_err());
            seal(&lock, header.clone());
            assert_eq!(store.known_heats().unwrap().heats.len(), 1);
        }
        // Measuring mends it even where nobody tidied up.
        let key_file = store.path().join(format!("heats/{}/key.json", header.key));
        stranger.replace(&key_file);
        seal(&lock, header);
        assert_eq!(store.known_heats().unwrap().heats.len(), 1, "{stranger:?}");
    }
}

#[test]
fn strangers_in_a_journal_cost_what_they_replace() {
    for stranger in STRANGERS {
        let (_folder, store) = store();
        let lock = store.lock().unwrap();
        let header = header("g");
        let mut journal = lock.begin(header.clone()).unwrap();
        journal.set_reference(reference()).unwrap();
        journal.append(block(0)).unwrap();
        journal.append(block(1)).unwrap();
        drop(journal);
        let open = store.path().join(format!("heats/{}/open", header.key));
        let mut lines: Vec<PathBuf> = fs::read_dir(&open)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        lines.sort();
        stranger.replace(&lines[3]);
        assert_eq!(tidy(&store, &lock), 1, "{stranger:?}");
        let mut journal = lock.resume(&header.key).unwrap().unwrap();
        assert_eq!(journal.blocks().len(), 1, "{stranger:?}");
        journal.append(block(1)).unwrap();
        journal.seal(footer()).unwrap();
        assert_eq!(store.known_heats().unwrap().heats.len(), 1);
    }
}

#[test]
fn links_in_the_place_of_folders_of_heats_lead_nowhere() {
    let (folder, store) = store();
    let lock = store.lock().unwrap();
    let header = header("g");
    let victim = folder.path().join("victim");
    let of_key = store.path().join(format!("heats/{}", header.key));
    for place in [of_key.clone(), of_key.join("open")] {
        for resumed in [false, true] {
            let mut journal = lock.begin(header.clone()).unwrap();
            journal.set_reference(reference()).unwrap();
            drop(journal);
            fs::rename(&place, &victim).unwrap();
            fs::write(victim.join("thesis.tex"), "mine").unwrap();
            symlink(&victim, &place).unwrap();
            if resumed {
                assert!(lock.resume(&header.key).unwrap().is_none());
            } else {
                lock.gc(9, false).unwrap();
                assert_eq!(tidy(&store, &lock), 1);
            }
            seal(&lock, header.clone());
            assert!(victim.join("thesis.tex").exists());
            assert_eq!(store.known_heats().unwrap().heats.len(), 1);
            fs::remove_dir_all(&of_key).unwrap();
            fs::remove_dir_all(&victim).unwrap();
        }
    }
}

#[test]
fn strangers_in_the_place_of_runs_and_artifacts_are_replaced() {
    for stranger in STRANGERS {
        let (_folder, store) = store();
        let lock = store.lock().unwrap();
        let header = header("g");
        let record = run(&[(&header, seal(&lock, header.clone()))]);
        let digest = lock.put_run(&record).unwrap();
        let file = format!("runs/000001-{digest}.run.zst");
        stranger.replace(&store.path().join(file));
        assert!(store.latest_run().unwrap_err().as_corrupt().is_some());
        assert_eq!(store.gc_preview(1).unwrap().unreadable.len(), 1);
        lock.put_run(&record).unwrap();
        assert_eq!(store.latest_run().unwrap().unwrap().1, record);

        let key = Digest::of_bytes(b"key");
        for (kind, name) in [
            (ArtifactKind::Tables, "tables"),
            (ArtifactKind::Site, "site"),
        ] {
            lock.put(kind, &key, &digest, b"content").unwrap();
            stranger.replace(&store.path().join(format!("{name}/{key}")));
            let error = store.get(kind, &key).unwrap_err();
            assert!(error.as_corrupt().is_some(), "{stranger:?}: {error}");
            lock.put(kind, &key, &digest, b"content").unwrap();
            assert_eq!(store.get(kind, &key).unwrap().unwrap(), b"content");
        }

        let keys = [key];
        lock.begin_fresh(&keys).unwrap();
        stranger.replace(&store.path().join("fresh.json"));
        assert_eq!(store.interrupted_fresh(&keys).unwrap(), None);
        let fresh = lock.begin_fresh(&keys).unwrap();
        assert_eq!(store.interrupted_fresh(&keys).unwrap(), Some(fresh));

        stranger.replace(&store.path().join("format"));
        let error = Store::open(store.path()).unwrap_err().to_string();
        assert!(error.contains("is no number of a format"), "{error}");
        assert!(error.contains("write `1`"), "{error}");
    }
}
