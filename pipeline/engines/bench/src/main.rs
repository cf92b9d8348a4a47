//! What it costs to drive an engine our way: workers raced against the loop that a user would write
//! in plain Python (`plain_loop.py`), and how long a worker takes until it measures.
//!
//! A race is over ResNet-50, batch 1 and 8, in fp32, for ONNX Runtime in integers of 8 bits as well,
//! ours by our quantisation and Python's by ONNX Runtime's (`own_quantiser.py`): both sides are alive together, the waiting one stopped, and take
//! short rounds in alternating order, so that the machine's moods hit both alike. Both are
//! launched several times: how a process happens to lay out its memory lasts as long as it lives,
//! and moves PyTorch's steps by several per cent. Printed is the median over launches of each
//! launch's median ratio, the least and the largest, and the page faults of a step on either side,
//! since they are what differs from launch to launch.
//!
//! On a machine that others use, `--clock cpu --threads 1` compares the processor time of a step,
//! which waiting for a processor does not change. (With more threads it would count spinning.)
//!
//! With `--peers` the other side is a harness of others, by its own clock: `torch.utils.benchmark`,
//! ONNX Runtime's own profiler, OpenVINO's `benchmark_app`.
//!
//! `cargo xtask bench python`, `peers`, `ranks` and `start` prepare what this needs and run it.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it speaks to its caller")]

mod contest;
mod race;
mod ranks;
mod start;

use std::{collections::BTreeMap, error::Error, fs, path::PathBuf};

use catalog::{Catalog, Settings as Places};
use clap::{Args, Parser, Subcommand, builder::RangedU64ValueParser, value_parser};
use models::onnx::WriteOptions;
use schema::Graph;

use crate::{
    contest::{CONTESTS, Contest, Files, PEERS},
    race::{Clock, Race},
};

/// Batch sizes that are raced at.
const BATCHES: [u64; 2] = [1, 8];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measure what driving engines our way costs
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// Race workers against plain Python loops, or the harnesses of others
    Race(RaceArguments),
    /// Time steps of ranks that train together, driven from Rust and from Python
    Ranks {
        /// Ranks of either side, one thread each
        #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..))]
        ranks: u32,
        /// Pairs of launches
        #[arg(long, default_value_t = 12, value_parser = at_least_one())]
        pairs: usize,
    },
    /// Time workers from their start until they have measured a step of ResNet-18
    Start {
        /// Starts of each worker
        #[arg(long, default_value_t = 3, value_parser = at_least_one())]
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
    #[arg(long, default_value_t = 6, value_parser = at_least_one())]
    launches: usize,
    /// Rounds of each side in a launch
    #[arg(long, default_value_t = 8, value_parser = at_least_one())]
    rounds: usize,
    /// Threads of an operator
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..))]
    threads: u32,
    /// What is compared
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    clock: Clock,
    /// Against the harnesses of others, by their own clocks
    #[arg(long)]
    peers: bool,
    /// Only contests of this engine and variant
    #[arg(long)]
    engine: Option<String>,
    /// Only this batch size
    #[arg(long)]
    batch: Option<u64>,
}

/// A number of times, which is never none: a median is taken over them.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn main() -> Result<()> {
    let catalog = Catalog::load(&Places::from_environment()?)?;
    match Cli::parse().measurement {
        Measurement::Race(arguments) => race(&catalog, &arguments),
        Measurement::Ranks { ranks, pairs } => ranks::all(&catalog, ranks, pairs),
        Measurement::Start { launches, variants } => start::all(&catalog, &variants, launches),
    }
}

fn race(catalog: &Catalog, arguments: &RaceArguments) -> Result<()> {
    let (batches, contests) = wanted(arguments)?;
    let scratch = tempfile::tempdir()?;
    for batch in batches {
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
        for contest in &contests {
            let side = (contest.ours, contest.precision);
            let cell = contest::cell(catalog, side, &graph, batch, arguments.threads)?;
            let race = Race {
                load: contest::load(cell, &graph, scratch.path())?,
                ours: contest.worker(catalog, &files)?,
                other: contest.other_side(catalog, &files, &graph, batch)?,
                rounds: arguments.rounds,
                clock: arguments.clock,
            };
            let mut launches = Vec::new();
            for _ in 0..arguments.launches {
                launches.push(race.launch()?);
            }
            let name = format!(
                "resnet50 batch {batch} {} {}",
                contest.ours, contest.precision
            );
            println!("{}", race::told(&name, contest.other(), &launches));
        }
    }
    Ok(())
}

