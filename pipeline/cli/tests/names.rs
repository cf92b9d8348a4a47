//! Names of places: given by a variable, or not UTF-8, which the system allows.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
};

use common::{BENCH, User, assert_says, text};

/// Not UTF-8: a byte that never occurs in it.
const STRANGE: &[u8] = b"a\xff";

#[test]
fn misuse_is_told_whatever_the_words() {
    let user = User::new();
    for word in [&b"--\xff"[..], b"\xff\xff\xff\xff"] {
        let word = OsStr::from_bytes(word);
        for args in [&["plan"][..], &["aggregate", "--run"], &["--output-format"]] {
            let output = user.command(args).arg(word).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        }
    }
}

#[test]
fn a_store_that_workers_cannot_be_told_of_is_refused_before_anything_is_measured() {
    let user = User::small();
    let strange = user.folder.path().join(OsStr::from_bytes(STRANGE));
    let mut command = user.command(&["bench", "manifest.yaml", "--out", "site", "--store"]);
    let output = command.arg(&strange).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert_says(&output, "which is not UTF-8");
    assert!(!strange.join("heats").exists());
}

#[test]
fn results_may_go_anywhere() {
    let user = User::small();
    assert!(user.run(&BENCH).status.success());
    let strange = |name: &str| {
        let mut path = user
            .folder
            .path()
            .join(OsStr::from_bytes(STRANGE))
            .into_os_string();
        path.push(name);
        path
    };
    let done = |args: &[&str], place: &OsString| {
        let json = ["--store", "store", "--output-format", "json"];
        let mut command = user.command(args);
        let output = command.arg(place).args(json).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(fs::metadata(place).is_ok());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    };
    done(&["report", "--out"], &strange("-site"));
    done(&["bundle", "pack"], &strange("-bundle"));
}

#[test]
fn a_variable_names_the_store_unless_it_is_empty() {
    let user = User::new();
    for (value, place) in [("elsewhere", "elsewhere"), ("", ".photofinish")] {
        let mut command = user.command(&["report"]);
        let output = command.env("PHOTOFINISH_STORE", value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert_says(&output, &format!("no run in {place}"));
    }
}
