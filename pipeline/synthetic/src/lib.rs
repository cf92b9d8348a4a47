//! Invented run records of any size: for tests of what reads tables, and for measuring speed.
//!
//! Each group holds an original of `pytorch/eager`, one of `onnxruntime/cpu`, and in every tenth
//! group a twin of either. Times are log-normal around a speed that depends on the group; the
//! contender takes from half the baseline's time to one and a half times it.

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schema::{
    Boundary, Cell, Device, Digest, EngineVariant, Environment, Fingerprint, Heat, HostLanguage,
    Measure, Mode, Model, ModelSource, Outcome, Plan, Precision, RunRecord, Strategy,
    machine::Load,
    plan::{
        self, Claim, Comparison, Expectation, ManifestSource, Pair, PlannedCell, PlannedHeat,
        PlannedJob, Quantity, Relation, Status,
    },
    protocol::{Loaded, Memory, WarmUpDone},
    record::{
        self, Block, Canary, HeatEntry, HeatFooter, HeatHeader, HeatResult, Launch, Parity,
        Reference, Round, Tool,
    },
};

/// Size of an invented run.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Number of cells, twins left out; rounded up to a whole group of two.
    pub cells: u32,
    /// Blocks of a heat.
    pub blocks: u32,
    /// Rounds of a block.
    pub rounds: u32,
    /// Samples of a round.
    pub samples: u32,
}

/// An invented run.
#[derive(Debug, Clone)]
pub struct Synthetic {
    /// What a run would have written.
    pub record: RunRecord,
    /// Its artifacts, by the hash that the record names.
    pub heats: BTreeMap<Digest, Heat>,
}

/// A heat that the run does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no heat {0}")]
pub struct NoHeat(pub Digest);

impl Synthetic {
    /// Reads a heat as a store would.
    ///
    /// # Errors
    /// When there is none of this hash.
    pub fn heat(&self, _key: &Digest, heat: &Digest) -> Result<Heat, NoHeat> {
        self.heats.get(heat).cloned().ok_or(NoHeat(*heat))
    }
}

const JOB: &str = "synthetic";
const BASELINE: &str = "pytorch/eager";
const CONTENDER: &str = "onnxruntime/cpu";
const MODELS: [&str; 4] = ["resnet18", "mobilenet_v2", "bert_tiny", "vgg16"];

/// The run of this size; the same on every machine.
#[must_use]
pub fn run(size: Size) -> Synthetic {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_120);
    let mut heats = BTreeMap::new();
    let mut entries = Vec::new();
    let mut planned = Vec::new();
    for number in 0..size.cells.div_ceil(2) {
        let group = group(number, size);
        let heat = heat(&group, size, number, &mut random);
        // The group's name is unique, and hashing the samples of a large run would take longer
        // than all else.
        let digest = Digest::of_bytes(group.group.as_bytes());
        entries.push(HeatEntry {
            group: group.group.clone(),
            key: group.key,
            heat: HeatResult::Sealed(digest),
        });
        heats.insert(digest, heat);
        planned.push(group);
    }
    let plan = Plan {
        version: plan::VERSION,
        title: "Synthetic".to_owned(),
        manifests: vec![ManifestSource {
            path: "synthetic.yaml".to_owned(),
            text: "version: 1\n".to_owned(),
        }],
        jobs: vec![job(&planned, size)],
        heats: planned,
        warnings: Vec::new(),
        ceilings: None,
    };
    Synthetic {
        record: RunRecord {
            version: record::VERSION,
            plan,
            heats: entries,
        },
        heats,
    }
}

fn measure(size: Size) -> Measure {
    Measure {
        target: 0.03,
        margin: 0.05,
        budget_ns: 240_000_000_000,
        boundary: Boundary::Step,
        blocks: size.blocks,
        apart_ns: 0,
        rounds: size.rounds,
        round_ns: 100_000_000,
        round_steps: u64::from(size.samples),
        warm_up_ns: 3_000_000_000,
        timeout_ns: 60_000_000_000,
        memory_limit_bytes: None,
        confidence: 0.95,
        disturbance: None,
        frontier: None,
        energy_ns: None,
    }
}

