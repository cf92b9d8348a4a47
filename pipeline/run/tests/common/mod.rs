//! Plans of synthetic cells, and workers that play engines.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses a part of it"
)]

pub mod built;

use std::{
    cell::{Cell as Counter, RefCell},
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use built::built;
use photofinish_run::{Event, Observer, Options, Phase, RunError, Workers, run};
use schema::{
    Boundary, Cell, Device, Digest, EngineVariant, Measure, Mode, Outcome, OutcomeKind, Plan,
    RunRecord,
    plan::{self, PlannedCell, PlannedHeat, PlannedJob, Status},
    record::{HeatResult, Tool},
};
use store::Store;
use telemetry::Sensors;
use worker::{WorkerCommand, host::Interrupt};

/// Marks the processes of one test, so that those left behind can be found.
const MARK: &str = "PHOTOFINISH_TEST_MARK";

/// Variants that misbehave before they are told their cell.
const FROM_THE_START: &[&str] = &["wrong_version", "exit_at_start", "mute", "ignores_bye"];

/// The folder with the synthetic worker, the example `sweep`, and the library that plays NVML, built if need be.
pub fn build() -> PathBuf {
    let examples = ["--example", "sweep", "--example", "nvml_stub"];
    built(&[&examples[..], &["--bin", "photofinish-worker-synthetic"]].concat())
}

/// The synthetic worker, built if need be.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let path = build().join("photofinish-worker-synthetic");
        assert!(path.is_file(), "no {}", path.display());
        path
    })
}

/// The synthetic worker under every name.
pub struct Synthetic {
    binary: PathBuf,
    mark: String,
    /// Engines that this machine lacks.
    pub lacking: Vec<&'static str>,
    /// How the reference's worker behaves before it is told its cell.
    pub reference_variant: Option<&'static str>,
    /// How often the reference's worker leaves at its start before it behaves as it should.
    pub bad_starts: Counter<u32>,
    /// How ONNX Runtime's does.
    pub witness_variant: Option<&'static str>,
    /// What the workers of `synthetic` must have been built from.
    pub built_from: Option<Digest>,
    /// Every command that was asked for.
    pub asked: RefCell<Vec<EngineVariant>>,
}

impl Synthetic {
    pub fn new(binary: &Path, mark: &str) -> Self {
        Self {
            binary: binary.to_owned(),
            mark: mark.to_owned(),
            lacking: vec![],
            reference_variant: None,
            bad_starts: Counter::new(0),
            witness_variant: None,
            built_from: None,
            asked: RefCell::default(),
        }
    }
}

impl Workers for Synthetic {
    fn command(&self, engine: &EngineVariant, _device: Device) -> Result<WorkerCommand, Outcome> {
        self.asked.borrow_mut().push(engine.clone());
        if self.lacking.contains(&engine.engine.as_str()) {
            return Err(Outcome::new(OutcomeKind::Unavailable, "not installed"));
        }
        let mut args = vec!["--engine".to_owned(), engine.engine.clone()];
        let told = match engine.engine.as_str() {
            "pytorch" if self.bad_starts.get() > 0 => {
                self.bad_starts.set(self.bad_starts.get() - 1);
                Some("exit_at_start")
            }
            "pytorch" => self.reference_variant,
            "onnxruntime" => self.witness_variant,
            _ => None,
        };
        if let Some(variant) = told {
            args.extend(["--variant".to_owned(), variant.to_owned()]);
        }
        if FROM_THE_START.contains(&engine.variant.as_str()) {
            args.extend(["--variant".to_owned(), engine.variant.clone()]);
        }
        Ok(WorkerCommand {
            program: self.binary.clone(),
            args,
            env: BTreeMap::from([(MARK.to_owned(), self.mark.clone())]),
        })
    }

    fn built_from(&self, engine: &EngineVariant) -> Option<Digest> {
        self.built_from.filter(|_| engine.engine == "synthetic")
    }
}

/// Processes that carry the mark: workers, and what they started.
pub fn processes(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let mut found = vec![];
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            continue;
        };
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
        {
            found.push(pid);
        }
    }
    found
}

