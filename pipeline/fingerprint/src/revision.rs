//! The revision of the checkout that is built.

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{line, workspace::Workspace};

/// Git's variables begin so. One that is left from a hook names another repository.
const VARIABLES: &str = "GIT_";

/// In its folder, what changes whenever another revision is checked out or committed, or a file
/// becomes the repository's.
const MOVING: [&str; 3] = ["HEAD", "logs/HEAD", "index"];

/// What programs and pages are made of. Sites are written to `site/dist`, which is none of it.
const SOURCES: [&str; 7] = [
    "Cargo.lock",
    "Cargo.toml",
    "pipeline",
    "report",
    "site/scripts",
    "site/styles",
    "site/templates",
];

/// In a build script: the revision of the checkout; `-dirty` is added where a file of the repository
/// is not as it was committed. `None` where there is no checkout, or no git. Asks Cargo to run the
/// script again when that or any source changes.
///
/// # Errors
/// When the workspace cannot be read: the message says which file.
pub fn revision() -> Result<Option<String>, Box<dyn Error>> {
    let start = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("not in a build script")?);
    let Some(folder) = git(&start, &["rev-parse", "--absolute-git-dir"]) else {
        return Ok(None);
    };
    for path in watched(Workspace::find(&start)?.root(), Path::new(&folder)) {
        line(&format!("cargo::rerun-if-changed={}", path.display()));
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("not in a build script")?);
    Ok(described(&start, Path::new(&folder), &out))
}

/// The revision that is checked out, by a copy of git's index in `out`: `describe` writes what it finds out
/// about files into the index that it reads, whatever it is asked, and git's own would count as changed by the
/// next build.
fn described(start: &Path, git_folder: &Path, out: &Path) -> Option<String> {
    let copy = out.join("index");
    fs::copy(git_folder.join("index"), &copy).ok()?;
    let describe = [
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ];
    git_by(Some(&copy), start, &describe)
}

/// What is to be watched. Workers and their kits are compiled in, or built from the checkout, by
/// other packages than the one that asks: all sources count.
fn watched(root: &Path, git: &Path) -> Vec<PathBuf> {
    let moving = MOVING.map(|name| git.join(name));
    let sources = SOURCES.map(|name| root.join(name));
    // Cargo would take what is not there for changed.
    let paths = moving.into_iter().chain(sources);
    paths.filter(|path| path.exists()).collect()
}

/// What git says in a folder, on one line.
fn git(folder: &Path, args: &[&str]) -> Option<String> {
    git_by(None, folder, args)
}

/// The same, with another index than the folder's own.
fn git_by(index: Option<&Path>, folder: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let is_git_s = |name: &OsString| name.to_string_lossy().starts_with(VARIABLES);
    for (name, _) in env::vars_os().filter(|(name, _)| is_git_s(name)) {
        command.env_remove(name);
    }
    let output = command
        .arg("-C")
        .arg(folder)
        .args(args)
        .envs(index.map(|index| ("GIT_INDEX_FILE", index)))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_watched() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = Workspace::find(here).unwrap();
        let watched = watched(workspace.root(), &workspace.root().join(".git"));
        for source in [
            "Cargo.lock",
            "pipeline/cli/src/main.rs",
            "pipeline/engines/python/photofinish_worker/serve.py",
            "pipeline/engines/python/pytorch/engine.toml",
            "pipeline/engines/torch/cpp/shim.cpp",
            "report/src/lib.rs",
            "site/templates",
        ] {
            let path = workspace.root().join(source);
            assert!(path.exists(), "{source}");
            assert!(
                watched.iter().any(|watched| path.starts_with(watched)),
                "{source}"
            );
        }
        assert!(watched.iter().all(|path| path.exists()));
        let site = workspace.root().join("site/dist/index.html");
        assert!(!watched.iter().any(|watched| site.starts_with(watched)));
    }

    #[test]
    fn git_tells_of_the_folder_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(git(folder.path(), &["rev-parse", "HEAD"]), None);
        let done = |args: &[&str]| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
            let args = [identity.as_slice(), args].concat();
            git(folder.path(), &args)
        };
        done(&["init", "--quiet"]);
        fs::write(folder.path().join("file"), "one").unwrap();
        done(&["add", "file"]);
        done(&["commit", "--quiet", "--message", "One"]);
        let (git_folder, out) = (folder.path().join(".git"), tempfile::tempdir().unwrap());
        let described = || described(folder.path(), &git_folder, out.path()).unwrap();
        let index = fs::read(git_folder.join("index")).unwrap();
        // As another checkout of the same content would have it.
        let file = fs::File::options()
            .write(true)
            .open(folder.path().join("file"));
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let revision = described();
        assert_eq!(revision.len(), 40, "{revision}");
        fs::write(folder.path().join("file"), "two").unwrap();
        assert_eq!(described(), format!("{revision}-dirty"));
        assert_eq!(fs::read(git_folder.join("index")).unwrap(), index);
    }
}
