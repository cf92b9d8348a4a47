//! Where the kernel's files are read from.

use std::{fs, path::PathBuf};

/// A view of a machine through the kernel's files below a root folder: `/` for this machine, a
/// folder of copies in tests.
#[derive(Debug, Clone)]
pub struct Probe {
    pub(crate) root: PathBuf,
}

impl Probe {
    /// This machine.
    #[must_use]
    pub fn system() -> Self {
        Self::at("/")
    }

    /// The machine whose files lie below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Puts a file there, and the folders above it.
    #[cfg(test)]
    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The content of a file, without the white space around it; `None` where there is none.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The value of `name: value` in a file of such lines.
    pub(crate) fn field(&self, path: &str, name: &str) -> Option<String> {
        field(&self.read(path)?, name).map(str::to_owned)
    }
}

/// The value of the first line `name: value` (or `name=value`) of a text.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once([':', '='])?;
        (key.trim() == name).then(|| value.trim().trim_matches('"'))
    })
}
