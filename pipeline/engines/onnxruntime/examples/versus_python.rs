//! Our workers' step times against the same loops in plain Python (`../bench/plain_loop.py`).
//!
//! ```text
//! python3 -m venv VENV && VENV/bin/pip install -r pipeline/engines/bench/requirements.txt
//! cargo build --release -p photofinish-worker-torch -p photofinish-worker-onnxruntime
//! PHOTOFINISH_ORT_LIBRARY=…/libonnxruntime.so.1.31.1 \
//!   cargo run --release -p photofinish-worker-onnxruntime --example versus_python -- \
//!   --python VENV/bin/python [--rounds 20] [--threads 2] [--clock wall|cpu]
//! ```
//!
//! ResNet-50 in fp32, batch 1 and 8, each engine: both sides are alive together, the waiting one
//! stopped, and take short rounds in alternating order, so that the machine's moods hit both
//! alike. Printed is the median over rounds of the ratio of the rounds' medians.
//!
//! On a machine that others use, `--clock cpu --threads 1` compares the processor time of a step,
//! which waiting for a processor does not change. (With more threads it would count spinning.)

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use models::onnx::WriteOptions;
use photofinish_worker_onnxruntime::LIBRARY_VARIABLE;
use schema::{
    Boundary, Cell, Device, Digest, EngineVariant, Graph, HostLanguage, Mode, Model, ModelSource,
    Outcome, Precision, Strategy,
    protocol::{Load, Measure, Reply, Request},
};
use worker::{
    WorkerCommand,
    host::{Host, Interrupt, Limits},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Steps that open a round and are not counted: caches and thread pools wake up.
const DISCARD: u64 = 2;

struct Settings {
    python: PathBuf,
    rounds: usize,
    threads: u32,
    clock: Clock,
}

#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Wall,
    Cpu,
}

fn main() -> Result<()> {
    let settings = settings()?;
    let scratch = tempfile::tempdir()?;
    for batch in [1, 8] {
        let dims = BTreeMap::from([("batch".to_owned(), batch)]);
        let graph = models::zoo::build("resnet50", &dims)?;
        let model = scratch.path().join(format!("resnet50_{batch}.onnx"));
        fs::write(&model, onnx(&graph)?)?;
        let pairs = [
            (
                "pytorch/eager",
                "photofinish-worker-torch",
                vec!["torch".to_owned()],
            ),
            (
                "onnxruntime/cpu",
                "photofinish-worker-onnxruntime",
                vec!["onnxruntime".to_owned(), model.display().to_string()],
            ),
        ];
        for (engine, binary, arguments) in pairs {
            let cell = cell(&graph, engine, batch, settings.threads)?;
            let ours = start(&worker(binary)?, &cell, &graph, scratch.path())?;
            let python = start(
                &plain_loop(&settings.python, arguments),
                &cell,
                &graph,
                scratch.path(),
            )?;
            report(
                &format!("resnet50 batch {batch} {engine}"),
                &race(ours, python, &settings)?,
            )?;
        }
    }
    Ok(())
}

fn settings() -> Result<Settings> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let value = |name: &str| {
        let position = arguments.iter().position(|argument| argument == name)?;
        arguments.get(position + 1)
    };
    Ok(Settings {
        python: value("--python")
            .ok_or("--python PATH is needed: one with torch and onnxruntime")?
            .into(),
        rounds: value("--rounds").map_or(Ok(20), |text| text.parse())?,
        threads: value("--threads").map_or(Ok(2), |text| text.parse())?,
        clock: match value("--clock").map(String::as_str) {
            None | Some("wall") => Clock::Wall,
            Some("cpu") => Clock::Cpu,
            Some(other) => return Err(format!("no clock `{other}`").into()),
        },
    })
}

fn onnx(graph: &Graph) -> Result<Vec<u8>> {
    let options = WriteOptions {
        opset: 21,
        precision: Precision::Fp32,
        external: None,
        threshold: u64::MAX,
    };
    Ok(models::onnx::write(graph, &options)?.model)
}

fn cell(graph: &Graph, engine: &str, batch: u64, threads: u32) -> Result<Cell> {
    Ok(Cell {
        model: Model {
            name: graph.name.clone(),
            source: ModelSource::Zoo,
            graph: Digest::of_value(graph),
        },
        dims: BTreeMap::from([("batch".to_owned(), batch)]),
        precision: Precision::Fp32,
        mode: Mode::Inference,
        optimizer: None,
        engine: engine.parse::<EngineVariant>()?,
        host_language: HostLanguage::Rust,
        device: Device::Cpu,
        threads,
        strategy: Strategy::Single,
        world_size: 1,
        boundary: Boundary::Step,
        factors: BTreeMap::new(),
    })
}

