//! How workers are started.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use schema::{EngineVariant, Outcome, OutcomeKind};
use worker::{CACHE_VARIABLE, COMPILER_VARIABLE, CXX_VARIABLE, WorkerCommand};

use super::Catalog;
use crate::{
    Kit,
    complete::{Depth, Found},
    gpu,
    kit::{BuiltIn, Origin, Program},
    libraries,
    need::{self, Need},
    place::Place,
    registered::Registered,
    settings::is_program,
    workers,
};

/// Where the dynamic linker looks for libraries first, see ld.so(8). Always set for a worker, since
/// what this process was started with may hold more than the user's folders.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

impl Catalog {
    /// How the worker of an engine and variant is started.
    ///
    /// # Errors
    /// `unsupported` for a variant that the engine does not have, `unavailable` where something
    /// is missing; the reason says what to run.
    pub fn command(&self, wanted: &EngineVariant) -> Result<WorkerCommand, Outcome> {
        let unavailable = |reason: String| Outcome::new(OutcomeKind::Unavailable, reason);
        self.engine(&wanted.engine)
            .map_err(|error| unavailable(error.to_string()))?;
        let kit = self.kit(wanted).ok_or_else(|| {
            let reason = format!(
                "engine `{}` has no variant `{}`",
                wanted.engine, wanted.variant
            );
            Outcome::new(OutcomeKind::Unsupported, reason)
        })?;
        let mut command = match kit.origin() {
            Origin::Registered(command) => match missing(kit.name(), command) {
                Some(reason) => return Err(unavailable(reason)),
                None => {
                    let mut env = command.env.clone();
                    env.entry(LIBRARY_PATH.to_owned())
                        .or_insert_with(|| self.library_path(&[]));
                    WorkerCommand {
                        program: command.program.clone(),
                        args: command.args.clone(),
                        env,
                    }
                }
            },
            Origin::BuiltIn(built_in) => self
                .built_in_command(kit, wanted, built_in)
                .map_err(unavailable)?,
        };
        if let Some(cxx) = self.cxx(kit, wanted) {
            command.env.insert(CXX_VARIABLE.to_owned(), cxx.to_string());
        }
        Ok(command)
    }

    fn built_in_command(
        &self,
        kit: &Kit,
        wanted: &EngineVariant,
        built_in: &BuiltIn,
    ) -> Result<WorkerCommand, String> {
        let name = kit.name();
        // Where an engine has several kits, only one of them may be needed.
        let word = match self.kits.iter().filter(|kit| kit.name() == name).count() {
            0 | 1 => name.to_owned(),
            _ => wanted.to_string(),
        };
        let remedy = format!("run `photofinish engines install {word}`");
        if let Some(reason) = self.changed(kit) {
            return Err(reason);
        }
        match self.look(kit, Depth::Quick) {
            Found::Whole => {}
            Found::Nothing => return Err(format!("engine `{word}` is not installed: {remedy}")),
            Found::Broken(what) => {
                return Err(format!("engine `{word}` is damaged ({what}): {remedy}"));
            }
        }
        if let Some(wanted) = &built_in.libraries
            && let Some(reason) = libraries::missing(&kit.label(), wanted, &self.settings)
        {
            return Err(reason);
        }
        let place = built_in
            .recipe
            .as_ref()
            .map(|recipe| Place::of(kit, &recipe.lock, &self.settings));
        let unbuilt = || format!("the worker of engine `{word}` is not built: {remedy}");
        let mut env = match &place {
            Some(place) => self.environment(kit, built_in, &place.packages()),
            None => BTreeMap::new(),
        };
        if let Some((other, need)) = need::of(&self.kits, wanted) {
            let found = self.compiler(other, need);
            env.extend(found.map_err(|reason| format!("engine `{word}` {reason}: {remedy}"))?);
        }
        match (&built_in.program, &place) {
            (Program::Python(program), Some(place)) => {
                let base = self.base_place(kit);
                let module = &program.module;
                workers::python::command(program, module, kit.worker(), place, base.as_ref(), env)
                    .ok_or_else(unbuilt)
            }
            (Program::Python(_), None) => Err(unbuilt()),
            (Program::Rust(program), _) => {
                let lacks = || workers::missing(kit, built_in, &self.settings);
                Ok(WorkerCommand {
                    program: workers::program(program, &self.settings)
                        .ok_or_else(|| lacks().unwrap_or_else(unbuilt))?,
                    args: Vec::new(),
                    env,
                })
            }
        }
    }

