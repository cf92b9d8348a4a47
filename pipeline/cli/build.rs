//! Compiles in what tables and sites depend on besides their data, and the revision.

use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    emit(
        "PHOTOFINISH_AGGREGATE_DIGEST",
        &fingerprint::package_digest("photofinish-aggregate", &[])?,
    );
    let site = [
        "site/templates",
        "site/styles",
        "site/scripts",
        "jobs/experiments",
    ];
    emit(
        "PHOTOFINISH_REPORT_DIGEST",
        &fingerprint::package_digest("photofinish-report", &site.map(PathBuf::from))?,
    );
    if let Some(revision) = fingerprint::revision()? {
        emit("PHOTOFINISH_REVISION", &revision);
    }
    Ok(())
}

fn emit(name: &str, value: &str) {
    println!("cargo::rustc-env={name}={value}");
}
