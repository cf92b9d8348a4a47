//! `pytorch/aot`: the worker with PyTorch's compiler, and what it keeps of it. The long form
//! (`PHOTOFINISH_TEST_FULL`) compiles networks of the zoo, in training too, and takes minutes.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "common/compiler.rs"]
mod compiler;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::{Array, SGD, arrays, cell, load};
use compiler::compiler;
use models::sample;
use schema::{
    Digest, Graph, Mode, Optimizer, Outcome, OutcomeKind, Precision,
    protocol::{FileElement, Load, Loaded, Measure, Parity, Reply, Request},
};
use tempfile::TempDir;
use worker::{
    CACHE_VARIABLE, COMPILER_VARIABLE, WorkerCommand,
    host::{Host, Interrupt, Limits},
};

const FULL: &str = "PHOTOFINISH_TEST_FULL";

/// Longest wait for one answer: a network of the zoo is compiled in a minute or two, and a busy
/// machine takes longer.
const PATIENCE: Duration = Duration::from_secs(900);

/// What a launch of the worker told.
struct Told {
    loaded: Loaded,
    tensors: Vec<Array>,
    losses: Vec<f64>,
}

/// A worker that was told to load a network.
struct Launched {
    host: Host,
    scratch: TempDir,
    loaded: Result<Loaded, Outcome>,
}

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

impl Launched {
    fn ask(&mut self, request: &Request) -> Result<Reply, Outcome> {
        self.host.request(request, deadline())
    }

    fn finish(self) {
        let ended = self.host.finish(deadline());
        assert_eq!(ended.outcome, None, "{}", ended.log);
    }
}

/// Starts a worker and has it load `graph` for training with an optimiser, or for inference.
fn start(
    graph: &Graph,
    (precision, optimizer): (Precision, Option<Optimizer>),
    cache: &Path,
    compiler: Option<&WorkerCommand>,
) -> Launched {
    let mut env = BTreeMap::from([(CACHE_VARIABLE.to_owned(), cache.display().to_string())]);
    if let Some(compiler) = compiler {
        let command = serde_json::to_string(compiler).unwrap();
        env.insert(COMPILER_VARIABLE.to_owned(), command);
    }
    let command = WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-torch")),
        args: vec![],
        env,
    };
    let interrupt = Interrupt::new().unwrap();
    let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
    host.hello(deadline()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut cell = cell(graph, precision, optimizer);
    cell.engine.variant = "aot".to_owned();
    let load = Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    };
    let loaded = match host.request(&Request::Load(Box::new(load)), deadline()) {
        Ok(Reply::Loaded(loaded)) => Ok(loaded),
        Ok(other) => panic!("`{}` instead of `loaded`", other.name()),
        Err(outcome) => Err(outcome),
    };
    Launched {
        host,
        scratch,
        loaded,
    }
}

/// One launch, from its start to its end, that is asked for parity and a measurement.
fn launch(
    graph: &Graph,
    of: (Precision, Option<Optimizer>),
    cache: &Path,
    compiler: Option<&WorkerCommand>,
) -> Result<Told, Outcome> {
    let mut launched = start(graph, of, cache, compiler);
    let told = match launched.loaded.clone() {
        Ok(loaded) => tell(&mut launched, loaded),
        Err(outcome) => Err(outcome),
    };
    launched.finish();
    told
}

