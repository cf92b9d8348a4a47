//! Running other programs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The repository's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_owned)
        .unwrap_or_default()
}

/// A program to run in the repository's folder.
pub(crate) fn program(name: impl AsRef<Path>) -> Command {
    let mut command = Command::new(name.as_ref());
    command.current_dir(root()).stdin(Stdio::null());
    // Cargo's folders, which would be conditions of a measurement: the same program started by hand
    // would measure everything once more.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Cargo, the one that runs this chore.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = program(env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from));
    command.args(args);
    command
}

/// The program itself, in its release form.
pub(crate) fn photofinish() -> PathBuf {
    target().join("release/photofinish")
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("failed to start {command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} ended with {status}"))
    }
}

/// Runs a command to its end and keeps what it prints.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn output(command: &mut Command) -> Result<std::process::Output, String> {
    command
        .output()
        .map_err(|error| format!("failed to start {command:?}: {error}"))
}

/// The text of a file.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("failed to read {}: {error}", path.display()))
}

/// Writes a file.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("failed to write {}: {error}", path.display()))
}
