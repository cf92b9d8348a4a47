//! What sensors tell reaches the record, and what they tell of somebody else's doing ends a block.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    fs::{self, File},
    os::unix::{fs::FileExt as _, process::parent_id},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use common::*;
use schema::{
    Device, Heat, OutcomeKind,
    plan::{Disturbance, PlannedCell},
    record::Launch,
    telemetry::{Energy, EnergySensor, Limit},
};
use telemetry::Sensors;

/// Of what the processors do nothing disturbs; blocks are measured again once.
const LIMITS: Disturbance = Disturbance {
    foreign: 1e9,
    steal: 1e9,
    repeats: 1,
};

/// A machine whose package takes 40 W.
struct Powered {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Powered {
    fn begin(root: &Path) -> Self {
        let zone = root.join("sys/class/powercap/intel-rapl:0");
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), "package-0\n").unwrap();
        fs::write(zone.join("max_energy_range_uj"), "1000000000000\n").unwrap();
        let counter = File::create(zone.join("energy_uj")).unwrap();
        let began = Instant::now();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let write = move || {
            // As long each time, so that whoever reads it finds one number.
            let text = format!("{:020}\n", began.elapsed().as_micros() * 40);
            counter.write_all_at(text.as_bytes(), 0).unwrap();
        };
        write();
        let count = move || {
            while !over.load(Ordering::Relaxed) {
                write();
                thread::sleep(Duration::from_millis(1));
            }
        };
        Self {
            ended,
            thread: Some(thread::spawn(count)),
        }
    }
}