fn tell(launched: &mut Launched, loaded: Loaded) -> Result<Told, Outcome> {
    // What was run before must not be seen in parity.
    let measure = Measure {
        discard: 0,
        min_steps: 2,
        min_ns: 0,
        max_steps: 2,
    };
    launched.ask(&Request::Measure(measure))?;
    let path = launched.scratch.path().join("outputs");
    let parity = Parity::plain(path.clone(), 3);
    let Reply::Parity(outputs) = launched.ask(&Request::Parity(parity))? else {
        panic!("not `parity`")
    };
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut tensors = Vec::new();
    for tensor in &outputs.tensors {
        let shape: Vec<usize> = tensor.shape.iter().map(|&size| size as usize).collect();
        let count: usize = shape.iter().product();
        let data = (0..count).map(|_| match tensor.element {
            FileElement::F32 => f64::from(f32::from_le_bytes(take(&mut rest))),
            FileElement::F64 => f64::from_le_bytes(take(&mut rest)),
        });
        tensors.push(Array::new(&shape, data.collect()));
    }
    Ok(Told {
        loaded,
        tensors,
        losses: outputs.losses,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (taken, after) = rest.split_first_chunk().unwrap();
    *rest = after;
    *taken
}

/// Asserts that what was told is what PyTorch tells eagerly, tensor by tensor, up to a bound on
/// the norm of the difference relative to the norm; and the losses.
fn assert_like_eager(told: &Told, graph: &Graph, of: (Precision, Option<Optimizer>), bound: f64) {
    let (mut session, _) = load(graph, cell(graph, of.0, of.1)).unwrap();
    let eager = session.parity(3).unwrap();
    let expected = arrays(&eager.tensors);
    assert_eq!(told.tensors.len(), expected.len(), "{}", graph.name);
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let size = |array: &Array| norm(&mut array.data.iter().copied());
    // What is zero by mathematics, as the gradient of a key's bias, is measured by the largest.
    let mut largest: BTreeMap<String, f64> = BTreeMap::new();
    for (expected, tensor) in expected.iter().zip(&eager.tensors) {
        let largest = largest.entry(format!("{:?}", tensor.quantity)).or_default();
        *largest = largest.max(size(expected));
    }
    for ((told, expected), tensor) in told.tensors.iter().zip(&expected).zip(&eager.tensors) {
        assert_eq!(told.shape, expected.shape, "{}", tensor.name);
        let pairs = told.data.iter().zip(&expected.data);
        let off = norm(&mut pairs.map(|(told, expected)| told - expected));
        let quantity = format!("{:?}", tensor.quantity);
        let size = size(expected).max(1e-4 * largest[&quantity]);
        assert!(
            off <= bound * size,
            "{} {}: {quantity} is off by {off:e} of {size:e}",
            graph.name,
            tensor.name,
        );
    }
    assert_eq!(told.losses.len(), eager.losses.len());
    for (told, expected) in told.losses.iter().zip(&eager.losses) {
        assert!(
            (told - expected).abs() <= bound * expected,
            "{told} {expected}"
        );
    }
}

fn kernels(told: &Told) -> &str {
    &told.loaded.settings["kernels"]
}

/// The only package in a cache.
fn package(cache: &Path) -> PathBuf {
    let mut entries = fs::read_dir(cache.join("aot")).unwrap();
    let path = entries.next().unwrap().unwrap().path();
    assert!(
        entries.next().is_none(),
        "one package, and nothing half made"
    );
    path
}

/// A compiler that is the real one the first time. Later it is a program that hands over the
/// package at `saved`, or says that it was asked, where there is none.
fn once(folder: &Path, saved: &Path) -> WorkerCommand {
    let script = r#"
folder=$1 saved=$2; shift 2
if mkdir "$folder/asked" 2>/dev/null; then exec "$@"; fi
read -r line
package=${line##*\"package\":\"}; package=${package%%\"*}
if cp "$saved" "$package"; then echo '"compiled"'
else echo '{"failed": {"kind": "unavailable", "reason": "asked again"}}'; fi
"#;
    let real = compiler();
    let mut args = vec!["-c".to_owned(), script.to_owned(), "sh".to_owned()];
    args.extend([folder, saved, &real.program].map(|path| path.to_str().unwrap().to_owned()));
    args.extend(real.args);
    WorkerCommand {
        program: PathBuf::from("/bin/sh"),
        args,
        env: real.env,
    }
}

#[test]
fn a_network_is_compiled_once_and_a_damaged_package_again() {
    let graph = sample::perceptron(4).unwrap();
    let inference = (Precision::Fp32, None);
    let folder = tempfile::tempdir().unwrap();
    let (cache, saved) = (folder.path().join("cache"), folder.path().join("saved"));
    let compiler = once(folder.path(), &saved);
    let run = || launch(&graph, inference, &cache, Some(&compiler));

    let first = run().unwrap();
    assert_eq!(kernels(&first), "made by this launch");
    assert!(first.loaded.compile_ns > 0);
    assert_eq!(first.loaded.settings["AOTInductor"], "the forward pass");
    assert!(first.loaded.settings.contains_key("vectors of CPU kernels"));
    assert_like_eager(&first, &graph, inference, 1e-6);

    // Nobody compiles any more: `saved` is not there.
    let second = run().unwrap();
    assert_eq!(kernels(&second), "from the cache of earlier launches");
    assert_eq!(second.loaded.compile_ns, 0);
    assert_eq!(second.tensors, first.tensors);

    let kept = package(&cache);
    let whole = fs::read(&kept).unwrap();
    let code = {
        let needle = b"\x7fELF";
        let start = whole.windows(4).position(|part| part == needle).unwrap();
        start + 0x1_0000
    };
    let mut flipped = whole.clone();
    flipped[code] ^= 0xff;
    let half = &whole[..whole.len() / 2];
    for damaged in [&flipped[..], half, b"", b"PK\x05\x06"] {
        fs::write(&kept, damaged).unwrap();
        let _ = fs::remove_file(&saved);
        let Err(again) = run() else {
            panic!("{} bytes were taken for a package", damaged.len())
        };
        assert_eq!(again.reason, "asked again");
        // With a compiler that has something to give, it is mended for good.
        fs::write(&kept, damaged).unwrap();
        fs::write(&saved, &whole).unwrap();
        let mended = run().unwrap();
        let told = kernels(&mended);
        let expected =
            "made by this launch, since those of an earlier one are of no use: the package";
        assert!(told.starts_with(expected), "{told}");
        assert_eq!(mended.tensors, first.tensors);
        assert_eq!(fs::read(&kept).unwrap(), whole);
        assert_eq!(
            kernels(&run().unwrap()),
            "from the cache of earlier launches"
        );
    }

    // A package of another network: its key does not fit.
    let other = sample::perceptron(3).unwrap();
    let outcome = launch(&other, inference, &cache, Some(&compiler)).err();
    let outcome = outcome.unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Crashed);
    assert!(
        outcome.reason.contains("another one's"),
        "{}",
        outcome.reason
    );
}

/// A package that asks for more memory than there is: its library is of 2⁴⁷ bytes, it says.
fn oversized_package() -> Vec<u8> {
    let zip64 = [
        &1u16.to_le_bytes()[..],
        &8u16.to_le_bytes(),
        &(1u64 << 47).to_le_bytes(),
    ];
    let zip64 = zip64.concat();
    let large = u32::MAX.to_le_bytes();
    // Name, content, method of compression, the size that is told, more about the size.
    type File<'a> = (&'a str, &'a [u8], u16, [u8; 4], &'a [u8]);
    let files: [File<'_>; 2] = [
        ("p/version", b"3", 0, 1u32.to_le_bytes(), &[]),
        ("p/data/aotinductor/model/m.so", b"\x03\0", 8, large, &zip64),
    ];
    let short = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let long = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let (mut package, mut directory) = (Vec::new(), Vec::new());
    for (name, content, method, size, extra) in files {
        let start = long(package.len());
        let about = [
            &[45, 0, 0, 0][..],
            &method.to_le_bytes(),
            &[0; 8],
            &long(content.len()),
            &size,
            &short(name.len()),
            &short(extra.len()),
        ];
        let about = about.concat();
        package.extend([b"PK\x03\x04", &about[..], name.as_bytes(), extra, content].concat());
        let ends = [&[0; 10][..], &start, name.as_bytes(), extra].concat();
        directory.extend([b"PK\x01\x02", &[45, 0][..], &about, &ends].concat());
    }
    let (start, size) = (long(package.len()), long(directory.len()));
    let ends = [&[0; 4][..], &short(2), &short(2), &size, &start, &[0; 2]].concat();
    [package, directory, b"PK\x05\x06".to_vec(), ends].concat()
}

#[test]
fn a_launch_leaves_a_good_package_alone_and_nothing_elsewhere() {
    let graph = sample::perceptron(2).unwrap();
    let inference = (Precision::Fp32, None);
    let cache = tempfile::tempdir().unwrap();
    let launched = start(&graph, inference, cache.path(), Some(&compiler()));
    launched.loaded.as_ref().unwrap();
    // Where the code is that it runs: whoever kills a worker removes its folder.
    let maps = fs::read_to_string(format!("/proc/{}/maps", launched.host.pid())).unwrap();
    let unpacked = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.ends_with(".wrapper.so"))
        .unwrap();
    let own = launched.scratch.path().canonicalize().unwrap();
    assert!(Path::new(unpacked).starts_with(own), "{unpacked}");
    let _killed = launched.host.kill();
    drop(launched.scratch);
    assert!(!Path::new(unpacked).exists());

    // One that is as it was written, and that this machine has no memory for.
    let good = package(cache.path());
    let key = good.file_name().unwrap().to_str().unwrap();
    let (key, _) = key.split_once('-').unwrap();
    let content = oversized_package();
    let name = format!("{key}-{}.pt2", Digest::of_bytes(&content));
    let oversized = good.with_file_name(name);
    fs::write(&oversized, content).unwrap();
    fs::remove_file(&good).unwrap();
    let outcome = launch(&graph, inference, cache.path(), Some(&compiler())).err();
    let outcome = outcome.unwrap();
    assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{outcome:?}");
    assert!(outcome.reason.starts_with("AOTInductor: "), "{outcome:?}");
    assert!(oversized.exists());
}

