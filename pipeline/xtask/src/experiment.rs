//! Experiments on photofinish itself: how often its verdicts are wrong where the truth is known, whether
//! they repeat themselves, what interleaving gains, and how long a target takes. They take hours of a machine
//! that does nothing else; what they find goes to `jobs/experiments`, to be committed.

mod drift;
mod length;
mod trials;

use std::{fs, path::PathBuf};

use clap::ValueEnum;

use crate::command::{cargo, output, photofinish, program, root, run, target};
use trials::Trial;

/// What is tried.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Experiment {
    /// A worker held against itself: every `faster` or `slower` is false
    Aa,
    /// A worker held against one that takes 5 % longer: every verdict but `slower` misses it
    Planted,
    /// The quickstart, again and again: verdicts should not turn
    Quickstart,
    /// Traces of engines whose rounds take turns for minutes, and what interleaving gains by them
    Drift,
    /// A job with a target of 1 %, beside runs of 100 steps repeated until they say as much
    Length,
}

/// Tries it, `trials` times in all where it is tried again and again.
///
/// # Errors
/// When it cannot be measured, or what earlier trials left cannot be read.
pub(crate) fn experiment(experiment: Experiment, trials: Option<u32>) -> Result<(), String> {
    run(&mut cargo(&["build", "--release", "--locked"]))?;
    match experiment {
        Experiment::Aa => trials::repeat(Trial::Aa, trials),
        Experiment::Planted => trials::repeat(Trial::Planted, trials),
        Experiment::Quickstart => trials::repeat(Trial::Quickstart, trials),
        Experiment::Drift => drift::trace(),
        Experiment::Length => length::measure(),
    }
}

/// Where an experiment's stores and sites lie.
fn folder(name: &str) -> Result<PathBuf, String> {
    made(target().join("experiments").join(name))
}

/// Where results are kept; the page of the method tells what they come to.
fn results() -> Result<PathBuf, String> {
    made(root().join("jobs/experiments"))
}

fn made(folder: PathBuf) -> Result<PathBuf, String> {
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The machine, and the revision that measures on it. Results of earlier trials do not change what measures.
fn place() -> Result<(String, String), String> {
    let mut doctor = program(photofinish());
    doctor.args(["doctor", "--quick", "--output-format", "json"]);
    let told = output(&mut doctor)?.stdout;
    let machine: serde_json::Value =
        serde_json::from_slice(&told).map_err(|error| error.to_string())?;
    let machine = machine["environment"]["fingerprint"]["cpu_model"].as_str();
    let git = |arguments: &[&str]| {
        let mut git = program("git");
        git.current_dir(root()).args(arguments);
        let told = output(&mut git)?.stdout;
        Ok::<String, String>(String::from_utf8_lossy(&told).trim().to_owned())
    };
    let mut revision = git(&["rev-parse", "--short", "HEAD"])?;
    if !git(&["status", "--porcelain", "--", ".", ":!jobs/experiments"])?.is_empty() {
        revision.push_str("-dirty");
    }
    Ok((machine.unwrap_or_default().to_owned(), revision))
}
