//! Every trace of a GPU, played by the stub library.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../run/tests/common/built.rs"]
mod built;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use built::built;
use photofinish_telemetry::{Owner, Sampler, Sensors, Series};
use schema::{
    Device,
    telemetry::{EnergySensor, Limit},
};
use tempfile::TempDir;

const GPU: Device = Device::Cuda(0);

/// The stub library, built if need be.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = built(&["--example", "nvml_stub"]).join("examples/libnvml_stub.so");
        assert!(path.is_file(), "no {}", path.display());
        path
    })
}

/// Sensors of a machine with one GPU that plays these frames, and the folder that it lives in.
fn playing(frames: &[&str]) -> (TempDir, Sensors) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libnvidia-ml.so.1");
    fs::copy(library(), &path).unwrap();
    let cards = r#"{"cards": [{"name": "Stub", "uuid": "GPU-1"}]}"#;
    let trace = [&[cards], frames].concat().join("\n");
    fs::write(folder.path().join("libnvidia-ml.so.1.jsonl"), trace).unwrap();
    let sensors = Sensors::at(folder.path(), Some(&path));
    (folder, sensors)
}

/// Processes from 1000 on are another's, and of those from 2000 on nothing is known.
fn whose(pid: u32) -> Owner {
    match pid {
        0..1000 => Owner::Ours,
        1000..2000 => Owner::Other(format!("`game-{pid}`")),
        _ => Owner::Unknown,
    }
}

/// Looks at a GPU until there are so many looks, or it is gone.
fn sampled(frames: &[&str], looks: usize) -> Series {
    let (_folder, sensors) = playing(frames);
    let mut sampler = Sampler::start(&sensors, &BTreeSet::from([GPU]), Arc::new(whose));
    sampler.begin(Some(7), GPU);
    // As often as it takes: nothing here depends on how long that is.
    let patience = Instant::now() + Duration::from_secs(60);
    while sampler.looks() < looks && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    sampler.rest();
    sampler.end()
}

#[test]
fn all_sensors_are_read() {
    let series = sampled(
        &[
            r#"{"power_mw": 300000, "sm_mhz": 1980, "memory_mhz": 2619, "celsius": 55, "utilisation": 90,
                "memory_used": 1000, "reasons": 0, "application_mhz": 1980, "limit_mw": 700000,
                "processes": [{"pid": 12, "bytes": 600}], "use": []}"#
                .replace('\n', " ")
                .as_str(),
            r#"{"power_mw": 500000, "sm_mhz": 1755, "celsius": 61, "reasons": 4, "memory_used": 3000}"#,
            r#"{"power_mw": 700000, "sm_mhz": 1700, "celsius": 60}"#,
        ],
        3,
    );
    let told = series.telemetry(7, GPU, Some(1.0));
    let gpu = told.gpu.unwrap();
    assert_eq!(told.looks, 3);
    assert_eq!(gpu.watts, Some(500.0));
    assert_eq!((gpu.sm_mhz, gpu.memory_mhz), (Some(1755.0), Some(2619.0)));
    assert_eq!((gpu.celsius, gpu.utilisation), (Some(61.0), Some(0.9)));
    assert_eq!(
        (gpu.memory_bytes, gpu.worker_bytes),
        (Some(3000), Some(600))
    );
    assert_eq!(gpu.limited, [(Limit::PowerCap, 0.666_667)].into());
    assert!(gpu.foreign.is_empty());
    let of_gpu = &series.gpus[&GPU];
    assert!(of_gpu.unavailable.is_empty(), "{of_gpu:?}");
    assert_eq!(of_gpu.settings[0], of_gpu.settings[1]);
    assert_eq!(of_gpu.settings[0].application_mhz, Some(1980));
    // The machine is an empty folder, and says so.
    let lacking: Vec<_> = told.unavailable.keys().map(String::as_str).collect();
    assert_eq!(lacking, ["clock", "power of processors", "processor time"]);
    assert_eq!(
        (told.cpu_mhz, told.busy, told.package_watts),
        (None, None, None)
    );
}

