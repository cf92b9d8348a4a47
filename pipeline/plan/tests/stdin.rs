//! `-` is standard input, bounded like a file.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails fails its test, and the reader tells what it read"
)]

use std::{
    env,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use photofinish_plan::{plan, read_manifests};

mod support;

const PATHS: &str = "PHOTOFINISH_TEST_PATHS";

/// Not a test of its own: reads what the tests below hand to it.
#[test]
#[ignore = "run by the tests below"]
fn reader() {
    let paths = env::var(PATHS).expect("the paths to read");
    let paths: Vec<PathBuf> = paths.split(':').map(PathBuf::from).collect();
    let planned = read_manifests(&paths).and_then(|files| plan(&files, &support::world()));
    match planned {
        Ok(plan) => println!("{} cells", plan.cell_count()),
        Err(found) => {
            for diagnostic in found {
                println!("{}", diagnostic.render(false));
            }
        }
    }
}

/// What the reader tells of these paths, with `input` as its standard input.
fn told(paths: &str, input: &[u8]) -> String {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "reader", "--ignored", "--nocapture"])
        .env(PATHS, paths)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A reader that has seen enough closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn job(model: &str) -> String {
    format!(
        "version: 1\njobs: [{{ id: a, matrix: {{ model: {model}, engine: pytorch/eager }} }}]\n"
    )
}

#[test]
fn a_manifest_comes_from_standard_input() {
    for paths in ["-", "-:-"] {
        let text = told(paths, job("resnet18").as_bytes());
        assert!(text.contains("\n1 cells\n"), "{text}");
    }
    let text = told("-", job("nonsense").as_bytes());
    assert!(text.contains("<stdin>:2:"), "{text}");
    assert!(told("-", b"").contains("<stdin>"));
}

#[test]
fn standard_input_is_bounded() {
    for byte in [b'#', 0xff] {
        let text = told("-", &vec![byte; 4 << 20]);
        assert!(text.contains("larger than 1 MiB"), "{text}");
    }
}

#[test]
fn no_model_lies_beside_standard_input() {
    let text = told("-", job("{ onnx: Cargo.toml }").as_bytes());
    assert!(text.contains("standard input lies nowhere"), "{text}");
}

#[test]
fn other_names_of_standard_input_lead_to_the_dash() {
    for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let text = told(path, job("resnet18").as_bytes());
        assert!(text.contains("give `-`"), "{text}");
    }
    assert!(told("/dev/null", b"").contains("give `-`"));
}
