//! What a bundle says about itself.

use schema::{Digest, record::Tool};
use serde::{Deserialize, Serialize};

/// Version of the bundle.
pub const VERSION: u32 = 1;

/// Name of the manifest in the archive.
pub(super) const MANIFEST: &str = "manifest.json";
/// Name of the run record in the archive.
pub(super) const RUN: &str = "run.zst";

/// What a bundle says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the bundle.
    pub version: u32,
    /// The photofinish that packed it, and so one that can read it.
    pub tool: Tool,
    /// The hash of the run record.
    pub run: Digest,
    /// Every other file, by name in order.
    pub files: Vec<BundledFile>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    /// Its name in the archive.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The hash of its content.
    pub sha256: Digest,
}

/// What a file of a bundle is, as its name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Heat { key: Digest, digest: Digest },
    Run,
    Extra(String),
}

impl Entry {
    /// The meaning of a name; the error says why it has none.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let shown = name.escape_debug();
        if name.starts_with('/') {
            return Err(format!("`{shown}` is an absolute path"));
        }
        if name.split('/').any(|part| matches!(part, ".." | "." | "")) {
            return Err(format!("`{shown}` leaves its folder or is no plain path"));
        }
        let unknown = || format!("`{shown}` is not a file that bundles have");
        if name == RUN {
            return Ok(Self::Run);
        }
        match name.split('/').collect::<Vec<_>>().as_slice() {
            ["heats", key, file] => {
                let digest = file.strip_suffix(".heat.zst").ok_or_else(unknown)?;
                Ok(Self::Heat {
                    key: key.parse().map_err(|_| unknown())?,
                    digest: digest.parse().map_err(|_| unknown())?,
                })
            }
            ["extra", file] if is_plain(file) => Ok(Self::Extra((*file).to_owned())),
            _ => Err(unknown()),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Heat { key, digest } => format!("heats/{key}/{digest}.heat.zst"),
            Self::Run => RUN.to_owned(),
            Self::Extra(file) => format!("extra/{file}"),
        }
    }
}

/// Letters, digits and a few signs, not hidden, short enough for every file system and tar.
fn is_plain(name: &str) -> bool {
    (1..=80).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_mean_something() {
        let key = Digest::of_bytes(b"key");
        let heat = Entry::Heat {
            key,
            digest: Digest::of_bytes(b"heat"),
        };
        for entry in [heat, Entry::Run, Entry::Extra("notes.txt".to_owned())] {
            assert_eq!(Entry::parse(&entry.name()), Ok(entry));
        }
        for bad in [
            "",
            "/",
            "/run.zst",
            "../run.zst",
            "./run.zst",
            "heats//x",
            "extra/../run.zst",
            "extra/.hidden",
            "extra/a/b",
            "extra/",
            "extra/a b",
            "extra/a\n",
            "Run.zst",
            "run.zst/",
            "heats/abc/def.heat.zst",
            "manifest.json",
        ] {
            assert!(Entry::parse(bad).is_err(), "{bad:?}");
        }
    }
}
