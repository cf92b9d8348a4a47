//! Our workers' step times against the same loops in plain Python (`../bench/plain_loop.py`).
//!
//! ```text
//! python3 -m venv VENV && VENV/bin/pip install -r pipeline/engines/bench/requirements.txt
//! cargo build --release -p photofinish-worker-torch -p photofinish-worker-onnxruntime
//! PHOTOFINISH_ORT_LIBRARY=…/libonnxruntime.so.1.31.1 \
//!   cargo run --release -p photofinish-worker-onnxruntime --example versus_python -- \
//!   --python VENV/bin/python [--launches 6] [--rounds 8] [--threads 2] [--clock wall|cpu] \
//!   [--engine pytorch/eager|pytorch/aot|onnxruntime/cpu] [--batch 1|8]
//! ```
//!
//! ResNet-50 in fp32, batch 1 and 8, each engine: both sides are alive together, the waiting one
//! stopped, and take short rounds in alternating order, so that the machine's moods hit both
//! alike. Both are launched several times: how a process happens to lay out its memory lasts as
//! long as it lives, and moves PyTorch's steps by several per cent. Printed is the median over
//! launches of each launch's median ratio, the least and the largest, and the page faults of a
//! step on either side, since they are what differs from launch to launch.
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
    CACHE_VARIABLE, COMPILER_VARIABLE, WorkerCommand,
    host::{Host, Interrupt, Limits},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Longest wait for one answer: AOTInductor takes a minute or two to compile, and more on a machine that
/// has other work.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Steps that open a round and are not counted: caches and thread pools wake up.
const DISCARD: u64 = 2;

