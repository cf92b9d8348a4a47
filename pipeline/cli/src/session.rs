//! What every command needs: the store, the engines, the machine, and a way to be interrupted.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    env, io,
    path::{Path, PathBuf},
};

use aggregate::AggregateError;
use catalog::{Catalog, CatalogError, Settings};
use report::ReportError;
use schema::{Device, Digest, EngineVariant, Fingerprint, Outcome, Situation, record::Tool};
use store::{Store, StoreError, WriterLock};
use tempfile::TempDir;
use worker::{WorkerCommand, host::Interrupt};

use crate::{args::Common, failure::Failure, interrupt, printer::Printer, tool};

/// The surroundings of a command.
pub(crate) struct Session {
    pub(crate) printer: Printer,
    pub(crate) store: Store,
    pub(crate) interrupt: Interrupt,
    catalog: OnceCell<Catalog>,
    fingerprint: OnceCell<Fingerprint>,
    /// The folder of a store of our own.
    scratch: Option<TempDir>,
}

/// The store of a command that names none.
const DEFAULT_STORE: &str = ".photofinish";

impl Session {
    /// Opens the store. Nothing is written. With `borrows`, a store that nobody named is one of its
    /// own, gone when the command ends.
    pub(crate) fn open(printer: Printer, common: &Common, borrows: bool) -> Result<Self, Failure> {
        let interrupt = Interrupt::new().map_err(unwatched)?;
        // Set to nothing is not set.
        let variable = env::var_os("PHOTOFINISH_STORE").filter(|folder| !folder.is_empty());
        let named = common.store.clone().or(variable.map(PathBuf::from));
        let named = named.as_deref();
        let (store, scratch) = if borrows && named.is_none() {
            let (store, folder) = Store::temporary().map_err(store_failure)?;
            (store, Some(folder))
        } else {
            let folder = named.unwrap_or(Path::new(DEFAULT_STORE));
            (Store::open(folder).map_err(store_failure)?, None)
        };
        Ok(Self {
            printer,
            store,
            interrupt,
            catalog: OnceCell::new(),
            fingerprint: OnceCell::new(),
            scratch,
        })
    }

    /// Whether there is a store, or this command has one of its own.
    pub(crate) fn has_store(&self) -> bool {
        self.scratch.is_some() || self.store.require().is_ok()
    }

    /// The engines, by the user's configuration; read once, and only by commands to which engines
    /// matter: who reads results needs none.
    pub(crate) fn catalog(&self) -> Result<&Catalog, Failure> {
        if let Some(catalog) = self.catalog.get() {
            return Ok(catalog);
        }
        let mut settings = Settings::from_environment().map_err(Failure::usage)?;
        settings.library_path = telemetry::library_path();
        let catalog = Catalog::load(&settings).map_err(Failure::usage)?;
        Ok(self.catalog.get_or_init(|| catalog))
    }

    /// From here on the command looks at the interrupt, and signals trigger it.
    pub(crate) fn watch(&self) -> Result<(), Failure> {
        interrupt::watch(&self.interrupt).map_err(unwatched)
    }

    /// Ends a command that was interrupted, between two of its stages.
    pub(crate) fn heed(&self) -> Result<(), Failure> {
        if self.interrupt.is_set() {
            return Err(Failure::interrupted());
        }
        Ok(())
    }

    /// What this machine is; read once.
    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        self.fingerprint.get_or_init(telemetry::fingerprint)
    }

    /// Becomes the store's only writer.
    pub(crate) fn writer(&self) -> Result<WriterLock, Failure> {
        let lock = self.store.lock().map_err(store_failure)?;
        for leftover in lock.leftovers() {
            self.printer
                .note(&format!("warning: left by an earlier run: {leftover}"));
        }
        Ok(lock)
    }

    /// What measures.
    pub(crate) fn tool(&self) -> Tool {
        tool::this()
    }

    /// How a failed installation ends.
    pub(crate) fn install_failure(&self, error: &CatalogError) -> Failure {
        match error {
            _ if self.interrupt.is_set() => Failure::interrupted_with(
                "what is installed and wheels that are whole are kept, and the same command fetches \
                 the rest",
            ),
            CatalogError::UnknownEngine { .. }
            | CatalogError::UnknownVariant { .. }
            | CatalogError::Settings { .. } => Failure::usage(error),
            _ => Failure::lacking(error),
        }
    }
}

/// What a run asks of the engines.
pub(crate) struct Workers<'a>(pub(crate) &'a Catalog);

impl run::Workers for Workers<'_> {
    fn command(&self, engine: &EngineVariant, _device: Device) -> Result<WorkerCommand, Outcome> {
        self.0.command(engine)
    }

    fn built_from(&self, engine: &EngineVariant) -> Option<Digest> {
        let kit = self.0.kit(engine);
        kit.filter(|kit| kit.lock().is_some())
            .map(catalog::Kit::worker)
    }

    fn takes_onnx(&self, engine: &EngineVariant) -> bool {
        let kit = self.0.kit(engine);
        kit.is_some_and(catalog::Kit::takes_onnx)
    }

    fn factors(&self, engine: &EngineVariant, situation: Situation) -> BTreeMap<String, String> {
        let engines = self.0.descriptions();
        let described = engines
            .iter()
            .find(|described| described.name == engine.engine);
        described
            .and_then(|described| described.variant(&engine.variant))
            .map_or_else(BTreeMap::new, |variant| variant.defaults(situation))
    }
}

fn unwatched(error: io::Error) -> Failure {
    Failure::internal(format!("failed to watch for Ctrl-C: {error}"))
}

/// How trouble with the store ends.
pub(crate) fn store_failure(error: StoreError) -> Failure {
    match error {
        StoreError::Missing { .. }
        | StoreError::Bundle { .. }
        | StoreError::Corrupt(_)
        | StoreError::Version { .. }
        | StoreError::NotAFolder { .. }
        | StoreError::NotAStore { .. }
        | StoreError::NotABundle { .. }
        | StoreError::NoFolder { .. }
        | StoreError::Locked { .. }
        | StoreError::InTheWay { .. } => Failure::usage(error),
        StoreError::Interrupted => Failure::interrupted(),
        StoreError::Io { .. } | StoreError::Unwritten { .. } => Failure::lacking(error),
        StoreError::Invalid { .. } => Failure::internal(error),
    }
}

/// How trouble with the tables of a run ends.
pub(crate) fn aggregate_failure(error: AggregateError) -> Failure {
    match error {
        AggregateError::Unreadable {
            group,
            heat,
            source,
        } => match source.downcast::<StoreError>() {
            Ok(cause) if matches!(*cause, StoreError::Interrupted) => Failure::interrupted(),
            Ok(cause) => store_failure(*cause).about(&format!(
                "heat {} of group `{group}` cannot be read",
                heat.short()
            )),
            Err(source) => Failure::internal(source),
        },
        _ => Failure::usage(format!("{error}; {}", error.advice())),
    }
}

/// How trouble with the site ends.
pub(crate) fn report_failure(error: ReportError) -> Failure {
    match error {
        ReportError::Tables(_) | ReportError::NotOurs(_) | ReportError::InTheWay { .. } => {
            Failure::usage(error)
        }
        ReportError::Interrupted => Failure::interrupted(),
        ReportError::Template { .. } | ReportError::Chart(_) => Failure::internal(error),
        _ => Failure::lacking(error),
    }
}
