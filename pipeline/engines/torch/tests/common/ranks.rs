//! Cells that several ranks run, for tests that drive the worker from outside.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use schema::{
    Cell, Graph, Mode, Outcome, Precision, Strategy,
    protocol::{Load, Measure, Parity, ParityOutputs, Reply, Request},
};
use worker::{
    RANK_VARIABLES, WorkerCommand,
    host::{Host, Interrupt, Limits},
};

use super::SGD;

pub const PATIENCE: Duration = Duration::from_secs(120);
pub const ITERATIONS: u32 = 3;

pub fn command() -> WorkerCommand {
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-torch")),
        args: vec![],
        env: BTreeMap::new(),
    }
}

pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// A network of the zoo whose batch is `batch`, in training.
pub fn network(name: &str, batch: u64) -> Graph {
    let small: &[(&str, u64)] = match name {
        "resnet18" => &[("image", 32)],
        _ => &[("seq", 8)],
    };
    let dims = small.iter().map(|(name, size)| ((*name).to_owned(), *size));
    let dims = dims.chain([("batch".to_owned(), batch)]).collect();
    models::zoo::build_for(name, &dims, Mode::Training).unwrap()
}

/// Samples of a step.
pub const BATCH: u64 = 4;

/// A cell of a batch of four.
pub fn cell(graph: &Graph, precision: Precision, strategy: Strategy, world_size: u32) -> Cell {
    Cell {
        strategy,
        world_size,
        dims: [("batch".to_owned(), BATCH)].into(),
        ..super::cell(graph, precision, Some(SGD))
    }
}

/// A worker that has a cell loaded.
pub struct Loaded {
    pub host: Host,
    /// What it says of what it loaded.
    pub told: schema::protocol::Loaded,
    pub folder: tempfile::TempDir,
}

pub fn start(graph: &Graph, cell: &Cell, command: &WorkerCommand) -> Result<Loaded, Outcome> {
    start_by(graph, cell, command, deadline())
}

/// As [`start`], with less patience.
pub fn start_by(
    graph: &Graph,
    cell: &Cell,
    command: &WorkerCommand,
    deadline: Instant,
) -> Result<Loaded, Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new().unwrap();
    let mut host = Host::start(command, &Limits::default(), &interrupt)?;
    host.hello(deadline)?;
    let load = Load {
        cell: cell.clone(),
        graph: graph.clone(),
        files: None,
        scratch: folder.path().to_owned(),
    };
    match host.request(&Request::Load(Box::new(load)), deadline)? {
        Reply::Loaded(told) => Ok(Loaded { host, told, folder }),
        other => panic!("{other:?}"),
    }
}

impl Loaded {
    pub fn call(&mut self, request: &Request) -> Result<Reply, Outcome> {
        self.host.request(request, deadline())
    }

    /// What it trains to, each tensor by its name and in double precision.
    pub fn outputs(&mut self) -> (BTreeMap<String, Vec<f64>>, Vec<f64>) {
        let path = self.folder.path().join("outputs");
        let reply = self.call(&Request::Parity(Parity::plain(path.clone(), ITERATIONS)));
        let Reply::Parity(outputs) = reply.unwrap() else {
            panic!("no outputs");
        };
        let tensors = read(&path, &outputs);
        fs::remove_file(path).unwrap();
        (tensors, outputs.losses)
    }

    pub fn measure(&mut self, steps: u64) -> Result<Vec<u64>, Outcome> {
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

    pub fn end(self) -> String {
        let ended = self.host.finish(deadline());
        assert_eq!(ended.outcome, None, "{}", ended.log);
        ended.log
    }
}

pub fn read(path: &Path, outputs: &ParityOutputs) -> BTreeMap<String, Vec<f64>> {
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
pub fn error(own: &[f64], right: &[f64]) -> f64 {
    assert_eq!(own.len(), right.len());
    let norm = |numbers: &mut dyn Iterator<Item = f64>| {
        numbers.map(|number| number * number).sum::<f64>().sqrt()
    };
    let off = norm(&mut own.iter().zip(right).map(|(own, right)| own - right));
    off / norm(&mut right.iter().copied()).max(f64::MIN_POSITIVE)
}

/// What a network trains to by a strategy.
pub fn trained(
    name: &str,
    precision: Precision,
    strategy: Strategy,
    world_size: u32,
    factors: &[(&str, &str)],
) -> (BTreeMap<String, Vec<f64>>, Vec<f64>) {
    trained_on(BATCH, name, precision, strategy, world_size, factors)
}

/// The same, of so many samples a step.
pub fn trained_on(
    batch: u64,
    name: &str,
    precision: Precision,
    strategy: Strategy,
    world_size: u32,
    factors: &[(&str, &str)],
) -> (BTreeMap<String, Vec<f64>>, Vec<f64>) {
    let mut cell = cell(&network(name, batch), precision, strategy, world_size);
    cell.dims.insert("batch".to_owned(), batch);
    cell.factors = factors
        .iter()
        .map(|(factor, value)| ((*factor).to_owned(), (*value).to_owned()))
        .collect();
    let graph = network(name, batch / u64::from(cell.parts()));
    cell.model = super::cell(&graph, precision, Some(SGD)).model;
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let outputs = loaded.outputs();
    loaded.end();
    outputs
}

/// A worker as a launcher of several processes starts it.
pub fn launched(rank: &str, size: &str, port: u16) -> WorkerCommand {
    let values = [rank, rank, size, "127.0.0.1", &port.to_string()].map(str::to_owned);
    let names = RANK_VARIABLES.map(str::to_owned);
    WorkerCommand {
        env: names.into_iter().zip(values).collect(),
        ..command()
    }
}

pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits until a process that was ended is gone, or nothing but its status is left.
#[track_caller]
pub fn assert_gone(process: i32) {
    let until = Instant::now() + PATIENCE;
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        state.is_some_and(|state| !['Z', 'X'].contains(&state))
    };
    while is_there() {
        assert!(Instant::now() < until, "process {process} stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn signal(process: i32, signal: &str) {
    let status = std::process::Command::new("kill")
        .args([&format!("-{signal}"), &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}
