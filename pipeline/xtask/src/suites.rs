//! The suites of `cargo xtask test`, in order.

use std::{collections::BTreeMap, ffi::OsStr, iter, path::Path, process::Stdio};

use serde_json::{Value, json};

use crate::{
    command::{cargo, output, photofinish, program, root, run, target},
    debian, example, exported,
    ledger::Ledger,
    packages, python, quickstart,
};

/// The suite, and the file of tests, that needs Chromium.
const BROWSER: &str = "browser";

/// The suite of the files of tests that need Slurm, and hosts of this machine's own.
const CLUSTER: &str = "cluster";

/// The suite of the other files of tests of engines' workers and kits, and that of all the rest.
const WORKERS: &str = "integration-workers";
const STAGES: &str = "integration-stages";

/// Says to tests that they should run their long forms.
const FULL_VARIABLE: &str = "PHOTOFINISH_TEST_FULL";

/// Suites that run the program: those of both forms, and those of the long one.
const RUN_THE_PROGRAM: [&str; 4] = ["engines", "conformance", "quickstart", "example"];
const RUN_IT_LONG: [&str; 2] = ["parity", "exported"];

/// What a suite does.
type Body<'a> = &'a dyn Fn() -> Result<(), String>;

/// Runs all suites, or those whose name contains `only`, or is just that, and the build of the program where one of
/// them runs it.
pub(crate) fn test(full: bool, only: Option<&str>, is_exact: bool) -> Result<(), String> {
    let is_asked = |name: &str| match only {
        Some(word) if is_exact => name == word,
        Some(word) => name.contains(word),
        None => true,
    };
    let long = RUN_IT_LONG.into_iter().filter(|_| full);
    // A suite that runs beside others has the program already.
    let builds = !is_exact && RUN_THE_PROGRAM.into_iter().chain(long).any(is_asked);
    let ledger = &mut Ledger::new()?;
    let suite = |ledger: &mut Ledger, name: &'static str, body: Body<'_>| {
        if is_asked(name) || (name == "program" && builds) {
            ledger.suite(name, body);
        }
    };
    // Whoever asks for some suites, or for the long form, has them one after the other.
    let at_once = |ledger: &mut Ledger, suites: &[(&'static str, Body<'_>)]| {
        if only.is_none() && !full {
            let names: Vec<&'static str> = suites.iter().map(|(name, _)| *name).collect();
            ledger.at_once(&names);
        } else {
            for (name, body) in suites {
                suite(ledger, name, body);
            }
        }
    };
    suite(ledger, "format", &|| {
        run(&mut cargo(&["fmt", "--all", "--check"]))
    });
    let build = || run(&mut cargo(&["build", "--release", "--locked"]));
    at_once(
        ledger,
        &[("program", &build), ("packages", &packages::install)],
    );
    let engines = || run(program(photofinish()).args(["engines", "install"]));
    let lints = || run(cargo(&CLIPPY).args(["--exclude", LINKED]).args(DENIED));
    // Workers and lints are built in folders of their own.
    at_once(ledger, &[("engines", &engines), ("lints", &lints)]);
    suite(ledger, "lints-linked", &|| run(cargo(&CLIPPY).args(DENIED)));
    suite(ledger, "unit", &|| {
        tests(full, &["--workspace", "--lib", "--bins", "--examples"])
    });
    let stages = || tests(full, &files_of_tests(STAGES)?);
    let workers = || tests(full, &files_of_tests(WORKERS)?);
    let cluster = || {
        debian::cluster()?;
        tests(full, &files_of_tests(CLUSTER)?)
    };
    // Most tests wait for a process of one thread, and Slurm waits for a while before it starts a task anew.
    at_once(
        ledger,
        &[(STAGES, &stages), (WORKERS, &workers), (CLUSTER, &cluster)],
    );
    let documentation = || {
        tests(full, &["--workspace", "--doc"])?;
        // In the profile of the lints, which have checked all of it.
        run(
            cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    };
    let browser = || {
        debian::browser()?;
        tests(full, &files_of_tests(BROWSER)?)
    };
    let conformance = || {
        let mut check = program(photofinish());
        check.args(["engines", "check"]);
        if !full {
            check.args(QUICK_TO_START);
        }
        run(&mut check)
    };
    // Python has one thread for most of it.
    at_once(
        ledger,
        &[
            ("python", &python::check),
            ("documentation", &documentation),
            ("conformance", &conformance),
            ("example", &example::check),
            (BROWSER, &browser),
        ],
    );
    // By itself: beside others no warm-up would end soon.
    suite(ledger, "quickstart", &quickstart::check);
    if full {
        suite(ledger, "licences", &licences);
        suite(ledger, "parity", &parity);
        // The exporters' Python is made by the tests of what they export.
        suite(ledger, "exported", &|| {
            exported::check(|| tests(false, &["--workspace", "--test=pytorch_exports"]))
        });
    }
    ledger.close()
}

/// What the short form drives through the protocol: of each loop in Python one variant that does not compile
/// in each launch. Workers in Rust pass the conformance suite among their own tests.
const QUICK_TO_START: [&str; 2] = ["pytorch/python-eager", "tensorflow/function"];

/// In the profile `dev`, whose folder nothing else needs: workers are built meanwhile.
const CLIPPY: [&str; 5] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--locked",
    "--quiet",
];
const DENIED: [&str; 3] = ["--", "-D", "warnings"];

