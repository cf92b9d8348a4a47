//! Where the time of a step goes: ONNX Runtime's own profiler, in a session of its own, so that one
//! whose steps are timed never writes anything.

use std::{
    fs, hint,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use models::onnx::{self, Document};
use schema::{
    Outcome, OutcomeKind,
    protocol::{Load, Profile, ProfileEntry},
};
use serde::Deserialize;
use worker::{ProfileEntries, nanoseconds};

use crate::{
    configuration::Configuration,
    engine::extensions,
    failure::unsupported,
    kernels::Kernels,
    library::Library,
    model::{self, Traced},
    provider::Provider,
    session::Inference,
    tensors,
};

/// What is run first, in steps and in time: the memory pattern, caches, threads and the processor's clock
/// settle.
const WARM_UP_STEPS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(50);

/// What then passes before the first step that counts. Times are told in whole microseconds, and by them the
/// steps are told apart.
const APART: Duration = Duration::from_micros(3);

/// Ends the name of what a kernel took.
const KERNEL: &str = "_kernel_time";

/// Names what a step took, in all.
const RUN: &str = "model_run";

/// What a session to be profiled is made from.
pub(crate) struct Profiler {
    pub(crate) load: Load,
    pub(crate) configuration: Configuration,
    pub(crate) library: Library,
}

/// One line of ONNX Runtime's file: trace events, times in microseconds.
#[derive(Debug, Deserialize)]
struct Event {
    name: String,
    #[serde(default)]
    cat: String,
    /// When it began.
    #[serde(default)]
    ts: u64,
    #[serde(default)]
    dur: u64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Debug, Default, Deserialize)]
struct Arguments {
    #[serde(default)]
    op_name: String,
}

impl Profiler {
    /// Where a session to be profiled writes.
    ///
    /// # Errors
    /// `unsupported`: nothing would be told of this one.
    pub(crate) fn begin(&self) -> Result<Traced, Outcome> {
        if self.configuration.provider != Provider::Cpu {
            return Err(unsupported(
                "ONNX Runtime's profiler tells of kernels on a GPU when they are launched, not how long they run",
            ));
        }
        if self.load.graph.is_outline() {
            return Err(unsupported(
                "the file holds operators that no graph can say: there are no nodes to map times to",
            ));
        }
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(|error| unreadable(&folder, &error))?;
        Ok(Traced {
            model: folder.join("optimized.onnx"),
            times: Some(folder.join("times")),
            weights: None,
        })
    }

    fn folder(&self) -> PathBuf {
        self.load.scratch.join("profile")
    }

    /// Profiles so many steps, and gives the session besides, which writes no more.
    pub(crate) fn profile(
        &self,
        traced: &Traced,
        steps: u64,
    ) -> Result<(Profile, Inference), Outcome> {
        let (asked, mut session) = self.session(traced)?;
        let discarded = warm_up(&mut session)?;
        let mut wall = Duration::ZERO;
        for _ in 0..steps {
            let start = Instant::now();
            drop(session.call()?);
            wall += start.elapsed();
        }
        let times = session.end_profiling()?;
        let running = read_calls(&traced.model)?;
        let kernels = Kernels::of(&self.load.graph, &asked, &running);
        let events = read_events(Path::new(&times))?;
        // The folder is the launch's own; what stays of it is removed with that.
        let _ = fs::remove_dir_all(self.folder());
        let profile = tell(&events, &kernels, discarded, steps, nanoseconds(wall))?;
        Ok((profile, session))
    }

    /// The operators that ONNX Runtime is asked for, and the session that it makes of them. Operators are
    /// told apart by their names: a file in which not each has one is handed over as a copy in which
    /// each has.
    fn session(&self, traced: &Traced) -> Result<(Vec<onnx::Call>, Inference), Outcome> {
        let configuration = &self.configuration;
        let extensions = extensions(configuration);
        let mut document = Document::of(&self.load, configuration.precision, extensions)?;
        let mut traced = traced.clone();
        let read;
        let bytes = match &document {
            Document::Bytes(bytes) => bytes,
            Document::File(path) => {
                read = fs::read(path).map_err(|error| unreadable(path, &error))?;
                &read
            }
        };
        let named = onnx::named(bytes).map_err(|reason| broken("the model", &reason))?;
        let asked = onnx::calls(named.as_ref().unwrap_or(bytes));
        let asked = asked.map_err(|reason| broken("the model", &reason))?;
        if let Some(named) = named {
            if let Document::File(path) = &document {
                traced.weights = path.parent().map(Path::to_owned);
            }
            document = Document::Bytes(named);
        }
        let session = model::commit(&document, configuration, &self.library, Some(&traced))?;
        drop(document);
        let inputs = tensors::inputs(&self.load.graph, &session)?;
        let session = Inference::bind(session, &self.load.graph, inputs, configuration)?;
        Ok((asked, session))
    }
}

