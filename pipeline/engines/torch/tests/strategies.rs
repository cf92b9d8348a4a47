//! A batch in parts, by each of the strategies: what comes of it, and what becomes of ranks that fail.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use common::SGD;
use schema::{
    Cell, Graph, Mode, Outcome, OutcomeKind, Precision, Strategy,
    protocol::{Load, Measure, Parity, ParityOutputs, Quantity, Reply, Request},
};
use worker::{
    RANK_VARIABLES, WorkerCommand,
    host::{Host, Interrupt, Limits},
};

const PATIENCE: Duration = Duration::from_secs(120);
const ITERATIONS: u32 = 3;

fn command() -> WorkerCommand {
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-torch")),
        args: vec![],
        env: BTreeMap::new(),
    }
}

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// A network of the zoo whose batch is `batch`, in training.
fn network(name: &str, batch: u64) -> Graph {
    let small: &[(&str, u64)] = match name {
        "resnet18" => &[("image", 32)],
        _ => &[("seq", 8)],
    };
    let dims = small.iter().map(|(name, size)| ((*name).to_owned(), *size));
    let dims = dims.chain([("batch".to_owned(), batch)]).collect();
    models::zoo::build_for(name, &dims, Mode::Training).unwrap()
}

/// A cell of a batch of four.
fn cell(graph: &Graph, precision: Precision, strategy: Strategy, world_size: u32) -> Cell {
    Cell {
        strategy,
        world_size,
        dims: [("batch".to_owned(), 4)].into(),
        ..common::cell(graph, precision, Some(SGD))
    }
}

/// A worker that has a cell loaded.
struct Loaded {
    host: Host,
    folder: tempfile::TempDir,
}

fn start(graph: &Graph, cell: &Cell, command: &WorkerCommand) -> Result<Loaded, Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new().unwrap();
    let mut host = Host::start(command, &Limits::default(), &interrupt)?;
    host.hello(deadline())?;
    let load = Load {
        cell: cell.clone(),
        graph: graph.clone(),
        files: None,
        scratch: folder.path().to_owned(),
    };
    match host.request(&Request::Load(Box::new(load)), deadline())? {
        Reply::Loaded(_) => Ok(Loaded { host, folder }),
        other => panic!("{other:?}"),
    }
}

impl Loaded {
    fn call(&mut self, request: &Request) -> Result<Reply, Outcome> {
        self.host.request(request, deadline())
    }

    /// What it trains to, each tensor by its name and in double precision.
    fn outputs(&mut self) -> (BTreeMap<String, Vec<f64>>, Vec<f64>) {
        let path = self.folder.path().join("outputs");
        let reply = self.call(&Request::Parity(Parity::plain(path.clone(), ITERATIONS)));
        let Reply::Parity(outputs) = reply.unwrap() else {
            panic!("no outputs");
        };
        let tensors = read(&path, &outputs);
        fs::remove_file(path).unwrap();
        (tensors, outputs.losses)
    }

    fn measure(&mut self, steps: u64) -> Result<Vec<u64>, Outcome> {
        let measure = Measure {
            discard: 1,
            min_steps: steps,
            min_ns: 0,
            max_steps: steps,
        };
        match self.call(&Request::Measure(measure))? {
            Reply::Measure(samples) => Ok(samples.samples_ns),
            other => panic!("{other:?}"),
        }
    }

    fn end(self) -> String {
        let ended = self.host.finish(deadline());
        assert_eq!(ended.outcome, None, "{}", ended.log);
        ended.log
    }
}

fn read(path: &Path, outputs: &ParityOutputs) -> BTreeMap<String, Vec<f64>> {
    let bytes = fs::read(path).unwrap();
    let mut at = 0;
    let mut tensors = BTreeMap::new();
    for tensor in &outputs.tensors {
        let count = tensor.shape.iter().product::<u64>() as usize;
        let size = match tensor.element {
            schema::protocol::FileElement::F32 => 4,
            schema::protocol::FileElement::F64 => 8,
        };
        let numbers = bytes[at..at + count * size]
            .chunks(size)
            .map(|bytes| match size {
                4 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
                _ => f64::from_le_bytes(bytes.try_into().unwrap()),
            });
        tensors.insert(tensor.quantity.of(&tensor.name), numbers.collect());
        at += count * size;
    }
    tensors
}

