//! Where the time of a step goes: ONNX Runtime's own profiler, in a session of its own, so that one
//! whose steps are timed never writes anything.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use models::onnx::{self, Document, Extensions};
use schema::{
    Outcome, OutcomeKind,
    protocol::{Load, Profile, ProfileEntry},
};
use serde::Deserialize;
use worker::{ProfileEntries, nanoseconds};

use crate::{
    configuration::Configuration,
    failure::unsupported,
    kernels::Kernels,
    library::Library,
    model::{self, Traced},
    provider::Provider,
    session::Inference,
    tensors,
};

/// Steps that are run first: the memory pattern and caches settle.
const DISCARDED: u64 = 3;

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
    /// Profiles so many steps.
    pub(crate) fn profile(&self, steps: u64) -> Result<Profile, Outcome> {
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
        let folder = self.load.scratch.join("profile");
        fs::create_dir_all(&folder).map_err(|error| unreadable(&folder, &error))?;
        let traced = Traced {
            model: folder.join("optimized.onnx"),
            times: folder.join("times"),
        };
        let (asked, mut session) = self.session(&traced)?;
        for _ in 0..DISCARDED {
            session.call()?;
        }
        let mut wall = Duration::ZERO;
        for _ in 0..steps {
            let start = Instant::now();
            drop(session.call()?);
            wall += start.elapsed();
        }
        let times = session.end_profiling()?;
        drop(session);
        let running = read_calls(&traced.model)?;
        let kernels = Kernels::of(&self.load.graph, &asked, &running);
        let events = read_events(Path::new(&times))?;
        // The folder is the launch's own; what stays of it is removed with that.
        let _ = fs::remove_dir_all(&folder);
        tell(&events, &kernels, steps, nanoseconds(wall))
    }

    /// The operators that ONNX Runtime is asked for, and the session that it makes of them.
    fn session(&self, traced: &Traced) -> Result<(Vec<onnx::Call>, Inference), Outcome> {
        let configuration = &self.configuration;
        let extensions = Extensions {
            multi_head_attention: configuration.fuses_attention,
        };
        let document = Document::of(&self.load, configuration.precision, extensions)?;
        let asked = match &document {
            Document::Bytes(bytes) => {
                onnx::calls(bytes).map_err(|reason| broken("the model", &reason))?
            }
            Document::File(path) => read_calls(path)?,
        };
        let session = model::commit(&document, configuration, &self.library, Some(traced))?;
        drop(document);
        let inputs = tensors::inputs(&self.load.graph, &session)?;
        let session = Inference::bind(session, &self.load.graph, inputs, configuration)?;
        Ok((asked, session))
    }
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

/// The last steps of the file, entry by entry.
fn tell(events: &[Event], kernels: &Kernels, steps: u64, wall_ns: u64) -> Result<Profile, Outcome> {
    let runs: Vec<usize> = (0..events.len())
        .filter(|at| events.get(*at).is_some_and(|event| event.name == RUN))
        .collect();
    // What belongs to a run comes before its end. The steps before the first that counts end there.
    let counted = usize::try_from(steps).unwrap_or(usize::MAX);
    let before = runs
        .len()
        .checked_sub(counted + 1)
        .and_then(|at| runs.get(at));
    let Some(&before) = before else {
        let reason = format!("it has {} runs of {steps} and more", runs.len());
        return Err(broken("ONNX Runtime's profile", &reason));
    };
    let mut entries = ProfileEntries::default();
    let mut launched = 0;
    for event in events.iter().skip(before + 1) {
        let Some(name) = event.name.strip_suffix(KERNEL) else {
            continue;
        };
        if event.cat != "Node" {
            continue;
        }
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

    fn event(name: &str, op: &str, dur: u64) -> Event {
        let cat = if op.is_empty() { "Session" } else { "Node" };
        let line = format!(
            r#"{{"cat":"{cat}","pid":1,"tid":1,"dur":{dur},"ts":1,"ph":"X","name":"{name}","args":{{"op_name":"{op}","node_index":"7"}}}}"#
        );
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn the_last_steps_count_and_those_before_do_not() {
        let graph = models::sample::perceptron(1).unwrap();
        let step = |first, second| {
            [
                event("hidden_kernel_time", "Gemm", first),
                event("fused output_kernel_time", "FusedGemm", second),
                event("SequentialExecutor::Execute", "", 9),
                event(RUN, "", 10),
            ]
        };
        let events: Vec<Event> = [event("session_initialization", "", 5)]
            .into_iter()
            .chain(step(100, 100))
            .chain(step(3, 4))
            .chain(step(5, 6))
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
        let profile = tell(&events, &kernels, 2, 20_000).unwrap();
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
        assert!(tell(&events, &kernels, 3, 20_000).is_err());
    }
}
