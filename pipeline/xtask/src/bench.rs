//! Measures photofinish itself. Times of whole processes, as medians, each beside the start of a
//! Python interpreter on the same machine in the same run: the ratio is what carries over.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use nix::sys::resource::{UsageWho, getrusage};

use crate::command::{cargo, photofinish, program, read, run, target, write};

type Benchmark = (&'static str, fn(&Path) -> Result<(), String>);

/// Name and body, in the order in which they run.
const BENCHMARKS: [Benchmark; 11] = [
    ("harness", harness),
    ("sensors", sensors),
    ("plan", plan),
    ("cached", cached),
    ("cached-1000", cached_1000),
    ("site", site),
    ("python", python),
    ("peers", peers),
    ("ranks", ranks),
    ("start", start),
    ("parity", parity),
];

/// Runs the benchmarks whose name contains `only`, or all.
///
/// # Errors
/// When one of them cannot be run: what it needs is named.
pub(crate) fn bench(only: Option<&str>) -> Result<(), String> {
    run(&mut cargo(&["build", "--release", "--locked"]))?;
    let folder = target().join("bench");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, body) in BENCHMARKS {
        if only.is_none_or(|word| name.contains(word)) {
            println!("\n==> {name}");
            body(&folder)?;
        }
    }
    Ok(())
}

/// What a step costs that does nothing.
fn harness(_: &Path) -> Result<(), String> {
    build(&["--workspace", "--bin", SYNTHETIC])?;
    run(program(target().join("release").join(SYNTHETIC)).arg("--bench-harness"))
}

/// Most of one core that supervisor and sensors may take together while a worker measures: what sensors alone may cost,
/// since a step on whose core they take so much is longer by no more than that, they cannot be turned off, and what is
/// told is of both. The supervisor might take twice as much.
const MOST_SHARE: f64 = 0.005;

/// What the supervisor takes of a core while real engines measure, with the thread that looks at sensors.
fn sensors(folder: &Path) -> Result<(), String> {
    let manifest = folder.join("sensors.yaml");
    let text = "version: 1\nmeasure: { blocks: 2 }\njobs:\n  - id: sensors\n    matrix:\n      \
                model: [resnet18, bert_tiny]\n      engine: [pytorch/eager, onnxruntime/cpu]\n";
    write(&manifest, text)?;
    run(quiet(
        bench_command(folder, "sensors", &manifest).arg("--fresh"),
    ))?;
    let tables = read(&folder.join("site-sensors/data/tables.json"))?;
    let tables: serde_json::Value =
        serde_json::from_str(&tables).map_err(|error| format!("tables.json: {error}"))?;
    let share = tables
        .pointer("/jobs/0/supervisor_share")
        .and_then(serde_json::Value::as_f64)
        .ok_or("tables.json tells no supervisor_share: nothing was measured")?;
    println!(
        "supervisor and sensors while engines measure: {:.2} % of a core, the median over blocks",
        share * 100.0
    );
    if share >= MOST_SHARE {
        return Err(format!(
            "that is no longer below {:.1} %",
            MOST_SHARE * 100.0
        ));
    }
    Ok(())
}

/// Plans of 10,000 cells: of few networks, of a thousand, and of as many networks as cells.
fn plan(folder: &Path) -> Result<(), String> {
    let zoo =
        "resnet18, resnet50, resnet152, vgg16, mobilenet_v2, efficientnet_b4, bert_tiny, bert_base";
    let engines = "pytorch/eager, onnxruntime/cpu";
    for (networks, models, batches, threads, engines) in [
        ("100", "resnet18, mobilenet_v2", 50, 50, engines),
        ("1,000", zoo, 125, 5, engines),
        ("10,000", zoo, 1250, 1, "pytorch/eager"),
    ] {
        let name = format!("plan of 10,000 cells, {networks} networks");
        let manifest = folder.join(format!("plan-10000-{}.yaml", networks.replace(',', "")));
        write(&manifest, &matrix(models, batches, threads, engines))?;
        let store = folder.join("store-empty");
        compare(&name, || {
            let mut command = program(photofinish());
            command
                .args(["plan", "--output-format", "json", "--store"])
                .arg(&store)
                .arg(&manifest);
            command
        })?;
    }
    Ok(())
}

/// A manifest with all combinations of models, engines, batches from 1 and threads from 1.
fn matrix(models: &str, batches: u32, threads: u32, engines: &str) -> String {
    let numbers = |most: u32| {
        let numbers: Vec<String> = (1..=most).map(|number| number.to_string()).collect();
        numbers.join(", ")
    };
    let compare = if engines.contains(',') {
        "    compare: { axis: engine, baseline: pytorch/eager }\n"
    } else {
        ""
    };
    format!(
        "version: 1\njobs:\n  - id: large\n    matrix:\n      model: [{models}]\n      batch: [{}]\n      \
         threads: [{}]\n      engine: [{engines}]\n{compare}",
        numbers(batches),
        numbers(threads)
    )
}

