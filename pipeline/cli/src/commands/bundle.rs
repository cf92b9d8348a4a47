//! `photofinish bundle`: a run in one file.

use std::{collections::BTreeMap, path::Path};

use indicatif::HumanBytes;
use schema::RunRecord;
use store::{Store, StoreError, bundle::Opened};

use crate::{
    args::Stored,
    commands::stored::wanted,
    failure::Failure,
    printer::counted,
    session::{Session, store_failure},
};

/// Writes a run with everything that its site is made from into one file.
pub(crate) fn pack(session: &Session, stored: &Stored, file: &Path) -> Result<(), Failure> {
    let (run, _) = wanted(session, stored)?;
    let manifest = store::bundle::pack(
        &session.store,
        &run,
        &session.tool(),
        &BTreeMap::new(),
        file,
        &|| session.interrupt.is_set(),
    )
    .map_err(store_failure)?;
    let bytes = std::fs::metadata(file)
        .map(|metadata| metadata.len())
        .unwrap_or_default();
    session.printer.human(&format!(
        "packed run {} ({}, {}) into: {}",
        run.short(),
        counted(manifest.files.len() as u64, "file"),
        HumanBytes(bytes),
        file.display()
    ));
    session.printer.json(&serde_json::json!({
        "run": run, "file": file.to_string_lossy(), "bytes": bytes, "files": manifest.files.len(),
    }))
}

/// Puts the run of a bundle into the store, if all stages can make something of it.
pub(crate) fn unpack(session: &Session, file: &Path) -> Result<Opened, Failure> {
    store::bundle::looks_like(file).map_err(store_failure)?;
    let check = |record: &RunRecord, heats: &dyn Fn(&_, &_) -> Result<_, StoreError>| {
        let tables = aggregate::aggregate(record, heats).map_err(|error| error.to_string())?;
        report::check_tables(&tables).map_err(|error| error.to_string())
    };
    let stop = || session.interrupt.is_set();
    if !session.has_store() {
        // A bundle that is refused leaves no store where none was.
        let (trial, _folder) = Store::temporary().map_err(store_failure)?;
        let trial = trial.lock().map_err(store_failure)?;
        trial
            .open_bundle(file, &check, &stop)
            .map_err(store_failure)?;
    }
    let store = session.writer()?;
    store
        .open_bundle(file, &check, &stop)
        .map_err(store_failure)
}

/// Checks a bundle and puts its run into the store.
pub(crate) fn open(session: &Session, file: &Path) -> Result<(), Failure> {
    let opened = unpack(session, file)?;
    session.printer.human(&format!(
        "put run {} with {} into: {}\nit was packed by photofinish {}{}",
        opened.run.short(),
        counted(opened.heats as u64, "heat"),
        session.store.path().display(),
        opened.tool.version,
        opened
            .tool
            .revision
            .as_ref()
            .map(|revision| format!(" ({revision})"))
            .unwrap_or_default(),
    ));
    session.printer.json(&serde_json::json!({
        "run": opened.run, "heats": opened.heats, "tool": opened.tool,
    }))
}
