//! OpenVINO's shared library.

use std::{
    panic,
    path::{Path, PathBuf},
};

use schema::Outcome;
use worker::SharedLibrary;

use crate::failure::unavailable;

/// Names the library of OpenVINO's C interface: an absolute path.
pub const LIBRARY_VARIABLE: &str = "PHOTOFINISH_OPENVINO_LIBRARY";

/// The library that this process has loaded: the `openvino` crate holds one, for good.
static LOADED: SharedLibrary<Library> = SharedLibrary::of("OpenVINO");

/// The loaded library.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// For example `2026.4.1`.
    pub(crate) version: String,
}

impl Library {
    /// The library that the environment names.
    pub(crate) fn named() -> Result<PathBuf, Outcome> {
        LOADED.named(&[LIBRARY_VARIABLE])
    }

    /// Loads the library at `path`. The plugins lie beside the library itself, not beside a link to it.
    pub(crate) fn open(path: &Path) -> Result<Self, Outcome> {
        LOADED.open(path, |path| {
            let version = load(path)?;
            Ok(Self { version })
        })
    }
}

/// Loads the library for the `openvino` crate, and gives its version.
fn load(path: &Path) -> Result<String, Outcome> {
    // The crate panics at a library that lacks its functions.
    let loaded = panic::catch_unwind(|| {
        openvino_sys::library::load_from(path)?;
        Ok::<_, String>(version(&openvino::version().build_number).to_owned())
    });
    loaded
        .unwrap_or_else(|_| Err("it is another library".to_owned()))
        .map_err(|reason| unavailable(format!("{} is not OpenVINO: {reason}", path.display())))
}

/// The version in the number of a build: `2026.4.1-22982-0123456789a-releases/2026/4`.
fn version(build: &str) -> &str {
    build.split_once('-').map_or(build, |(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_build_begins_with_the_version() {
        assert_eq!(
            version("2026.4.1-22982-0123abc-releases/2026/4"),
            "2026.4.1"
        );
        assert_eq!(version("2026.4.1"), "2026.4.1");
    }
}
