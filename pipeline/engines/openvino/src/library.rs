//! OpenVINO's shared library.

use std::{
    env, panic,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use schema::Outcome;

use crate::failure::unavailable;

/// Names the library of OpenVINO's C interface: an absolute path.
pub const LIBRARY_VARIABLE: &str = "PHOTOFINISH_OPENVINO_LIBRARY";

/// The library that this process has loaded: the `openvino` crate holds one, for good.
static LOADED: Mutex<Option<Library>> = Mutex::new(None);

/// The loaded library.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// Where it is, links resolved.
    path: PathBuf,
    /// For example `2026.4.1`.
    pub(crate) version: String,
}

impl Library {
    /// The library that the environment names.
    pub(crate) fn named() -> Result<PathBuf, Outcome> {
        env::var_os(LIBRARY_VARIABLE)
            .map(PathBuf::from)
            .ok_or_else(|| {
                unavailable(format!(
                    "{LIBRARY_VARIABLE} does not name OpenVINO's library"
                ))
            })
    }

    /// Loads the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, Outcome> {
        if !path.is_absolute() {
            return Err(unavailable(format!(
                "OpenVINO's library must be named by an absolute path, not {}",
                path.display()
            )));
        }
        // The plugins lie beside the library itself, not beside a link to it.
        let path = path
            .canonicalize()
            .map_err(|error| unavailable(format!("{}: {error}", path.display())))?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some(library) if library.path == path => return Ok(library.clone()),
            Some(library) => {
                return Err(unavailable(format!(
                    "{} cannot be loaded: this process has loaded {}",
                    path.display(),
                    library.path.display()
                )));
            }
            None => {}
        }
        let version = load(&path)?;
        Ok(loaded.insert(Self { path, version }).clone())
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