struct Settings {
    python: PathBuf,
    launches: usize,
    rounds: usize,
    threads: u32,
    clock: Clock,
    engine: Option<String>,
    batch: Option<u64>,
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
        if settings.batch.is_some_and(|only| only != batch) {
            continue;
        }
        let dims = BTreeMap::from([("batch".to_owned(), batch)]);
        let graph = models::zoo::build("resnet50", &dims)?;
        let model = scratch.path().join(format!("resnet50_{batch}.onnx"));
        fs::write(&model, onnx(&graph)?)?;
        // Our worker compiles a package with the same Python that then runs it.
        let packages = scratch.path().join(format!("packages_{batch}"));
        let pairs = [
            (
                "pytorch/eager",
                "photofinish-worker-torch",
                vec!["torch".to_owned()],
            ),
            (
                "pytorch/aot",
                "photofinish-worker-torch",
                vec!["aot".to_owned(), packages.join("aot").display().to_string()],
            ),
            (
                "onnxruntime/cpu",
                "photofinish-worker-onnxruntime",
                vec!["onnxruntime".to_owned(), model.display().to_string()],
            ),
        ];
        for (engine, binary, arguments) in pairs {
            if settings
                .engine
                .as_deref()
                .is_some_and(|only| only != engine)
            {
                continue;
            }
            let cell = cell(&graph, engine, batch, settings.threads)?;
            let mut launches = Vec::new();
            for _ in 0..settings.launches {
                let ours = worker(binary, &settings.python, &packages)?;
                let ours = start(&ours, &cell, &graph, scratch.path())?;
                let python = plain_loop(&settings.python, arguments.clone());
                let python = start(&python, &cell, &graph, scratch.path())?;
                launches.push(race(ours, python, &settings)?);
            }
            report(&format!("resnet50 batch {batch} {engine}"), &launches)?;
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
        launches: value("--launches").map_or(Ok(6), |text| text.parse())?,
        rounds: value("--rounds").map_or(Ok(8), |text| text.parse())?,
        threads: value("--threads").map_or(Ok(2), |text| text.parse())?,
        clock: match value("--clock").map(String::as_str) {
            None | Some("wall") => Clock::Wall,
            Some("cpu") => Clock::Cpu,
            Some(other) => return Err(format!("no clock `{other}`").into()),
        },
        engine: value("--engine").cloned(),
        batch: value("--batch").map(|text| text.parse()).transpose()?,
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

/// A worker of ours: built beside this example. What it has compiled, it has compiled by `python`, and
/// keeps it in a folder of `packages`.
fn worker(binary: &str, python: &Path, packages: &Path) -> Result<WorkerCommand> {
    let here = env::current_exe()?;
    let folder = here
        .parent()
        .and_then(Path::parent)
        .ok_or("no folder of binaries")?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let compiler = serde_json::to_string(&WorkerCommand {
        program: python.to_owned(),
        args: ["-m", "photofinish_pytorch.aot"]
            .map(str::to_owned)
            .to_vec(),
        env: BTreeMap::from([
            ("PYTHONPATH".to_owned(), sources.display().to_string()),
            ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
        ]),
    })?;
    let library =
        env::var(LIBRARY_VARIABLE).map_err(|_| format!("{LIBRARY_VARIABLE} is not set"))?;
    Ok(WorkerCommand {
        program: folder.join(binary),
        args: vec![],
        env: BTreeMap::from([
            (LIBRARY_VARIABLE.to_owned(), library),
            (CACHE_VARIABLE.to_owned(), packages.display().to_string()),
            (COMPILER_VARIABLE.to_owned(), compiler),
        ]),
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
        files: None,
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

/// One launch of both sides: ours first, Python second.
struct Launch {
    /// Medians of the rounds' ratios and of each side's rounds, in nanoseconds.
    ratio: f64,
    step_ns: [f64; 2],
    /// Minor page faults in a step.
    faults: [f64; 2],
}

/// What one side did in one round.
struct Round {
    step_ns: f64,
    faults: f64,
}

fn race(ours: Host, python: Host, settings: &Settings) -> Result<Launch> {
    let mut sides = [ours, python];
    let mut rounds: [Vec<Round>; 2] = [vec![], vec![]];
    for turn in 0..settings.rounds {
        for side in [turn % 2, 1 - turn % 2] {
            rounds[side].push(round(&mut sides[side], settings.clock)?);
        }
    }
    for mut host in sides {
        host.resume().map_err(words)?;
        let _ended = host.finish(Instant::now() + PATIENCE);
    }
    let [ours, python] = &rounds;
    let ratios = ours.iter().zip(python).map(|(a, b)| a.step_ns / b.step_ns);
    let of = |what: fn(&Round) -> f64| {
        [ours, python].map(|rounds| median(rounds.iter().map(what).collect()))
    };
    Ok(Launch {
        ratio: median(ratios.collect()),
        step_ns: of(|round| round.step_ns),
        faults: of(|round| round.faults),
    })
}

fn round(host: &mut Host, clock: Clock) -> Result<Round> {
    host.resume().map_err(words)?;
    let (cpu, faults) = (cpu_ns(host.pid())?, minor_faults(host.pid())?);
    let samples = times(host, 3, 500_000_000)?;
    let cpu = cpu_ns(host.pid())?.saturating_sub(cpu);
    let faults = minor_faults(host.pid())?.saturating_sub(faults);
    host.pause().map_err(words)?;
    let steps = (samples.len() as u64 + DISCARD) as f64;
    Ok(Round {
        step_ns: match clock {
            Clock::Wall => median(samples.into_iter().map(|sample| sample as f64).collect()),
            Clock::Cpu => cpu as f64 / steps,
        },
        faults: faults as f64 / steps,
    })
}

/// Page faults of a process that needed no reading from disk (field 10 of `stat`).
fn minor_faults(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field, a name in parentheses, may hold spaces.
    let (_, rest) = text.rsplit_once(')').ok_or("a process without a name")?;
    let field = rest.split_whitespace().nth(7).ok_or("no tenth field")?;
    Ok(field.parse()?)
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

fn report(what: &str, launches: &[Launch]) -> Result<()> {
    let of = |value: &dyn Fn(&Launch) -> f64| median(launches.iter().map(value).collect());
    let ratios = || launches.iter().map(|launch| launch.ratio);
    writeln!(
        std::io::stdout(),
        "{what}: ours {:.2} ms, Python {:.2} ms, ratio {:.3} ({:.3} to {:.3} over {} launches), \
         page faults a step: ours {:.0}, Python {:.0}",
        of(&|launch| launch.step_ns[0]) / 1e6,
        of(&|launch| launch.step_ns[1]) / 1e6,
        of(&|launch| launch.ratio),
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
        launches.len(),
        of(&|launch| launch.faults[0]),
        of(&|launch| launch.faults[1]),
    )?;
    Ok(())
}
