//! Made-up artifacts.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses a part of it"
)]

pub mod archive;

use std::collections::BTreeMap;

use photofinish_store::{Store, WriterLock, now};
use schema::{
    Boundary, Cell, Device, Digest, Environment, Fingerprint, Heat, HostLanguage, Measure, Mode,
    Model, ModelSource, Outcome, Plan, Precision, RunRecord, Strategy,
    machine::Load,
    plan::{PlannedCell, PlannedHeat, Status},
    record::{
        self, Block, Canary, HeatEntry, HeatFooter, HeatHeader, HeatResult, Launch, Reference,
        Round, Tool,
    },
};

pub fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    (folder, store)
}

pub fn tool() -> Tool {
    Tool {
        version: "0.1.0".to_owned(),
        revision: None,
    }
}

pub fn load() -> Load {
    Load {
        load_1m: 0.25,
        available_memory_bytes: 1 << 30,
        steal_ns: Some(0),
        busy_ns: Some(5),
        clock_mhz: None,
    }
}

pub fn environment() -> Environment {
    Environment {
        fingerprint: Fingerprint {
            cpu_model: "a processor".to_owned(),
            cpu_features: vec![],
            logical_cpus: 2,
            physical_cores: 2,
            memory_gib: 16,
            platform: "linux x86_64".to_owned(),
            gpus: vec![],
        },
        kernel: "6.1".to_owned(),
        distribution: "Debian".to_owned(),
        governor: None,
        turbo: None,
        smt: None,
        virtualization: None,
        memory_limit_bytes: None,
        cpu_quota: None,
        load: load(),
        variables: BTreeMap::new(),
    }
}

pub fn cell(batch: u64) -> PlannedCell {
    let cell = Cell {
        model: Model {
            name: "resnet18".to_owned(),
            source: ModelSource::Zoo,
            graph: Digest::of_bytes(b"graph"),
            weights: None,
        },
        dims: BTreeMap::from([("batch".to_owned(), batch)]),
        precision: Precision::Fp32,
        mode: Mode::Inference,
        optimizer: None,
        engine: "pytorch/eager".parse().unwrap(),
        host_language: HostLanguage::Rust,
        device: Device::Cpu,
        threads: 2,
        strategy: Strategy::Single,
        world_size: 1,
        boundary: Boundary::Step,
        factors: BTreeMap::new(),
    };
    PlannedCell {
        id: cell.id(),
        cell,
        coordinates: BTreeMap::new(),
        twin_of: None,
        obstacle: None,
        predicted_step_ns: 1,
        predicted_bytes: 1,
        flops: 1,
        bytes: 1,
        parameters: 1,
    }
}

pub fn measure() -> Measure {
    Measure {
        target: 0.03,
        margin: 0.05,
        budget_ns: 1 << 40,
        boundary: Boundary::Step,
        blocks: 2,
        apart_ns: 0,
        rounds: 1,
        round_ns: 1,
        round_steps: 1,
        warm_up_ns: 1,
        timeout_ns: 1 << 40,
        memory_limit_bytes: None,
        confidence: 0.95,
        disturbance: None,
        frontier: None,
        energy_ns: None,
    }
}

pub fn header(group: &str) -> HeatHeader {
    let key_parts = BTreeMap::from([("cells".to_owned(), group.to_owned())]);
    HeatHeader {
        version: record::VERSION,
        group: group.to_owned(),
        key: Digest::of_value(&key_parts),
        key_parts,
        cells: vec![cell(1), cell(8)],
        measure: measure(),
        seed: 7,
        started: now(),
        environment: environment(),
        tool: tool(),
    }
}

pub fn reference() -> Reference {
    Reference {
        parity: vec![None, None],
        obstacles: vec![None, None],
        logs: vec![None, None],
        quantised: Vec::new(),
        starts: Vec::new(),
    }
}

pub fn block(index: u32) -> Block {
    let canary = Canary {
        copy_ns: 10,
        matmul_ns: 20,
    };
    let launch = |slot| Launch {
        slot,
        outcome: Outcome::measured(),
        versions: BTreeMap::new(),
        start_ns: Some(1),
        loaded: None,
        warm_up: None,
        rounds: vec![Round {
            sequence: slot,
            samples_ns: (0..50).map(|n| 1000 + n).collect(),
        }],
        exchanges: None,
        memory: None,
        cpu_ns: None,
        log: "a log\n".to_owned(),
        telemetry: None,
        energy: None,
    };
    Block {
        index,
        started: now(),
        canary_before: canary,
        canary_after: canary,
        alone: None,
        disturbed: None,
        load_before: load(),
        load_after: load(),
        supervisor_ns: 1,
        measuring_ns: 1000,
        launches: vec![launch(0), launch(1)],
    }
}

pub fn footer() -> HeatFooter {
    HeatFooter {
        finished: now(),
        outcomes: vec![Outcome::measured(), Outcome::measured()],
        stopped: "all 2 blocks measured".to_owned(),
        frontiers: Vec::new(),
        profiles: Vec::new(),
    }
}

/// Measures a heat, so to speak.
pub fn seal(lock: &WriterLock, header: HeatHeader) -> Digest {
    let mut journal = lock.begin(header).unwrap();
    journal.set_reference(reference()).unwrap();
    journal.append(block(0)).unwrap();
    journal.append(block(1)).unwrap();
    journal.seal(footer()).unwrap()
}

/// A run record that names these heats.
pub fn run(heats: &[(&HeatHeader, Digest)]) -> RunRecord {
    RunRecord {
        version: record::VERSION,
        plan: Plan {
            version: schema::plan::VERSION,
            title: "Test".to_owned(),
            manifests: vec![],
            jobs: vec![],
            heats: heats
                .iter()
                .map(|(header, _)| PlannedHeat {
                    group: header.group.clone(),
                    job: "job".to_owned(),
                    key: header.key,
                    key_parts: header.key_parts.clone(),
                    cells: header.cells.clone(),
                    status: Status::New,
                    predicted_ns: 1,
                })
                .collect(),
            warnings: vec![],
            ceilings: None,
        },
        heats: heats
            .iter()
            .map(|(header, digest)| HeatEntry {
                group: header.group.clone(),
                key: header.key,
                heat: HeatResult::Sealed(*digest),
            })
            .collect(),
    }
}

/// The only sealed file of a key.
pub fn sealed_file(store: &Store, key: &Digest) -> std::path::PathBuf {
    std::fs::read_dir(store.path().join("heats").join(key.to_string()))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".heat.zst"))
        .unwrap()
}

/// Compresses lines as a heat's file.
pub fn compress(lines: &[String]) -> Vec<u8> {
    zstd::bulk::compress(lines.join("\n").as_bytes(), 3).unwrap()
}

/// Decompresses a heat's file into lines.
pub fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8(zstd::decode_all(bytes).unwrap()).unwrap();
    text.split_inclusive('\n')
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// A heat, in memory.
pub fn heat(group: &str) -> Heat {
    Heat {
        header: header(group),
        reference: reference(),
        blocks: vec![block(0), block(1)],
        footer: footer(),
    }
}

/// What was set aside.
pub fn aside(store: &Store) -> Vec<String> {
    std::fs::read_dir(store.path().join("aside"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".reason.txt"))
        .collect()
}