/// The quickstart with everything cached.
fn cached(folder: &Path) -> Result<(), String> {
    let command = || bench_command(folder, "quickstart", Path::new("jobs/quickstart.yaml"));
    run(&mut command())?;
    compare("quickstart, all cached", command)
}

/// A thousand cells with everything cached. The engines are the synthetic worker, under both names.
fn cached_1000(folder: &Path) -> Result<(), String> {
    build(&["--workspace", "--bin", SYNTHETIC])?;
    let config = folder.join("config");
    fs::create_dir_all(&config).map_err(|error| error.to_string())?;
    write(&config.join("engines.toml"), &synthetic_engines())?;
    let batches: Vec<String> = (1..=500).map(|batch| batch.to_string()).collect();
    let text = format!(
        "version: 1\nmeasure: {{ blocks: 1, rounds: 1, round: 1ms, warm_up: 1ms, budget: 12h }}\n\
         jobs:\n  - id: thousand\n    matrix:\n      model: bert_tiny\n      seq: 8\n      batch: [{}]\n      \
         engine: [pytorch/eager, other/eager]\n    compare: {{ axis: engine, baseline: pytorch/eager }}\n",
        batches.join(", ")
    );
    let manifest = folder.join("thousand.yaml");
    write(&manifest, &text)?;
    let command = || {
        let mut command = bench_command(folder, "thousand", &manifest);
        command.env("PHOTOFINISH_CONFIG", &config);
        command
    };
    run(&mut command())?;
    // What earlier sources left there has other keys, and would be looked at as well.
    let mut gc = program(photofinish());
    gc.args(["store", "gc", "--keep", "1", "--store"]);
    run(quiet(gc.arg(folder.join("store-thousand"))))?;
    compare("1,000 cells, all cached", command)
}

fn synthetic_engines() -> String {
    ["pytorch", "other"]
        .map(|name| synthetic_engine(name, "eager", &[]))
        .concat()
}

/// The synthetic worker, registered under a name of its own or in place of an engine.
pub(crate) fn synthetic_engine(name: &str, variant: &str, arguments: &[&str]) -> String {
    let worker = target().join("release").join(SYNTHETIC);
    let replace = if name == "pytorch" {
        "replace = true\n"
    } else {
        ""
    };
    let mut command = vec![worker.display().to_string()];
    command.extend(
        ["--engine", name]
            .into_iter()
            .chain(arguments.iter().copied())
            .map(str::to_owned),
    );
    format!(
        "[engines.{name}]\n{replace}command = {command:?}\n\
         title = \"Synthetic\"\nversion = \"1\"\nsummary = \"computes nothing\"\n\
         [[engines.{name}.variants]]\nname = \"{variant}\"\nsummary = \"computes nothing\"\n\
         host_language = \"rust\"\ndevices = [\"cpu\"]\nprecisions = [\"fp64\", \"fp32\"]\n\
         modes = [\"inference\"]\nboundaries = [\"step\"]\n"
    )
}

/// Aggregate and report of 10,000 cells with 100 samples each.
fn site(folder: &Path) -> Result<(), String> {
    let tables = folder.join("tables");
    let release = ["run", "--quiet", "--release", "--locked", "--package"];
    let aggregate = || {
        let mut command = cargo(&release);
        command
            .args([
                "photofinish-aggregate",
                "--example",
                "synthetic",
                "--",
                "10000",
            ])
            .arg(&tables);
        command
    };
    let report = |out: &Path| {
        let mut command = cargo(&release);
        command
            .args(["photofinish-report", "--example", "fixture", "--"])
            .arg(out)
            .arg(tables.join("tables.json"));
        command
    };
    run(&mut aggregate())?;
    run(&mut report(&folder.join("site-warm")))?;
    let out = folder.join("site-10000");
    let _ = fs::remove_dir_all(&out);
    let began = Instant::now();
    run(&mut aggregate())?;
    run(&mut report(&out))?;
    println!(
        "10,000 cells to tables and site: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    println!(
        "largest process so far: {} MiB",
        largest_child_bytes()? >> 20
    );
    Ok(())
}

/// Our step time beside that of a plain Python loop.
///
/// PyTorch is raced a second time with an allocator that gives nothing back to the kernel: without
/// page faults, whose number differs between the two sides and from launch to launch, what is left
/// is the difference that is ours.
fn python(folder: &Path) -> Result<(), String> {
    let python = racing_python(folder)?;
    let race = || race(&python);
    run(&mut race())?;
    println!("the same, memory kept between steps:");
    for engine in ["pytorch/eager", "pytorch/python-eager", "pytorch/aot"] {
        run(race()
            .args(["--engine", engine])
            .env("GLIBC_TUNABLES", KEEP_MEMORY))?;
    }
    Ok(())
}

