//! `photofinish engines`: list, install, check.

use std::fmt::Write as _;

use catalog::{Catalog, EngineState};
use indicatif::HumanBytes;
use serde::Serialize;

use crate::{failure::Failure, progress::InstallProgress, session::Session};

/// An engine as `engines list` and `doctor` show it.
#[derive(Debug, Serialize)]
pub(crate) struct EngineRow {
    pub(crate) name: String,
    title: String,
    version: String,
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
        .engines()
        .iter()
        .map(|engine| {
            let description = engine.description();
            let state = catalog.state(engine.name());
            let missing = availability
                .get(engine.name())
                .and_then(|found| found.missing.clone());
            let variant = |variant: &schema::VariantDescription| VariantRow {
                name: variant.name.clone(),
                summary: variant.summary.clone(),
                devices: variant.devices.clone(),
            };
            EngineRow {
                name: engine.name().to_owned(),
                title: description.title.clone(),
                version: description.version.clone(),
                variants: description.variants.iter().map(variant).collect(),
                installed: is_ready(state.as_ref().ok()) && missing.is_none(),
                state: match (missing, state) {
                    (Some(reason), _) => format!("unavailable: {reason}"),
                    (None, Ok(state)) => words(&state),
                    (None, Err(error)) => error.to_string(),
                },
            }
        })
        .collect()
}

fn is_ready(state: Option<&EngineState>) -> bool {
    matches!(
        state,
        Some(EngineState::Installed { .. } | EngineState::Registered { .. } | EngineState::Bundled)
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
            "{} {} ({})\n  {}",
            row.title, row.version, row.name, row.state
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

/// Installs engines and builds their workers.
pub(crate) fn install(session: &Session, engines: &[String], verify: bool) -> Result<(), Failure> {
    let catalog = session.catalog()?;
    let names: Vec<String> = if engines.is_empty() {
        catalog
            .engines()
            .iter()
            .map(|engine| engine.name().to_owned())
            .collect()
    } else {
        engines.to_vec()
    };
    let mut progress = InstallProgress::new(session.printer, session.interrupt.clone());
    let installed = if verify {
        catalog.verify(&names, &mut progress)
    } else {
        catalog.install(&names, &mut progress)
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