/// How far numbers are from those that they should be, relative to the size of all of these.
fn error(own: &[f64], right: &[f64]) -> f64 {
    assert_eq!(own.len(), right.len());
    let norm = |numbers: &mut dyn Iterator<Item = f64>| {
        numbers.map(|number| number * number).sum::<f64>().sqrt()
    };
    let off = norm(&mut own.iter().zip(right).map(|(own, right)| own - right));
    off / norm(&mut right.iter().copied()).max(f64::MIN_POSITIVE)
}

/// What a network trains to by a strategy.
fn trained(
    name: &str,
    precision: Precision,
    strategy: Strategy,
    world_size: u32,
    factors: &[(&str, &str)],
) -> (BTreeMap<String, Vec<f64>>, Vec<f64>) {
    let parts = if strategy == Strategy::Single {
        1
    } else {
        world_size
    };
    let graph = network(name, 4 / u64::from(parts));
    let mut cell = cell(&graph, precision, strategy, parts);
    cell.factors = factors
        .iter()
        .map(|(factor, value)| ((*factor).to_owned(), (*value).to_owned()))
        .collect();
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let outputs = loaded.outputs();
    loaded.end();
    outputs
}

/// Holds all that is told of one training against another's.
fn assert_same(
    own: &(BTreeMap<String, Vec<f64>>, Vec<f64>),
    right: &(BTreeMap<String, Vec<f64>>, Vec<f64>),
    bound: f64,
) {
    assert_eq!(
        own.0.keys().collect::<Vec<_>>(),
        right.0.keys().collect::<Vec<_>>()
    );
    for (name, right) in &right.0 {
        // Of a bias before batch norm or a softmax, say, whose gradient is nothing but rounding.
        if right.iter().all(|number| number.abs() < 1e-7) {
            continue;
        }
        let error = error(&own.0[name], right);
        assert!(error <= bound, "{name}: {error:e}");
    }
    let error = error(&own.1, &right.1);
    assert!(error <= bound, "losses: {error:e}");
}

#[test]
fn parts_train_as_the_whole_does() {
    // Without batch norm nothing tells parts from the whole.
    let whole = trained("bert_tiny", Precision::Fp64, Strategy::Single, 1, &[]);
    for strategy in [Strategy::Accumulated, Strategy::DataParallel, Strategy::Ddp] {
        for world_size in [1, 2, 4] {
            let parts = trained("bert_tiny", Precision::Fp64, strategy, world_size, &[]);
            assert_same(&parts, &whole, 1e-10);
        }
    }
}

#[test]
fn strategies_agree_where_batch_norm_sees_a_part() {
    let one_after_another = trained("resnet18", Precision::Fp64, Strategy::Accumulated, 2, &[]);
    for strategy in [Strategy::DataParallel, Strategy::Ddp] {
        let parallel = trained("resnet18", Precision::Fp64, strategy, 2, &[]);
        assert_same(&parallel, &one_after_another, 1e-8);
    }
    // And the parts are no whole: statistics are of two samples each.
    let whole = trained("resnet18", Precision::Fp64, Strategy::Single, 1, &[]);
    let name = Quantity::Movement.of("bn1.running_var");
    assert!(error(&one_after_another.0[&name], &whole.0[&name]) > 1e-3);
}

#[test]
fn ranks_exchange_as_they_are_told_to() {
    let right = trained("bert_tiny", Precision::Fp32, Strategy::Accumulated, 2, &[]);
    for (factors, bound) in [
        (&[("bucket_mib", "1")][..], 1e-4),
        (&[("gradient_as_bucket_view", "on")], 1e-4),
        (&[("static_graph", "on")], 1e-4),
        (
            &[("gradient_as_bucket_view", "on"), ("static_graph", "on")],
            1e-4,
        ),
        (&[("gradient_compression", "fp16")], 2e-2),
        (&[("gradient_compression", "bf16")], 1e-1),
    ] {
        let own = trained("bert_tiny", Precision::Fp32, Strategy::Ddp, 2, factors);
        assert_same(&own, &right, bound);
        let compressed = factors
            .iter()
            .any(|(name, _)| *name == "gradient_compression");
        let name = right
            .0
            .keys()
            .find(|name| name.starts_with("gradient"))
            .unwrap();
        assert_eq!(
            error(&own.0[name], &right.0[name]) > 1e-5,
            compressed,
            "{factors:?}"
        );
    }
}

