//! Who races whom.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use catalog::Catalog;
use models::quantise::{self, Grids};
use schema::{
    Cell, EngineVariant, Graph, Outcome, Precision,
    protocol::{self, ModelFiles},
};
use worker::{CACHE_VARIABLE, WorkerCommand};

use crate::Result;

/// A worker of ours, and what a user would write, or take, instead.
pub(crate) struct Contest {
    /// Engine and variant.
    pub(crate) ours: &'static str,
    /// What both sides compute in.
    pub(crate) precision: Precision,
    /// What `plain_loop.py` runs.
    plain: Plain,
}

/// A loop in plain Python, or a peer's harness.
#[derive(Clone, Copy)]
enum Plain {
    /// A `torch.nn.Module`, on the Python of the kit that has this variant.
    Torch,
    /// The very package of our worker, on the Python of the kit that compiled it.
    Aot,
    /// An `InferenceSession` over the ONNX file, in integers of 8 bits over what ONNX Runtime's own
    /// quantiser makes of it.
    OnnxRuntime,
    /// The very graph of our worker, on the Python of the kit that has this variant.
    TensorFlow,
    /// `torch.utils.benchmark` around the module.
    TorchBenchmark,
    /// What ONNX Runtime's own profiler tells of the session's calls.
    OnnxRuntimeProfile,
    /// OpenVINO's `benchmark_app` over the ONNX file.
    OpenVinoBenchmark,
}

/// Workers and the harnesses of others, over the same network.
pub(crate) const PEERS: [Contest; 4] = [
    Contest {
        ours: "pytorch/eager",
        precision: Precision::Fp32,
        plain: Plain::TorchBenchmark,
    },
    Contest {
        ours: "pytorch/python-eager",
        precision: Precision::Fp32,
        plain: Plain::TorchBenchmark,
    },
    Contest {
        ours: "onnxruntime/cpu",
        precision: Precision::Fp32,
        plain: Plain::OnnxRuntimeProfile,
    },
    Contest {
        ours: "openvino/cpu",
        precision: Precision::Fp32,
        plain: Plain::OpenVinoBenchmark,
    },
];

/// Workers and plain loops.
pub(crate) const CONTESTS: [Contest; 6] = [
    Contest {
        ours: "pytorch/eager",
        precision: Precision::Fp32,
        plain: Plain::Torch,
    },
    Contest {
        ours: "pytorch/python-eager",
        precision: Precision::Fp32,
        plain: Plain::Torch,
    },
    Contest {
        ours: "pytorch/aot",
        precision: Precision::Fp32,
        plain: Plain::Aot,
    },
    Contest {
        ours: "onnxruntime/cpu",
        precision: Precision::Fp32,
        plain: Plain::OnnxRuntime,
    },
    Contest {
        ours: "onnxruntime/cpu",
        precision: Precision::Int8Static,
        plain: Plain::OnnxRuntime,
    },
    Contest {
        ours: "tensorflow/graph",
        precision: Precision::Fp32,
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
    /// Who races our side, for a reader.
    pub(crate) fn other(&self) -> &'static str {
        match self.plain {
            Plain::TorchBenchmark => "torch.utils.benchmark",
            Plain::OnnxRuntimeProfile => "ONNX Runtime's profiler",
            Plain::OpenVinoBenchmark => "benchmark_app",
            _ => "Python",
        }
    }

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
    pub(crate) fn other_side(
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
            Plain::TorchBenchmark => {
                set(KIND, Path::new("torch-benchmark"));
                in_kit(catalog, "pytorch/python-eager", env)
            }
            Plain::OnnxRuntime | Plain::OnnxRuntimeProfile | Plain::OpenVinoBenchmark => {
                set(
                    KIND,
                    Path::new(match self.plain {
                        Plain::OnnxRuntimeProfile => "onnxruntime-profile",
                        Plain::OpenVinoBenchmark => "openvino-benchmark",
                        _ => "onnxruntime",
                    }),
                );
                set(FILE, &self.onnx(files)?);
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

    /// The file of ONNX that Python runs.
    fn onnx(&self, files: &Files<'_>) -> Result<PathBuf> {
        if self.precision != Precision::Int8Static {
            return Ok(files.onnx.to_owned());
        }
        let quantised = files.onnx.with_extension("int8.onnx");
        let mut quantiser = Command::new(files.python);
        quantiser.arg(script().join("own_quantiser.py"));
        run(quantiser.arg(files.onnx).arg(&quantised))?;
        Ok(quantised)
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
        let mut writer = Command::new(files.graph_def);
        writer.args([graph.name.clone(), batch.to_string()]);
        run(writer.arg(&path).envs(worker(catalog, self.ours)?.env))?;
        Ok(path)
    }
}

/// Waits for a program to succeed.
fn run(command: &mut Command) -> Result<()> {
    match command.status() {
        Ok(ended) if ended.success() => Ok(()),
        ended => Err(format!("{command:?}: {ended:?}").into()),
    }
}

/// The cell that a worker, and whoever races it, is asked for: ResNet-50, say, on the CPU.
pub(crate) fn cell(
    catalog: &Catalog,
    (variant, precision): (&str, Precision),
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
        precision,
        threads,
        ..Cell::plain(graph, engine)
    })
}

/// How the worker of an engine and variant is started.
pub(crate) fn worker(catalog: &Catalog, variant: &str) -> Result<WorkerCommand> {
    Ok(catalog.command(&variant.parse()?).map_err(words)?)
}

/// What a worker, and whoever races it, is told.
///
/// # Errors
/// The network cannot be quantised, or its weights not be written to `scratch`.
pub(crate) fn load(cell: Cell, graph: &Graph, scratch: &Path) -> Result<protocol::Load> {
    let (graph, files) = match Grids::of(&cell) {
        None => (graph.clone(), None),
        Some(grids) => {
            let weights = scratch.join(format!("{}.weights", cell.id()));
            let files = ModelFiles {
                weights: weights.clone(),
                onnx: None,
                precision: cell.precision,
            };
            (quantised(graph, grids, &weights)?, Some(files))
        }
    };
    Ok(protocol::Load {
        cell,
        graph,
        files,
        scratch: scratch.to_owned(),
    })
}

/// The network on grids, its weights in the file at `path`.
fn quantised(graph: &Graph, grids: Grids, path: &Path) -> Result<Graph> {
    let mut out = File::create(path)?;
    Ok(quantise::uncalibrated(graph, grids, &mut out)?)
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
