//! How pip is called.

use std::{env, path::Path, process::Command};

use crate::{CatalogError, Python, Settings};

/// Options that would send packages elsewhere than asked, wherever the user set them.
const UNSET: [&str; 8] = [
    "PIP_DRY_RUN",
    "PIP_NO_BINARY",
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_REPORT",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_TARGET",
];

/// How often pip may go on with a download that was cut off.
const RESUME: &str = "PIP_RESUME_RETRIES";

/// What pip says of content that is not what was asked for.
const MISMATCH: &str = "DO NOT MATCH THE HASHES";

const COMMON: [&str; 6] = [
    "--no-deps",
    "--only-binary=:all:",
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
];

/// `pip download` from the indexes that pip and the user's `config.toml` name. Only the wheel
/// that the requirements file names by its hash is accepted.
///
/// Pip's own cache is not used: it would keep a second copy of every wheel.
pub(crate) fn download(
    python: &Python,
    settings: &Settings,
    scratch: &Path,
    requirements: &Path,
    to: &Path,
) -> Command {
    let mut command = pip(python, scratch);
    command
        .arg("download")
        .args(COMMON)
        .arg("--require-hashes")
        .arg("--dest")
        .arg(to);
    command.arg("--requirement").arg(requirements);
    // From 25.1 on, pip goes on with a download that was cut off; older ones do not know the
    // variable, and heed it no more than any other.
    if env::var_os(RESUME).is_none() {
        command.env(RESUME, "5");
    }
    look_in(&mut command, settings);
    command
}

/// `pip download` without any hash: how a lock file comes to its hashes. What to download is left
/// to the caller; `kept` is a folder of wheels to take from before any index.
pub(crate) fn lock(python: &Python, settings: &Settings, to: &Path, kept: &Path) -> Command {
    let mut command = pip(python, to);
    command
        .arg("download")
        .args(COMMON)
        .arg("--dest")
        .arg(to)
        .arg("--find-links")
        .arg(kept);
    look_in(&mut command, settings);
    command
}

/// Adds the places that the user's `config.toml` names.
fn look_in(command: &mut Command, settings: &Settings) {
    let pip = &settings.pip;
    if let Some(index) = &pip.index_url {
        command.arg("--index-url").arg(index);
    }
    for index in &pip.extra_index_url {
        command.arg("--extra-index-url").arg(index);
    }
    for place in &pip.find_links {
        // A folder counts from the file that names it.
        let is_address = place.contains("://");
        command.arg("--find-links");
        if is_address {
            command.arg(place)
        } else {
            command.arg(settings.config.join(place))
        };
    }
}

/// `pip install` of wheels in a folder, without any index and without the user's configuration.
pub(crate) fn install(
    python: &Python,
    scratch: &Path,
    requirements: &Path,
    from: &Path,
    to: &Path,
) -> Command {
    let mut command = pip(python, scratch);
    command
        .env("PIP_CONFIG_FILE", "/dev/null")
        .arg("--isolated")
        .arg("install")
        .args(COMMON);
    command.args([
        "--require-hashes",
        "--no-index",
        "--no-compile",
        "--no-warn-script-location",
        "--find-links",
    ]);
    command
        .arg(from)
        .arg("--target")
        .arg(to)
        .arg("--requirement")
        .arg(requirements);
    command
}

fn pip(python: &Python, scratch: &Path) -> Command {
    let mut command = python.command();
    for name in UNSET {
        command.env_remove(name);
    }
    // A user's wish for other installations, which pip would refuse to combine with ours.
    // (An empty value would leave what a `pip.conf` says; an empty file says that there is none.)
    command
        .env("PIP_USER", "0")
        .env("PIP_CONSTRAINT", "/dev/null")
        .env("PIP_REQUIRE_VIRTUALENV", "0");
    command.env("TMPDIR", scratch).args(["-m", "pip"]);
    command
}

/// Whether pip's output says that the content is not what was asked for. An old pip says so of
/// content that did not arrive whole as well.
pub(crate) fn is_mismatch(log: &str) -> bool {
    log.contains(MISMATCH)
}

/// Whether pip's output says that the content did not arrive whole.
pub(crate) fn is_cut_off(log: &str) -> bool {
    let signs = ["IncompleteRead", "incomplete-download", "not enough bytes"];
    signs.iter().any(|sign| log.contains(sign))
}

/// The error that pip's output stands for.
pub(crate) fn failure(
    engine: &str,
    step: String,
    settings: &Settings,
    log: String,
) -> CatalogError {
    let has = |needles: &[&str]| needles.iter().any(|needle| log.contains(needle));
    let config = settings.config.join("config.toml");
    let elsewhere = format!(
        "another package index, or a folder of wheels, can be named in {} ([pip] index_url, find_links)",
        config.display()
    );
    let hint = if is_mismatch(&log) {
        String::from(
            "the package index holds other content than the lock file names, so nothing was installed",
        )
    } else if has(&["No space left"]) {
        String::from("the disk is full")
    } else if has(&[
        "onnection",
        "timed out",
        "resolution",
        "SSLError",
        "ProxyError",
        "Errno 101",
    ]) {
        format!("check the network; {elsewhere}")
    } else if has(&["No matching distribution", "Could not find a version"]) {
        format!("no package index that pip knows offers it; {elsewhere}")
    } else {
        String::from("the end of its output says why")
    };
    CatalogError::Pip {
        engine: engine.to_owned(),
        step,
        hint,
        log,
    }
}
