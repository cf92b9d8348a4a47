//! A worker before the conformance suite, and what a started one answers: alike for all engines that are driven from
//! Rust.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use schema::{
    Boundary, EngineDescription, Graph, HostLanguage, Mode, Outcome, Precision, Preparation,
    Strategy, VariantDescription,
    protocol::{Hello, Load, Reply, Request},
};
use worker::{
    WorkerCommand,
    conformance::{self, Check, Subject},
    host::{Host, Interrupt, Limits},
};

pub(crate) fn dims() -> BTreeMap<String, u64> {
    BTreeMap::from([("batch", 1), ("image", 64)].map(|(name, size)| (name.to_owned(), size)))
}

pub(crate) fn resnet18() -> Graph {
    models::zoo::build("resnet18", &dims()).unwrap()
}

/// A variant that infers in fp32 on a CPU.
pub(crate) fn variant(name: &str) -> VariantDescription {
    VariantDescription {
        name: name.to_owned(),
        summary: String::new(),
        host_language: HostLanguage::Rust,
        devices: vec!["cpu".to_owned()],
        precisions: vec![Precision::Fp32],
        modes: vec![Mode::Inference],
        boundaries: vec![Boundary::Step, Boundary::Request],
        strategies: vec![Strategy::Single],
        reads_onnx: false,
        compiles_cxx: false,
        preparation: Preparation::default(),
        factors: BTreeMap::new(),
        fixed: BTreeMap::new(),
        lacks: BTreeMap::new(),
        networks: Vec::new(),
        refuses: Vec::new(),
    }
}

/// What the conformance suite finds of the first of these variants, with [`resnet18`].
pub(crate) fn checks(
    command: &WorkerCommand,
    name: &str,
    version: &str,
    variants: Vec<VariantDescription>,
) -> Vec<Check> {
    let first = variants[0].name.clone();
    let engine = EngineDescription {
        name: name.to_owned(),
        title: name.to_owned(),
        version: version.to_owned(),
        summary: String::new(),
        variants,
    };
    let interrupt = Interrupt::new().unwrap();
    let subject = Subject {
        command,
        engine: &engine,
        variant: &first,
        graph: &resnet18(),
        dims: &dims(),
        takes_onnx: false,
        limits: &Limits::default(),
        patience: Duration::from_secs(300),
        interrupt: &interrupt,
    };
    conformance::check(&subject, &interrupt, |_| ()).checks
}

/// What a started worker says at first; then it leaves.
pub(crate) fn hello(command: &WorkerCommand) -> Hello {
    let interrupt = Interrupt::new().unwrap();
    let mut host = Host::start(command, &Limits::default(), &interrupt).unwrap();
    let hello = host
        .hello(Instant::now() + Duration::from_secs(60))
        .unwrap();
    let ended = host.finish(Instant::now() + Duration::from_secs(60));
    assert_eq!(ended.outcome, None, "{}", ended.log);
    hello
}

/// What a started worker says at first, and then to `load`, whatever that is: it lives on, and leaves when it is told to.
pub(crate) fn answer(command: &WorkerCommand, load: Load) -> (Hello, Result<Reply, Outcome>) {
    let interrupt = Interrupt::new().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut host = Host::start(command, &Limits::default(), &interrupt).unwrap();
    let hello = host.hello(deadline).unwrap();
    let answer = host.request(&Request::Load(Box::new(load)), deadline);
    assert!(
        host.is_alive(),
        "a failure to load is an answer, not a death"
    );
    assert_eq!(host.finish(deadline).outcome, None);
    (hello, answer)
}
