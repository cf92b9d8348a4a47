//! Virtual environments that are made once and shared by all tests and test runs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Where the Python packages of PyTorch are, from the root of the repository.
const PYTORCH: &str = ".engines/python/pytorch";

/// Those of TensorRT-RTX, and the workers that are written in Python.
const TENSORRT: &str = ".engines/python/tensorrt_rtx";
const WORKERS: &str = "pipeline/engines/python";

/// A virtual environment.
struct Environment {
    /// Its folder below the tests' own.
    name: &'static str,
    requirements: &'static str,
    /// The installation whose packages are on the path as well.
    on: Option<PathBuf>,
}

/// Runs a script of `tests/python` and returns what it printed.
///
/// # Panics
/// When the script fails: its own words are in the message.
pub(crate) fn run(script: &str, arguments: &[&Path]) -> String {
    let judges = Environment {
        name: "models-python",
        requirements: include_str!("../python/requirements.txt"),
        on: None,
    };
    judges.run(script, arguments)
}

/// [`run`], with PyTorch and what it exports by.
///
/// # Panics
/// When the script fails, or PyTorch is not installed.
pub(crate) fn run_with_pytorch(script: &str, arguments: &[&Path]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let exporters = Environment {
        name: "models-exporters",
        requirements: include_str!("../python/exporters.txt"),
        on: Some(root.join(PYTORCH)),
    };
    exporters.run(script, arguments)
}

/// Runs a script of `tests/python` with TensorRT-RTX and its worker, and returns what it printed.
///
/// # Panics
/// When the script fails, or TensorRT-RTX is not installed.
pub(crate) fn run_with_tensorrt(script: &str, arguments: &[&Path]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Installation::at(&root.join(TENSORRT), "tensorrt/rtx");
    let folders = [root.join(WORKERS), installed.packages];
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let mut command = Command::new(installed.interpreter);
    command
        .env("PYTHONPATH", std::env::join_paths(folders).expect("a path"))
        // Nothing new among the workers' sources, from which the catalogue is built.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(scripts.join(script))
        .args(arguments);
    String::from_utf8(finished(&mut command).stdout).expect("scripts print UTF-8")
}

impl Environment {
    fn run(&self, script: &str, arguments: &[&Path]) -> String {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
        let mut command = Command::new(self.folder().join("bin/python3"));
        // The numbers of one thread are enough, and other tests want the rest.
        command
            .env("OMP_NUM_THREADS", "1")
            .env("OPENBLAS_NUM_THREADS", "1");
        let output = finished(command.arg(scripts.join(script)).args(arguments));
        String::from_utf8(output.stdout).expect("scripts print UTF-8")
    }

    /// Its folder, installed first if it is not there or not complete.
    fn folder(&self) -> PathBuf {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name);
        fs::create_dir_all(&root).expect("target can be written");
        let lock = File::create(root.join("lock")).expect("target can be written");
        lock.lock().expect("the environment can be locked");

        let (environment, complete) = (root.join("environment"), root.join("complete"));
        let below = self.on.as_deref();
        let below = below.map(|folder| Installation::at(folder, "pytorch"));
        let packages = below.as_ref().map(|below| below.packages.as_path());
        let wanted = format!("{}\n{packages:?}\n", self.requirements);
        if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
            return environment;
        }
        let requirements = root.join("requirements.txt");
        fs::write(&requirements, self.requirements).expect("target can be written");
        let python = below.as_ref().map(|below| below.interpreter.clone());
        let mut make = Command::new(python.unwrap_or_else(|| PathBuf::from("python3")));
        finished(make.args(["-m", "venv", "--clear"]).arg(&environment));
        let python = environment.join("bin/python3");
        if let Some(packages) = packages {
            let place = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
            let place = finished(Command::new(&python).args(["-c", place])).stdout;
            let place = PathBuf::from(String::from_utf8(place).expect("a path in UTF-8"));
            let line = format!("{}\n", packages.display());
            fs::write(place.join("pytorch.pth"), line).expect("target can be written");
        }
        let install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:"];
        let mut install_all = Command::new(&python);
        // All that is needed is named, with its version.
        install_all
            .args(install)
            .args(["--no-deps", "--requirement"]);
        finished(install_all.arg(&requirements));
        fs::write(&complete, wanted).expect("target can be written");
        environment
    }
}

/// What `photofinish engines install` made.
struct Installation {
    packages: PathBuf,
    interpreter: PathBuf,
}

impl Installation {
    fn at(folder: &Path, engine: &str) -> Self {
        let missing =
            format!("run `photofinish engines install {engine}` first: its packages are needed");
        let folder = folder.canonicalize().expect(&missing);
        let record = fs::read_to_string(folder.join("complete.json")).expect(&missing);
        let record: serde_json::Value = serde_json::from_str(&record).expect(&missing);
        Self {
            packages: folder.join("site-packages"),
            interpreter: record["interpreter"].as_str().expect(&missing).into(),
        }
    }
}

fn finished(command: &mut Command) -> Output {
    let output = command.output().expect("python3 is needed by this test");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
