//! The catalogue of engines: one place to ask about all of them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use schema::{Availability, Digest, EngineDescription, EngineVariant, Outcome, OutcomeKind};
use worker::{CACHE_VARIABLE, COMPILER_VARIABLE, CXX_VARIABLE, WorkerCommand};

use crate::{
    CatalogError, InstallObserver, Kit, Python, Settings,
    adopt::Adopted,
    base, builtin,
    complete::{self, Depth, Found, Wanted},
    cxx, gpu,
    install::{self, Source},
    kit::{BuiltIn, Origin, Program},
    libraries, merge,
    need::{self, Need},
    place::Place,
    python, registered,
    registered::Registered,
    settings::is_program,
    workers,
};

/// The engines of this machine's user.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// What each engine can do, sorted by name.
    engines: Vec<EngineDescription>,
    /// Sorted by the engine's name.
    kits: Vec<Kit>,
    /// Built-in kits on whose installations others stand, whether or not the user has replaced
    /// their engines.
    bases: Vec<Kit>,
    settings: Settings,
    /// What tells the machine's C++ compiler from others, looked at once: workers are told what the
    /// plan counted.
    cxx: OnceLock<Digest>,
}

/// Where a kit stands.
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
    /// Complete, and links to the packages of a Python of the user's.
    Adopted {
        /// Where.
        path: PathBuf,
        /// That Python.
        python: PathBuf,
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
        Self::with_kits(builtin::kits()?, settings)
    }

    /// The same with other kits than the built-in ones.
    ///
    /// # Errors
    /// When `engines.toml` is wrong: with line and column; when kits of the same engine do not fit
    /// together.
    pub fn with_kits(mut kits: Vec<Kit>, settings: &Settings) -> Result<Self, CatalogError> {
        base::settle(&mut kits)?;
        need::check(&kits)?;
        gpu::check(&kits)?;
        let bases = base::all(&kits);
        registered::register(&mut kits, settings)?;
        kits.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(Self {
            engines: merge::engines(&kits)?,
            kits,
            bases,
            settings: settings.clone(),
            cxx: OnceLock::new(),
        })
    }

    /// The kits, sorted by their engine's name.
    #[must_use]
    pub fn kits(&self) -> &[Kit] {
        &self.kits
    }

    /// The kit that runs a variant of an engine.
    #[must_use]
    pub fn kit(&self, wanted: &EngineVariant) -> Option<&Kit> {
        self.kits.iter().find(|kit| {
            kit.name() == wanted.engine && kit.description().variant(&wanted.variant).is_some()
        })
    }

    /// What each engine can do, sorted by name.
    #[must_use]
    pub fn descriptions(&self) -> Vec<EngineDescription> {
        self.engines.clone()
    }

    /// Whether each variant of each engine can be used here. What can be installed is not missing.
    /// Reads no large file of a built-in engine, and starts nothing but the machine's C++ compiler, to
    /// ask for its version.
    #[must_use]
    pub fn availability(&self) -> BTreeMap<EngineVariant, Availability> {
        let one = |kit: &Kit| Availability {
            lock: self.identity(kit),
            worker: kit.made_of(),
            compiler: None,
            gpu: self.gpu_identity(kit),
            missing: self.missing(kit),
        };
        let all = self.kits.iter().flat_map(|kit| {
            let found = one(kit);
            kit.variants()
                .map(move |variant| (kit, variant, found.clone()))
        });
        all.map(|(kit, variant, mut found)| {
            found.compiler = self.cxx(kit, &variant);
            if let Some((other, _)) = need::of(&self.kits, &variant) {
                found.lock = need::identity(found.lock, other, self.identity(other));
                found.missing = found.missing.or_else(|| self.missing(other));
            }
            (variant, found)
        })
        .collect()
    }

    /// What a kit is installed from: what is pinned, and where packages of the user's are in its place,
    /// or in that of what it stands on, those.
    fn identity(&self, kit: &Kit) -> Option<Digest> {
        let lock = kit.lock()?.digest;
        let parts = std::iter::once(kit).chain(base::of(&self.bases, kit));
        let adopted = parts.filter_map(|part| {
            let place = Place::of(part, part.lock()?, &self.settings);
            Some(complete::adopted(&place.home())?.digest())
        });
        let adopted: String = adopted.map(|digest| format!("{digest}\n")).collect();
        match adopted.is_empty() {
            true => Some(lock),
            false => Some(Digest::of_bytes(format!("{lock}\n{adopted}").as_bytes())),
        }
    }

    /// What the libraries are from that a kit takes from another on a GPU. What is adopted may bring its
    /// own, and takes them from there only if they are there.
    fn gpu_identity(&self, kit: &Kit) -> Option<Digest> {
        let (other, _) = gpu::of(&self.kits, kit)?;
        let takes = !self.is_adopted(kit) || self.look(other, Depth::Quick) == Found::Whole;
        takes.then(|| self.identity(other)).flatten()
    }

    /// Why packages of the user's that a kit is made of cannot be used.
    fn changed(&self, kit: &Kit) -> Option<String> {
        let part = std::iter::once(kit).chain(base::of(&self.bases, kit));
        let mut adopted = part.filter(|part| self.is_adopted(part));
        adopted.find_map(|part| match self.look_alone(part, Depth::Quick) {
            Found::Whole => None,
            found => Some(install::changed(&part.label(), found).to_string()),
        })
    }

    fn is_adopted(&self, kit: &Kit) -> bool {
        let place = kit.lock().map(|lock| Place::of(kit, lock, &self.settings));
        place.is_some_and(|place| place.is_adopted)
    }

    /// What is to be installed besides for a variant to run on a GPU; `None` where it needs nothing more,
    /// or is made of packages of the user's.
    #[must_use]
    pub fn needed_on_gpu(&self, wanted: &EngineVariant) -> Option<EngineVariant> {
        let kit = self.kit(wanted)?;
        let (other, _) = gpu::of(&self.kits, kit)?;
        (!self.is_adopted(kit)).then(|| other.variants().next())?
    }

    /// What tells the C++ compiler of a variant from others; `None` where it compiles with none.
    fn cxx(&self, kit: &Kit, variant: &EngineVariant) -> Option<Digest> {
        let described = kit.description().variant(&variant.variant)?;
        let compiles = described.compiles_cxx;
        compiles.then(|| *self.cxx.get_or_init(|| cxx::identity(&self.settings)))
    }

    fn missing(&self, kit: &Kit) -> Option<String> {
        match kit.origin() {
            Origin::Registered(command) => missing_program(kit.name(), command),
            Origin::BuiltIn(built_in) => install::foreign_platform()
                .map(|platform| {
                    let engine = kit.label();
                    CatalogError::Platform { engine, platform }.to_string()
                })
                .or_else(|| self.changed(kit))
                .or_else(|| {
                    let installed = matches!(self.look(kit, Depth::Quick), Found::Whole);
                    (!installed)
                        .then(|| python::missing(&self.settings))
                        .flatten()
                })
                .or_else(|| workers::missing(kit, built_in, &self.settings))
                .or_else(|| {
                    let wanted = built_in.libraries.as_ref()?;
                    libraries::missing(&kit.label(), wanted, &self.settings)
                }),
        }
    }

    /// Where a kit stands, by the sizes of its files. What an installation would take depends on the
    /// Python at hand, which is asked for its version.
    #[must_use]
    pub fn state(&self, kit: &Kit) -> EngineState {
        let lock = match kit.origin() {
            Origin::Registered(Registered { program, args, .. }) => {
                let program = program.to_string_lossy().into_owned();
                let command = [program].into_iter().chain(args.iter().cloned()).collect();
                return EngineState::Registered { command };
            }
            Origin::BuiltIn(BuiltIn { recipe: None, .. }) => return EngineState::Bundled,
            Origin::BuiltIn(BuiltIn {
                recipe: Some(recipe),
                ..
            }) => &recipe.lock,
        };
        let place = Place::of(kit, lock, &self.settings);
        match self.look(kit, Depth::Sizes) {
            Found::Whole => {
                let path = place.home();
                match complete::adopted(&path) {
                    Some(Adopted { python, .. }) => EngineState::Adopted { path, python },
                    None => EngineState::Installed { path },
                }
            }
            Found::Broken(what) => EngineState::Broken { what },
            Found::Nothing => {
                let (download_bytes, disk_bytes) = self.sizes_ahead(kit);
                EngineState::NotInstalled {
                    download_bytes,
                    disk_bytes,
                }
            }
        }
    }

    /// What installing a kit would download, and take on the disk, in bytes; its base included, as
    /// far as they are not there.
    fn sizes_ahead(&self, kit: &Kit) -> (u64, u64) {
        let parts = std::iter::once(kit).chain(base::of(&self.bases, kit));
        let missing = parts.filter(|part| self.look_alone(part, Depth::Quick) != Found::Whole);
        missing
            .filter_map(|part| {
                let lock = part.lock()?;
                let place = Place::of(part, lock, &self.settings);
                Some(install::sizes_ahead(lock, &place, &self.settings))
            })
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    /// Installs what is not installed, and mends that of whose files one is missing or of the wrong
    /// size. Does nothing where all is in place. Each word names an engine, with all of its kits
    /// (`pytorch`), or a variant, with the kit that runs it (`pytorch/eager`) and the one that it needs
    /// besides; what a kit stands on is installed before it.
    ///
    /// # Errors
    /// The first kit's that could not be installed; the others before it are in place.
    pub fn install(
        &self,
        words: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        self.install_to(words, Depth::Sizes, Source::Chosen, observer)
    }

    /// The same of what is pinned, where packages of the user's were adopted.
    ///
    /// # Errors
    /// As [`Catalog::install`].
    pub fn install_pinned(
        &self,
        words: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        self.install_to(words, Depth::Sizes, Source::Pinned, observer)
    }

    /// The same without a download: what is installed links to the packages that a Python of the user's
    /// has, which is named by its path or as the search path has it. The engine itself must be there in
    /// the version that is pinned; what it stands on may be of another, or missing.
    ///
    /// # Errors
    /// As [`Catalog::install`], and where that Python does not have an engine.
    pub fn adopt(
        &self,
        words: &[String],
        python: &Path,
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let python = Python::named(python, &self.settings, observer)?;
        self.install_to(words, Depth::Sizes, Source::Adopted(&python), observer)
    }

    /// The same after a check of every file's hash, which reads all of an installation.
    ///
    /// # Errors
    /// As [`Catalog::install`].
    pub fn verify(
        &self,
        words: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        self.install_to(words, Depth::Hashes, Source::Chosen, observer)
    }

    fn install_to(
        &self,
        words: &[String],
        depth: Depth,
        source: Source<'_>,
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        let mut wanted: Vec<&Kit> = Vec::new();
        for kit in self.named(words)? {
            for part in base::of(&self.bases, kit).into_iter().chain([kit]) {
                if !wanted.iter().any(|known| known.label() == part.label()) {
                    wanted.push(part);
                }
            }
        }
        wanted.into_iter().try_for_each(|kit| {
            let python = self.base_python(kit);
            let python = python.as_deref();
            install::install(kit, python, source, &self.settings, depth, observer)
        })
    }

    /// Where the packages are that a kit stands on.
    fn base_place(&self, kit: &Kit) -> Option<Place> {
        let base = base::of(&self.bases, kit)?;
        Some(Place::of(base, base.lock()?, &self.settings))
    }

    /// The Python that what a kit stands on is installed for.
    fn base_python(&self, kit: &Kit) -> Option<PathBuf> {
        complete::interpreter(&self.base_place(kit)?.home())
    }

    /// Builds the workers of installed kits when photofinish runs from its checkout. Cargo is not
    /// even started for a worker that is up to date.
    ///
    /// # Errors
    /// When a worker is missing and cannot be built.
    pub fn build_workers(
        &self,
        words: &[String],
        observer: &mut dyn InstallObserver,
    ) -> Result<(), CatalogError> {
        for kit in self.named(words)? {
            if let Origin::BuiltIn(built_in) = kit.origin() {
                workers::build(kit, built_in, &self.settings, observer)?;
            }
        }
        Ok(())
    }

    /// The kits that words name, each once, in the words' order.
    fn named(&self, words: &[String]) -> Result<Vec<&Kit>, CatalogError> {
        let mut named: Vec<&Kit> = Vec::new();
        for word in words {
            let (name, variant) = match word.split_once('/') {
                Some((name, variant)) => (name, Some(variant)),
                None => (word.as_str(), None),
            };
            let engine = self.engine(name)?;
            if let Some(variant) = variant.filter(|variant| engine.variant(variant).is_none()) {
                let known: Vec<_> = engine.variants.iter().map(|it| it.name.as_str()).collect();
                return Err(CatalogError::UnknownVariant {
                    engine: name.to_owned(),
                    variant: variant.to_owned(),
                    known: known.join(", "),
                });
            }
            let needed = word.parse().ok().and_then(|it| need::of(&self.kits, &it));
            for kit in self.kits.iter().filter(|kit| kit.name() == name) {
                let runs = variant.is_none_or(|it| kit.description().variant(it).is_some());
                let is_needed = needed.is_some_and(|(other, _)| std::ptr::eq(other, kit));
                if (runs || is_needed) && !named.iter().any(|&known| std::ptr::eq(known, kit)) {
                    named.push(kit);
                }
            }
        }
        Ok(named)
    }

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
            Origin::Registered(command) => match missing_program(kit.name(), command) {
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
                let missing = || workers::missing(kit, built_in, &self.settings);
                Ok(WorkerCommand {
                    program: workers::program(program, &self.settings)
                        .ok_or_else(|| missing().unwrap_or_else(unbuilt))?,
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

    /// Looks at a kit's installation, and at what it stands on.
    fn look(&self, kit: &Kit, depth: Depth) -> Found {
        match (self.look_alone(kit, depth), base::of(&self.bases, kit)) {
            (Found::Whole, Some(base)) => match self.look_alone(base, depth) {
                Found::Broken(what) => Found::Broken(format!("{}: {what}", base.label())),
                found => found,
            },
            (found, _) => found,
        }
    }

    fn look_alone(&self, kit: &Kit, depth: Depth) -> Found {
        let Some(lock) = kit.lock() else {
            return Found::Whole;
        };
        let home = Place::of(kit, lock, &self.settings).home();
        let python = self.base_python(kit);
        let wanted = Wanted {
            lock: lock.digest,
            python: python.as_deref(),
        };
        complete::look(&home, wanted, depth, &mut |_| true).unwrap_or(Found::Nothing)
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

    fn engine(&self, name: &str) -> Result<&EngineDescription, CatalogError> {
        let mut engines = self.engines.iter();
        engines.find(|engine| engine.name == name).ok_or_else(|| {
            let names: Vec<_> = self.engines.iter().map(|it| it.name.as_str()).collect();
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
