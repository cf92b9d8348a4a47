//! What a package is made from, as one name.

use std::{collections::BTreeMap, env, fs, path::Path};

use schema::{Cell, Device, Digest, Graph, Mode, Precision, protocol::Load};
use serde::Serialize;
use worker::WorkerCommand;

use crate::shim;

/// Version of what is written into packages.
const VERSION: u32 = 1;

/// Everything that decides what the compiler makes.
#[derive(Serialize)]
struct Parts<'a> {
    version: u32,
    /// The compiler's program and arguments, and the C++ compiler that it is told to use. The folders
    /// among them are named by the hashes of the sources and of the wheels in them.
    compiler: (&'a Path, &'a [String], Option<String>),
    torch: String,
    /// The kernels use the instructions of these.
    processors: Vec<String>,
    graph: &'a Graph,
    /// Of a user's file: numbers of its weights may be compiled in.
    model: &'a Digest,
    precision: Precision,
    mode: Mode,
    device: Device,
    threads: u32,
    factors: &'a BTreeMap<String, String>,
    dropout: bool,
}

/// The name of the package for the cell of `load`, with dropout or without.
pub(super) fn of(load: &Load, command: &WorkerCommand, dropout: bool) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut processors = fields(&cpuinfo, &["model name", "flags"]);
    if !load.cell.device.is_cpu() {
        processors.extend(gpus());
    }
    of_parts(load, command, dropout, processors)
}

fn of_parts(
    load: &Load,
    command: &WorkerCommand,
    dropout: bool,
    processors: Vec<String>,
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
    let parts = Parts {
        version: VERSION,
        compiler: (&command.program, &command.args, env::var("CXX").ok()),
        torch: shim::torch_version(),
        processors,
        graph: &load.graph,
        model: &model.graph,
        precision: *precision,
        mode: *mode,
        device: *device,
        threads: *threads,
        factors,
        dropout,
    };
    Digest::of_value(&parts).to_string()
}

/// The models of this machine's GPUs, as NVIDIA's driver tells them.
fn gpus() -> Vec<String> {
    let folders = fs::read_dir("/proc/driver/nvidia/gpus")
        .into_iter()
        .flatten();
    let texts = folders.filter_map(|folder| {
        let file = folder.ok()?.path().join("information");
        fs::read_to_string(file).ok()
    });
    let mut models: Vec<_> = texts.flat_map(|text| fields(&text, &["Model"])).collect();
    models.sort_unstable();
    models
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

    use schema::Optimizer;

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
        let key = |load: &Load| of_parts(load, &command("a"), true, vec!["avx2".to_owned()]);
        let base = key(&load());
        let changes: [fn(&mut Load); 6] = [
            |load| load.cell.threads = 2,
            |load| load.cell.precision = Precision::Bf16,
            |load| load.cell.mode = Mode::Inference,
            |load| load.cell.model.graph = Digest::of_bytes(b"other weights"),
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
        let other = |folder: &str, dropout, processor: &str| {
            of_parts(
                &load(),
                &command(folder),
                dropout,
                vec![processor.to_owned()],
            )
        };
        assert_eq!(other("a", true, "avx2"), base);
        assert_ne!(other("b", true, "avx2"), base);
        assert_ne!(other("a", false, "avx2"), base);
        assert_ne!(other("a", true, "avx512f"), base);
    }

    #[test]
    fn the_optimiser_and_the_temporary_folder_are_none_of_it() {
        let key = |load: &Load| of_parts(load, &command("a"), true, vec![]);
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