#[test]
fn power_is_that_of_the_instant_where_the_driver_tells_it() {
    let frames = [
        r#"{"power_mw": 333000, "instant_mw": 134000}"#,
        r#"{"power_mw": 300000, "instant_mw": "unsupported"}"#,
        r#"{"power_mw": 300000, "instant_mw": 120000}"#,
    ];
    let series = sampled(&frames, 3);
    let told: Vec<_> = series.of_gpu(GPU).map(|look| look.watts).collect();
    assert_eq!(told, [Some(134.0), Some(300.0), Some(120.0)]);
}

#[test]
fn what_a_card_lacks_or_forbids_is_unavailable_and_never_zero() {
    let series = sampled(
        &[r#"{"power_mw": "no_permission", "celsius": "unsupported", "sm_mhz": 1000}"#],
        2,
    );
    let told = series.telemetry(7, GPU, None);
    let gpu = told.gpu.unwrap();
    assert_eq!(gpu.sm_mhz, Some(1000.0));
    assert_eq!(
        (gpu.watts, gpu.celsius, gpu.memory_bytes),
        (None, None, None)
    );
    assert_eq!((gpu.utilisation, gpu.limited.len()), (None, 0));
    let why = |sensor: &str| told.unavailable[sensor].as_str();
    assert!(why("power").contains("permission"), "{}", why("power"));
    assert!(
        why("temperature").contains("not available"),
        "{}",
        why("temperature")
    );
    for sensor in [
        "clock of memory",
        "memory",
        "processes",
        "utilisation",
        "what limits clocks",
    ] {
        assert!(told.unavailable.contains_key(sensor), "{sensor}");
    }
    assert_eq!(series.gpus[&GPU].lost, None);
}

#[test]
fn a_card_that_is_lost_is_told_from_one_that_lacks_sensors() {
    let (_folder, sensors) = playing(&[
        r#"{"power_mw": 300000, "sm_mhz": 1980}"#,
        r#"{"power_mw": 310000}"#,
        r#"{"all": "lost"}"#,
    ]);
    let mut sampler = Sampler::start(&sensors, &BTreeSet::from([GPU]), Arc::new(whose));
    assert_eq!(sampler.lost(GPU), None);
    sampler.begin(Some(7), GPU);
    let patience = Instant::now() + Duration::from_secs(60);
    while sampler.lost(GPU).is_none() && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    let lost = sampler.lost(GPU).unwrap();
    assert!(lost.contains("fell off the bus"), "{lost}");
    let series = sampler.end();
    let gpu = series.telemetry(7, GPU, None).gpu.unwrap();
    // What was seen before stands.
    assert_eq!(gpu.watts, Some(305.0));
    assert_eq!(series.of_gpu(GPU).count(), 2);
}

#[test]
fn others_on_a_card_are_named() {
    let series = sampled(
        &[
            r#"{"power_mw": 1, "processes": [{"pid": 2000, "bytes": 5}], "use": [{"pid": 2000, "sm": 20}]}"#,
            r#"{"processes": [{"pid": 12, "bytes": 5}, {"pid": 1001, "bytes": 5}, {"pid": 2000}, {"pid": 2001}],
                "use": [{"pid": 12, "sm": 60}, {"pid": 1001, "sm": 40}, {"pid": 2000, "sm": 20}]}"#
                .replace('\n', " ")
                .as_str(),
        ],
        1,
    );
    let found = series.telemetry(7, GPU, None).gpu.unwrap();
    // One that came after ours and cannot be seen from here may be our own worker by another number.
    let wanted = [
        ("`game-1001`".to_owned(), Some(0.4)),
        ("a process outside this container".to_owned(), Some(0.2)),
    ];
    assert_eq!(found.foreign, wanted.into());
    assert_eq!(found.worker_bytes, Some(5));
}

