//! What a package is made from, as one name.

use std::{collections::BTreeMap, env, fs, path::Path};

use schema::{Cell, Device, Digest, Graph, Mode, Outcome, Precision, protocol::Load};
use serde::Serialize;
use worker::{ALLOCATOR, CXX_VARIABLE, WorkerCommand};

use crate::{device::Place, failure::Fault, shim};

/// Version of what is written into packages.
const VERSION: u32 = 2;

/// Variables that PyTorch's compiler heeds begin so: which kernels it chooses and how it writes them.
/// (Those of OpenMP and MKL change how a package runs, and not what is in it.)
const PREFIXES: [&str; 7] = [
    "AOT_INDUCTOR_",
    "ATEN_",
    "PYTORCH_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TRITON_",
];

/// Where the compiler keeps what it made before, which decides nothing.
const COMPILERS_CACHE: &str = "TORCHINDUCTOR_CACHE_DIR";

/// Everything that decides what the compiler makes.
#[derive(Serialize)]
struct Parts<'a> {
    version: u32,
    /// The compiler's program and arguments. The folders among them are named by the hashes of the
    /// sources and of the wheels in them.
    compiler: (&'a Path, &'a [String]),
    torch: String,
    surroundings: &'a Surroundings,
    graph: &'a Graph,
    /// The user's file, of the model or of weights, wherever it lies: numbers in it may be compiled in.
    numbers: (Digest, Option<Digest>),
    precision: Precision,
    mode: Mode,
    device: Device,
    threads: u32,
    /// But not who keeps the memory of the process that runs it.
    factors: BTreeMap<&'a str, &'a str>,
    dropout: bool,
}

/// What the machine has a say in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Surroundings {
    /// The kernels use the instructions of these.
    processors: Vec<String>,
    /// What tells the C++ compiler from others; `None` where this worker was not told.
    cxx: Option<String>,
    /// The variables that the compiler heeds.
    variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// Those of a compiler that is started by this process, for a network on `place`.
    pub(super) fn of(command: &WorkerCommand, place: Place) -> Result<Self, Outcome> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut processors = fields(&cpuinfo, &["model name", "flags"]);
        if let Place::Cuda(index) = place {
            let gpu = shim::gpu(index).map_err(|error| Fault::from(error).at("the GPU"))?;
            processors.push(gpu);
        }
        let inherited = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let mut variables: BTreeMap<String, String> = inherited.collect();
        variables.extend(command.env.clone());
        Ok(Self {
            processors,
            cxx: variables.get(CXX_VARIABLE).cloned(),
            variables: heeded(variables),
        })
    }
}

/// Those of `variables` that the compiler heeds.
fn heeded(mut variables: BTreeMap<String, String>) -> BTreeMap<String, String> {
    variables.retain(|name, _| {
        name != COMPILERS_CACHE && PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    });
    variables
}

/// The name of the package for the cell of `load`, with dropout or without.
pub(super) fn of(
    load: &Load,
    command: &WorkerCommand,
    surroundings: &Surroundings,
    dropout: bool,
) -> String {
    let Cell {
        model,
        precision,
        mode,
        device,
        threads,
        factors,
        ..
    } = &load.cell;
    let factors = factors.iter().filter(|(name, _)| *name != ALLOCATOR);
    let factors = factors.map(|(name, value)| (name.as_str(), value.as_str()));
    let parts = Parts {
        version: VERSION,
        compiler: (&command.program, &command.args),
        torch: shim::torch_version(),
        surroundings,
        graph: &load.graph,
        numbers: (model.graph, model.weights.as_ref().map(|own| own.content)),
        precision: *precision,
        mode: *mode,
        device: *device,
        threads: *threads,
        factors: factors.collect(),
        dropout,
    };
    Digest::of_value(&parts).to_string()
}

