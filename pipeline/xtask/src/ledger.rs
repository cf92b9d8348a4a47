//! Minutes per suite, how busy the processors were meanwhile, and what is left of the disk.

use std::{
    env,
    io::{self, Seek as _},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::sys::statvfs::statvfs;
use telemetry::Times;

use crate::command::{root, run, target};

/// With less no suite is begun: the linker's error would be about anything but that. From nothing all of them take
/// some 20 GB, most of it for engines and test programs, which may be there already.
const LEAST_FREE_GB: f64 = 2.0;

/// What each suite took and how it ended.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    began: Instant,
}

#[derive(Debug)]
struct Entry {
    suite: &'static str,
    took: Duration,
    /// Share of all processors' time that was used meanwhile, by whomever.
    busy: Option<f64>,
    free_gb: Option<f64>,
    failure: Option<String>,
}

impl Entry {
    /// Runs a suite, and says why it failed.
    fn of(suite: &'static str, body: impl FnOnce() -> Result<(), String>) -> Self {
        let (start, before) = (Instant::now(), telemetry::times());
        let failure = body().err();
        if let Some(reason) = &failure {
            println!("==> {suite} failed: {reason}");
        }
        let took = start.elapsed();
        Self {
            suite,
            took,
            busy: busy(before, telemetry::times(), took),
            free_gb: free_gb(),
            failure,
        }
    }
}

impl Ledger {
    /// # Errors
    /// When the disk is full, or nearly.
    pub(crate) fn new() -> Result<Self, String> {
        match free_gb() {
            Some(free) if free < LEAST_FREE_GB => Err(format!(
                "{free:.1} GB of the disk of {} are free: the suites take some 20 GB from nothing",
                target().display()
            )),
            _ => Ok(Self {
                entries: Vec::new(),
                began: Instant::now(),
            }),
        }
    }

    /// Runs a suite and writes down how it went. Later suites run whatever happens here.
    pub(crate) fn suite(&mut self, suite: &'static str, body: impl FnOnce() -> Result<(), String>) {
        println!("\n==> {suite}");
        self.entries.push(Entry::of(suite, body));
    }

    /// Runs suites that leave processors idle at once, each as a chore of its own, whose words come when it has
    /// ended.
    pub(crate) fn at_once(&mut self, suites: &[&'static str]) {
        println!("\n==> at once: {}", suites.join(", "));
        self.entries.extend(thread::scope(|scope| {
            let running: Vec<_> = suites
                .iter()
                .map(|&suite| {
                    (
                        suite,
                        scope.spawn(move || Entry::of(suite, || chore(suite))),
                    )
                })
                .collect();
            let ended = running.into_iter().map(|(suite, chore)| {
                chore.join().unwrap_or_else(|_| Entry {
                    suite,
                    took: Duration::ZERO,
                    busy: None,
                    free_gb: None,
                    failure: Some("it panicked".to_owned()),
                })
            });
            ended.collect::<Vec<_>>()
        }));
    }

    /// Prints the ledger.
    ///
    /// # Errors
    /// When a suite failed, or none ran.
    pub(crate) fn close(&self) -> Result<(), String> {
        println!("\nminutes  busy  GB free  suite");
        for entry in &self.entries {
            let note = entry
                .failure
                .as_ref()
                .map(|reason| format!("  FAILED: {reason}"));
            println!(
                "{:7.1}  {:>4}  {:>7}  {}{}",
                minutes(entry.took),
                entry
                    .busy
                    .map_or_else(String::new, |busy| format!("{:.0}%", busy * 100.0)),
                entry
                    .free_gb
                    .map_or_else(String::new, |free| format!("{free:.1}")),
                entry.suite,
                note.unwrap_or_default()
            );
        }
        println!(
            "{:7.1}                 in all",
            minutes(self.began.elapsed())
        );
        let failed = self
            .entries
            .iter()
            .filter(|entry| entry.failure.is_some())
            .count();
        println!("\n{} passed, {failed} failed", self.entries.len() - failed);
        match (self.entries.is_empty(), failed) {
            (true, _) => Err("no suite of that name".to_owned()),
            (false, 0) => Ok(()),
            (false, _) => Err("some suites failed".to_owned()),
        }
    }
}

/// Runs one suite in a process of its own, and prints what that printed.
fn chore(suite: &str) -> Result<(), String> {
    let of_files = |error: io::Error| format!("no file for what {suite} prints: {error}");
    let mut printed = tempfile::tempfile().map_err(of_files)?;
    let (out, errors) = (printed.try_clone(), printed.try_clone());
    let mut chore = Command::new(env::current_exe().map_err(of_files)?);
    chore.args(["test", "--exact", suite]);
    chore.stdout(out.map_err(of_files)?);
    chore.stderr(errors.map_err(of_files)?);
    let ended = run(&mut chore);
    println!("\n==> {suite}");
    printed.rewind().map_err(of_files)?;
    io::copy(&mut printed, &mut io::stdout().lock()).map_err(of_files)?;
    ended
}

/// Of the disk that cargo writes to, to all users; `None` where nobody tells.
fn free_gb() -> Option<f64> {
    let target = target();
    // Before the first build it is not there.
    let folder: &Path = if target.exists() { &target } else { &root() };
    let disk = statvfs(folder).ok()?;
    Some(disk.blocks_available() as f64 * disk.fragment_size() as f64 / 1e9)
}

/// The share of all processors' time that was used between two looks; `None` where the kernel does not tell.
fn busy(before: Option<Times>, after: Option<Times>, took: Duration) -> Option<f64> {
    let used_ns = after?.busy_ns.saturating_sub(before?.busy_ns);
    let all_ns = took.as_secs_f64() * 1e9 * f64::from(telemetry::processors());
    (all_ns > 0.0).then(|| used_ns as f64 / all_ns)
}

fn minutes(took: Duration) -> f64 {
    took.as_secs_f64() / 60.0
}