#[test]
fn a_step_of_ranks_is_timed_as_that_of_one_is() {
    let graph = network("bert_tiny", 2);
    let mut cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    // What dropout drops differs from rank to rank, and the weights stay the same.
    cell.threads = 1;
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let samples = loaded.measure(20).unwrap();
    assert_eq!(samples.len(), 20);
    assert!(samples.iter().all(|&sample_ns| sample_ns > 0));
    let Reply::Memory(memory) = loaded.call(&Request::Memory).unwrap() else {
        panic!("no memory");
    };
    assert_eq!(memory.other_ranks.len(), 1);
    assert!(memory.other_ranks[0].resident_bytes > 10 << 20);
    // After steps were timed outputs are those of the initial state, as ever.
    let (first, _) = loaded.outputs();
    let (second, _) = loaded.outputs();
    assert_eq!(first, second);
    loaded.end();
}

/// The processes of other ranks that a worker has started.
fn others(host: &Host) -> Vec<i32> {
    let worker = host.pid();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(") ").next().unwrap_or_default();
        let parent: Option<u32> = after.split(' ').nth(1).and_then(|field| field.parse().ok());
        if parent == Some(worker) {
            found.push(process);
        }
    }
    found
}

fn signal(process: i32, signal: &str) {
    let status = std::process::Command::new("kill")
        .args([&format!("-{signal}"), &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_rank_that_dies_is_named_and_nobody_stays() {
    let graph = network("resnet18", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let [other] = others(&loaded.host)[..] else {
        panic!("one other rank");
    };
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        signal(other, "KILL");
    });
    let failure = loaded.measure(100_000).unwrap_err();
    killer.join().unwrap();
    assert_eq!(failure.kind, OutcomeKind::Crashed, "{failure:?}");
    assert!(
        failure.reason.contains("rank 1 was ended by signal 9"),
        "{failure:?}"
    );
    drop(loaded);
    assert!(!Path::new(&format!("/proc/{other}")).exists());
}

#[test]
fn a_rank_that_hangs_ends_with_the_patience_of_whoever_asked() {
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let [other] = others(&loaded.host)[..] else {
        panic!("one other rank");
    };
    signal(other, "STOP");
    let request = Request::Measure(Measure {
        discard: 0,
        min_steps: 1,
        min_ns: 0,
        max_steps: 1,
    });
    let soon = Instant::now() + Duration::from_secs(3);
    let failure = loaded.host.request(&request, soon).unwrap_err();
    assert_eq!(failure.kind, OutcomeKind::TimedOut, "{failure:?}");
    drop(loaded);
    assert!(!Path::new(&format!("/proc/{other}")).exists());
}

/// A worker as a launcher of several processes starts it.
fn launched(rank: &str, size: &str, port: u16) -> WorkerCommand {
    let values = [rank, rank, size, "127.0.0.1", &port.to_string()].map(str::to_owned);
    let names = RANK_VARIABLES.map(str::to_owned);
    WorkerCommand {
        env: names.into_iter().zip(values).collect(),
        ..command()
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_launcher_may_start_the_ranks() {
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp64, Strategy::Ddp, 2);
    let port = free_port();
    let second = launched("1", "2", port);
    let mut second = std::process::Command::new(&second.program)
        .envs(&second.env)
        .spawn()
        .unwrap();
    let mut loaded = start(&graph, &cell, &launched("0", "2", port)).unwrap();
    let launched_ones = loaded.outputs();
    loaded.end();
    assert!(second.wait().unwrap().success());
    let own = trained("bert_tiny", Precision::Fp64, Strategy::Ddp, 2, &[]);
    assert_eq!(launched_ones, own);
}

#[test]
fn a_launcher_that_starts_others_than_the_cell_asks_for_is_told_so() {
    let graph = network("bert_tiny", 2);
    let ddp = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let refused = |cell: &Cell, command: WorkerCommand| {
        let outcome = start(&graph, cell, &command).err().expect("a refusal");
        assert_eq!(outcome.kind, OutcomeKind::Unavailable, "{outcome:?}");
        outcome.reason
    };
    let reason = refused(&ddp, launched("0", "3", free_port()));
    assert!(reason.contains("WORLD_SIZE=3"), "{reason}");
    let single = cell(&graph, Precision::Fp32, Strategy::Single, 1);
    let reason = refused(&single, launched("0", "2", free_port()));
    assert!(reason.contains("2 processes were launched"), "{reason}");
    // Somebody else's port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let reason = refused(&ddp, launched("0", "2", port));
    assert!(reason.contains(&port.to_string()), "{reason}");
}
