//! For build scripts: the hash of what a worker is built from.
//!
//! A binary's bytes differ by path and machine, so a worker is identified by its sources instead:
//! the files of its package and of the workspace packages below it, the locked versions and
//! checksums of every crate that those reach, the compiler, and the flags. Tests, benchmarks and
//! examples stay out, and so does everything that only a development dependency reaches.
//!
//! The digest is compiled into the worker, which reports it in its `hello`, and into the
//! catalogue, which expects it: a worker from other sources is never measured by mistake.
#![forbid(unsafe_code)]

mod python;
mod revision;
mod workspace;

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

pub use python::{PythonSources, python_sources};
pub use revision::revision;
use workspace::Workspace;

/// Files and folders of a package that are not part of what it is built from: `engine.toml`
/// describes an engine to readers, and its lock is a part of every key by itself.
const NOT_BUILT: [&str; 6] = [
    "tests",
    "benches",
    "examples",
    "target",
    "locks",
    "engine.toml",
];

/// In a worker's build script: makes its digest available as `env!("PHOTOFINISH_WORKER_DIGEST")`.
///
/// # Errors
/// When the workspace cannot be read: the message says which file.
pub fn emit(package: &str) -> Result<(), Box<dyn Error>> {
    let digest = worker_digest(package)?;
    line(&format!(
        "cargo::rustc-env=PHOTOFINISH_WORKER_DIGEST={digest}"
    ));
    Ok(())
}

/// In a build script: the digest of the worker that `package` builds, as 64 hexadecimal digits.
/// Asks Cargo to run the script again when anything that it read changes.
///
/// # Errors
/// When the workspace cannot be read: the message says which file.
pub fn worker_digest(package: &str) -> Result<String, Box<dyn Error>> {
    package_digest(package, &[])
}

/// The same for any package, with the files below further folders of the workspace.
///
/// # Errors
/// When the workspace cannot be read: the message says which file.
pub fn package_digest(package: &str, also: &[PathBuf]) -> Result<String, Box<dyn Error>> {
    let start = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("not in a build script")?);
    let workspace = Workspace::find(&start)?;
    let mut sources = workspace.sources(package)?;
    for folder in also.iter().map(|folder| workspace.root().join(folder)) {
        sources.files.extend(package_files(&folder));
        sources.watched.push(folder);
    }
    for path in &sources.watched {
        line(&format!("cargo::rerun-if-changed={}", path.display()));
    }
    line("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    // Cargo tells of `dev` or `release`, by the older name of the first, whichever profile stands on it.
    let profile = match env::var("PROFILE").as_deref() {
        Ok("debug") => "dev",
        _ => "release",
    };
    let toolchain = toolchain()? + &workspace.profile(profile);
    Ok(hash(workspace.root(), &sources, &toolchain))
}

/// What a package is built from.
#[derive(Debug, Default)]
struct Sources {
    /// Files, each once, sorted.
    files: Vec<PathBuf>,
    /// Locked crates from elsewhere: name, version, source and checksum, sorted.
    crates: Vec<String>,
    /// What the workspace's table says of the crates that its members need, features among it.
    features: BTreeSet<String>,
    /// What Cargo should watch.
    watched: Vec<PathBuf>,
}

/// The hash over everything, in a fixed order. Paths count relative to the workspace, so that two
/// checkouts agree.
fn hash(root: &Path, sources: &Sources, toolchain: &str) -> String {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(toolchain.as_bytes());
    for line in sources.crates.iter().chain(&sources.features) {
        part(line.as_bytes());
    }
    for file in &sources.files {
        let name = file.strip_prefix(root).unwrap_or(file);
        part(name.to_string_lossy().as_bytes());
        // A file that vanished since it was listed counts as empty: the next build sees it.
        part(&fs::read(file).unwrap_or_default());
    }
    let mut hex = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The compiler and the flags that decide what it makes.
fn toolchain() -> Result<String, Box<dyn Error>> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("-vV").output()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["TARGET", "PROFILE", "OPT_LEVEL", "CARGO_ENCODED_RUSTFLAGS"] {
        let value = env::var(name).unwrap_or_default();
        let _ = writeln!(text, "{name}: {value}");
    }
    Ok(text)
}

/// The files below a package's folder that its build reads, sorted.
fn package_files(folder: &Path) -> Vec<PathBuf> {
    let kept = |name: &str| !name.starts_with('.') && !NOT_BUILT.contains(&name);
    let mut files: Vec<_> = WalkDir::new(folder)
        .into_iter()
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name().to_str().is_some_and(kept))
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect();
    files.sort();
    files
}

/// A line to Cargo.
#[expect(
    clippy::print_stdout,
    reason = "standard output is how a build script speaks to Cargo"
)]
fn line(text: &str) {
    println!("{text}");
}
