//! The worker under test, and what every check does with it.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use models::onnx::Document;
use schema::{
    Boundary, Cell, Device, Digest, EngineDescription, EngineVariant, Graph, Mode, Model,
    ModelSource, Optimizer, Outcome, OutcomeKind, Precision, Situation, Strategy,
    protocol::{Hello, Load, Loaded, Measure, Reply, Request},
};
use tempfile::TempDir;

use crate::{
    WorkerCommand,
    host::{Ended, Host, Interrupt, Limits, Transport},
};

/// A worker under test.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// How it is started.
    pub command: &'a WorkerCommand,
    /// What it claims to be able to do.
    pub engine: &'a EngineDescription,
    /// The variant to run: one of the description's.
    pub variant: &'a str,
    /// A small network, with a loss if training is to be checked.
    pub graph: &'a Graph,
    /// The dimensions that the network was built with.
    pub dims: &'a BTreeMap<String, u64>,
    /// Whether it is given the network as an ONNX file besides the graph.
    pub takes_onnx: bool,
    /// What it may use.
    pub limits: &'a Limits,
    /// How long it may take for one answer.
    pub patience: Duration,
    /// Stops the checks.
    pub interrupt: &'a Interrupt,
}

/// Exactly so many steps, behind some that are discarded.
pub(super) const fn steps(discard: u64, steps: u64) -> Measure {
    Measure {
        discard,
        min_steps: steps,
        min_ns: 0,
        max_steps: steps,
    }
}

/// Demands that what a worker cannot do is failed as that, by one that lives on.
pub(super) fn cannot(guest: &Guest, name: &str, outcome: Outcome) -> Result<(), Trouble> {
    if !guest.host.is_alive() {
        return Err(outcome.into());
    }
    demand(outcome.kind == OutcomeKind::Unsupported, || {
        format!(
            "`{name}` is failed as `{}`, not as `unsupported`: {}",
            outcome.kind, outcome.reason
        )
    })
}

/// Why a check did not pass.
#[derive(Debug)]
pub(super) enum Trouble {
    Fail(String),
    Skip(String),
}

impl From<Outcome> for Trouble {
    fn from(outcome: Outcome) -> Self {
        Self::Fail(format!("{}: {}", outcome.kind, outcome.reason))
    }
}

/// Fails a check.
pub(super) fn fail<T>(reason: impl fmt::Display) -> Result<T, Trouble> {
    Err(Trouble::Fail(reason.to_string()))
}

/// Fails a check unless the worker did as demanded.
pub(super) fn demand(condition: bool, reason: impl FnOnce() -> String) -> Result<(), Trouble> {
    if condition { Ok(()) } else { fail(reason()) }
}

/// A worker that was started for a check, with the folder that it may use.
pub(super) struct Guest {
    pub(super) host: Host,
    pub(super) hello: Hello,
    pub(super) scratch: TempDir,
    patience: Duration,
}

impl Subject<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.engine.name, self.variant)
    }

    /// Starts a worker, up to its `hello`.
    pub(super) fn start(&self) -> Result<Guest, Trouble> {
        self.start_over(Transport::Standard)
    }

    pub(super) fn start_over(&self, transport: Transport) -> Result<Guest, Trouble> {
        let scratch = TempDir::with_prefix("photofinish-").map_err(|error| {
            Trouble::Fail(format!("cannot make a folder for temporary files: {error}"))
        })?;
        let command = self.command.clone().without_tf32();
        let mut host = Host::start_over(transport, &command, self.limits, self.interrupt)?;
        match host.hello(Instant::now() + self.patience) {
            Ok(hello) => Ok(Guest {
                host,
                hello,
                scratch,
                patience: self.patience,
            }),
            Err(outcome) => {
                let log = host.kill().log;
                Err(with_log(outcome.into(), &log))
            }
        }
    }

    /// Starts a worker with the network loaded for inference, or for training where it cannot
    /// infer.
    pub(super) fn start_loaded(&self) -> Result<Guest, Trouble> {
        self.start_in(self.first_mode())
    }

    /// Inference, or training where it cannot infer.
    pub(super) fn first_mode(&self) -> Mode {
        if self.can(Mode::Inference) {
            Mode::Inference
        } else {
            Mode::Training
        }
    }

    pub(super) fn start_in(&self, mode: Mode) -> Result<Guest, Trouble> {
        let mut guest = self.start()?;
        guest.load(self.load(mode, &guest)?)?;
        Ok(guest)
    }

    /// Whether the description says that the variant can do this.
    pub(super) fn can(&self, mode: Mode) -> bool {
        self.engine
            .variant(self.variant)
            .is_some_and(|variant| variant.modes.contains(&mode))
    }

    /// Whether it says that the variant runs on such a device.
    pub(super) fn runs_on(&self, device: Device) -> bool {
        let variant = self.engine.variant(self.variant);
        variant.is_some_and(|variant| variant.devices.iter().any(|kind| kind == device.kind()))
    }

    /// The timing boundaries that the description says the variant has.
    pub(super) fn boundaries(&self) -> &[Boundary] {
        let variant = self.engine.variant(self.variant);
        variant.map_or(&[], |variant| &variant.boundaries)
    }

    /// The request to load the network, in the simplest configuration that the description
    /// allows.
    pub(super) fn load(&self, mode: Mode, guest: &Guest) -> Result<Load, Trouble> {
        let device = if self.runs_on(Device::Cpu) {
            Device::Cpu
        } else {
            Device::Cuda(0)
        };
        self.load_on(device, mode, guest)
    }

    /// The same on this device.
    pub(super) fn load_on(
        &self,
        device: Device,
        mode: Mode,
        guest: &Guest,
    ) -> Result<Load, Trouble> {
        let Some(variant) = self.engine.variant(self.variant) else {
            return fail(format!(
                "engine `{}` has no variant `{}`",
                self.engine.name, self.variant
            ));
        };
        let first = |name| Trouble::Fail(format!("variant `{}` lists no {name}", self.variant));
        let precision = if variant.precisions.contains(&Precision::Fp32) {
            Precision::Fp32
        } else {
            *variant
                .precisions
                .first()
                .ok_or_else(|| first("precision"))?
        };
        let mut boundaries = variant.boundaries.iter().copied();
        let cell = Cell {
            model: Model {
                name: self.graph.name.clone(),
                source: ModelSource::Zoo,
                graph: Digest::of_value(self.graph),
                weights: None,
            },
            dims: self.dims.clone(),
            precision,
            mode,
            optimizer: (mode == Mode::Training).then_some(Optimizer::Sgd {
                learning_rate: 0.01,
                momentum: 0.9,
                weight_decay: 0.0,
            }),
            engine: EngineVariant {
                engine: self.engine.name.clone(),
                variant: self.variant.to_owned(),
            },
            host_language: variant.host_language,
            device,
            threads: 1,
            strategy: Strategy::Single,
            world_size: 1,
            boundary: boundaries
                .find(|boundary| boundary.exists_on(device))
                .ok_or_else(|| first("timing boundary"))?,
            factors: variant.defaults(Situation {
                precision,
                mode,
                device,
                strategy: Strategy::Single,
            }),
        };
        let mut load = Load {
            cell,
            graph: self.graph.clone(),
            files: None,
            scratch: guest.scratch.path().join("own"),
        };
        if self.takes_onnx {
            load.files = Some(Document::files(&load, guest.scratch.path())?);
        }
        Ok(load)
    }
}

