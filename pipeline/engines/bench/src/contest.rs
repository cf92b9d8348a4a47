//! Who races whom.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use catalog::Catalog;
use schema::{Cell, EngineVariant, Graph, Outcome, protocol};
use worker::{CACHE_VARIABLE, WorkerCommand};

use crate::Result;

/// A worker of ours, and what a user would write instead.
pub(crate) struct Contest {
    /// Engine and variant.
    pub(crate) ours: &'static str,
    /// What `plain_loop.py` runs.
    plain: Plain,
}

/// A loop in plain Python.
#[derive(Clone, Copy)]
enum Plain {
    /// A `torch.nn.Module`, on the Python of the kit that has this variant.
    Torch,
    /// The very package of our worker, on the Python of the kit that compiled it.
    Aot,
    /// An `InferenceSession` over the ONNX file.
    OnnxRuntime,
    /// The very graph of our worker, on the Python of the kit that has this variant.
    TensorFlow,
}

/// Everything that is raced.
pub(crate) const CONTESTS: [Contest; 5] = [
    Contest {
        ours: "pytorch/eager",
        plain: Plain::Torch,
    },
    Contest {
        ours: "pytorch/python-eager",
        plain: Plain::Torch,
    },
    Contest {
        ours: "pytorch/aot",
        plain: Plain::Aot,
    },
    Contest {
        ours: "onnxruntime/cpu",
        plain: Plain::OnnxRuntime,
    },
    Contest {
        ours: "tensorflow/graph",
        plain: Plain::TensorFlow,
    },
];

/// Tell `plain_loop.py` what to run, and the version of the protocol that it is to greet in.
const KIND: &str = "PHOTOFINISH_PLAIN_LOOP";
const FILE: &str = "PHOTOFINISH_PLAIN_LOOP_FILE";
const VERSION: &str = "PHOTOFINISH_PLAIN_LOOP_PROTOCOL";

/// What the loops need.
pub(crate) struct Files<'a> {
    /// A folder to write to.
    pub(crate) scratch: &'a Path,
    /// Where packages of the network are kept.
    pub(crate) packages: &'a Path,
    /// The network as ONNX.
    pub(crate) onnx: &'a Path,
    /// The program that writes TensorFlow's graph.
    pub(crate) graph_def: &'a Path,
    /// A Python with ONNX Runtime.
    pub(crate) python: &'a Path,
}

impl Contest {
    /// Our side. What is compiled lies where the other side finds it.
    pub(crate) fn worker(&self, catalog: &Catalog, files: &Files<'_>) -> Result<WorkerCommand> {
        let mut command = worker(catalog, self.ours)?;
        if matches!(self.plain, Plain::Aot) {
            let packages = files.packages.display().to_string();
            command.env.insert(CACHE_VARIABLE.to_owned(), packages);
        }
        Ok(command)
    }

    /// The other side.
    pub(crate) fn plain_loop(
        &self,
        catalog: &Catalog,
        files: &Files<'_>,
        graph: &Graph,
        batch: u64,
    ) -> Result<WorkerCommand> {
        let mut env = BTreeMap::from([(VERSION.to_owned(), protocol::VERSION.to_string())]);
        let mut set = |name: &str, value: &Path| {
            env.insert(name.to_owned(), value.display().to_string());
        };
        match self.plain {
            Plain::Torch => {
                set(KIND, Path::new("torch"));
                in_kit(catalog, "pytorch/python-eager", env)
            }
            Plain::Aot => {
                set(KIND, Path::new("aot"));
                set(FILE, &files.packages.join("aot"));
                in_kit(catalog, "pytorch/python-eager", env)
            }
            Plain::OnnxRuntime => {
                set(KIND, Path::new("onnxruntime"));
                set(FILE, files.onnx);
                Ok(WorkerCommand {
                    program: files.python.to_owned(),
                    args: vec![script().join("plain_loop.py").display().to_string()],
                    env,
                })
            }
            Plain::TensorFlow => {
                set(KIND, Path::new("tensorflow"));
                set(FILE, &self.tensorflow_graph(catalog, files, graph, batch)?);
                in_kit(catalog, "tensorflow/function", env)
            }
        }
    }

    /// The graph of our worker, written down.
    fn tensorflow_graph(
        &self,
        catalog: &Catalog,
        files: &Files<'_>,
        graph: &Graph,
        batch: u64,
    ) -> Result<PathBuf> {
        let path = files.scratch.join(format!("{}_{batch}.pb", graph.name));
        let ended = Command::new(files.graph_def)
            .args([graph.name.clone(), batch.to_string()])
            .arg(&path)
            .envs(worker(catalog, self.ours)?.env)
            .status()
            .map_err(|error| format!("failed to start {}: {error}", files.graph_def.display()))?;
        if ended.success() {
            Ok(path)
        } else {
            Err(format!("{} ended with {ended}", files.graph_def.display()).into())
        }
    }
}

/// The cell that a worker, and whoever races it, is asked for: ResNet-50, say, in fp32 on the CPU.
pub(crate) fn cell(
    catalog: &Catalog,
    variant: &str,
    graph: &Graph,
    batch: u64,
    threads: u32,
) -> Result<Cell> {
    let engine: EngineVariant = variant.parse()?;
    let host_language = catalog
        .descriptions()
        .iter()
        .find(|description| description.name == engine.engine)
        .and_then(|description| description.variant(&engine.variant))
        .ok_or_else(|| format!("no `{engine}`"))?
        .host_language;
    Ok(Cell {
        dims: BTreeMap::from([("batch".to_owned(), batch)]),
        host_language,
        threads,
        ..Cell::plain(graph, engine)
    })
}

/// How the worker of an engine and variant is started.
pub(crate) fn worker(catalog: &Catalog, variant: &str) -> Result<WorkerCommand> {
    Ok(catalog.command(&variant.parse()?).map_err(words)?)
}

/// What a worker, and whoever races it, is told.
pub(crate) fn load(cell: Cell, graph: &Graph, scratch: &Path) -> protocol::Load {
    protocol::Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.to_owned(),
    }
}

/// An outcome in words.
pub(crate) fn words(outcome: Outcome) -> String {
    format!("{}: {}", outcome.kind, outcome.reason)
}

/// The folder of `plain_loop.py`.
fn script() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `plain_loop.py` on the Python and the packages of the kit that has `variant`: started as the
/// kit's worker is, with another module.
fn in_kit(
    catalog: &Catalog,
    variant: &str,
    env: BTreeMap<String, String>,
) -> Result<WorkerCommand> {
    let mut command = worker(catalog, variant)?;
    let module = command.args.iter().position(|argument| argument == "-c");
    let module = module.ok_or("the worker is not started by `-c`")? + 2;
    if module >= command.args.len() {
        return Err("the worker is started without a module".into());
    }
    command.args[module] = "plain_loop".to_owned();
    command
        .args
        .insert(module + 1, script().display().to_string());
    command.env.extend(env);
    Ok(command)
}