#[test]
fn no_card_or_no_driver_is_unavailable() {
    let (folder, sensors) = playing(&[r#"{"power_mw": 1}"#]);
    let second = Device::Cuda(1);
    for (sensors, device, why) in [
        (sensors, second, "no GPU number 1"),
        (Sensors::at(folder.path(), None), GPU, "no NVIDIA driver"),
    ] {
        let sampler = Sampler::start(&sensors, &BTreeSet::from([device]), Arc::new(whose));
        let series = sampler.end();
        let said = &series.gpus[&device].unavailable["GPU"];
        assert!(said.contains(why), "{said}");
        assert!(sensors.energy_meter(device).unwrap_err().contains(why));
    }
}

#[test]
fn energy_is_the_difference_of_a_counter() {
    let (_folder, sensors) = playing(&[
        r#"{"energy_mj": 5}"#,
        r#"{"energy_mj": 1000}"#,
        r#"{"energy_mj": 4500}"#,
        r#"{"energy_mj": 6000}"#,
        // The driver was loaded anew.
        r#"{"energy_mj": 20}"#,
        r#"{"energy_mj": "lost"}"#,
    ]);
    let meter = sensors.energy_meter(GPU).unwrap();
    let begun = meter.begin().unwrap();
    let taken = meter.end(begun).unwrap();
    assert_eq!(
        (taken.sensor, taken.energy_uj),
        (EnergySensor::GpuCounter, 3_500_000)
    );
    let begun = meter.begin().unwrap();
    let refused = meter.end(begun).unwrap_err();
    assert!(refused.contains("set back"), "{refused}");
    let refused = meter.begin().unwrap_err();
    assert!(refused.contains("fell off the bus"), "{refused}");
}

#[test]
fn a_counter_that_jumps_tells_no_energy() {
    let (_folder, sensors) = playing(&[
        r#"{"energy_mj": 5}"#,
        r#"{"energy_mj": 1000}"#,
        // Nine megajoules: half an hour of more than any board takes.
        r#"{"energy_mj": 9000001000}"#,
        r#"{"energy_mj": 9000002000}"#,
        r#"{"energy_mj": 9000002500}"#,
    ]);
    let meter = sensors.energy_meter(GPU).unwrap();
    let begun = meter.begin().unwrap();
    let refused = meter.end(begun).unwrap_err();
    assert!(refused.contains("jumped"), "{refused}");
    // What it counts from there on is energy again.
    let begun = meter.begin().unwrap();
    assert_eq!(meter.end(begun).unwrap().energy_uj, 500_000);
}

#[test]
fn where_there_is_no_counter_power_is_added_up() {
    let (_folder, sensors) = playing(&[r#"{"power_mw": 200000}"#]);
    let meter = sensors.energy_meter(GPU).unwrap();
    let begun = meter.begin().unwrap();
    thread::sleep(Duration::from_millis(250));
    let taken = meter.end(begun).unwrap();
    assert_eq!(taken.sensor, EnergySensor::GpuPower);
    // What is told is constant; microjoules are whole.
    assert!(
        taken.energy_uj > 0 && taken.watts().is_some_and(|watts| watts <= 200.0),
        "{taken:?}"
    );
    let (_folder, sensors) = playing(&[r#"{"power_mw": "no_permission"}"#]);
    let refused = sensors.energy_meter(GPU).unwrap_err();
    assert!(refused.contains("neither energy nor power"), "{refused}");
}

#[test]
fn how_a_card_is_set_up_is_told() {
    let (_folder, sensors) = playing(&[
        r#"{"persistence": 0, "application_mhz": 1200, "default_mhz": 1980, "most_mhz": 1980}"#,
    ]);
    let states = sensors.gpus();
    assert_eq!(states.len(), 1);
    let state = &states[0];
    assert_eq!((state.device, state.persistent), (GPU, Some(false)));
    let clock = state.clock.unwrap();
    assert_eq!(
        (clock.set_mhz, clock.default_mhz, clock.most_mhz),
        (1200, 1980, 1980)
    );
    assert_eq!((state.limit_watts, &state.processes), (None, &None));
}
