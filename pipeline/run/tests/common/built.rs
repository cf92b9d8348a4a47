//! Cargo, for what tests run beside themselves.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Has cargo build these, if need be, as it built this test, and gives the folder where they are. Of the whole workspace,
/// and with an example among them, so that crates get the features that they have in its tests: with others, or in another
/// profile, all that stands on them would be compiled once more.
pub(crate) fn built(which: &[&str]) -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        // Cargo's one exception to naming the folder after the profile.
        Some("debug") => "dev",
        named => named.unwrap(),
    };
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--profile", profile]);
    let is_built = build.args(which).status().unwrap().success();
    assert!(is_built, "cargo does not build {which:?}");
    Path::to_owned(folder)
}
