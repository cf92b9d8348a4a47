//! Where things are on this machine, and what the user chose.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use schema::Digest;
use serde::Deserialize;

use crate::{CatalogError, builtin, user_file};

/// Where the catalogue looks and installs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of `config.toml` and `engines.toml`; need not exist where no variable names it.
    pub config: PathBuf,
    /// Folder that holds the installed engines; made when the first is installed.
    pub engines: PathBuf,
    /// The Python that runs pip; `None`: the first fitting one on the search path.
    pub python: Option<PathBuf>,
    /// Folders in which programs are searched for.
    pub search_path: OsString,
    /// Folders in which the dynamic linker looks for a worker's libraries after the engine's own:
    /// the user's `LD_LIBRARY_PATH`.
    pub library_path: OsString,
    /// The C++ compiler of engines that compile with one, a name or a path: the user's `CXX`, or what
    /// they take without it.
    pub cxx: OsString,
    /// Folders in which workers are searched for, the first first.
    pub binaries: Vec<PathBuf>,
    /// The checkout from which workers can be built; `None` when there is none.
    pub checkout: Option<PathBuf>,
    /// How pip is called.
    pub pip: Pip,
    /// Whether wheels are kept in `downloads/` after an engine is installed from them.
    pub keep_wheels: bool,
}

/// How pip is called, beyond what its own configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pip {
    /// The package index, instead of pip's default.
    pub index_url: Option<String>,
    /// Package indexes to look at as well.
    pub extra_index_url: Vec<String>,
    /// Folders or pages with wheels.
    pub find_links: Vec<String>,
}

/// The user's `config.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    pip: Pip,
    install: InstallSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct InstallSection {
    keep_wheels: bool,
}

impl Settings {
    /// The settings of this user on this machine: `PHOTOFINISH_CONFIG` or
    /// `$XDG_CONFIG_HOME/photofinish` or `~/.config/photofinish` with its `config.toml`;
    /// `PHOTOFINISH_ENGINES` or `$XDG_CACHE_HOME/photofinish/engines` or
    /// `~/.cache/photofinish/engines`; `PHOTOFINISH_PYTHON`; `CXX`.
    ///
    /// # Errors
    /// When no place can be told, `PHOTOFINISH_CONFIG` names no folder, or `config.toml` is wrong.
    pub fn from_environment() -> Result<Self, CatalogError> {
        Self::from_variables(&|name| env::var_os(name))
    }

    /// The same with other environment variables than this process's.
    ///
    /// # Errors
    /// As [`Settings::from_environment`].
    pub fn from_variables(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, CatalogError> {
        let set = Variables(lookup);
        let config = set.place(
            "PHOTOFINISH_CONFIG",
            "XDG_CONFIG_HOME",
            "photofinish",
            ".config",
        )?;
        let engines = set.place(
            "PHOTOFINISH_ENGINES",
            "XDG_CACHE_HOME",
            "photofinish/engines",
            ".cache",
        )?;
        // A folder that nobody named may be missing; one that was named is a slip.
        if set.get("PHOTOFINISH_CONFIG").is_some() && !config.is_dir() {
            return Err(CatalogError::NoConfigFolder { folder: config });
        }
        let file = read_config(&config.join("config.toml"))?;
        Ok(Self {
            config,
            engines,
            python: set.get("PHOTOFINISH_PYTHON").map(PathBuf::from),
            search_path: set.get("PATH").unwrap_or_default(),
            library_path: set.get("LD_LIBRARY_PATH").unwrap_or_default(),
            // As they take it: one that is empty is set.
            cxx: lookup("CXX").unwrap_or_else(|| "g++".into()),
            binaries: binaries(),
            checkout: checkout(),
            pip: file.pip,
            keep_wheels: file.install.keep_wheels,
        })
    }

    /// The program of this name on the search path.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.search_path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|path| is_program(path))
    }
}

/// Whether a path is a file that may be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Environment variables; one that is empty counts as not set.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// A folder of the user's, after the XDG Base Directory Specification, which says that
    /// relative paths in its variables are to be ignored.
    fn place(
        &self,
        own: &str,
        xdg: &str,
        below: &str,
        home: &str,
    ) -> Result<PathBuf, CatalogError> {
        if let Some(path) = self.get(own) {
            let path = PathBuf::from(path);
            return std::path::absolute(&path).map_err(CatalogError::io("find", path));
        }
        let absolute = |name| {
            self.get(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        absolute(xdg)
            .or_else(|| absolute("HOME").map(|folder| folder.join(home)))
            .map(|folder| folder.join(below))
            .ok_or(CatalogError::NoHome)
    }
}

fn read_config(path: &Path) -> Result<ConfigFile, CatalogError> {
    match user_file::read(path)? {
        Some(text) => {
            toml::from_str(&text).map_err(|error| CatalogError::toml(path, &text, &error))
        }
        None => Ok(ConfigFile::default()),
    }
}

/// Beside the running program, and where Cargo put this library: after `cargo clean`, where it will put workers.
fn binaries() -> Vec<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()));
    let mut folders: Vec<_> = beside.into_iter().collect();
    let built = PathBuf::from(builtin::PROFILE_FOLDER);
    if !folders.contains(&built) && (built.is_dir() || checkout().is_some()) {
        folders.push(built);
    }
    folders
}

/// The checkout that this library was built from, while it still is that checkout.
fn checkout() -> Option<PathBuf> {
    let checkout = PathBuf::from(builtin::CHECKOUT);
    let lock = fs::read(checkout.join("Cargo.lock")).ok()?;
    (Digest::of_bytes(&lock).to_string() == builtin::CARGO_LOCK).then_some(checkout)
}