    /// The variables by which a worker is told of the compiler that it needs of another kit, and where
    /// to keep what that makes.
    ///
    /// # Errors
    /// What is wrong, in words that follow the variant's name.
    fn compiler(&self, other: &Kit, need: &Need) -> Result<BTreeMap<String, String>, String> {
        let label = other.label();
        match self.look(other, Depth::Quick) {
            Found::Whole => {}
            Found::Nothing => return Err(format!("needs {label}, which is not installed")),
            Found::Broken(what) => return Err(format!("needs {label}, which is damaged ({what})")),
        }
        let unbuilt = || format!("needs {label}, whose worker is not built");
        let lock = other.lock().ok_or_else(unbuilt)?;
        let cache = Place::of(other, lock, &self.settings).cache();
        let env = BTreeMap::from([(LIBRARY_PATH.to_owned(), self.library_path(&[]))]);
        let command = need::compiler(other, need, env, &self.settings).ok_or_else(unbuilt)?;
        let command = serde_json::to_string(&command).map_err(|error| error.to_string())?;
        Ok(BTreeMap::from([
            (
                CACHE_VARIABLE.to_owned(),
                cache.to_string_lossy().into_owned(),
            ),
            (COMPILER_VARIABLE.to_owned(), command),
        ]))
    }

    /// The environment variables of a worker: paths among its packages, and where the dynamic
    /// linker looks.
    fn environment(
        &self,
        kit: &Kit,
        built_in: &BuiltIn,
        packages: &Path,
    ) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let paths = built_in.paths.iter();
        let mut env: BTreeMap<_, _> = paths
            .map(|(name, path)| (name.clone(), text(packages.join(path))))
            .collect();
        let folders = built_in.library_path.iter();
        let mut folders: Vec<_> = folders.map(|folder| text(packages.join(folder))).collect();
        folders.extend(self.gpu_folders(kit).into_iter().map(text));
        env.insert(LIBRARY_PATH.to_owned(), self.library_path(&folders));
        env
    }

    /// Where the libraries are that a kit takes from another on a GPU, as far as that is installed.
    fn gpu_folders(&self, kit: &Kit) -> Vec<PathBuf> {
        let Some((other, wanted)) = gpu::of(&self.kits, kit) else {
            return Vec::new();
        };
        let place = other
            .lock()
            .map(|lock| Place::of(other, lock, &self.settings));
        let whole = place.filter(|_| self.look(other, Depth::Quick) == Found::Whole);
        let folders = wanted.folders.iter();
        whole.map_or_else(Vec::new, |place| {
            folders
                .map(|folder| place.packages().join(folder))
                .collect()
        })
    }

    /// These folders, then the user's.
    fn library_path(&self, folders: &[String]) -> String {
        let users = self.settings.library_path.to_string_lossy();
        let users = (!users.is_empty()).then_some(users.as_ref());
        let all: Vec<&str> = folders.iter().map(String::as_str).chain(users).collect();
        all.join(":")
    }
}

/// What is wrong with a program that the user named.
pub(super) fn missing(name: &str, command: &Registered) -> Option<String> {
    (!is_program(&command.program)).then(|| {
        format!(
            "{}, which engines.toml names as the worker of engine `{name}`, is no program",
            command.program.display()
        )
    })
}