/// Our step time beside what the harnesses of others say of the same network.
fn peers(folder: &Path) -> Result<(), String> {
    let python = racing_python(folder)?;
    run(race(&python).args(["--peers", "--launches", "4"]))
}

/// A step of ranks that train together, from Rust beside from Python.
fn ranks(_: &Path) -> Result<(), String> {
    run(program(photofinish()).args(["engines", "install", "pytorch"]))?;
    build(&["--workspace", "--bin", ENGINE_BENCH])?;
    run(engine_bench().arg("ranks"))
}

/// A Python for the other side of a race, with everything built that a race needs.
fn racing_python(folder: &Path) -> Result<PathBuf, String> {
    let python = match std::env::var_os("PHOTOFINISH_BENCH_PYTHON") {
        Some(python) => PathBuf::from(python),
        None => bench_python(folder)?,
    };
    run(program(photofinish()).args(["engines", "install"]))?;
    build(&["--workspace", "--example", "graph_def"])?;
    build(&["--workspace", "--bin", ENGINE_BENCH])?;
    Ok(python)
}

fn race(python: &Path) -> Command {
    let mut command = engine_bench();
    command
        .args(["race", "--python"])
        .arg(python)
        .arg("--graph-def")
        .arg(target().join("release/examples/graph_def"));
    command
}

/// How long workers take from their start until they measure ResNet-18; not of those that compile for
/// minutes.
fn start(_: &Path) -> Result<(), String> {
    run(program(photofinish()).args(["engines", "install"]))?;
    build(&["--workspace", "--bin", ENGINE_BENCH])?;
    run(engine_bench().arg("start").args(STARTED))
}

/// Engines and variants that start without compiling.
const STARTED: [&str; 10] = [
    "pytorch/eager",
    "onnxruntime/cpu",
    "openvino/cpu",
    "tensorflow/graph",
    "tensorflow/xla-auto",
    "tensorflow/xla",
    "pytorch/python-eager",
    "tensorflow/function",
    "tensorflow/eager",
    "tensorflow/keras",
];

/// The parity of every network on every engine, and how long that takes.
fn parity(folder: &Path) -> Result<(), String> {
    let began = Instant::now();
    run(bench_command(folder, "parity", Path::new("jobs/parity.yaml")).arg("--fresh"))?;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!("parity of inference with all networks on all engines: {minutes:.1} min");
    Ok(())
}

/// The worker that computes nothing.
const SYNTHETIC: &str = "photofinish-worker-synthetic";

/// What races workers against plain Python.
const ENGINE_BENCH: &str = "photofinish-engine-bench";

/// Builds programs or examples as they are measured.
fn build(which: &[&str]) -> Result<(), String> {
    run(cargo(&["build", "--release", "--locked"]).args(which))
}

fn engine_bench() -> Command {
    program(target().join("release").join(ENGINE_BENCH))
}

/// A Python with what the plain loop needs for ONNX Runtime, set up once.
fn bench_python(folder: &Path) -> Result<PathBuf, String> {
    let home = folder.join("python");
    let python = home.join("bin/python");
    let requirements = Path::new("pipeline/engines/bench/requirements.txt");
    let wanted = read(requirements)?;
    let complete = home.join("complete");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    run(program("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&home))?;
    // All that is needed is named, with its version.
    run(program(&python)
        .args(["-m", "pip", "install", "--no-deps", "--requirement"])
        .arg(requirements))?;
    write(&complete, &wanted)?;
    Ok(python)
}

/// glibc's thresholds for giving memory back, too high to be reached.
const KEEP_MEMORY: &str =
    "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592";

fn bench_command(folder: &Path, name: &str, manifest: &Path) -> Command {
    let place = |kind: &str| -> PathBuf { folder.join(format!("{kind}-{name}")) };
    let mut command = program(photofinish());
    command
        .arg("bench")
        .arg(manifest)
        .arg("--store")
        .arg(place("store"))
        .arg("--out")
        .arg(place("site"));
    command
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

/// Prints the median time of a command beside that of starting Python, the two in turn.
fn compare(name: &str, command: impl Fn() -> Command) -> Result<(), String> {
    let (mut ours, mut pythons) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        ours.push(seconds(quiet(&mut command()))?);
        pythons.push(seconds(program("python3").args(["-c", "pass"]))?);
    }
    let (ours, python) = (median(ours), median(pythons));
    println!(
        "{name}: {:.0} ms, {:.1} × the start of python3 ({:.0} ms)",
        ours * 1e3,
        ours / python,
        python * 1e3
    );
    Ok(())
}

fn seconds(command: &mut Command) -> Result<f64, String> {
    let began = Instant::now();
    run(command)?;
    Ok(began.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Peak memory of the largest process that this one waited for.
fn largest_child_bytes() -> Result<i64, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    Ok(usage.max_rss() * 1024)
}
