//! `photofinish engines check`: drives workers through the protocol and says where they deviate.

use std::{collections::BTreeMap, time::Duration};

use models::ModelError;
use schema::{EngineVariant, Graph, Mode};
use worker::{
    conformance::{self, Check, CheckResult, ConformanceReport, Subject},
    host::Limits,
};

use crate::{failure::Failure, session::Session};

/// How long a worker may take for one answer; compiling a network for the first time is the longest.
const PATIENCE: Duration = Duration::from_secs(600);

/// Checks the workers of engines, or of single variants; without any, of all that can run here.
pub(crate) fn check(session: &Session, wanted: &[String]) -> Result<(), Failure> {
    let subjects = subjects(session, wanted)?;
    if subjects.is_empty() {
        return Err(Failure::lacking(
            "no engine can run here: install one with `photofinish engines install`",
        ));
    }
    let mut reports = Vec::new();
    for subject in &subjects {
        session.printer.human(&subject.to_string());
        reports.push(check_one(session, subject)?);
        if session.interrupt.is_set() {
            return Err(Failure::interrupted_with(
                "nothing of a check is kept, so that the same command starts anew",
            ));
        }
    }
    session.printer.json(&reports)?;
    let failed: Vec<_> = reports
        .iter()
        .filter(|report| !report.passed())
        .map(|report| report.subject.as_str())
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::check(format!(
            "does not keep to the protocol: {}",
            failed.join(", ")
        ))
        .already_told())
    }
}

fn check_one(session: &Session, wanted: &EngineVariant) -> Result<ConformanceReport, Failure> {
    let catalog = session.catalog()?;
    let command = catalog
        .command(wanted)
        .map_err(|outcome| Failure::lacking(outcome.reason))?;
    let engines = catalog.descriptions();
    let engine = engines
        .iter()
        .find(|engine| engine.name == wanted.engine)
        .ok_or_else(|| Failure::usage(format!("unknown engine: {}", wanted.engine)))?;
    let networks = networks()
        .map_err(|error| Failure::internal(format!("failed to build a test network: {error}")))?;
    let [(dims, graph), smaller @ ..] = &networks;
    let limits = Limits::default();
    let takes_onnx = catalog.kit(wanted).is_some_and(catalog::Kit::takes_onnx);
    let mut subject = Subject {
        command: &command,
        engine,
        variant: &wanted.variant,
        graph,
        dims,
        takes_onnx,
        limits: &limits,
        patience: PATIENCE,
        interrupt: &session.interrupt,
    };
    for (dims, graph) in smaller {
        let Some(outcome) = conformance::refusal(&subject) else {
            break;
        };
        session.printer.human(&format!(
            "  with {}, since it refuses {}: {}",
            graph.name, subject.graph.name, outcome.reason
        ));
        subject.graph = graph;
        subject.dims = dims;
    }
    Ok(conformance::check(&subject, &session.interrupt, |check| {
        session.printer.human(&line(check));
    }))
}

/// Dimensions, and the network that was built with them.
type Network = (BTreeMap<String, u64>, Graph);

/// What workers are checked with: the first of these that a worker does not refuse. Convolutions and
/// parameters of every role; what engines for language have; and hardly anything.
fn networks() -> Result<[Network; 3], ModelError> {
    const BATCH: u64 = 2;
    let with = |name: &str, size| {
        let dims = [("batch", BATCH), (name, size)];
        BTreeMap::from(dims.map(|(name, size)| (name.to_owned(), size)))
    };
    let (images, tokens) = (with("image", 32), with("seq", 8));
    let resnet = models::zoo::build_for("resnet18", &images, Mode::Training)?;
    let bert = models::zoo::build_for("bert_tiny", &tokens, Mode::Training)?;
    let perceptron = models::sample::perceptron(BATCH)?;
    let batch = BTreeMap::from([("batch".to_owned(), BATCH)]);
    Ok([(images, resnet), (tokens, bert), (batch, perceptron)])
}

fn line(check: &Check) -> String {
    match &check.result {
        CheckResult::Passed => format!("  passed   {:<20} {}", check.name, check.demand),
        CheckResult::Failed(reason) => {
            format!(
                "  FAILED   {:<20} {}\n             {reason}",
                check.name, check.demand
            )
        }
        CheckResult::Skipped(reason) => format!("  skipped  {:<20} {reason}", check.name),
    }
}

/// The variants to check: those named, or all whose engine is ready and whose device is here.
fn subjects(session: &Session, wanted: &[String]) -> Result<Vec<EngineVariant>, Failure> {
    let gpus = !session.fingerprint().gpus.is_empty();
    let catalog = session.catalog()?;
    let mut subjects = Vec::new();
    for engine in catalog.descriptions() {
        for variant in &engine.variants {
            let name = EngineVariant {
                engine: engine.name.clone(),
                variant: variant.name.clone(),
            };
            let named = wanted.iter().any(|word| *word == name.to_string());
            let of_named_engine = wanted.contains(&engine.name);
            let has_device = gpus || variant.devices.iter().any(|device| device == "cpu");
            let ready = catalog.command(&name).is_ok();
            if named || (has_device && (of_named_engine || (wanted.is_empty() && ready))) {
                subjects.push(name);
            }
        }
    }
    let known = |word: &&String| {
        subjects
            .iter()
            .any(|subject| subject.engine == **word || subject.to_string() == **word)
    };
    match wanted.iter().find(|word| !known(word)) {
        Some(unknown) => Err(Failure::usage(format!(
            "unknown engine, or none of its variants can run here: {unknown}"
        ))),
        None => Ok(subjects),
    }
}
