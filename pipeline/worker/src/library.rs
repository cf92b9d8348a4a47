//! The shared library of an engine whose crate holds one, for good.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use schema::Outcome;

use crate::failure::unavailable;

/// A library that a process loads once; `T` is what is known of it then.
#[derive(Debug)]
pub struct SharedLibrary<T> {
    /// What it is a library of, for messages.
    engine: &'static str,
    loaded: Mutex<Option<(PathBuf, T)>>,
}

impl<T: Clone> SharedLibrary<T> {
    /// The library of an engine, not loaded yet.
    #[must_use]
    pub const fn of(engine: &'static str) -> Self {
        Self {
            engine,
            loaded: Mutex::new(None),
        }
    }

    /// The library that the first of these variables that is set names.
    ///
    /// # Errors
    /// `unavailable`: none of them is set.
    pub fn named(&self, variables: &[&str]) -> Result<PathBuf, Outcome> {
        let named: Option<OsString> = variables.iter().find_map(env::var_os);
        named.map(PathBuf::from).ok_or_else(|| {
            let first = variables.first().copied().unwrap_or_default();
            unavailable(format!("{first} does not name {}'s library", self.engine))
        })
    }

    /// What `load` makes of the library at `path`, whose links are resolved before: what an engine looks
    /// for beside its library lies beside the file itself.
    ///
    /// # Errors
    /// `unavailable`: the path is relative, leads nowhere, or this process has loaded another library;
    /// and what `load` says.
    pub fn open(
        &self,
        path: &Path,
        load: impl FnOnce(&Path) -> Result<T, Outcome>,
    ) -> Result<T, Outcome> {
        if !path.is_absolute() {
            return Err(unavailable(format!(
                "{}'s library must be named by an absolute path, not {}",
                self.engine,
                path.display()
            )));
        }
        let path = path
            .canonicalize()
            .map_err(|error| unavailable(format!("{}: {error}", path.display())))?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some((place, known)) if *place == path => Ok(known.clone()),
            Some((place, _)) => Err(unavailable(format!(
                "{} cannot be loaded: this process has loaded {}",
                path.display(),
                place.display()
            ))),
            None => {
                let known = load(&path)?;
                *loaded = Some((path, known.clone()));
                Ok(known)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use schema::OutcomeKind;

    use super::*;

    #[test]
    fn a_process_holds_one_library() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["one", "other"] {
            fs::write(place(name), name).unwrap();
        }
        std::os::unix::fs::symlink(place("one"), place("link")).unwrap();
        let library = SharedLibrary::of("Such an engine");
        let text = |path: &Path| Ok(fs::read_to_string(path).unwrap());
        let said = |path: &Path| {
            let outcome = library.open(path, text).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unavailable);
            outcome.reason
        };
        assert!(said(Path::new("one")).contains("by an absolute path, not one"));
        assert!(said(&place("none")).contains("No such file"));
        // What cannot be loaded is not held.
        let broken = library.open(&place("other"), |_| Err(unavailable("it is broken")));
        assert_eq!(broken.unwrap_err().reason, "it is broken");
        assert_eq!(library.open(&place("link"), text).unwrap(), "one");
        let again = library.open(&place("one"), |_| Err(unavailable("loaded twice")));
        assert_eq!(again.unwrap(), "one");
        assert!(said(&place("other")).contains("this process has loaded"));
        let variables = ["PHOTOFINISH_NO_SUCH_LIBRARY", "PHOTOFINISH_NOR_THIS"];
        assert_eq!(
            library.named(&variables).unwrap_err().reason,
            "PHOTOFINISH_NO_SUCH_LIBRARY does not name Such an engine's library"
        );
    }
}
