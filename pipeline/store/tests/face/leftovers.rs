//! What a killed writer left in its scratch folder, as its worker made it.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use photofinish_store::{Store, StoreError};

/// Names the folder of the store to the test that runs in another process.
const FOLDER: &str = "PHOTOFINISH_TEST_FOLDER";

/// Nobody (Debian, and most others).
const NOBODY: u32 = 65_534;

fn store_in(folder: &Path) -> PathBuf {
    folder.join("store")
}

/// Not a test of its own: the next one runs it as an ordinary user, whom modes bind.
#[test]
#[ignore = "run by another test"]
fn leftovers_are_removed_by_an_ordinary_user() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let store = Store::open(store_in(&folder)).unwrap();
    drop(store.lock().unwrap());
    let tmp = store.path().join("tmp");
    for (name, mode) in [("scratch-closed", 0o000), ("scratch-read-only", 0o555)] {
        let cache = tmp.join(name).join("cache");
        fs::create_dir_all(cache.join("deep")).unwrap();
        fs::write(cache.join("deep/kernel.so"), "code").unwrap();
        for inner in [cache.join("deep"), cache] {
            fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    let lock = store.lock().unwrap();
    assert!(lock.leftovers().is_empty(), "{:?}", lock.leftovers());
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
}

/// Not a test of its own, likewise: what is another user's cannot be removed.
#[test]
#[ignore = "run by another test"]
fn leftovers_that_stay_are_no_obstacle() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let store = Store::open(store_in(&folder)).unwrap();
    let lock = store.lock().unwrap();
    let [StoreError::Io { action, path, .. }] = lock.leftovers() else {
        panic!("{:?}", lock.leftovers());
    };
    assert_eq!(*action, "remove");
    assert!(path.ends_with("tmp/scratch-foreign"), "{path:?}");
}

/// Runs a test of this file on a folder, as an ordinary user.
fn as_user(test: &str, folder: &Path, program: &Path, is_root: bool) {
    let mut command = Command::new(program);
    command
        .args(["--ignored", "--exact", &format!("leftovers::{test}")])
        .env(FOLDER, folder)
        .env("TMPDIR", folder)
        .current_dir("/");
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn what_a_worker_left_does_not_make_the_store_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
    // Where the tests are built, an ordinary user may not come.
    let program = folder.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    if is_root {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let run = |test| as_user(test, folder.path(), &program, is_root);
    run("leftovers_are_removed_by_an_ordinary_user");
    if is_root {
        let foreign = store_in(folder.path()).join("tmp/scratch-foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("file"), "root's").unwrap();
        run("leftovers_that_stay_are_no_obstacle");
    }
}
