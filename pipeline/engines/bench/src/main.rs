//! What it costs to drive an engine our way: workers raced against the loop that a user would write
//! in plain Python (`plain_loop.py`), and how long a worker takes until it measures.
//!
//! A race is over ResNet-50 in fp32, batch 1 and 8: both sides are alive together, the waiting one stopped, and take
//! short rounds in alternating order, so that the machine's moods hit both alike. Both are
//! launched several times: how a process happens to lay out its memory lasts as long as it lives,
//! and moves PyTorch's steps by several per cent. Printed is the median over launches of each
//! launch's median ratio, the least and the largest, and the page faults of a step on either side,
//! since they are what differs from launch to launch.
//!
//! On a machine that others use, `--clock cpu --threads 1` compares the processor time of a step,
//! which waiting for a processor does not change. (With more threads it would count spinning.)
//!
//! `cargo xtask bench python` and `cargo xtask bench start` prepare what this needs and run it.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it speaks to its caller")]

mod contest;
mod race;
mod start;

use std::{collections::BTreeMap, error::Error, fs, path::PathBuf};

use catalog::{Catalog, Settings as Places};
use clap::{Args, Parser, Subcommand};
use models::onnx::WriteOptions;
use schema::{Graph, Precision};

use crate::{
    contest::{CONTESTS, Contest, Files},
    race::{Clock, Race},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measure what driving engines our way costs
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// Race workers against plain Python loops
    Race(RaceArguments),
    /// Time workers from their start until they have measured a step of ResNet-18
    Start {
        /// Starts of each worker
        #[arg(long, default_value_t = 3)]
        launches: usize,
        /// Engines and variants
        #[arg(required = true)]
        variants: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct RaceArguments {
    /// A Python with numpy and onnxruntime; PyTorch and TensorFlow run on the Python of their kits
    #[arg(long)]
    python: PathBuf,
    /// The program that writes TensorFlow's graph: the example `graph_def` of its worker
    #[arg(long)]
    graph_def: PathBuf,
    /// Starts of both sides for each contest
    #[arg(long, default_value_t = 6)]
    launches: usize,
    /// Rounds of each side in a launch
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Threads of an operator
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// What is compared
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    clock: Clock,
    /// Only contests of this engine and variant
    #[arg(long)]
    engine: Option<String>,
    /// Only this batch size
    #[arg(long)]
    batch: Option<u64>,
}

fn main() -> Result<()> {
    let catalog = Catalog::load(&Places::from_environment()?)?;
    match Cli::parse().measurement {
        Measurement::Race(arguments) => race(&catalog, &arguments),
        Measurement::Start { launches, variants } => start::all(&catalog, &variants, launches),
    }
}

fn race(catalog: &Catalog, arguments: &RaceArguments) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let wanted = |contest: &&Contest| {
        let only = arguments.engine.as_deref();
        only.is_none_or(|engine| engine == contest.ours)
    };
    for batch in [1, 8] {
        if arguments.batch.is_some_and(|only| only != batch) {
            continue;
        }
        let dims = BTreeMap::from([("batch".to_owned(), batch)]);
        let graph = models::zoo::build("resnet50", &dims)?;
        let onnx = scratch.path().join(format!("resnet50_{batch}.onnx"));
        fs::write(&onnx, as_onnx(&graph)?)?;
        let files = Files {
            scratch: scratch.path(),
            packages: &scratch.path().join(format!("packages_{batch}")),
            onnx: &onnx,
            graph_def: &arguments.graph_def,
            python: &arguments.python,
        };
        for contest in CONTESTS.iter().filter(wanted) {
            let cell = contest::cell(catalog, contest.ours, &graph, batch, arguments.threads)?;
            let race = Race {
                load: contest::load(cell, &graph, scratch.path()),
                ours: contest.worker(catalog, &files)?,
                python: contest.plain_loop(catalog, &files, &graph, batch)?,
                rounds: arguments.rounds,
                clock: arguments.clock,
            };
            let mut launches = Vec::new();
            for _ in 0..arguments.launches {
                launches.push(race.launch()?);
            }
            let name = format!("resnet50 batch {batch} {}", contest.ours);
            println!("{}", race::told(&name, &launches));
        }
    }
    Ok(())
}

fn as_onnx(graph: &Graph) -> Result<Vec<u8>> {
    let options = WriteOptions {
        opset: models::onnx::OPSET,
        precision: Precision::Fp32,
        external: None,
        threshold: u64::MAX,
    };
    Ok(models::onnx::write(graph, &options)?.model)
}
