//! What sensors tell, at the program's face: GPUs, and energy.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{fs, process::Command};

use common::{BENCH, SMALL, User, assert_says, built::built, text};

/// Has a command find a GPU that plays these frames.
fn with_gpu(user: &User, command: &mut Command, frames: &[&str]) {
    let built = built(&["--example", "nvml_stub"]);
    let library = user.path("libnvidia-ml.so.1");
    fs::copy(built.join("examples/libnvml_stub.so"), &library).unwrap();
    let cards = r#"{"cards": [{"name": "Stub 1000", "uuid": "GPU-1"}]}"#;
    let trace = [&[cards], frames].concat().join("\n");
    fs::write(user.path("libnvidia-ml.so.1.jsonl"), trace).unwrap();
    command.env("PHOTOFINISH_NVML", library);
}

#[test]
fn the_library_that_the_environment_names_tells_of_gpus() {
    let user = User::new();
    let mut doctor = user.command(&["doctor", "--quick"]);
    let frame = r#"{"memory_used": 0, "persistence": 0, "application_mhz": 1200, "default_mhz": 1980,
        "most_mhz": 1980, "limit_mw": 350000, "default_limit_mw": 700000, "energy_mj": 1, "processes": []}"#;
    with_gpu(&user, &mut doctor, &[frame.replace('\n', " ").as_str()]);
    let doctor = doctor.output().unwrap();
    assert!(doctor.status.success(), "{}", text(&doctor));
    for part in [
        "Stub 1000, 80.00 GiB",
        "of cuda:0 can be measured",
        "persistence mode is off",
        "nvidia-smi -pm 1",
        "1200 MHz, where 1980 is its default",
        "350 W, where 700 W is its default",
    ] {
        assert_says(&doctor, part);
    }
    let mut lacking = user.command(&["doctor", "--quick"]);
    let lacking = lacking.env("PHOTOFINISH_NVML", "/nowhere/libnvidia-ml.so");
    let lacking = lacking.output().unwrap();
    assert!(lacking.status.success(), "{}", text(&lacking));
    assert_says(&lacking, "none (no NVIDIA driver answers)");
}

#[test]
fn energy_that_nothing_tells_is_announced_and_shown() {
    let user = User::new();
    let manifest = SMALL.replacen("{ blocks: 2", "{ energy: true, blocks: 1", 1);
    user.manifest(&manifest.replacen("batch: [1, 2]", "batch: 1", 1));
    let plan = user.run(&["plan", "manifest.yaml", "--store", "store"]);
    assert!(plan.status.success(), "{}", text(&plan));
    // Where this machine has a counter, there is nothing to announce.
    let doctor = text(&user.run(&["doctor", "--quick"]));
    let lacks = doctor.contains("of cpu is unavailable");
    let announced = text(&plan).contains("energy on cpu will be unavailable");
    assert_eq!(announced, lacks, "{}", text(&plan));
    let bench = user.run(&BENCH);
    assert!(bench.status.success(), "{}", text(&bench));
    let tables = fs::read(user.path("site/data/tables.json")).unwrap();
    let tables: serde_json::Value = serde_json::from_slice(&tables).unwrap();
    let share = &tables["jobs"][0]["supervisor_share"];
    assert!(share.as_f64().is_some_and(|share| share > 0.0), "{share}");
    let cells = tables["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let word = if lacks { "unavailable" } else { "measured" };
        assert!(!cell["energy"][word].is_null(), "{}", cell["energy"]);
        assert!(cell["telemetry"]["worker_cpus"].is_number());
    }
    let job = fs::read_to_string(user.path("site/jobs/small.html")).unwrap();
    assert!(job.contains("Energy a sample") && job.contains("of a core while rounds"));
}
