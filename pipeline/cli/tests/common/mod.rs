//! The program with synthetic engines: the worker that computes nothing plays `pytorch`, the
//! reference, and `other`, which also knows variants that misbehave.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses a part of it"
)]

#[path = "../../../run/tests/common/built.rs"]
pub mod built;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use built::built;
use serde_json::Value;

/// Variants of `other`, beside `eager`; `steady` behaves and says so.
const MISCHIEF: &[&str] = &[
    "steady",
    "segfault",
    "wrong_output",
    "unsupported",
    "panics",
];

/// A user's folder: configuration, store, site and manifests.
pub struct User {
    pub folder: tempfile::TempDir,
}

impl User {
    pub fn new() -> Self {
        let user = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(user.path("config")).unwrap();
        fs::write(user.path("config/engines.toml"), engines()).unwrap();
        user
    }

    /// A user with [`SMALL`] as the manifest.
    pub fn small() -> Self {
        let user = Self::new();
        user.manifest(SMALL);
        user
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a manifest and returns its path.
    pub fn manifest(&self, text: &str) -> PathBuf {
        let path = self.path("manifest.yaml");
        fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_photofinish"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("PHOTOFINISH_CONFIG", self.path("config"))
            .env("PHOTOFINISH_ENGINES", self.path("engines"))
            .env_remove("PHOTOFINISH_STORE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and reads the document that it prints.
    pub fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args
            .iter()
            .copied()
            .chain(["--output-format", "json"])
            .collect();
        let output = self.run(&args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Every file of the store and the site with its content.
    pub fn files(&self, below: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.path(below)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push((path.clone(), fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

/// Both streams of a program, for messages.
pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Fails unless a program said this.
#[track_caller]
pub fn assert_says(output: &Output, what: &str) {
    assert!(text(output).contains(what), "{}", text(output));
}

/// Command lines of processes that carry the mark.
pub fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(mark)
        })
        .map(|process| fs::read_to_string(process.path().join("cmdline")).unwrap_or_default())
        .collect()
}

/// Waits until something holds; it must within four minutes.
#[track_caller]
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(240), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// All stages for the manifest of [`User::manifest`].
pub const BENCH: [&str; 6] = [
    "bench",
    "manifest.yaml",
    "--store",
    "store",
    "--out",
    "site",
];

/// A job that compares both engines on a small network, in few and short blocks.
pub const SMALL: &str = "version: 1
title: Small
measure: { blocks: 2, rounds: 1, round: 5ms, warm_up: 5ms }
jobs:
  - id: small
    question: Which is faster?
    matrix:
      model: bert_tiny
      seq: 8
      batch: [1, 2]
      engine: [pytorch/eager, other/eager]
    compare: { axis: engine, baseline: pytorch/eager }
";

fn engines() -> String {
    let mut text = String::new();
    let worker = worker();
    for (name, replace, mischief) in [
        ("pytorch", "replace = true\n", &[][..]),
        ("other", "", MISCHIEF),
    ] {
        let _ = write!(
            text,
            "[engines.{name}]\n{replace}command = [{worker:?}, \"--engine\", \"{name}\"]\n\
             title = \"Synthetic {name}\"\nsummary = \"computes nothing\"\n"
        );
        for variant in ["eager"].iter().chain(mischief) {
            let _ = write!(
                text,
                "[[engines.{name}.variants]]\nname = \"{variant}\"\nsummary = \"computes nothing\"\n\
                 host_language = \"rust\"\ndevices = [\"cpu\"]\nprecisions = [\"fp64\", \"fp32\"]\n\
                 modes = [\"inference\", \"training\"]\nboundaries = [\"step\"]\n"
            );
        }
    }
    text
}

/// The synthetic worker, built if need be, beside the program under test.
fn worker() -> &'static Path {
    static WORKER: OnceLock<PathBuf> = OnceLock::new();
    WORKER.get_or_init(|| {
        let programs = [
            "--example",
            "sweep",
            "--bin",
            "photofinish-worker-synthetic",
        ];
        let path = built(&programs).join("photofinish-worker-synthetic");
        assert!(path.is_file(), "no {}", path.display());
        path
    })
}