/// Why the worker refuses the subject's network as `unsupported`, if it does. Whatever else it does
/// wrong is for the checks to find.
#[must_use]
pub fn refusal(subject: &Subject<'_>) -> Option<Outcome> {
    let mut guest = subject.start().ok()?;
    let load = subject.load(subject.first_mode(), &guest).ok()?;
    guest.make_scratch(&load).ok()?;
    let deadline = guest.deadline();
    let request = Request::Load(Box::new(load));
    let outcome = guest.host.request(&request, deadline).err()?;
    (guest.host.is_alive() && outcome.kind == OutcomeKind::Unsupported).then_some(outcome)
}

/// How long a worker may finish the step that it is at: networks are small.
const LEAVING: Duration = Duration::from_mins(1);

impl Guest {
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Until when a worker whose stream is closed must be gone.
    pub(super) fn leaving(&self) -> Instant {
        Instant::now() + self.patience.min(LEAVING)
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, Trouble> {
        let deadline = self.deadline();
        self.host.request(request, deadline).map_err(Trouble::from)
    }

    /// Makes the folder for temporary files that a request to load names.
    pub(super) fn make_scratch(&self, load: &Load) -> Result<(), Trouble> {
        std::fs::create_dir_all(&load.scratch)
            .map_err(|error| Trouble::Fail(format!("cannot make a folder: {error}")))
    }

    pub(super) fn load(&mut self, load: Load) -> Result<Loaded, Trouble> {
        self.make_scratch(&load)?;
        match self.ask(&Request::Load(Box::new(load)))? {
            Reply::Loaded(loaded) => Ok(loaded),
            other => fail(format!("`{}` instead of `loaded`", other.name())),
        }
    }

    /// Times of steps.
    pub(super) fn measure(&mut self, limits: Measure) -> Result<Vec<u64>, Trouble> {
        match self.ask(&Request::Measure(limits))? {
            Reply::Measure(samples) if !samples.cancelled => Ok(samples.samples_ns),
            Reply::Measure(_) => fail("a measurement says it was cancelled, which it was not"),
            other => fail(format!("`{}` instead of `measure`", other.name())),
        }
    }

    /// A file that does not exist yet.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Says `bye`, and demands a proper leave.
    pub(super) fn leave(self) -> Result<(), Trouble> {
        let deadline = self.deadline();
        left(&self.host.finish(deadline))
    }
}

/// Demands that a worker left in order.
pub(super) fn left(ended: &Ended) -> Result<(), Trouble> {
    match &ended.outcome {
        None => Ok(()),
        Some(outcome) => Err(with_log(outcome.clone().into(), &ended.log)),
    }
}

fn with_log(trouble: Trouble, log: &str) -> Trouble {
    const LINES: usize = 5;
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines
        .get(lines.len().saturating_sub(LINES)..)
        .unwrap_or_default()
        .join("\n");
    match trouble {
        Trouble::Fail(reason) if !tail.trim().is_empty() => {
            Trouble::Fail(format!("{reason}; its log ends with:\n{tail}"))
        }
        other => other,
    }
}
