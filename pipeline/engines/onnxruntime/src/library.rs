//! ONNX Runtime's shared library.

use std::path::{Path, PathBuf};

use ort::environment::Environment;
use schema::Outcome;
use worker::SharedLibrary;

use crate::failure::{failed, unavailable};

/// Names the library: an absolute path.
pub const LIBRARY_VARIABLE: &str = "PHOTOFINISH_ORT_LIBRARY";

/// The variable that the `ort` crate and its users know.
const ORT_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The library that this process has loaded: the `ort` crate makes one environment, once.
static LOADED: SharedLibrary<Library> = SharedLibrary::of("ONNX Runtime");

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
        LOADED.named(&[LIBRARY_VARIABLE, ORT_VARIABLE])
    }

    /// Loads the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, Outcome> {
        LOADED.open(path, |path| {
            let environment = environment(path)?;
            let path = path.to_owned();
            Ok(Self { path, environment })
        })
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