/// What one may change about a cell.
pub fn cell(variant: &str, batch: u64) -> Cell {
    let (name, mode) = ("bert_tiny", Mode::Inference);
    let dims = BTreeMap::from([("batch".to_owned(), batch), ("seq".to_owned(), 4)]);
    let dims = models::zoo::resolve_dims(name, &dims).unwrap();
    let graph = models::zoo::build_for(name, &dims, mode).unwrap();
    let engine = EngineVariant {
        engine: "synthetic".to_owned(),
        variant: variant.to_owned(),
    };
    Cell {
        dims,
        ..Cell::plain(&graph, engine)
    }
}

pub fn planned(cell: Cell) -> PlannedCell {
    PlannedCell {
        id: cell.id(),
        cell,
        coordinates: BTreeMap::new(),
        twin_of: None,
        obstacle: None,
        predicted_step_ns: 200_000,
        predicted_bytes: 10 << 20,
        flops: 1,
        bytes: 1,
        parameters: 1,
    }
}

/// Cells of these variants, batch 1.
pub fn cells(variants: &[&str]) -> Vec<PlannedCell> {
    variants
        .iter()
        .map(|variant| planned(cell(variant, 1)))
        .collect()
}

pub fn measure() -> Measure {
    Measure {
        target: 0.05,
        margin: 0.05,
        budget_ns: 1 << 50,
        boundary: Boundary::Step,
        blocks: 2,
        apart_ns: 0,
        rounds: 2,
        round_ns: 1_000_000,
        round_steps: 5,
        warm_up_ns: 20_000_000,
        timeout_ns: 60_000_000_000,
        memory_limit_bytes: Some(1 << 30),
        confidence: 0.95,
        disturbance: None,
        frontier: None,
        energy_ns: None,
    }
}

/// A plan of one job over these groups.
pub fn plan(measure: Measure, groups: Vec<(&str, Vec<PlannedCell>)>) -> Plan {
    let heats = groups.into_iter().map(|(group, cells)| {
        let key_parts = BTreeMap::from([
            ("cells".to_owned(), Digest::of_value(&cells).to_string()),
            ("group".to_owned(), group.to_owned()),
        ]);
        PlannedHeat {
            group: group.to_owned(),
            job: "job".to_owned(),
            key: Digest::of_value(&key_parts),
            key_parts,
            cells,
            status: Status::New,
            predicted_ns: 1_000_000_000,
        }
    });
    Plan {
        version: plan::VERSION,
        title: "Test".to_owned(),
        manifests: vec![],
        heats: heats.collect(),
        jobs: vec![PlannedJob {
            profile: false,
            id: "job".to_owned(),
            question: String::new(),
            mode: Mode::Inference,
            measure,
            vary: BTreeMap::new(),
            comparisons: vec![],
            allow: vec![],
            claims: vec![],
        }],
        warnings: vec![],
        ceilings: None,
    }
}

/// Writes down what happens, and may pull the brake.
#[derive(Default)]
pub struct Diary {
    pub lines: Vec<String>,
    /// Logs of the launches that failed.
    pub logs: Vec<String>,
    /// Triggered when a line begins with this.
    pub brake: Option<(String, Interrupt)>,
}

impl Observer for Diary {
    fn observe(&mut self, event: &Event<'_>) {
        let line = match event {
            Event::SetAside { reason, .. } => format!("set aside: {reason}"),
            Event::Cached { group, .. } => format!("cached {group}"),
            Event::HeatStarted {
                group, blocks_kept, ..
            } => {
                format!("heat {group}, {blocks_kept} kept")
            }
            Event::BlockStarted { group, block, .. } => format!("block {block} of {group}"),
            Event::BlockMeasured { group } => format!("measured {group}"),
            Event::Rests { group, .. } => format!("rests before {group}"),
            Event::Launch {
                cell,
                phase: Phase::Measure { round, .. },
            } => {
                format!("round {round} of {}", cell.engine)
            }
            Event::Launch { cell, phase } => {
                format!("{phase:?} {} {}", cell.engine, cell.precision)
            }
            Event::Failed { cell, outcome, log } => {
                self.logs.push((*log).to_owned());
                format!("failed {}: {}", cell.engine, outcome.kind)
            }
            Event::Note { text } => format!("note: {text}"),
            Event::HeatFinished { group, .. } => format!("finished {group}"),
            Event::NotReached { group, reason } => format!("not reached {group}: {reason}"),
        };
        if let Some((start, interrupt)) = &self.brake
            && line.starts_with(start)
        {
            interrupt.trigger();
        }
        self.lines.push(line);
    }
}

