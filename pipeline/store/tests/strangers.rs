//! Folders, links and pipes that are not ours: nothing of them is lost, and none of them is in
//! the way for ever.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, os::unix::fs::symlink};

use common::*;
use photofinish_store::{Store, StoreError};

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
