//! The catalogue of engines: one place to ask about all of them.

mod command;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use schema::{Availability, Digest, EngineDescription, EngineVariant};

use crate::{
    CatalogError, InstallObserver, Kit, Python, Settings,
    adopt::Adopted,
    base, builtin,
    complete::{self, Depth, Found, Wanted},
    cxx, gpu,
    install::{self, Source},
    kit::{BuiltIn, Origin},
    libraries, merge, need,
    place::Place,
    python, registered,
    registered::Registered,
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

    /// The engines' names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.engines
            .iter()
            .map(|engine| engine.name.clone())
            .collect()
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
            Origin::Registered(command) => command::missing(kit.name(), command),
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