impl Diary {
    pub fn count(&self, start: &str) -> usize {
        self.lines
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }
}

pub fn options(fresh: bool) -> Options {
    Options {
        fresh,
        tool: Tool {
            version: "0.1.0".to_owned(),
            revision: None,
        },
        sensors: Sensors::at(Path::new("/nowhere"), None),
        only: None,
    }
}

/// A store and a set of workers.
pub struct Track {
    pub folder: tempfile::TempDir,
    pub store: Store,
    pub workers: Synthetic,
    /// None, unless a test says otherwise.
    pub sensors: Sensors,
    mark: String,
}

impl Track {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let mark = folder.path().display().to_string();
        let workers = Synthetic::new(binary(), &mark);
        Self {
            folder,
            store,
            workers,
            sensors: options(false).sensors,
            mark,
        }
    }

    /// Runs a plan to its end.
    pub fn run(&self, plan: &Plan) -> (RunRecord, Diary) {
        self.run_with(plan, false, Diary::default(), &Interrupt::new().unwrap())
            .unwrap()
    }

    /// Runs a plan until something begins.
    pub fn run_until(&self, plan: &Plan, fresh: bool, brake: &str) -> (RunRecord, Diary) {
        let interrupt = Interrupt::new().unwrap();
        let brake = Some((brake.to_owned(), interrupt.clone()));
        let diary = Diary {
            brake,
            ..Diary::default()
        };
        self.run_with(plan, fresh, diary, &interrupt).unwrap()
    }

    pub fn run_with(
        &self,
        plan: &Plan,
        fresh: bool,
        mut diary: Diary,
        interrupt: &Interrupt,
    ) -> Result<(RunRecord, Diary), RunError> {
        let lock = self.store.lock()?;
        let options = Options {
            sensors: self.sensors.clone(),
            ..options(fresh)
        };
        let record = run(plan, &lock, &self.workers, &options, interrupt, &mut diary)?;
        Ok((record, diary))
    }

    /// The heat of an entry.
    pub fn heat(&self, record: &RunRecord, index: usize) -> schema::Heat {
        let entry = &record.heats[index];
        match &entry.heat {
            HeatResult::Sealed(digest) => self.store.heat(&entry.key, digest).unwrap(),
            HeatResult::NotReached(reason) => panic!("{} not reached: {reason}", entry.group),
        }
    }

    /// No process of this track is left, though the system may take a moment to forget one.
    pub fn assert_deserted(&self) {
        for _ in 0..50 {
            if processes(&self.mark).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("processes were left behind: {:?}", processes(&self.mark));
    }

    /// Every file of the store with the time of its last change, but for the lock.
    pub fn files(&self) -> BTreeMap<PathBuf, std::time::SystemTime> {
        let mut files = BTreeMap::new();
        let mut pending = vec![self.store.path().to_owned()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else if path.file_name().unwrap() != "lock" {
                    let modified = fs::metadata(&path).unwrap().modified().unwrap();
                    files.insert(path, modified);
                }
            }
        }
        files
    }
}

pub fn kinds(outcomes: &[Outcome]) -> Vec<OutcomeKind> {
    outcomes.iter().map(|outcome| outcome.kind).collect()
}

/// Heats enough to be killed in the middle of any.
pub fn long_plan() -> Plan {
    let mut measure = measure();
    measure.blocks = 3;
    let groups = ["a", "b", "c"].map(|group| (group, cells(&["noop", "steady", "chatter"])));
    plan(measure, groups.into())
}

/// One heat whose rounds last as long as real ones.
pub fn quiet_plan() -> Plan {
    let mut measure = measure();
    (measure.blocks, measure.rounds, measure.round_ns) = (1, 3, 400_000_000);
    plan(measure, vec![("quiet", cells(&["steady", "steady"]))])
}
