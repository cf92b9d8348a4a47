//! The main job, end to end, on real engines: what a newcomer runs first.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::SystemTime,
};

use serde_json::Value;

use crate::command::{output, photofinish, program, root, write};

/// Runs the quickstart in an empty store; the same again measures and writes nothing; two reports
/// of it, one from a bundle in another time zone and locale, have the same bytes.
pub(crate) fn check() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (store, site) = (folder.path().join("store"), folder.path().join("site"));
    let manifest = folder.path().join("quickstart.yaml");
    write(&manifest, &hastened()?)?;
    let bench = || bench(&manifest, &store, &site);

    let first = summary(&output(&mut bench())?)?;
    expect(
        count(&first, "measured_heats") > 0,
        "the first run measures",
    )?;
    expect(
        site.join("index.html").is_file(),
        "the site has an overview",
    )?;
    every_verdict_is_shown(&first, &site)?;
    let before = listing(folder.path())?;

    let second = summary(&output(&mut bench())?)?;
    expect(
        count(&second, "measured_heats") == 0,
        "the second run measures nothing",
    )?;
    expect(
        count(&second, "cached_heats") == count(&first, "heats"),
        "the second run finds all cached",
    )?;
    let after = listing(folder.path())?;
    let changed: Vec<_> = before
        .iter()
        .filter(|(path, when)| after.get(*path) != Some(*when) && !path.ends_with("lock"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    expect(
        changed.is_empty(),
        &format!("the second run rewrites nothing, but: {changed:?}"),
    )?;

    let bundle = folder.path().join("run.tar.zst");
    succeed(
        program(photofinish())
            .arg("bundle")
            .arg("pack")
            .arg(&bundle)
            .arg("--store")
            .arg(&store),
    )?;
    let copy = folder.path().join("elsewhere/copy");
    succeed(
        program(photofinish())
            .arg("report")
            .arg("--bundle")
            .arg(&bundle)
            .arg("--out")
            .arg(&copy)
            .arg("--store")
            .arg(folder.path().join("elsewhere/store"))
            .env("TZ", "Pacific/Kiritimati")
            .env("LC_ALL", "de_DE.UTF-8"),
    )?;
    succeed(Command::new("diff").arg("-r").arg(&site).arg(&copy))?;
    doctor_measures()
}

/// What a newcomer runs next: how far apart the same work comes out on this machine.
fn doctor_measures() -> Result<(), String> {
    let mut doctor = program(photofinish());
    doctor.args(["doctor", "--output-format", "json"]);
    let told = output(&mut doctor)?;
    let told: Value = serde_json::from_slice(&told.stdout)
        .map_err(|error| format!("doctor printed no JSON: {error}"))?;
    let kinds = told["identical"].as_array().map_or(0, Vec::len);
    expect(
        kinds == 2,
        &format!("doctor measures two kinds of work: {told}"),
    )
}

/// The manifest, but for two settings: disturbed blocks are kept, since whether a machine that tests is left alone is
/// no question of the program's, and a heat ends at its first look, since more blocks would show nothing new of it.
fn hastened() -> Result<String, String> {
    let path = root().join("jobs/quickstart.yaml");
    let mut manifest = fs::read_to_string(path).map_err(|error| error.to_string())?;
    for (word, instead) in [
        ("measure: {", "measure: { disturbed: keep,"),
        ("blocks: 12", "blocks: 6"),
    ] {
        let changed = manifest.replacen(word, instead, 1);
        expect(
            changed != manifest,
            &format!("the quickstart says `{word}`"),
        )?;
        manifest = changed;
    }
    Ok(manifest)
}

fn bench(manifest: &Path, store: &Path, site: &Path) -> Command {
    let mut command = program(photofinish());
    command.arg("bench").arg(manifest);
    command.args(["--output-format", "json"]);
    command.arg("--store").arg(store).arg("--out").arg(site);
    command.stderr(std::process::Stdio::inherit());
    command
}

/// The document that `bench` prints.
fn summary(output: &Output) -> Result<Value, String> {
    if !output.status.success() {
        return Err(format!(
            "bench ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        ));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("bench printed no JSON: {error}"))
}

fn every_verdict_is_shown(summary: &Value, site: &Path) -> Result<(), String> {
    let overview =
        fs::read_to_string(site.join("index.html")).map_err(|error| error.to_string())?;
    let verdicts = summary["verdicts"]
        .as_array()
        .ok_or("bench printed no verdicts")?;
    expect(!verdicts.is_empty(), "there are verdicts")?;
    for verdict in verdicts {
        let contender = verdict["contender"]
            .as_str()
            .ok_or("a verdict without contender")?;
        expect(
            overview.contains(contender),
            &format!("the overview leads to {contender}"),
        )?;
    }
    Ok(())
}

fn count(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap_or_default()
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("expected that {what}"))
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .chars()
            .take(2_000)
            .collect::<String>()
    };
    Err(format!(
        "{command:?} ended with {}: {}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    ))
}

/// Every file below a folder with the time of its last change.
fn listing(folder: &Path) -> Result<BTreeMap<PathBuf, SystemTime>, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?
        {
            let entry = entry.map_err(|error| error.to_string())?;
            let metadata = entry.metadata().map_err(|error| error.to_string())?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                files.insert(
                    entry.path(),
                    metadata.modified().map_err(|error| error.to_string())?,
                );
            }
        }
    }
    Ok(files)
}
