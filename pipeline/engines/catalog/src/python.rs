//! Finds a Python whose pip can install the wheels.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    CatalogError, InstallObserver, Settings,
    child::{self, Ended, Follow},
    settings::is_program,
};

/// Versions of CPython for which wheels are locked.
pub const SUPPORTED_PYTHONS: [&str; 3] = ["3.11", "3.12", "3.13"];

/// Names under which a supported Python may be found, the usual one first.
const NAMES: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];

/// Prints the version, whether threads run without the global lock, and pip's version.
///
/// The current folder comes first among Python's module folders here; a checkout that holds a
/// `pip.py` must not get to run it.
const PROBE: &str = "\
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import sysconfig
try:
    import pip
    found = pip.__version__
except ImportError:
    found = '-'
print('photofinish', sys.implementation.name, '%d.%d' % sys.version_info[:2],
      sysconfig.get_config_var('Py_GIL_DISABLED') or 0, found)
";

/// Prints where the interpreter is: what a search path names may be a script that starts it.
const EXECUTABLE: &str = "import sys; print('photofinish', sys.executable)";

/// A Python that can install wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The program.
    pub program: PathBuf,
    /// Its version, for example `3.12`.
    pub version: String,
    /// The tag of its wheels, for example `cp312`.
    pub tag: String,
}

impl Python {
    /// The first on the search path that can install wheels, or the one that the user chose.
    ///
    /// # Errors
    /// Says for each Python found why it will not do, and what to install.
    pub fn find(
        settings: &Settings,
        observer: &mut dyn InstallObserver,
    ) -> Result<Self, CatalogError> {
        let mut reasons = Vec::new();
        for program in candidates(settings) {
            match probe(&program, true, observer)? {
                Ok(python) => return python.itself(observer),
                Err(reason) => reasons.push(format!("{} {reason}", program.display())),
            }
        }
        Err(CatalogError::Python(advice(settings, &reasons)))
    }

    /// The one that the user names, by its path or as the search path has it, for the packages that it
    /// has; it need not be able to install any, and may be a script that sets where they are.
    ///
    /// # Errors
    /// Says why it will not do.
    pub(crate) fn named(
        name: &Path,
        settings: &Settings,
        observer: &mut dyn InstallObserver,
    ) -> Result<Self, CatalogError> {
        let settings = Settings {
            python: Some(name.to_owned()),
            ..settings.clone()
        };
        let wrong = |why: &str| {
            let versions = versions();
            CatalogError::Python(format!(
                "--from names {}, which {why}: name a Python {versions} that has the engine's packages",
                name.display()
            ))
        };
        let program = candidates(&settings).into_iter().next();
        let program = program.ok_or_else(|| wrong("is not on the search path"))?;
        match probe(&program, false, observer)? {
            Ok(python) => Ok(python),
            Err(reason) => Err(wrong(&reason)),
        }
    }

    /// The same, without the script or link that the search path led to, where it tells where it is.
    /// pyenv's scripts do work of their own after each installation, and fail when two installations
    /// end at once.
    fn itself(self, observer: &mut dyn InstallObserver) -> Result<Self, CatalogError> {
        match self.executable(observer) {
            Ok(program) => Ok(Self { program, ..self }),
            Err(CatalogError::Python(_)) => Ok(self),
            Err(error) => Err(error),
        }
    }

    /// The interpreter itself, behind whatever script or link the search path led to.
    ///
    /// # Errors
    /// When it does not say, or the user asked to stop.
    pub(crate) fn executable(
        &self,
        observer: &mut dyn InstallObserver,
    ) -> Result<PathBuf, CatalogError> {
        let mut answer = Answer {
            observer,
            line: None,
        };
        let mut command = self.command();
        command.args(["-c", EXECUTABLE]);
        match child::run(&mut command, &mut answer) {
            Err(error) => return Err(CatalogError::io("start", &self.program)(error)),
            Ok(Ended::Interrupted) => return Err(CatalogError::Interrupted),
            Ok(Ended::Exited { .. }) => {}
        }
        let path = answer.line.as_deref().and_then(|line| line.split_once(' '));
        let path = path.map(|(_, path)| PathBuf::from(path));
        path.filter(|path| path.is_absolute() && is_program(path))
            .ok_or_else(|| {
                let program = self.program.display();
                let reason = format!("{program} does not say where its interpreter is");
                CatalogError::Python(advice_for(&reason))
            })
    }

