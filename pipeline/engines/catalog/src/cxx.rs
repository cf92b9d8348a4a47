//! The C++ compiler of the machine, which some variants compile with.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use schema::Digest;

use crate::{
    Settings,
    child::{self, Ended, Follow},
    settings::is_program,
};

/// How long a compiler may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// What tells the user's C++ compiler from others: what it is called, its program, and what it says of
/// itself, since the program may be a wrapper (ccache, say) around another. No compiler at all has an
/// identity as well.
pub(crate) fn identity(settings: &Settings) -> Digest {
    let program = program(settings);
    let content = program.as_deref().and_then(content);
    let introduction = program.as_deref().and_then(introduction);
    let name = settings.cxx.to_string_lossy();
    // A tuple of texts and hashes is always JSON.
    Digest::of_value(&(name, content, introduction))
}

fn program(settings: &Settings) -> Option<PathBuf> {
    match Path::new(&settings.cxx) {
        path if path.components().count() > 1 => is_program(path).then(|| path.to_owned()),
        name => settings.program(name.to_str()?),
    }
}

fn content(program: &Path) -> Option<Digest> {
    Digest::of_reader(&mut File::open(program).ok()?).ok()
}

/// Its name and version in its own words; `None` where it does not say.
fn introduction(program: &Path) -> Option<String> {
    let mut asked = Command::new(program);
    // The same words whoever asks.
    asked.arg("--version").env("LC_ALL", "C");
    let mut patience = Patience(Instant::now());
    match child::run(&mut asked, &mut patience) {
        Ok(Ended::Exited { status, log }) if status.success() => Some(log),
        _ => None,
    }
}

struct Patience(Instant);

impl Follow for Patience {
    fn tick(&mut self) -> bool {
        self.0.elapsed() < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// What a compiler that is this script says of itself.
    fn said(script: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("cxx");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        introduction(&program)
    }

    #[test]
    fn a_compiler_is_asked_who_it_is_and_waited_for_in_vain_only_so_long() {
        let text = said("echo \"c++ $1 $LC_ALL\"; echo more").unwrap();
        assert_eq!(text, "c++ --version C\nmore");
        assert_eq!(said("echo c++; exit 1"), None);
        assert_eq!(said("exec sleep 1000"), None);
        assert_eq!(introduction(Path::new("/no/such/compiler")), None);
    }
}
