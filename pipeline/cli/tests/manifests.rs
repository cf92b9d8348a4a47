//! The manifests that ship: each can be planned with the engines that ship.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{fs, path::Path, process::Command};

use common::text;

#[test]
fn every_manifest_that_ships_is_planned() {
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let folder = tempfile::tempdir().unwrap();
    let mut planned = 0;
    for place in [jobs.clone(), jobs.join("seeds")] {
        for entry in fs::read_dir(place).unwrap() {
            let manifest = entry.unwrap().path();
            if manifest.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
                .arg("plan")
                .arg(&manifest)
                .arg("--store")
                .arg(folder.path().join("store"))
                .env("PHOTOFINISH_CONFIG", folder.path())
                .output()
                .unwrap();
            let said = text(&output);
            assert!(output.status.success(), "{}: {said}", manifest.display());
            assert!(said.contains(" cells in "), "{said}");
            planned += 1;
        }
    }
    assert!(planned >= 13, "{planned}");
}
