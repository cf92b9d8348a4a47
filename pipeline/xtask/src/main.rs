//! Chores of the repository: `cargo xtask test`, `cargo xtask bench`, `cargo xtask experiment`,
//! `cargo xtask screenshots`.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore speaks to its caller"
)]

mod bench;
mod command;
mod debian;
mod example;
mod experiment;
mod exported;
mod ledger;
mod packages;
mod python;
mod quickstart;
mod screenshots;
mod suites;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run everything that CI runs: format, lints, unit, conformance, end-to-end, browser
    Test {
        /// Run the long forms too: many kills, long fuzzing, licences, the matrix of parity
        #[arg(long)]
        full: bool,
        /// Run only the suites whose name contains this word, and build the program where they run it
        #[arg(value_name = "SUITE")]
        only: Option<String>,
        /// Run only the one suite of this name: what runs beside others
        #[arg(long, hide = true, requires = "only")]
        exact: bool,
    },
    /// Measure photofinish itself: harness cost, cached runs, large plans and sites
    Bench {
        /// Run only the benchmarks whose name contains this word
        #[arg(value_name = "BENCHMARK")]
        only: Option<String>,
    },
    /// Find out how often verdicts are wrong where the truth is known: hours of a quiet machine
    Experiment {
        /// What is tried
        #[arg(value_enum)]
        which: experiment::Experiment,
        /// How often, earlier trials included; of no use to `drift` and `length`
        #[arg(long)]
        trials: Option<u32>,
    },
    /// Take pictures of the site's pages: light, dark, phone
    Screenshots {
        /// Folder of a rendered site
        #[arg(long, default_value = "site/dist")]
        site: std::path::PathBuf,
        /// Folder of the pictures
        #[arg(long, default_value = "target/screenshots")]
        out: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test { full, only, exact } => suites::test(full, only.as_deref(), exact),
        Chore::Bench { only } => bench::bench(only.as_deref()),
        Chore::Experiment { which, trials } => experiment::experiment(which, trials),
        Chore::Screenshots { site, out } => screenshots::take(&site, &out),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