fn job(heats: &[PlannedHeat], size: Size) -> PlannedJob {
    let pairs = heats.iter().filter_map(|heat| match heat.cells.as_slice() {
        [baseline, contender, ..] => Some(Pair {
            group: heat.group.clone(),
            baseline: baseline.id.clone(),
            contender: contender.id.clone(),
            value: CONTENDER.to_owned(),
            coordinates: shared(baseline),
        }),
        _ => None,
    });
    PlannedJob {
        profile: false,
        id: JOB.to_owned(),
        question: "Which of two invented engines is faster?".to_owned(),
        mode: Mode::Inference,
        measure: measure(size),
        vary: BTreeMap::new(),
        comparisons: vec![Comparison {
            axis: "engine".to_owned(),
            baseline: BASELINE.to_owned(),
            pairs: pairs.collect(),
        }],
        allow: Vec::new(),
        claims: vec![Claim {
            id: "small-batch".to_owned(),
            source: "Nobody 2026".to_owned(),
            states: "the contender is faster at batch 1".to_owned(),
            quantity: Quantity::StepTime,
            expect: Expectation {
                number: None,
                mostly: false,
                times: 1.0,
                text: format!("{CONTENDER} < {BASELINE} at batch 1"),
                axis: "engine".to_owned(),
                left: CONTENDER.to_owned(),
                relation: Relation::Less,
                right: BASELINE.to_owned(),
                at: BTreeMap::from([("batch".to_owned(), "1".to_owned())]),
            },
        }],
    }
}

fn shared(cell: &PlannedCell) -> BTreeMap<String, String> {
    let mut coordinates = cell.coordinates.clone();
    coordinates.remove("engine");
    coordinates
}

fn group(number: u32, size: Size) -> PlannedHeat {
    let mut cells = vec![
        cell(number, "pytorch", "eager", None),
        cell(number, "onnxruntime", "cpu", None),
    ];
    if number.is_multiple_of(10) {
        cells.push(cell(number, "pytorch", "eager", Some(0)));
        cells.push(cell(number, "onnxruntime", "cpu", Some(1)));
    }
    let group = format!("{JOB}/batch={},model={}", batch(number), model(number));
    PlannedHeat {
        key: Digest::of_parts([group.as_bytes(), &size.samples.to_le_bytes()]),
        key_parts: BTreeMap::from([("group".to_owned(), group.clone())]),
        group,
        job: JOB.to_owned(),
        cells,
        status: Status::New,
        predicted_ns: 1_000_000_000,
    }
}

fn batch(number: u32) -> u32 {
    number / MODELS.len() as u32 + 1
}

fn model(number: u32) -> &'static str {
    MODELS
        .get(number as usize % MODELS.len())
        .copied()
        .unwrap_or("resnet18")
}

fn cell(number: u32, engine: &str, variant: &str, twin_of: Option<u32>) -> PlannedCell {
    let cell = Cell {
        model: Model {
            name: model(number).to_owned(),
            source: ModelSource::Zoo,
            graph: Digest::of_bytes(model(number).as_bytes()),
            weights: None,
        },
        dims: BTreeMap::from([("batch".to_owned(), u64::from(batch(number)))]),
        precision: Precision::Fp32,
        mode: Mode::Inference,
        optimizer: None,
        engine: EngineVariant {
            engine: engine.to_owned(),
            variant: variant.to_owned(),
        },
        host_language: HostLanguage::Rust,
        device: Device::Cpu,
        threads: 2,
        strategy: Strategy::Single,
        world_size: 1,
        boundary: Boundary::Step,
        factors: BTreeMap::from([("layout".to_owned(), "nchw".to_owned())]),
    };
    let coordinates = [
        ("batch", batch(number).to_string()),
        ("engine", cell.engine.to_string()),
        ("model", cell.model.name.clone()),
    ];
    PlannedCell {
        id: cell.id(),
        cell,
        coordinates: coordinates
            .map(|(axis, value)| (axis.to_owned(), value))
            .into(),
        twin_of,
        obstacle: None,
        predicted_step_ns: 1_000_000,
        predicted_bytes: 1 << 28,
        flops: 3_600_000_000,
        bytes: 90_000_000,
        parameters: 11_689_512,
    }
}

