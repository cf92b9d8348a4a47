//! ONNX Runtime's shared library.

use std::{
    env,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use ort::environment::Environment;
use schema::Outcome;

use crate::failure::{failed, unavailable};

/// Names the library: an absolute path.
pub const LIBRARY_VARIABLE: &str = "PHOTOFINISH_ORT_LIBRARY";

/// The variable that the `ort` crate and its users know.
const ORT_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The library that this process has loaded: the `ort` crate makes one environment, once.
static LOADED: Mutex<Option<Library>> = Mutex::new(None);

/// The loaded library.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// Where it is, links resolved.
    pub(crate) path: PathBuf,
    /// Its state for this process.
    pub(crate) environment: Environment,
}

impl Library {
    /// The library that the environment names.
    pub(crate) fn named() -> Result<PathBuf, Outcome> {
        env::var_os(LIBRARY_VARIABLE)
            .or_else(|| env::var_os(ORT_VARIABLE))
            .map(PathBuf::from)
            .ok_or_else(|| {
                unavailable(format!(
                    "{LIBRARY_VARIABLE} does not name ONNX Runtime's library"
                ))
            })
    }

    /// Loads the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, Outcome> {
        if !path.is_absolute() {
            return Err(unavailable(format!(
                "ONNX Runtime's library must be named by an absolute path, not {}",
                path.display()
            )));
        }
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
        let environment = environment(&path)?;
        Ok(loaded.insert(Self { path, environment }).clone())
    }

    /// The library's version, as the name of its file ends: `libonnxruntime.so.1.31.1`.
    pub(crate) fn version(&self) -> Option<String> {
        version(&self.path)
    }
}

fn environment(path: &Path) -> Result<Environment, Outcome> {
    let builder = ort::init_from(path).map_err(|error| unavailable(error.to_string()))?;
    builder
        .with_name("photofinish")
        .with_telemetry(false)
        .build()
        .map_err(|error| failed("environment", &error))
}

fn version(path: &Path) -> Option<String> {
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name() {
        let version = |name: &str| version(Path::new(name));
        assert_eq!(
            version("/x/libonnxruntime.so.1.31.1").as_deref(),
            Some("1.31.1")
        );
        assert_eq!(version("/x/libonnxruntime.so"), None);
    }
}
