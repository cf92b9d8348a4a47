//! TensorFlow's shared library.

use std::{
    env,
    panic::catch_unwind,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use schema::Outcome;
use tensorflow::library;

use crate::failure::unavailable;

/// Names the folder of the library, an absolute path; the `tensorflow` crate heeds it.
pub const LIBRARY_VARIABLE: &str = "TENSORFLOW_DIR";

/// The library's name in that folder.
const LIBRARY: &str = "libtensorflow.so";

/// Loads the library that the environment names, once a process, and gives its version.
pub(crate) fn open() -> Result<&'static str, Outcome> {
    static VERSION: OnceLock<Result<String, Outcome>> = OnceLock::new();
    VERSION
        .get_or_init(|| {
            let path = named(env::var_os(LIBRARY_VARIABLE).map(PathBuf::from))?;
            load(&path)
        })
        .as_deref()
        .map_err(Clone::clone)
}

/// The library in `folder`. Without this look the crate would go on to search in other places,
/// and another TensorFlow would be measured under this one's name.
fn named(folder: Option<PathBuf>) -> Result<PathBuf, Outcome> {
    let folder = folder.ok_or_else(|| {
        unavailable(format!(
            "{LIBRARY_VARIABLE} does not name the folder of TensorFlow's library"
        ))
    })?;
    if !folder.is_absolute() {
        return Err(unavailable(format!(
            "{LIBRARY_VARIABLE} must be an absolute path, not {}",
            folder.display()
        )));
    }
    let path = folder.join(LIBRARY);
    if path.is_file() {
        Ok(path)
    } else {
        Err(unavailable(format!(
            "{} is not there; `photofinish engines install tensorflow` installs it",
            path.display()
        )))
    }
}

fn load(path: &Path) -> Result<String, Outcome> {
    library::load().map_err(|error| unavailable(format!("{}: {error}", path.display())))?;
    // The crate panics where a library lacks a function that it calls.
    match catch_unwind(tensorflow::version) {
        Ok(Ok(version)) => Ok(version),
        Ok(Err(_)) | Err(_) => Err(unavailable(format!(
            "{} does not tell its version: it is not TensorFlow's library",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use schema::OutcomeKind;

    use super::*;

    #[test]
    fn a_folder_without_the_library_is_named() {
        let empty = tempfile::tempdir().unwrap();
        for (folder, named_in_reason) in [
            (None, LIBRARY_VARIABLE.to_owned()),
            (Some(PathBuf::from("tensorflow")), "tensorflow".to_owned()),
            (
                Some(empty.path().to_owned()),
                empty.path().join(LIBRARY).display().to_string(),
            ),
        ] {
            let outcome = named(folder).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unavailable);
            assert!(outcome.reason.contains(&named_in_reason), "{outcome:?}");
        }
    }

    #[test]
    fn a_folder_with_the_library_will_do() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        let path = named(Some(folder.path().to_owned())).unwrap();
        assert_eq!(path, folder.path().join(LIBRARY));
    }
}