fn heat(planned: &PlannedHeat, size: Size, number: u32, random: &mut ChaCha8Rng) -> Heat {
    let cells = planned.cells.len();
    let baseline_ns = 1e6 * f64::from(1 + number % 40);
    let contender_ns = baseline_ns * (0.5 + f64::from(number % 11) / 10.0);
    let blocks = (0..size.blocks).map(|index| {
        let mood = 0.03 * normal(random);
        let launches = (0..cells as u32).map(|slot| {
            let centre = if slot.is_multiple_of(2) {
                baseline_ns
            } else {
                contender_ns
            };
            launch(
                slot,
                centre * libm::exp(mood + 0.01 * normal(random)),
                size,
                random,
            )
        });
        block(index, launches.collect())
    });
    Heat {
        blocks: blocks.collect(),
        header: HeatHeader {
            version: record::VERSION,
            group: planned.group.clone(),
            key: planned.key,
            key_parts: planned.key_parts.clone(),
            cells: planned.cells.clone(),
            measure: measure(size),
            seed: u64::from(number),
            started: "2026-11-20T16:00:00Z".to_owned(),
            environment: environment(),
            tool: Tool {
                version: "0.1.0".to_owned(),
                revision: None,
            },
        },
        reference: Reference {
            parity: vec![Some(parity()); cells],
            obstacles: vec![None; cells],
            logs: vec![Some(String::new()); cells],
            quantised: Vec::new(),
            starts: Vec::new(),
        },
        footer: HeatFooter {
            finished: "2026-11-20T16:04:00Z".to_owned(),
            outcomes: vec![Outcome::measured(); cells],
            stopped: format!("all {} blocks measured", size.blocks),
            frontiers: Vec::new(),
            profiles: Vec::new(),
        },
    }
}

/// Standard normal: the sum of twelve uniform numbers, less six (Irwin and Hall 1927).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

fn launch(slot: u32, centre_ns: f64, size: Size, random: &mut ChaCha8Rng) -> Launch {
    let rounds = (0..size.rounds).map(|sequence| Round {
        sequence,
        samples_ns: (0..size.samples)
            .map(|_| (centre_ns * libm::exp(0.02 * normal(random))) as u64)
            .collect(),
    });
    Launch {
        slot,
        outcome: Outcome::measured(),
        versions: BTreeMap::from([("engine".to_owned(), "1.0.0".to_owned())]),
        start_ns: Some(400_000_000),
        loaded: Some(Loaded {
            fill_ns: 50_000_000,
            build_ns: 20_000_000,
            compile_ns: 0,
            first_step_ns: 30_000_000,
            threads: Some(2),
            spin: "spinning (default)".to_owned(),
            settings: BTreeMap::new(),
        }),
        warm_up: Some(WarmUpDone {
            steps: 20,
            total_ns: 200_000_000,
            steady: true,
        }),
        rounds: rounds.collect(),
        exchanges: None,
        memory: Some(Memory {
            resident_bytes: 300 << 20,
            peak_resident_bytes: 320 << 20,
            device_bytes: None,
            peak_device_bytes: None,
            other_ranks: Vec::new(),
        }),
        cpu_ns: Some(2_000_000_000),
        log: String::new(),
        telemetry: None,
        energy: None,
    }
}

fn block(index: u32, launches: Vec<Launch>) -> Block {
    let canary = Canary {
        copy_ns: 8_000_000,
        matmul_ns: 700_000,
    };
    Block {
        index,
        started: format!("2026-11-20T16:{:02}:00Z", index % 60),
        canary_before: canary,
        canary_after: canary,
        alone: None,
        disturbed: None,
        load_before: load(),
        load_after: load(),
        supervisor_ns: 1_000_000,
        measuring_ns: 400_000_000,
        launches,
    }
}

fn parity() -> Parity {
    Parity {
        reference: "pytorch/eager fp64 on cpu".to_owned(),
        error: 3.1e-7,
        tensor: "logits".to_owned(),
        eager_error: 2.9e-7,
        kink_error: None,
        bound: 2.9e-6,
        worst_share: 0.107,
        judged: 1,
        unjudged: 0,
        kinds: None,
        losses: Vec::new(),
        reference_losses: Vec::new(),
        top1: None,
    }
}

fn load() -> Load {
    Load {
        load_1m: 0.2,
        available_memory_bytes: 6 << 30,
        steal_ns: Some(0),
        busy_ns: Some(1_000_000_000),
        clock_mhz: None,
    }
}

fn environment() -> Environment {
    Environment {
        fingerprint: Fingerprint {
            cpu_model: "Invented CPU".to_owned(),
            cpu_features: vec!["avx2".to_owned()],
            logical_cpus: 2,
            physical_cores: 2,
            memory_gib: 8,
            platform: "linux x86_64".to_owned(),
            gpus: Vec::new(),
        },
        kernel: "6.1.0".to_owned(),
        distribution: "Debian GNU/Linux 12 (bookworm)".to_owned(),
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
