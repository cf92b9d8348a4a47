//! PyTorch's compiler, as the worker is told of it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use worker::WorkerCommand;

/// Runs a module as the worker's supervisor does.
const START: &str = "\
import runpy, sys
module, *folders = sys.argv[1:]
sys.path[:0] = folders
del sys.argv[1:]
runpy.run_module(module, run_name='__main__', alter_sys=True)
";

/// The compiler of the kit that `engines install` put in place, with the sources of this checkout.
pub(crate) fn compiler() -> WorkerCommand {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let kit = checkout.join(".engines/python/pytorch");
    let record = fs::read(kit.join("complete.json"))
        .expect("PyTorch for Python: run `photofinish engines install pytorch` first");
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let modules = text(temporary.join("pycache"));
    let pycache = format!("pycache_prefix={modules}");
    let mut args: Vec<_> = ["-I", "-S", "-X", &pycache, "-c", START]
        .map(str::to_owned)
        .to_vec();
    args.extend([
        "photofinish_pytorch.aot".to_owned(),
        text(checkout.join("pipeline/engines/python")),
        text(kit.join("site-packages")),
    ]);
    // What it keeps besides packages (headers that g++ has read, above all) is shared by all tests.
    let kept = ("TORCHINDUCTOR_CACHE_DIR", temporary.join("inductor"));
    WorkerCommand {
        program: record["interpreter"].as_str().unwrap().into(),
        args,
        // PyTorch tries each kind of vectors in a Python of its own, which imports all of PyTorch.
        env: BTreeMap::from([
            (kept.0.to_owned(), text(kept.1)),
            ("PYTHONPYCACHEPREFIX".to_owned(), modules),
        ]),
    }
}
