//! A virtual environment that is made once and shared by all tests and test runs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// Runs a script of `tests/python` and returns what it printed.
///
/// # Panics
/// When the script fails: its own words are in the message.
pub(crate) fn run(script: &str, arguments: &[&Path]) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let mut command = Command::new(environment().join("bin/python3"));
    // The numbers of one thread are enough, and other tests want the rest.
    command
        .env("OMP_NUM_THREADS", "1")
        .env("OPENBLAS_NUM_THREADS", "1");
    let output = finished(command.arg(scripts.join(script)).args(arguments));
    String::from_utf8(output.stdout).expect("scripts print UTF-8")
}

/// The environment, installed first if it is not there or not complete.
fn environment() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("models-python");
    fs::create_dir_all(&root).expect("target can be written");
    let lock = File::create(root.join("lock")).expect("target can be written");
    lock.lock().expect("the environment can be locked");

    let environment = root.join("environment");
    let complete = root.join("complete");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == REQUIREMENTS) {
        return environment;
    }
    let requirements = root.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).expect("target can be written");
    finished(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    );
    let mut install = Command::new(environment.join("bin/python3"));
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        "--requirement",
    ]);
    finished(install.arg(&requirements));
    fs::write(&complete, REQUIREMENTS).expect("target can be written");
    environment
}

fn finished(command: &mut Command) -> Output {
    let output = command.output().expect("python3 is needed by this test");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