/// The crate that links against a library of an engine's, which must be installed before anything of it is compiled.
const LINKED: &str = "photofinish-worker-torch";

/// Cargo's words for the files of tests of a suite, by their names, which packages share. Always of the whole
/// workspace: features of crates are the union over the packages that cargo is told, and with another union all
/// that stands on such a crate would be compiled once more.
fn files_of_tests(suite: &str) -> Result<Vec<String>, String> {
    let mut asked = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let answer = output(asked.stderr(Stdio::inherit()))?;
    if !answer.status.success() {
        return Err(format!("cargo metadata: {}", answer.status));
    }
    let told: Value = serde_json::from_slice(&answer.stdout)
        .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
    let packages = told["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let engines = root().join("pipeline/engines");
    let mut suites = BTreeMap::new();
    for target in targets.filter(|target| target["kind"] == json!(["test"])) {
        let (Some(name), Some(path)) = (target["name"].as_str(), target["src_path"].as_str())
        else {
            continue;
        };
        let suite = match name {
            BROWSER => BROWSER,
            "hosts" | "slurm" => CLUSTER,
            _ if Path::new(path).starts_with(&engines) => WORKERS,
            _ => STAGES,
        };
        // Of a name that both use, all are run with those of engines.
        let of_name = suites.entry(name).or_insert(suite);
        if suite == WORKERS {
            *of_name = WORKERS;
        }
    }
    let names = suites.iter().filter(|(_, of_name)| **of_name == suite);
    let words: Vec<String> = names.map(|(name, _)| format!("--test={name}")).collect();
    // No name at all would be all tests to cargo.
    if words.is_empty() {
        return Err("cargo metadata knows no such tests".to_owned());
    }
    Ok(iter::once("--workspace".to_owned()).chain(words).collect())
}

/// Runs tests of what users run, which is compiled already.
fn tests(full: bool, which: &[impl AsRef<OsStr>]) -> Result<(), String> {
    let mut command = cargo(&["test", "--release", "--locked", "--quiet", "--no-fail-fast"]);
    // Snapshots that do not match fail; they are never written by a test run.
    command.args(which).env("INSTA_UPDATE", "no");
    if full {
        command
            .env(FULL_VARIABLE, "1")
            .env("PHOTOFINISH_KILLS", "30")
            // Of all properties: those that name a number of their own name a share of this one.
            .env("PROPTEST_CASES", "1000");
    } else {
        // What properties are held against is left to chance in the long form alone: the short one is
        // to say the same of the same code.
        command.env("PROPTEST_RNG_SEED", "1");
    }
    run(&mut command)
}

/// The parity matrix: inference, training, other precisions, what compiles.
const PARITY: [&str; 9] = [
    "jobs/parity.yaml",
    "jobs/parity-training.yaml",
    "jobs/parity-optimizers.yaml",
    "jobs/parity-precisions.yaml",
    "jobs/parity-precisions-zoo.yaml",
    "jobs/parity-integers.yaml",
    "jobs/parity-recurrent.yaml",
    "jobs/parity-compiled.yaml",
    "jobs/parity-compiled-zoo.yaml",
];

/// Every network on every engine computes what the reference computes, in every precision: each cell
/// ends verified or measured, or as its manifest allows. The site stays, with the matrix of errors.
fn parity() -> Result<(), String> {
    let folder = target().join("parity");
    let mut bench = program(photofinish());
    bench.args(["bench", "--fresh"]);
    bench.args(PARITY);
    bench.arg("--store").arg(folder.join("store"));
    run(bench.arg("--out").arg(folder.join("site")))
}

/// Licences and sources of all crates. The tool is built on first use, which takes minutes.
fn licences() -> Result<(), String> {
    if program("cargo-deny").arg("--version").output().is_err() {
        run(&mut cargo(&[
            "install",
            "cargo-deny",
            "--locked",
            "--quiet",
        ]))?;
    }
    run(&mut cargo(&[
        "deny",
        "--offline",
        "check",
        "licenses",
        "bans",
        "sources",
    ]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::command::{cargo, output};

    /// Crates with their features, as cargo builds them for these packages.
    fn crates(which: &[&str]) -> BTreeSet<String> {
        let mut tree = cargo(&["tree", "--locked", "--prefix=none"]);
        let told = output(tree.arg("--format={p} with {f}").args(which)).expect("cargo runs");
        assert!(told.status.success(), "{told:?}");
        let text = String::from_utf8(told.stdout).expect("names in UTF-8");
        let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn nothing_that_the_program_is_built_from_is_compiled_once_more() {
        let program = crates(&["--edges=normal,build"]);
        let workers = crates(&["--workspace", "--edges=normal,build"]);
        let tests = crates(&["--workspace", "--edges=normal,build,dev"]);
        assert!(program.len() > 100 && workers.len() > program.len());
        for (some, more) in [(&program, &workers), (&workers, &tests)] {
            let others: Vec<&String> = some.difference(more).collect();
            // Ask in Cargo.toml's table for what those ask.
            assert!(others.is_empty(), "{others:?}");
        }
    }
}
