//! The Python of the repository: its form, its types, its tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::{output, program, read, root, run, target, write};

/// The folder of the workers that are written in Python.
const WORKERS: &str = "pipeline/engines/python";

/// A kit whose worker is written in Python. Each has a Python of its own here, since what one
/// kit's packages need another's may not bear.
struct Kit {
    /// Its folder, and that of its link in `.engines`.
    folder: &'static str,
    /// The folder of the kit that it stands on.
    base: Option<&'static str>,
    /// What types are checked of.
    files: &'static [&'static str],
    /// Modules of tests.
    tests: &'static [&'static str],
}

/// All of them; the first one's Python judges the form of every file.
const KITS: [Kit; 4] = [
    Kit {
        folder: "pytorch",
        base: None,
        files: &[
            "photofinish_worker",
            "photofinish_pytorch",
            "tests/__init__.py",
            "tests/sketch.py",
            "tests/with_pytorch.py",
            "tests/test_protocol.py",
            "tests/test_pytorch.py",
            "tests/test_pytorch_steps.py",
            "tests/test_ranks.py",
            "tests/test_compilation.py",
            "tests/test_recurrent.py",
        ],
        tests: &[
            "tests.test_protocol",
            "tests.test_pytorch",
            "tests.test_pytorch_steps",
            "tests.test_ranks",
            "tests.test_compilation",
            "tests.test_recurrent",
        ],
    },
    Kit {
        folder: "tensorflow",
        base: None,
        files: &[
            "photofinish_worker",
            "photofinish_numpy",
            "photofinish_tensorflow",
            "tests/__init__.py",
            "tests/sketch.py",
            "tests/with_tensorflow.py",
            "tests/test_tensorflow.py",
            "tests/test_tensorflow_operators.py",
            "tests/test_tensorflow_recurrent.py",
            "tests/test_tensorflow_training.py",
        ],
        tests: &[
            "tests.test_tensorflow",
            "tests.test_tensorflow_operators",
            "tests.test_tensorflow_recurrent",
            "tests.test_tensorflow_training",
        ],
    },
    Kit {
        folder: "tensorrt_rtx",
        base: None,
        files: &[
            "photofinish_worker",
            "photofinish_numpy",
            "photofinish_tensorrt",
            "tests/__init__.py",
            "tests/sketch.py",
            "tests/with_tensorrt.py",
            "tests/test_tensorrt.py",
            "tests/test_tensorrt_card.py",
        ],
        tests: &["tests.test_tensorrt", "tests.test_tensorrt_card"],
    },
    Kit {
        folder: "transformers",
        base: Some("pytorch"),
        files: &[
            "photofinish_worker",
            "photofinish_pytorch",
            "photofinish_transformers",
            "tests/__init__.py",
            "tests/sketch.py",
            "tests/architectures.py",
            "tests/with_transformers.py",
            "tests/test_transformers.py",
            "tests/test_transformers_inference.py",
        ],
        tests: &[
            "tests.test_transformers",
            "tests.test_transformers_inference",
        ],
    },
];

/// Judges the workers that are written in Python and runs their tests. Needs their engines.
///
/// # Errors
/// When a judge is not content, or a test fails.
pub(crate) fn check() -> Result<(), String> {
    let cache = target().join("python-cache");
    for (position, kit) in KITS.iter().enumerate() {
        let tools = tools(kit)?;
        let tool = |name: &str| {
            let mut command = program(tools.join("bin").join(name));
            command.current_dir(root().join(WORKERS));
            command
        };
        if position == 0 {
            for words in [
                ["format", "--check", "--quiet"].as_slice(),
                &["check", "--quiet"],
            ] {
                let mut ruff = tool("ruff");
                ruff.args(words).arg("--cache-dir").arg(cache.join("ruff"));
                run(&mut ruff)?;
            }
        }
        let types = cache.join("mypy").join(kit.folder);
        run(tool("mypy").arg("--cache-dir").arg(types).args(kit.files))?;
        // No compiled modules among the sources: a change there builds the catalogue again.
        let mut pycache = std::ffi::OsString::from("pycache_prefix=");
        pycache.push(cache.join("modules"));
        let mut tests = tool("python3");
        tests.arg("-X").arg(pycache).args(["-m", "unittest"]);
        run(tests.args(kit.tests))?;
    }
    Ok(())
}

/// A Python with the judges, set up once, that finds the kit's packages as well.
fn tools(kit: &Kit) -> Result<PathBuf, String> {
    let folders = [Some(kit.folder), kit.base].into_iter().flatten();
    let packages: Vec<PathBuf> = folders.map(packages).collect::<Result<_, _>>()?;
    let requirements = root().join(WORKERS).join("tests/requirements.txt");
    let wanted = read(&requirements)?;
    let home = target().join("python-tools").join(kit.folder);
    let complete = home.join("complete");
    let lines: String = packages
        .iter()
        .map(|folder| format!("{}\n", folder.display()))
        .collect();
    let wanted = format!("{wanted}\n{lines}");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(home);
    }
    let python = python_of(packages.first().ok_or("a kit without packages")?)?;
    run(program(python).args(["-m", "venv", "--clear"]).arg(&home))?;
    // All that is needed is named, with its version.
    run(program(home.join("bin/python3"))
        .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"])
        .args(["--no-deps", "--requirement"])
        .arg(&requirements))?;
    let mut where_ = program(home.join("bin/python3"));
    where_.args([
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    ]);
    let site = text(&mut where_)?;
    write(&Path::new(&site).join("photofinish.pth"), &lines)?;
    write(&complete, &wanted)?;
    Ok(home)
}

/// What `engines install` put in place for the kit of this folder.
fn packages(folder: &str) -> Result<PathBuf, String> {
    let link = root().join(".engines/python").join(folder);
    let link = link.join("site-packages");
    link.canonicalize().map_err(|error| {
        let place = link.display();
        format!("{place}: {error}: run `photofinish engines install`")
    })
}

/// The Python that the packages were installed for.
fn python_of(packages: &Path) -> Result<PathBuf, String> {
    let record = packages.with_file_name("complete.json");
    let record: serde_json::Value = serde_json::from_str(&read(&record)?)
        .map_err(|error| format!("{}: {error}", record.display()))?;
    let python = record.get("interpreter").and_then(|it| it.as_str());
    python
        .map(PathBuf::from)
        .ok_or_else(|| format!("{} names no interpreter", packages.display()))
}

fn text(command: &mut Command) -> Result<String, String> {
    let output = output(command)?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
