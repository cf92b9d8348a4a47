//! A program, a network of one layer, and a request to run it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use schema::{
    Boundary, Cell, Device, Digest, EngineDescription, EngineVariant, Graph, HostLanguage, Mode,
    Model, ModelSource, Precision, Strategy, VariantDescription,
    graph::{ElementType, Fill, Input, Loss, Node, Op, Parameter, Role},
    protocol::{Load, VERSION},
};
use worker::WorkerCommand;

/// The program, with its arguments.
pub(crate) fn command(args: &[&str]) -> WorkerCommand {
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-synthetic")),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        env: BTreeMap::new(),
    }
}

/// What a worker that is a shell script says first.
pub(crate) fn hello() -> String {
    format!(
        r#"{{"hello":{{"protocol":{VERSION},"engine":"synthetic","versions":{{"sh":"1"}},"worker":null,"variants":["steady"]}}}}"#
    )
}

/// One linear layer, with a loss.
pub(crate) fn graph() -> Graph {
    let uniform = Fill::Uniform {
        low: -1.0,
        high: 1.0,
    };
    Graph {
        name: "line".to_owned(),
        inputs: vec![Input {
            name: "x".to_owned(),
            element: ElementType::Float,
            shape: vec![2, 4],
            fill: uniform,
        }],
        parameters: vec![Parameter {
            name: "weight".to_owned(),
            shape: vec![3, 4],
            role: Role::Weight,
            fill: uniform,
        }],
        nodes: vec![Node {
            name: "line".to_owned(),
            op: Op::Linear,
            inputs: vec!["x".to_owned(), "weight".to_owned()],
            outputs: vec!["y".to_owned()],
            in_place: false,
        }],
        outputs: vec!["y".to_owned()],
        loss: Some(Loss::CrossEntropy {
            logits: "y".to_owned(),
            labels: Input {
                name: "labels".to_owned(),
                element: ElementType::Int64,
                shape: vec![2],
                fill: Fill::Integers { bound: 3 },
            },
        }),
    }
}

/// A request to run the layer in this variant.
pub(crate) fn load(variant: &str, scratch: &Path) -> Load {
    let graph = graph();
    let cell = Cell {
        dims: BTreeMap::from([("batch".to_owned(), 2)]),
        ..Cell::plain(
            &graph,
            EngineVariant {
                engine: "synthetic".to_owned(),
                variant: variant.to_owned(),
            },
        )
    };
    Load {
        cell,
        graph,
        files: None,
        scratch: scratch.to_owned(),
    }
}

/// What the catalogue would say of the synthetic engine.
pub(crate) fn description(variant: &str) -> EngineDescription {
    EngineDescription {
        name: "synthetic".to_owned(),
        title: "Synthetic".to_owned(),
        version: String::new(),
        summary: "Computes nothing.".to_owned(),
        variants: vec![VariantDescription {
            name: variant.to_owned(),
            summary: "Under test.".to_owned(),
            host_language: HostLanguage::Rust,
            devices: vec!["cpu".to_owned()],
            precisions: vec![Precision::Fp32, Precision::Fp64],
            modes: vec![Mode::Inference, Mode::Training],
            boundaries: vec![Boundary::Step],
            strategies: vec![schema::Strategy::Single],
            reads_onnx: false,
            compiles_cxx: false,
            preparation: schema::Preparation::default(),
            factors: BTreeMap::new(),
            fixed: BTreeMap::new(),
            lacks: BTreeMap::new(),
            networks: Vec::new(),
            refuses: Vec::new(),
        }],
    }
}

/// A deadline that only a hanging worker meets.
pub(crate) fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}