impl Drop for Powered {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn launches(heat: &Heat) -> impl Iterator<Item = &Launch> {
    heat.blocks.iter().flat_map(|block| &block.launches)
}

#[test]
fn energy_is_measured_by_a_stretch_of_its_own_where_it_is_asked_for() {
    let mut track = Track::new();
    let root = track.folder.path().join("machine");
    let _powered = Powered::begin(&root);
    track.sensors = Sensors::at(&root, None);
    let mut measure = measure();
    measure.energy_ns = Some(200_000_000);
    let groups = vec![("two", cells(&["steady", "steady"]))];
    let (record, diary) = track.run(&plan(measure, groups));
    assert_eq!(diary.count("Energy synthetic"), 4);
    let heat = track.heat(&record, 0);
    let mut measured = 0;
    for launch in launches(&heat) {
        assert!(launch.outcome.is_measured(), "{:?}", launch.outcome);
        // Its own, beside the rounds and none of them.
        assert_eq!(launch.rounds.len(), 2);
        let Some(Energy::Measured(stretch)) = &launch.energy else {
            panic!("{:?}", launch.energy);
        };
        assert_eq!(stretch.sensor, EnergySensor::Packages);
        assert!(stretch.time_ns >= 200_000_000 && stretch.steps > 0);
        // However late the counter is written, it counts 40 W.
        for watts in [stretch.watts().unwrap(), stretch.idle_watts] {
            assert!((1.0..200.0).contains(&watts), "{stretch:?}");
        }
        measured += 1;
    }
    assert_eq!(measured, 4);
}

#[test]
fn energy_that_cannot_be_had_says_why_and_takes_no_time() {
    let track = Track::new();
    let mut measure = measure();
    measure.energy_ns = Some(1 << 60);
    let (record, diary) = track.run(&plan(measure, vec![("one", cells(&["steady"]))]));
    assert_eq!(diary.count("Energy"), 0);
    let heat = track.heat(&record, 0);
    assert_eq!(heat.footer.outcomes[0].kind, OutcomeKind::Measured);
    for launch in launches(&heat) {
        let Some(Energy::Unavailable(reason)) = &launch.energy else {
            panic!("{:?}", launch.energy);
        };
        assert!(reason.contains("/sys/class/powercap"), "{reason}");
    }
}

#[test]
fn every_launch_is_told_of_and_the_cost_of_looking_is_kept() {
    let mut track = Track::new();
    track.sensors = Sensors::at(Path::new("/"), None);
    let mut measure = measure();
    measure.round_ns = 150_000_000;
    let (record, _) = track.run(&plan(measure, vec![("one", cells(&["steady"]))]));
    let heat = track.heat(&record, 0);
    for block in &heat.blocks {
        // The supervisor's own time holds that of the thread that looks.
        assert!(block.measuring_ns > 0 && block.supervisor_ns > 0);
        assert!(block.supervisor_ns < block.measuring_ns);
        for launch in &block.launches {
            assert_eq!(launch.energy, None);
            let told = launch.telemetry.as_ref().unwrap();
            assert!(told.gpu.is_none());
            let lacking = &told.unavailable;
            // Each is a number, or says why it is none.
            assert_ne!(told.cpu_mhz.is_some(), lacking.contains_key("clock"));
            assert!(told.package_watts.is_none() || !lacking.contains_key("power of processors"));
            assert!(told.worker_cpus.is_some());
        }
    }
}

/// Sensors of a machine with a GPU that plays these frames.
fn playing(track: &mut Track, frames: &[String]) {
    let built = binary().parent().unwrap().join("examples/libnvml_stub.so");
    let path = track.folder.path().join("libnvidia-ml.so.1");
    fs::copy(built, &path).unwrap();
    let cards = r#"{"cards": [{"name": "Stub", "uuid": "GPU-1"}]}"#.to_owned();
    let trace = [&[cards], frames].concat().join("\n");
    fs::write(track.folder.path().join("libnvidia-ml.so.1.jsonl"), trace).unwrap();
    track.sensors = Sensors::at(track.folder.path(), Some(&path));
}

/// Cells of these variants on the GPU.
fn on_gpu(variants: &[&str]) -> Vec<PlannedCell> {
    let on_gpu = |variant: &&str| {
        let mut cell = cell(variant, 1);
        cell.device = Device::Cuda(0);
        planned(cell)
    };
    variants.iter().map(on_gpu).collect()
}

/// A run of two cells on a GPU that plays these frames.
fn raced(frames: &[String]) -> Heat {
    let mut track = Track::new();
    playing(&mut track, frames);
    let mut measure = measure();
    measure.disturbance = Some(LIMITS);
    measure.round_ns = 150_000_000;
    let (record, _) = track.run(&plan(measure, vec![("gpu", on_gpu(&["steady", "steady"]))]));
    track.assert_deserted();
    track.heat(&record, 0)
}

const HEALTHY: &str = r#""power_mw": 300000, "sm_mhz": 1500, "celsius": 80, "reasons": 36"#;

#[test]
fn power_and_heat_of_an_engines_own_are_kept_and_no_disturbance() {
    let heat = raced(&[format!(r#"{{{HEALTHY}, "processes": [], "energy_mj": 1}}"#)]);
    assert_eq!(heat.blocks.len(), 2);
    for launch in launches(&heat) {
        assert!(launch.outcome.is_measured(), "{:?}", launch.outcome);
        let told = launch.telemetry.as_ref().unwrap();
        let gpu = told.gpu.as_ref().unwrap();
        assert_eq!(
            (gpu.watts, gpu.sm_mhz, gpu.celsius),
            (Some(300.0), Some(1500.0), Some(80.0))
        );
        assert_eq!(
            gpu.limited,
            [(Limit::PowerCap, 1.0), (Limit::Heat, 1.0)].into()
        );
        assert_eq!((gpu.memory_bytes, gpu.utilisation), (None, None));
        assert!(told.unavailable.contains_key("memory"));
    }
}

#[test]
fn others_on_the_gpu_and_the_power_supply_s_brake_end_blocks_unstable() {
    let other = parent_id();
    let processes = format!(r#""processes": [{{"pid": {other}, "bytes": 1}}]"#);
    for (frame, said) in [
        (format!("{{{HEALTHY}, {processes}}}"), "was on cuda:0"),
        (
            r#"{"power_mw": 100000, "sm_mhz": 600, "reasons": 128, "processes": []}"#.to_owned(),
            "the power supply's brake",
        ),
    ] {
        let heat = raced(&[frame]);
        // Two, of which one is a repeat.
        assert_eq!(heat.blocks.len(), 2, "{said}");
        for launch in launches(&heat) {
            assert_eq!(launch.outcome.kind, OutcomeKind::Unstable);
            assert!(launch.outcome.reason.contains(said), "{:?}", launch.outcome);
        }
        for outcome in &heat.footer.outcomes {
            assert_eq!(outcome.kind, OutcomeKind::Unstable);
            assert!(outcome.reason.contains(said), "{}", outcome.reason);
        }
    }
}

#[test]
fn a_gpu_that_is_lost_costs_its_cells_and_the_sweep_goes_on() {
    let mut track = Track::new();
    let healthy = format!(r#"{{{HEALTHY}, "processes": []}}"#);
    playing(&mut track, &[healthy, r#"{"all": "lost"}"#.to_owned()]);
    let mut measure = measure();
    measure.round_ns = 150_000_000;
    let groups = vec![
        ("gpu", on_gpu(&["steady", "steady"])),
        ("cpu", cells(&["steady"])),
    ];
    let (record, _) = track.run(&plan(measure, groups));
    let heat = track.heat(&record, 0);
    for outcome in &heat.footer.outcomes {
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
        assert!(
            outcome.reason.contains("cuda:0 is gone"),
            "{}",
            outcome.reason
        );
    }
    let next = track.heat(&record, 1);
    assert_eq!(next.footer.outcomes[0].kind, OutcomeKind::Measured);
    track.assert_deserted();
}
