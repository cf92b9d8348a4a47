//! `photofinish engines`: list, install, check.

use std::{fmt::Write as _, path::Path};

use catalog::{Catalog, EngineState};
use indicatif::HumanBytes;
use serde::Serialize;

use crate::{failure::Failure, progress::InstallProgress, session::Session};

/// An engine as `engines list` and `doctor` show it; where its variants are installed apart from
/// each other, one of its kits.
#[derive(Debug, Serialize)]
pub(crate) struct EngineRow {
    pub(crate) name: String,
    /// The name, and which of its kits.
    pub(crate) label: String,
    title: String,
    version: String,
    summary: String,
    variants: Vec<VariantRow>,
    /// Where it stands, in words.
    pub(crate) state: String,
    installed: bool,
}

#[derive(Debug, Serialize)]
struct VariantRow {
    name: String,
    summary: String,
    devices: Vec<String>,
}

/// The engines of a catalogue and where each stands.
pub(crate) fn rows(catalog: &Catalog) -> Vec<EngineRow> {
    let availability = catalog.availability();
    catalog
        .kits()
        .iter()
        .map(|kit| {
            let description = kit.description();
            let state = catalog.state(kit);
            // All variants of a kit stand or fall together, but for what one of them needs of
            // another kit, which has a row of its own; the first needs nothing.
            let found = kit
                .variants()
                .find_map(|variant| availability.get(&variant));
            let missing = found.and_then(|found| found.missing.clone());
            let variant = |variant: &schema::VariantDescription| VariantRow {
                name: variant.name.clone(),
                summary: variant.summary.clone(),
                devices: variant.devices.clone(),
            };
            EngineRow {
                name: kit.name().to_owned(),
                label: kit.label(),
                title: description.title.clone(),
                version: description.version.clone(),
                summary: description.summary.clone(),
                variants: description.variants.iter().map(variant).collect(),
                installed: is_ready(&state) && missing.is_none(),
                state: match missing {
                    Some(reason) => format!("unavailable: {reason}"),
                    None => words(&state),
                },
            }
        })
        .collect()
}

fn is_ready(state: &EngineState) -> bool {
    matches!(
        state,
        EngineState::Installed { .. }
            | EngineState::Adopted { .. }
            | EngineState::Registered { .. }
            | EngineState::Bundled
    )
}

fn words(state: &EngineState) -> String {
    match state {
        EngineState::NotInstalled {
            download_bytes,
            disk_bytes,
        } => format!(
            "not installed ({} to download, {} on disk)",
            HumanBytes(*download_bytes),
            HumanBytes(*disk_bytes)
        ),
        EngineState::Installed { path } => format!("installed in {}", path.display()),
        EngineState::Adopted { path, python } => {
            format!("adopted from {}, in {}", python.display(), path.display())
        }
        EngineState::Broken { what } => format!("broken ({what}): `engines install` mends it"),
        EngineState::Registered { command } => format!("registered: {}", command.join(" ")),
        EngineState::Bundled => "comes with photofinish".to_owned(),
    }
}

/// Prints the engines.
pub(crate) fn list(session: &Session) -> Result<(), Failure> {
    let rows = rows(session.catalog()?);
    let mut text = String::new();
    for row in &rows {
        let _ = writeln!(
            text,
            "{} {} ({}): {}\n  {}",
            row.title, row.version, row.name, row.summary, row.state
        );
        for variant in &row.variants {
            let name = format!("{}/{}", row.name, variant.name);
            let devices = variant.devices.join(", ");
            let _ = writeln!(text, "  {name:<24} {devices:<10} {}", variant.summary);
        }
    }
    session.printer.human(&text);
    session.printer.json(&rows)
}

/// Where packages come from.
pub(crate) enum Source<'a> {
    /// From where they came before.
    Chosen,
    /// The same, with every file looked into.
    Verified,
    /// From the package index.
    Pinned,
    /// From this Python, which has them.
    Python(&'a Path),
}

/// Installs engines and builds their workers.
pub(crate) fn install(
    session: &Session,
    engines: &[String],
    source: Source<'_>,
) -> Result<(), Failure> {
    let catalog = session.catalog()?;
    let names: Vec<String> = if engines.is_empty() {
        catalog.names()
    } else {
        engines.to_vec()
    };
    let mut progress = InstallProgress::new(session.printer, session.interrupt.clone());
    let installed = match source {
        Source::Chosen => catalog.install(&names, &mut progress),
        Source::Verified => catalog.verify(&names, &mut progress),
        Source::Pinned => catalog.install_pinned(&names, &mut progress),
        Source::Python(python) => catalog.adopt(&names, python, &mut progress),
    };
    installed
        .and_then(|()| catalog.build_workers(&names, &mut progress))
        .map_err(|error| session.install_failure(&error))?;
    drop(progress);
    session
        .printer
        .human(&format!("ready: {}", names.join(", ")));
    session.printer.json(&rows(catalog))
}