/// The batch sizes and the contests that are asked for.
fn wanted(arguments: &RaceArguments) -> Result<(Vec<u64>, Vec<&'static Contest>)> {
    if arguments.clock == Clock::Cpu && arguments.threads > 1 {
        return Err(
            "with more than one thread `--clock cpu` would count spinning: \
                    give `--threads 1`"
                .into(),
        );
    }
    if arguments.clock == Clock::Cpu && arguments.peers {
        return Err("peers have their own clocks, which are those of the wall".into());
    }
    let asked = |batch: &u64| arguments.batch.is_none_or(|only| only == *batch);
    let batches: Vec<u64> = BATCHES.into_iter().filter(asked).collect();
    if batches.is_empty() {
        return Err(
            format!("there is no race at this batch size; there is at: {BATCHES:?}").into(),
        );
    }
    let only = arguments.engine.as_deref();
    let asked = |contest: &&Contest| only.is_none_or(|engine| engine == contest.ours);
    let held = if arguments.peers {
        &PEERS[..]
    } else {
        &CONTESTS
    };
    let contests: Vec<_> = held.iter().filter(asked).collect();
    if contests.is_empty() {
        let known: Vec<_> = held.iter().map(|contest| contest.ours).collect();
        let known = known.join(", ");
        return Err(
            format!("there is no race of this engine and variant; there is of: {known}").into(),
        );
    }
    Ok((batches, contests))
}

fn as_onnx(graph: &Graph) -> Result<Vec<u8>> {
    let options = WriteOptions::default();
    Ok(models::onnx::write(graph, &options)?.model)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for by `words` after the programs that a race needs.
    fn asked(words: &[&str]) -> Result<RaceArguments> {
        let programs = [
            "bench",
            "race",
            "--python",
            "python3",
            "--graph-def",
            "graph_def",
        ];
        match Cli::try_parse_from(programs.iter().chain(words))?.measurement {
            Measurement::Race(arguments) => Ok(arguments),
            _ => Err("not a race".into()),
        }
    }

    #[test]
    fn all_is_raced_unless_something_is_named() {
        let (batches, contests) = wanted(&asked(&[]).unwrap()).unwrap();
        assert_eq!(
            (batches.len(), contests.len()),
            (BATCHES.len(), CONTESTS.len())
        );
        let (_, peers) = wanted(&asked(&["--peers"]).unwrap()).unwrap();
        assert_eq!(peers.len(), PEERS.len());
        let one = asked(&["--engine", "pytorch/aot", "--batch", "8"]).unwrap();
        let (batches, contests) = wanted(&one).unwrap();
        assert_eq!(batches, [8]);
        assert_eq!(contests[0].ours, "pytorch/aot");
    }

    #[test]
    fn a_race_that_is_not_held_is_an_error() {
        for (words, told) in [
            (&["--engine", "pytorch"][..], "pytorch/eager, "),
            (&["--batch", "4"], "[1, 8]"),
            (&["--clock", "cpu"], "--threads 1"),
            (
                &["--clock", "cpu", "--threads", "1", "--peers"],
                "own clocks",
            ),
            (&["--peers", "--engine", "pytorch/aot"], "openvino/cpu"),
        ] {
            let arguments = asked(words).unwrap();
            let error = wanted(&arguments).err().unwrap().to_string();
            assert!(error.contains(told), "{error}");
        }
        wanted(&asked(&["--clock", "cpu", "--threads", "1"]).unwrap()).unwrap();
    }

    #[test]
    fn nothing_is_done_no_times() {
        for words in [["--launches", "0"], ["--rounds", "0"], ["--threads", "0"]] {
            assert!(asked(&words).is_err(), "{words:?}");
        }
        assert!(
            Cli::try_parse_from(["bench", "start", "--launches", "0", "pytorch/eager"]).is_err()
        );
    }
}
