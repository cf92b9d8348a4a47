//! The catalogue of engines: one place to ask about all of them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use schema::{Availability, EngineDescription, EngineVariant, Outcome, OutcomeKind};
use worker::WorkerCommand;

use crate::{
    CatalogError, Engine, InstallObserver, Settings, builtin,
    complete::{self, Depth, Found},
    engine::{BuiltIn, Origin, Recipe},
    install,
    place::Place,
    python, registered,
    registered::Registered,
    settings::is_program,
    workers,
};

/// The engines of this machine's user.
#[derive(Debug, Clone)]
pub struct Catalog {
    engines: Vec<Engine>,
    settings: Settings,
}

/// Where an engine stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineState {
    /// Nothing of it is here.
    NotInstalled {
        /// What its installation has to download still, in bytes.
        download_bytes: u64,
        /// What it takes on the disk, in bytes.
        disk_bytes: u64,
    },
    /// Complete.
    Installed {
        /// Where.
        path: PathBuf,
    },
    /// Damaged; installing it again mends it.
    Broken {
        /// What is wrong with it.
        what: String,
    },
    /// A command of the user's.
    Registered {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// Its worker needs nothing but itself.
    Bundled,
}

/// Where the dynamic linker looks for libraries first, see ld.so(8). Always set for a worker, since
/// what this process was started with may hold more than the user's folders.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

impl Catalog {
    /// The built-in engines and those that the user registered.
    ///
    /// # Errors
    /// When `engines.toml` is wrong: with line and column.
    pub fn load(settings: &Settings) -> Result<Self, CatalogError> {
        Self::with_engines(builtin::engines()?, settings)
    }

    /// The same with other engines than the built-in ones.
    ///
    /// # Errors
    /// When `engines.toml` is wrong: with line and column.
    pub fn with_engines(
        mut engines: Vec<Engine>,
        settings: &Settings,
    ) -> Result<Self, CatalogError> {
        registered::register(&mut engines, settings)?;
        engines.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(Self {
            engines,
            settings: settings.clone(),
        })
    }

    /// The engines, sorted by name.
    #[must_use]
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// What each engine can do, sorted by name.
    #[must_use]
    pub fn descriptions(&self) -> Vec<EngineDescription> {
        self.engines
            .iter()
            .map(|engine| engine.description().clone())
            .collect()
    }

    /// Whether each engine can be used here, by name. An engine that can be installed is not
    /// missing. Starts no process and reads no large file of a built-in engine.
    #[must_use]
    pub fn availability(&self) -> BTreeMap<String, Availability> {
        let one = |engine: &Engine| Availability {
            lock: engine.lock().map(|lock| lock.digest),
            worker: engine.worker(),
            missing: self.missing(engine),
        };
        self.engines
            .iter()
            .map(|engine| (engine.name().to_owned(), one(engine)))
            .collect()
    }

    fn missing(&self, engine: &Engine) -> Option<String> {
        match engine.origin() {
            Origin::Registered(command) => missing_program(engine.name(), command),
            Origin::BuiltIn(built_in) => install::foreign_platform()
                .map(|platform| {
                    let engine = engine.name().to_owned();
                    CatalogError::Platform { engine, platform }.to_string()
                })
                .or_else(|| {
                    let installed = matches!(self.look(engine, Depth::Quick), Found::Whole);
                    (!installed)
                        .then(|| python::missing(&self.settings))
                        .flatten()
                })
                .or_else(|| workers::missing(engine, built_in, &self.settings)),
        }
    }

    /// Where an engine stands, by the sizes of its files. What an installation would take depends
    /// on the Python at hand, which is asked for its version.
    ///
    /// # Errors
    /// When there is no such engine.
    pub fn state(&self, name: &str) -> Result<EngineState, CatalogError> {
        let engine = self.engine(name)?;
        let lock = match engine.origin() {
            Origin::Registered(Registered { program, args, .. }) => {
                let program = program.to_string_lossy().into_owned();
                let command = [program].into_iter().chain(args.iter().cloned()).collect();
                return Ok(EngineState::Registered { command });
            }
            Origin::BuiltIn(BuiltIn { recipe: None, .. }) => return Ok(EngineState::Bundled),
            Origin::BuiltIn(BuiltIn {
                recipe: Some(recipe),
                ..
            }) => &recipe.lock,
        };
        Ok(match self.look(engine, Depth::Sizes) {
            Found::Whole => EngineState::Installed {
                path: Place::of(engine, lock, &self.settings).home(),
            },
            Found::Broken(what) => EngineState::Broken { what },
            Found::Nothing => {
                let place = Place::of(engine, lock, &self.settings);
                let (download_bytes, disk_bytes) =
                    install::sizes_ahead(lock, &place, &self.settings);
                EngineState::NotInstalled {
                    download_bytes,
                    disk_bytes,
                }
            }
        })
    }

    /// Installs engines that are not installed, and mends those of whose files one is missing or
    /// of the wrong size. Does nothing where all is in place.
    ///
    /// # Errors
    /// The first engine's that could not be installed; the others before it are in place.
    pub fn install(
        &self,
        names: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        self.install_to(names, Depth::Sizes, observer)
    }

    /// The same after a check of every file's hash, which reads all of an installation.
    ///
    /// # Errors
    /// As [`Catalog::install`].
    pub fn verify(
        &self,
        names: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        self.install_to(names, Depth::Hashes, observer)
    }

