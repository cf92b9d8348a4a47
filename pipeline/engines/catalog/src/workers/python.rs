//! Workers written in Python: their files come with photofinish, and the Python of the installation
//! runs them, with nothing on its path but them and the installed packages.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use schema::Digest;
use walkdir::WalkDir;
use worker::{CACHE_VARIABLE, WorkerCommand};

use crate::{
    CatalogError, InstallEvent, InstallObserver, Kit, Settings, complete, kit::PythonProgram,
    place::Place,
};

/// Names the folder for compiled modules.
const PYCACHE: &str = "PYTHONPYCACHEPREFIX";

/// Runs a module. Its folders are given as arguments, which no environment variable changes, and
/// are gone before the module looks at its arguments.
const START: &str = "\
import runpy, sys
module, *folders = sys.argv[1:]
sys.path[:0] = folders
del sys.argv[1:]
runpy.run_module(module, run_name='__main__', alter_sys=True)
";

/// How a module of a worker's is started, on the worker's own packages and those that it stands on;
/// `None` where it is not in place.
///
/// Python runs isolated (`-I`, `-S`): neither the current folder, nor the user's packages, nor any
/// variable of Python's own decides what is imported. Compiled modules go beside the installation,
/// whose files stay as they were verified.
pub(crate) fn command(
    program: &PythonProgram,
    module: &str,
    digest: Digest,
    place: &Place,
    base: Option<&Place>,
    mut env: BTreeMap<String, String>,
) -> Option<WorkerCommand> {
    let sources = folder(program, digest, &place.root);
    let interpreter = complete::interpreter(&place.home())?;
    let found = |name: &str| sources.join(name).is_file();
    if !program.sources.iter().all(|(name, _)| found(name)) {
        return None;
    }
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let cache = place.cache();
    let compiled = text(cache.join("pycache"));
    let pycache = format!("pycache_prefix={compiled}");
    env.insert(CACHE_VARIABLE.to_owned(), text(cache));
    // For the Pythons that a worker starts: PyTorch's compiler does.
    env.insert(PYCACHE.to_owned(), compiled);
    let args = ["-I", "-S", "-X", &pycache, "-c", START, module];
    let args = args.into_iter().map(str::to_owned);
    let packages = [Some(place), base].into_iter().flatten();
    let folders = [sources].into_iter().chain(packages.map(Place::packages));
    Some(WorkerCommand {
        program: interpreter,
        args: args.chain(folders.map(text)).collect(),
        env,
    })
}

/// Writes a worker's files, unless they are there as they should be.
pub(crate) fn put(
    kit: &Kit,
    program: &PythonProgram,
    settings: &Settings,
    observer: &mut dyn InstallObserver,
) -> Result<(), CatalogError> {
    let engine = kit.label();
    let to = folder(program, kit.worker(), &settings.engines);
    if is_whole(program, &to) {
        observer.event(InstallEvent::Ready { engine });
        return Ok(());
    }
    let parent = settings.engines.join("workers");
    fs::create_dir_all(&parent).map_err(CatalogError::io("make", &parent))?;
    let staging = tempfile::Builder::new()
        .prefix(".making-")
        .tempdir_in(&parent)
        .map_err(CatalogError::io("make a folder in", &parent))?;
    let fresh = staging.path().join("worker");
    for (name, content) in program.sources {
        write(&fresh.join(name), content)?;
    }
    move_in(&fresh, &to, &staging.path().join("old"), program)?;
    observer.event(InstallEvent::Built {
        engine,
        program: to,
    });
    Ok(())
}

/// Where a worker's files are: named by their hash, so that another photofinish finds its own.
fn folder(program: &PythonProgram, digest: Digest, engines: &Path) -> PathBuf {
    let name = format!("{}-{}", program.module, digest.short());
    engines.join("workers").join(name)
}

/// Whether every file holds what it should, and there is none that Python might import besides.
fn is_whole(program: &PythonProgram, folder: &Path) -> bool {
    let is_code = |entry: &walkdir::DirEntry| entry.path().extension().is_some_and(|it| it == "py");
    let files = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    if files.filter(is_code).count() != program.sources.len() {
        return false;
    }
    let is_right = |name: &str, content: &str| {
        fs::read(folder.join(name)).is_ok_and(|bytes| bytes == content.as_bytes())
    };
    let mut sources = program.sources.iter();
    sources.all(|(name, content)| is_right(name, content))
}

fn write(path: &Path, content: &str) -> Result<(), CatalogError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(CatalogError::io("make", parent))?;
    }
    let written = fs::File::create(path).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    written.map_err(CatalogError::io("write", path))
}

/// Puts a finished folder in place of what is there. Another process may do the same at the same
/// time: whose files are there in the end does not matter.
fn move_in(
    fresh: &Path,
    to: &Path,
    old: &Path,
    program: &PythonProgram,
) -> Result<(), CatalogError> {
    if let Err(error) = fs::rename(to, old)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(CatalogError::io("move away", to)(error));
    }
    match fs::rename(fresh, to) {
        Err(_) if is_whole(program, to) => Ok(()),
        renamed => renamed.map_err(CatalogError::io("write", to)),
    }
}
