//! What a worker written in Python is made of: the files themselves, which are what runs.

use std::{error::Error, fmt::Write as _, fs, path::Path};

use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use crate::line;

/// The files of Python packages.
#[derive(Debug, PartialEq, Eq)]
pub struct PythonSources {
    /// Their hash, as 64 hexadecimal digits: SHA-256 over the path and then the content of each
    /// file, each preceded by its length as 64 bits, little-endian. The worker computes the same
    /// from the files that it was loaded from, and tells it in its `hello`.
    pub digest: String,
    /// Their paths below the folder that holds the packages, sorted.
    pub files: Vec<String>,
}

/// In a build script: the files of `packages`, which are folders in `folder`: every `.py` file, and
/// nothing else. Asks Cargo to run the script again when one of them changes.
///
/// # Errors
/// When a package has no file, or a file cannot be read or has a name that is not UTF-8.
pub fn python_sources(folder: &Path, packages: &[&str]) -> Result<PythonSources, Box<dyn Error>> {
    for package in packages {
        line(&format!(
            "cargo::rerun-if-changed={}",
            folder.join(package).display()
        ));
    }
    read(folder, packages)
}

fn read(folder: &Path, packages: &[&str]) -> Result<PythonSources, Box<dyn Error>> {
    let mut files = Vec::new();
    for package in packages {
        let before = files.len();
        for entry in WalkDir::new(folder.join(package)) {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type().is_file() && path.extension().is_some_and(|it| it == "py") {
                let name = path.strip_prefix(folder)?.to_str();
                let name = name.ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
                files.push(name.to_owned());
            }
        }
        if files.len() == before {
            return Err(format!("package `{package}` holds no file of Python's").into());
        }
    }
    files.sort();
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for name in &files {
        part(name.as_bytes());
        part(&fs::read(folder.join(name))?);
    }
    let mut digest = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(digest, "{byte:02x}");
    }
    Ok(PythonSources { digest, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("one/__init__.py", ""),
            ("one/deep/part.py", "x = 1\n"),
            ("one/__pycache__/part.pyc", "bytes"),
            ("two/__main__.py", "import one\n"),
            ("three/__init__.py", "unused"),
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_files_that_python_reads_are_hashed_and_no_others() {
        let root = packages();
        let sources = || read(root.path(), &["two", "one"]).unwrap();
        let before = sources();
        assert_eq!(
            before.files,
            ["one/__init__.py", "one/deep/part.py", "two/__main__.py"]
        );
        fs::write(root.path().join("one/__pycache__/part.pyc"), "other").unwrap();
        fs::write(root.path().join("three/__init__.py"), "other").unwrap();
        assert_eq!(sources(), before);
        fs::write(root.path().join("one/deep/part.py"), "x = 2\n").unwrap();
        assert_ne!(sources().digest, before.digest);
        let error = read(root.path(), &["four"]).unwrap_err();
        assert!(error.to_string().contains("four"), "{error}");
    }

    #[test]
    fn python_computes_the_same_digest() {
        const SCRIPT: &str = "
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
digest = hashlib.sha256()
files = sorted(p.relative_to(root).as_posix() for n in ('one', 'two') for p in (root / n).rglob('*.py'))
for name in files:
    for part in (name.encode(), (root / name).read_bytes()):
        digest.update(len(part).to_bytes(8, 'little') + part)
print(digest.hexdigest(), end='')
";
        let root = packages();
        let output = std::process::Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(root.path())
            .output()
            .expect("python3 is needed by this test");
        let digest = read(root.path(), &["one", "two"]).unwrap().digest;
        assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    }
}