    fn install_to(
        &self,
        names: &[String],
        depth: Depth,
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let engines = names
            .iter()
            .map(|name| self.engine(name))
            .collect::<Result<Vec<_>, _>>()?;
        engines
            .into_iter()
            .try_for_each(|engine| install::install(engine, &self.settings, depth, observer))
    }

    /// Builds the workers of installed engines when photofinish runs from its checkout. Cargo is
    /// not even started for a worker that is up to date.
    ///
    /// # Errors
    /// When a worker is missing and cannot be built.
    pub fn build_workers(
        &self,
        names: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        for name in names {
            let engine = self.engine(name)?;
            if let Origin::BuiltIn(built_in) = engine.origin() {
                workers::build(engine, built_in, &self.settings, observer)?;
            }
        }
        Ok(())
    }

    /// How the worker of an engine and variant is started.
    ///
    /// # Errors
    /// `unsupported` for a variant that the engine does not have, `unavailable` where something
    /// is missing; the reason says what to run.
    pub fn command(&self, wanted: &EngineVariant) -> Result<WorkerCommand, Outcome> {
        let unavailable = |reason: String| Outcome::new(OutcomeKind::Unavailable, reason);
        let engine = self
            .engine(&wanted.engine)
            .map_err(|error| unavailable(error.to_string()))?;
        if engine.description().variant(&wanted.variant).is_none() {
            let reason = format!(
                "engine `{}` has no variant `{}`",
                wanted.engine, wanted.variant
            );
            return Err(Outcome::new(OutcomeKind::Unsupported, reason));
        }
        match engine.origin() {
            Origin::Registered(command) => match missing_program(engine.name(), command) {
                Some(reason) => Err(unavailable(reason)),
                None => {
                    let mut env = command.env.clone();
                    env.entry(LIBRARY_PATH.to_owned())
                        .or_insert_with(|| self.library_path(&[]));
                    Ok(WorkerCommand {
                        program: command.program.clone(),
                        args: command.args.clone(),
                        env,
                    })
                }
            },
            Origin::BuiltIn(built_in) => {
                self.built_in_command(engine, built_in).map_err(unavailable)
            }
        }
    }

    fn built_in_command(
        &self,
        engine: &Engine,
        built_in: &BuiltIn,
    ) -> Result<WorkerCommand, String> {
        let name = engine.name();
        let remedy = format!("run `photofinish engines install {name}`");
        match self.look(engine, Depth::Quick) {
            Found::Whole => {}
            Found::Nothing => return Err(format!("engine `{name}` is not installed: {remedy}")),
            Found::Broken(what) => {
                return Err(format!("engine `{name}` is damaged ({what}): {remedy}"));
            }
        }
        let program = workers::program(built_in, &self.settings).ok_or_else(|| {
            workers::missing(engine, built_in, &self.settings)
                .unwrap_or_else(|| format!("the worker of engine `{name}` is not built: {remedy}"))
        })?;
        let packages = built_in
            .recipe
            .as_ref()
            .map(|recipe| Place::of(engine, &recipe.lock, &self.settings).packages());
        let env = packages
            .map(|packages| self.environment(built_in, &packages))
            .unwrap_or_default();
        Ok(WorkerCommand {
            program,
            args: Vec::new(),
            env,
        })
    }

    fn look(&self, engine: &Engine, depth: Depth) -> Found {
        let Origin::BuiltIn(BuiltIn {
            recipe: Some(Recipe { lock, .. }),
            ..
        }) = engine.origin()
        else {
            return Found::Whole;
        };
        let home = Place::of(engine, lock, &self.settings).home();
        complete::look(&home, lock.digest, depth, &mut |_| true).unwrap_or(Found::Nothing)
    }

    /// The environment variables of a worker: paths among its packages, and where the dynamic
    /// linker looks.
    fn environment(&self, built_in: &BuiltIn, packages: &Path) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let paths = built_in.worker.paths.iter();
        let mut env: BTreeMap<_, _> = paths
            .map(|(name, path)| (name.clone(), text(packages.join(path))))
            .collect();
        let folders = built_in.worker.library_path.iter();
        let folders: Vec<_> = folders.map(|folder| text(packages.join(folder))).collect();
        env.insert(LIBRARY_PATH.to_owned(), self.library_path(&folders));
        env
    }

    /// These folders, then the user's.
    fn library_path(&self, folders: &[String]) -> String {
        let users = self.settings.library_path.to_string_lossy();
        let users = (!users.is_empty()).then_some(users.as_ref());
        let all: Vec<&str> = folders.iter().map(String::as_str).chain(users).collect();
        all.join(":")
    }

    fn engine(&self, name: &str) -> Result<&Engine, CatalogError> {
        self.engines
            .iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| {
                let names: Vec<_> = self.engines.iter().map(Engine::name).collect();
                CatalogError::UnknownEngine {
                    name: name.to_owned(),
                    known: names.join(", "),
                }
            })
    }
}

fn missing_program(name: &str, command: &Registered) -> Option<String> {
    (!is_program(&command.program)).then(|| {
        format!(
            "{}, which engines.toml names as the worker of engine `{name}`, is no program",
            command.program.display()
        )
    })
}