/// A worker of ours: built beside this example.
fn worker(binary: &str) -> Result<WorkerCommand> {
    let here = env::current_exe()?;
    let folder = here
        .parent()
        .and_then(Path::parent)
        .ok_or("no folder of binaries")?;
    let library =
        env::var(LIBRARY_VARIABLE).map_err(|_| format!("{LIBRARY_VARIABLE} is not set"))?;
    Ok(WorkerCommand {
        program: folder.join(binary),
        args: vec![],
        env: BTreeMap::from([(LIBRARY_VARIABLE.to_owned(), library)]),
    })
}

fn plain_loop(python: &Path, arguments: Vec<String>) -> WorkerCommand {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/plain_loop.py");
    let mut args = vec![script.display().to_string()];
    args.extend(arguments);
    WorkerCommand {
        program: python.to_owned(),
        args,
        env: BTreeMap::new(),
    }
}

fn words(outcome: Outcome) -> String {
    format!("{}: {}", outcome.kind, outcome.reason)
}

fn start(command: &WorkerCommand, cell: &Cell, graph: &Graph, scratch: &Path) -> Result<Host> {
    let interrupt = Interrupt::new()?;
    let mut host = Host::start(command, &Limits::default(), &interrupt).map_err(words)?;
    host.hello(Instant::now() + PATIENCE).map_err(words)?;
    let load = Load {
        cell: cell.clone(),
        graph: graph.clone(),
        scratch: scratch.to_owned(),
    };
    ask(&mut host, &Request::Load(Box::new(load)))?;
    // Warm, then out of the way.
    times(&mut host, 5, 1_000_000_000)?;
    host.pause().map_err(words)?;
    Ok(host)
}

fn ask(host: &mut Host, request: &Request) -> Result<Reply> {
    Ok(host
        .request(request, Instant::now() + PATIENCE)
        .map_err(words)?)
}

fn times(host: &mut Host, min_steps: u64, min_ns: u64) -> Result<Vec<u64>> {
    let measure = Measure {
        discard: DISCARD,
        min_steps,
        min_ns,
        max_steps: 10_000,
    };
    match ask(host, &Request::Measure(measure))? {
        Reply::Measure(samples) => Ok(samples.samples_ns),
        other => Err(format!("answered `{}`", other.name()).into()),
    }
}

/// The medians of both sides, round by round, in nanoseconds.
fn race(mut ours: Host, mut python: Host, settings: &Settings) -> Result<Vec<[f64; 2]>> {
    let mut rounds = Vec::new();
    let round = |host: &mut Host| -> Result<f64> {
        host.resume().map_err(words)?;
        let before = cpu_ns(host.pid())?;
        let samples = times(host, 3, 500_000_000)?;
        let spent = cpu_ns(host.pid())?.saturating_sub(before);
        host.pause().map_err(words)?;
        Ok(match settings.clock {
            Clock::Wall => median(samples.into_iter().map(|sample| sample as f64).collect()),
            Clock::Cpu => spent as f64 / (samples.len() as u64 + DISCARD) as f64,
        })
    };
    for turn in 0..settings.rounds {
        let pair = if turn % 2 == 0 {
            let first = round(&mut ours)?;
            [first, round(&mut python)?]
        } else {
            let first = round(&mut python)?;
            [round(&mut ours)?, first]
        };
        rounds.push(pair);
    }
    for mut host in [ours, python] {
        host.resume().map_err(words)?;
        let _ended = host.finish(Instant::now() + PATIENCE);
    }
    Ok(rounds)
}

/// Processor time of all threads of a process (first number of each `schedstat`).
fn cpu_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        sum += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(sum)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

fn report(what: &str, rounds: &[[f64; 2]]) -> Result<()> {
    let side = |index: usize| median(rounds.iter().map(|pair| pair[index]).collect()) / 1e6;
    let mut ratios: Vec<f64> = rounds.iter().map(|[ours, python]| ours / python).collect();
    ratios.sort_by(f64::total_cmp);
    let quartile = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
    writeln!(
        std::io::stdout(),
        "{what}: ours {:.2} ms, Python {:.2} ms, ratio {:.3} (quartiles {:.3} to {:.3})",
        side(0),
        side(1),
        median(ratios.clone()),
        quartile(1),
        quartile(3),
    )?;
    Ok(())
}
