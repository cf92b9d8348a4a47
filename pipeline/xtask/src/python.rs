//! The Python of the repository: its form, its types, its tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::{output, program, root, run, target};

/// The folder of the workers that are written in Python.
const WORKERS: &str = "pipeline/engines/python";

/// The packages that `engines install` put in place for them: PyTorch's, and those of a kit that stands
/// on them.
const PACKAGES: [&str; 2] = [
    ".engines/python/pytorch/site-packages",
    ".engines/python/transformers/site-packages",
];

/// Judges the workers that are written in Python and runs their tests. Needs their engine.
///
/// # Errors
/// When a judge is not content, or a test fails.
pub(crate) fn check() -> Result<(), String> {
    let found = PACKAGES.map(|packages| {
        root().join(packages).canonicalize().map_err(|error| {
            format!("{packages}: {error}: run `photofinish engines install transformers pytorch`")
        })
    });
    let packages: Vec<PathBuf> = found.into_iter().collect::<Result<_, _>>()?;
    let tools = tools(&packages)?;
    let cache = target().join("python-cache");
    let tool = |name: &str| {
        let mut command = program(tools.join("bin").join(name));
        command.current_dir(root().join(WORKERS));
        command
    };
    let ruff = |words: &[&str]| {
        let mut command = tool("ruff");
        command
            .args(words)
            .arg("--cache-dir")
            .arg(cache.join("ruff"));
        command
    };
    run(&mut ruff(&["format", "--check", "--quiet"]))?;
    run(&mut ruff(&["check", "--quiet"]))?;
    run(tool("mypy").arg("--cache-dir").arg(cache.join("mypy")))?;
    // No compiled modules among the sources: a change there builds the catalogue again.
    let mut pycache = std::ffi::OsString::from("pycache_prefix=");
    pycache.push(cache.join("modules"));
    run(tool("python3").arg("-X").arg(pycache).args([
        "-m",
        "unittest",
        "discover",
        "--top-level-directory",
        ".",
        "tests",
    ]))
}

/// A Python with the judges, set up once, that finds the engines' packages as well.
fn tools(packages: &[PathBuf]) -> Result<PathBuf, String> {
    let requirements = root().join(WORKERS).join("tests/requirements.txt");
    let wanted = read(&requirements)?;
    let home = target().join("python-tools");
    let complete = home.join("complete");
    let folders: String = packages
        .iter()
        .map(|folder| format!("{}\n", folder.display()))
        .collect();
    let wanted = format!("{wanted}\n{folders}");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(home);
    }
    let python = python_of(packages.first().ok_or("no engine's packages")?)?;
    run(program(python).args(["-m", "venv", "--clear"]).arg(&home))?;
    run(program(home.join("bin/python3"))
        .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"])
        .arg("--requirement")
        .arg(&requirements))?;
    let mut where_ = program(home.join("bin/python3"));
    where_.args([
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    ]);
    let site = text(&mut where_)?;
    write(&Path::new(&site).join("photofinish.pth"), &folders)?;
    write(&complete, &wanted)?;
    Ok(home)
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

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