#[test]
fn without_a_compiler_it_is_unavailable() {
    let graph = sample::perceptron(1).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let outcome = launch(&graph, (Precision::Fp32, None), cache.path(), None).err();
    let outcome = outcome.unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome.reason.contains("engines install pytorch/aot"),
        "{}",
        outcome.reason
    );
}

#[test]
fn without_a_cxx_compiler_it_is_unavailable() {
    let graph = sample::perceptron(1).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let mut compiler = compiler();
    let missing = ("CXX".to_owned(), "no-such-compiler".to_owned());
    compiler.env.extend([missing]);
    let of = (Precision::Fp32, None);
    let outcome = launch(&graph, of, cache.path(), Some(&compiler)).err();
    let outcome = outcome.unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome
            .reason
            .contains("no C++ compiler `no-such-compiler`"),
        "{}",
        outcome.reason
    );
}

/// Networks of the zoo: convolutions with running statistics, attention.
#[test]
fn convolutions_and_attention_agree_with_eager() {
    if env::var_os(FULL).is_none() {
        return;
    }
    let compiler = compiler();
    for (name, dims, of, bound) in [
        (
            "resnet18",
            &[("batch", 2), ("image", 64)][..],
            (Precision::Fp32, None),
            1e-4,
        ),
        (
            "resnet18",
            &[("batch", 4), ("image", 64)],
            (Precision::Fp64, Some(SGD)),
            1e-8,
        ),
        (
            "bert_tiny",
            &[("batch", 1), ("seq", 16)],
            (Precision::Fp32, None),
            1e-4,
        ),
        (
            "bert_tiny",
            &[("batch", 1), ("seq", 16)],
            (Precision::Bf16, None),
            5e-2,
        ),
        // Fused attention, and attention as products.
        (
            "bert_tiny",
            &[("batch", 2), ("seq", 16)],
            (Precision::Fp32, Some(SGD)),
            1e-3,
        ),
        (
            "bert_tiny",
            &[("batch", 2), ("seq", 16)],
            (Precision::Fp64, Some(SGD)),
            1e-8,
        ),
    ] {
        let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size));
        let mode = match of.1 {
            None => Mode::Inference,
            Some(_) => Mode::Training,
        };
        let graph = models::zoo::build_for(name, &dims.collect(), mode).unwrap();
        let cache = tempfile::tempdir().unwrap();
        let told = launch(&graph, of, cache.path(), Some(&compiler)).unwrap();
        assert_like_eager(&told, &graph, of, bound);
    }
}

/// A perceptron trained in single precision: its smallest weights move, too.
#[test]
fn training_moves_every_weight_as_eager_does() {
    let graph = sample::perceptron(4).unwrap();
    let of = (Precision::Fp32, Some(SGD));
    let cache = tempfile::tempdir().unwrap();
    let told = launch(&graph, of, cache.path(), Some(&compiler())).unwrap();
    assert_eq!(
        told.loaded.settings["AOTInductor"],
        "the joint graph of forward and backward pass, the loss among it"
    );
    assert_like_eager(&told, &graph, of, 1e-5);
}