    /// A command that runs Python without reading modules from the current folder.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("-P")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1");
        command
    }
}

/// Why no Python can be there, as far as can be told without starting one.
pub(crate) fn missing(settings: &Settings) -> Option<String> {
    let found = candidates(settings).iter().any(|path| is_program(path));
    (!found).then(|| advice(settings, &[]))
}

fn candidates(settings: &Settings) -> Vec<PathBuf> {
    match &settings.python {
        Some(chosen) if chosen.components().count() > 1 => vec![chosen.clone()],
        Some(name) => settings
            .program(&name.to_string_lossy())
            .into_iter()
            .collect(),
        None => NAMES
            .iter()
            .filter_map(|name| settings.program(name))
            .collect(),
    }
}

fn advice(settings: &Settings, reasons: &[String]) -> String {
    let found = match (&settings.python, reasons) {
        (Some(chosen), []) => format!(
            "PHOTOFINISH_PYTHON names {}, which is no program",
            chosen.display()
        ),
        (None, []) => String::from("no python3 is on the search path"),
        (_, reasons) => reasons.join("; "),
    };
    advice_for(&found)
}

/// The supported versions in words.
fn versions() -> String {
    let [rest @ .., last] = &SUPPORTED_PYTHONS;
    format!("{} or {last}", rest.join(", "))
}

fn advice_for(found: &str) -> String {
    let versions = versions();
    format!(
        "{found}: engines are installed by pip of Python {versions}; install one (on Debian: \
         apt install python3 python3-pip), or name one with PHOTOFINISH_PYTHON"
    )
}

/// Asks a Python what it is; the inner error says why it will not do.
fn probe(
    program: &Path,
    needs_pip: bool,
    observer: &mut dyn InstallObserver,
) -> Result<Result<Python, String>, CatalogError> {
    let mut answer = Answer {
        observer,
        line: None,
    };
    let mut command = Command::new(program);
    command.args(["-c", PROBE]);
    match child::run(&mut command, &mut answer) {
        Err(error) => Ok(Err(format!("cannot be started ({error})"))),
        Ok(Ended::Interrupted) => Err(CatalogError::Interrupted),
        Ok(Ended::Exited { .. }) => Ok(judge(program, needs_pip, answer.line.as_deref())),
    }
}

fn judge(program: &Path, needs_pip: bool, answer: Option<&str>) -> Result<Python, String> {
    let words: Vec<_> = answer.unwrap_or_default().split_whitespace().collect();
    let [_, implementation, version, unlocked, pip] = words[..] else {
        return Err(String::from("does not answer as a Python does"));
    };
    if implementation != "cpython" || unlocked != "0" || !SUPPORTED_PYTHONS.contains(&version) {
        let kind = if unlocked == "0" {
            ""
        } else {
            " without the global lock"
        };
        return Err(format!("is {implementation} {version}{kind}"));
    }
    if needs_pip && pip == "-" {
        return Err(format!("({version}) has no pip"));
    }
    Ok(Python {
        program: program.to_owned(),
        version: version.to_owned(),
        tag: format!("cp{}", version.replace('.', "")),
    })
}

struct Answer<'a> {
    observer: &'a mut dyn InstallObserver,
    line: Option<String>,
}

impl Follow for Answer<'_> {
    fn line(&mut self, line: &str) {
        if line.starts_with("photofinish ") {
            self.line = Some(line.to_owned());
        }
    }

    fn tick(&mut self) -> bool {
        !self.observer.interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_supported_python_with_pip_will_do() {
        let judge = |answer| judge(Path::new("/p"), true, answer);
        let judged = |answer| judge(answer).map(|python| python.tag);
        assert_eq!(
            judged(Some("photofinish cpython 3.12 0 23.0")),
            Ok(String::from("cp312"))
        );
        for (answer, reason) in [
            ("photofinish cpython 3.10 0 23.0", "is cpython 3.10"),
            ("photofinish pypy 3.11 0 23.0", "is pypy 3.11"),
            (
                "photofinish cpython 3.13 1 25.0",
                "is cpython 3.13 without the global lock",
            ),
            ("photofinish cpython 3.11 0 -", "(3.11) has no pip"),
            ("hello", "does not answer as a Python does"),
        ] {
            assert_eq!(judged(Some(answer)), Err(String::from(reason)));
        }
        assert!(judged(None).is_err());
    }
}