/// The first value of each of these fields in a text of lines like `model name : a CPU`.
fn fields(text: &str, names: &[&str]) -> Vec<String> {
    let value = |name: &&str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.trim() == *name);
        found.map(|(_, value)| value.trim().to_owned())
    };
    names.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use schema::{Optimizer, Weights};

    use super::*;

    fn load() -> Load {
        let graph = models::sample::perceptron(1).unwrap();
        Load {
            cell: Cell {
                mode: Mode::Training,
                ..Cell::plain(&graph, "pytorch/aot".parse().unwrap())
            },
            graph,
            files: None,
            scratch: PathBuf::from("/nowhere"),
        }
    }

    fn command(folder: &str) -> WorkerCommand {
        WorkerCommand {
            program: PathBuf::from("/python"),
            args: vec![folder.to_owned()],
            env: BTreeMap::new(),
        }
    }

    #[test]
    fn whatever_decides_the_code_is_a_part_of_the_name() {
        let plain = Surroundings {
            processors: vec!["avx2".to_owned()],
            cxx: Some("g++ 12".to_owned()),
            variables: BTreeMap::new(),
        };
        let key = |load: &Load| of(load, &command("a"), &plain, true);
        let base = key(&load());
        let changes: [fn(&mut Load); 7] = [
            |load| load.cell.threads = 2,
            |load| load.cell.precision = Precision::Bf16,
            |load| load.cell.mode = Mode::Inference,
            |load| load.cell.model.graph = Digest::of_bytes(b"other weights"),
            |load| {
                load.cell.model.weights = Some(Weights {
                    path: "own.safetensors".to_owned(),
                    content: Digest::of_bytes(b"own weights"),
                });
            },
            |load| load.graph.nodes.truncate(1),
            |load| {
                let layout = ("layout".to_owned(), "channels_last".to_owned());
                load.cell.factors.extend([layout]);
            },
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = load();
            change(&mut changed);
            assert_ne!(key(&changed), base, "change {index}");
        }
        // Who keeps the memory of the process decides nothing about the code.
        let mut kept = load();
        let keep = (ALLOCATOR.to_owned(), "keep".to_owned());
        kept.cell.factors.extend([keep]);
        assert_eq!(key(&kept), base);
        let trained = |path: &str| {
            let mut load = load();
            load.cell.model.weights = Some(Weights {
                path: path.to_owned(),
                content: Digest::of_bytes(b"own weights"),
            });
            key(&load)
        };
        assert_eq!(trained("moved/own.safetensors"), trained("own.safetensors"));
        assert_ne!(of(&load(), &command("b"), &plain, true), base);
        assert_ne!(of(&load(), &command("a"), &plain, false), base);
        let changes: [fn(&mut Surroundings); 3] = [
            |around| around.processors = vec!["avx512f".to_owned()],
            |around| around.cxx = Some("g++ 13".to_owned()),
            |around| {
                let autotune = ("TORCHINDUCTOR_MAX_AUTOTUNE".to_owned(), "1".to_owned());
                around.variables.extend([autotune]);
            },
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = plain.clone();
            change(&mut changed);
            let key = of(&load(), &command("a"), &changed, true);
            assert_ne!(key, base, "surroundings {index}");
        }
    }

    #[test]
    fn the_compiler_s_surroundings_are_those_that_it_is_started_with() {
        let mut command = command("a");
        let env = [
            (CXX_VARIABLE, "g++ 12"),
            ("TORCHINDUCTOR_FREEZING", "1"),
            ("ATEN_CPU_CAPABILITY", "avx2"),
            (COMPILERS_CACHE, "/nowhere"),
            ("OMP_NUM_THREADS", "7"),
        ];
        command.env = env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let found = Surroundings::of(&command, Place::Cpu).unwrap();
        assert_eq!(found.cxx.as_deref(), Some("g++ 12"));
        assert!(!found.processors.is_empty());
        for (name, value) in [
            ("TORCHINDUCTOR_FREEZING", "1"),
            ("ATEN_CPU_CAPABILITY", "avx2"),
        ] {
            assert_eq!(found.variables[name], value);
        }
        for name in [COMPILERS_CACHE, "OMP_NUM_THREADS"] {
            assert!(!found.variables.contains_key(name), "{name}");
        }
    }

    #[test]
    fn the_optimiser_and_the_temporary_folder_are_none_of_it() {
        let key = |load: &Load| of(load, &command("a"), &Surroundings::default(), true);
        let mut changed = load();
        changed.scratch = PathBuf::from("/elsewhere");
        changed.cell.optimizer = Some(Optimizer::Sgd {
            learning_rate: 0.5,
            momentum: 0.0,
            weight_decay: 0.0,
        });
        assert_eq!(key(&changed), key(&load()));
    }

    #[test]
    fn a_processor_is_known_by_its_first_fields() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\ncpu MHz\t: 2600.1\nflags\t\t: fpu avx2\n\n\
                    processor\t: 1\nmodel name\t: Other\nflags\t: none\n";
        let told = fields(text, &["model name", "flags", "Model"]);
        assert_eq!(told, ["Some CPU", "fpu avx2"]);
    }
}