/// Runs steps that do not count, and tells how many.
fn warm_up(session: &mut Inference) -> Result<usize, Outcome> {
    let start = Instant::now();
    let mut steps = 0;
    while steps < WARM_UP_STEPS || start.elapsed() < WARM_UP {
        session.call()?;
        steps += 1;
    }
    let end = Instant::now();
    while end.elapsed() < APART {
        hint::spin_loop();
    }
    Ok(steps)
}

fn read_calls(path: &Path) -> Result<Vec<onnx::Call>, Outcome> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    onnx::calls(&bytes).map_err(|reason| broken("the optimised model", &reason))
}

fn read_events(path: &Path) -> Result<Vec<Event>, Outcome> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| broken("ONNX Runtime's profile", &error.to_string()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Outcome {
    Outcome::new(
        OutcomeKind::Crashed,
        format!("profile: {}: {error}", path.display()),
    )
}

fn broken(what: &str, reason: &str) -> Outcome {
    Outcome::new(OutcomeKind::Crashed, format!("profile: {what}: {reason}"))
}

/// The steps of the file behind those that do not count, entry by entry. In which order the file tells of
/// them, versions may differ in: what counts began with the first step that does, or later.
fn tell(
    events: &[Event],
    kernels: &Kernels,
    discarded: usize,
    steps: u64,
    wall_ns: u64,
) -> Result<Profile, Outcome> {
    let runs = events.iter().filter(|event| event.name == RUN);
    let mut runs: Vec<u64> = runs.map(|event| event.ts).collect();
    runs.sort_unstable();
    let counted = usize::try_from(steps).unwrap_or(usize::MAX);
    let expected = discarded.saturating_add(counted);
    // Of a million events and more ONNX Runtime leaves out the last.
    let first = runs.get(discarded).filter(|_| runs.len() == expected);
    let Some(&first) = first else {
        let reason = format!("it tells of {} steps, and {expected} were run", runs.len());
        return Err(broken("ONNX Runtime's profile", &reason));
    };
    let mut entries = ProfileEntries::default();
    let mut launched = 0;
    let counting = events
        .iter()
        .filter(|event| event.cat == "Node" && event.ts >= first);
    for event in counting {
        let Some(name) = event.name.strip_suffix(KERNEL) else {
            continue;
        };
        launched += 1;
        let kernel = kernels.get(name, &event.args.op_name);
        entries.add(ProfileEntry {
            name: format!("{} {name}", event.args.op_name),
            nodes: kernel.nodes,
            time_ns: event.dur.saturating_mul(1000),
            calls: 1,
            conversion: kernel.conversion,
        });
    }
    entries.finish(steps, wall_ns, launched)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn event(name: &str, op: &str, ts: u64, dur: u64) -> Event {
        let cat = if op.is_empty() { "Session" } else { "Node" };
        let line = format!(
            r#"{{"cat":"{cat}","pid":1,"tid":1,"dur":{dur},"ts":{ts},"ph":"X","name":"{name}","args":{{"op_name":"{op}","node_index":"7"}}}}"#
        );
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn the_last_steps_count_and_those_before_do_not() {
        let graph = models::sample::perceptron(1).unwrap();
        let step = |ts, first, second| {
            [
                event("hidden_kernel_time", "Gemm", ts, first),
                event("fused output_kernel_time", "FusedGemm", ts + first, second),
                event("SequentialExecutor::Execute", "", ts, 9),
                event(RUN, "", ts, 10),
            ]
        };
        let steps = [step(10, 100, 100), step(300, 3, 4), step(310, 5, 6)];
        let mut events: Vec<Event> = [event("session_initialization", "", 1, 5)]
            .into_iter()
            .chain(steps.into_iter().flatten())
            .collect();
        let call = |name: &str, output: &str| onnx::Call {
            name: name.to_owned(),
            op_type: "Gemm".to_owned(),
            inputs: Vec::new(),
            outputs: vec![output.to_owned()],
        };
        let asked = [call("hidden", "hidden"), call("output", "logits")];
        let running = [call("hidden", "hidden"), call("fused output", "logits")];
        let kernels = Kernels::of(&graph, &asked, &running);
        let profile = tell(&events, &kernels, 1, 2, 20_000).unwrap();
        assert_eq!((profile.steps, profile.kernels), (2, 4));
        let told: Vec<_> = profile
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.time_ns, entry.calls))
            .collect();
        let expected = [
            ("FusedGemm fused output", 10_000, 2),
            ("Gemm hidden", 8_000, 2),
        ];
        assert_eq!(told, expected);
        let nodes = BTreeSet::from(["output".to_owned()]);
        assert_eq!(profile.entries[0].nodes, nodes);
        // Whatever the order of the file, and only if it tells of all steps.
        events.reverse();
        let reversed = tell(&events, &kernels, 1, 2, 20_000).unwrap();
        assert_eq!(reversed.entries, profile.entries);
        for (discarded, steps) in [(1, 3), (0, 2), (2, 0), (3, 0)] {
            let outcome = tell(&events, &kernels, discarded, steps, 20_000).unwrap_err();
            assert!(outcome.reason.contains("3 steps"), "{outcome:?}");
        }
    }
}
