//! The engine that has none.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use schema::{Boundary, Cell, Outcome, OutcomeKind, protocol::Load};
use worker::{Engine, Identity, LoadReport, Session};

use crate::{
    behaviour::Behaviour,
    mischief::{self, ProtocolStream},
    outputs::Outputs,
    session::{Labour, Pace, Steps},
};

/// Microseconds of a step where the cell does not say.
const STEP_US: u64 = 200;

/// What one that hoards holds for each sample.
const SAMPLE_BYTES: u64 = 40 << 20;

/// The engine that has none.
#[derive(Debug)]
pub(crate) struct Synthetic {
    name: String,
    stream: Option<ProtocolStream>,
    /// How it behaves where it plays an engine whose variants it lacks.
    played: Behaviour,
    /// By how many per cent a step that works takes longer.
    slower: u32,
}

impl Synthetic {
    /// One that goes by this name, told on the command line how to behave.
    pub(crate) fn new(
        name: String,
        stream: ProtocolStream,
        told: Option<Behaviour>,
        slower: u32,
    ) -> Self {
        let played = match told {
            Some(told @ (Behaviour::WrongOutput | Behaviour::Hoards)) => told,
            _ => Behaviour::Steady,
        };
        Self {
            name,
            stream: Some(stream),
            played,
            slower,
        }
    }
}

impl Engine for Synthetic {
    fn hello(&self) -> Identity {
        Identity {
            engine: self.name.clone(),
            versions: BTreeMap::from([(
                "synthetic".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            )]),
            worker: env!("PHOTOFINISH_WORKER_DIGEST").parse().ok(),
            variants: Behaviour::ALL
                .iter()
                .map(|behaviour| behaviour.word().to_owned())
                .collect(),
        }
    }

    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
        let unsupported = |reason: String| Outcome::new(OutcomeKind::Unsupported, reason);
        let start = Instant::now();
        // A name that is not its own is that of an engine it plays: those have other variants.
        let behaviour = match Behaviour::from_word(&load.cell.engine.variant) {
            Some(behaviour) => behaviour,
            None if self.name != "synthetic" => self.played,
            None => {
                return Err(unsupported(format!(
                    "no variant `{}`",
                    load.cell.engine.variant
                )));
            }
        };
        if matches!(behaviour, Behaviour::ByDevice | Behaviour::WrongUnit) {
            worker::check_drive(&load.cell, Boundary::ALL, worker::ALONE)?;
        }
        misbehave(behaviour, &load.scratch)?;
        let pace = pace(behaviour, &load.cell, self.slower)?;
        let hoard = match behaviour {
            Behaviour::Hoards => hoard(load.cell.batch())?,
            _ => Vec::new(),
        };
        let outputs = Outputs::new(&load.graph, load.cell.mode, load.cell.precision)?;
        let stream = self
            .stream
            .take()
            .ok_or_else(|| unsupported("a second network".to_owned()))?;
        let report = LoadReport {
            build_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            threads: Some(1),
            spin: "no threads that could wait".to_owned(),
            settings: load.cell.factors.clone(),
            ..LoadReport::default()
        };
        Ok((
            Box::new(Steps {
                behaviour,
                pace,
                by_device: load.cell.boundary == Boundary::Device,
                outputs,
                stream,
                scratch: load.scratch.clone(),
                _hoard: hoard,
                nodes: load
                    .graph
                    .nodes
                    .iter()
                    .map(|node| node.name.clone())
                    .collect(),
                started: false,
            }),
            report,
        ))
    }

    /// It needs none: any will do.
    fn reads_weights(&self) -> bool {
        true
    }
}

fn misbehave(behaviour: Behaviour, scratch: &Path) -> Result<(), Outcome> {
    let spawn = |argument: &str, own_group| {
        mischief::spawn(argument, own_group)
            .map(drop)
            .map_err(|error| Outcome::new(OutcomeKind::Crashed, format!("no child: {error}")))
    };
    let hide = |argument: &str| {
        mischief::spawn_hidden(argument, &scratch.display().to_string())
            .map_err(|error| Outcome::new(OutcomeKind::Crashed, format!("nothing hid: {error}")))
    };
    let attempt = |result: io::Result<()>| {
        result.map_err(|error| Outcome::new(OutcomeKind::Crashed, error.to_string()))
    };
    match behaviour {
        Behaviour::SlowStart => thread::sleep(mischief::SLOW),
        Behaviour::HangAtLoad => mischief::hang(),
        #[expect(clippy::exit, reason = "what is asked for")]
        Behaviour::ExitEarly => {
            complain("left early");
            std::process::exit(0)
        }
        Behaviour::MemoryEater => mischief::eat_memory(),
        Behaviour::MemoryEaterChild => {
            spawn("--eat", false)?;
            mischief::hang()
        }
        Behaviour::LosesChild => attempt(mischief::lose_child())?,
        Behaviour::ForkBombLite => {
            spawn("--linger", false)?;
            spawn("--linger", true)?;
        }
        Behaviour::LeavesGroup => attempt(mischief::leave_group())?,
        Behaviour::LeavesWhenResumed => attempt(mischief::leave_when_resumed())?,
        Behaviour::HiddenChild => hide("--linger")?,
        Behaviour::HiddenMemoryEater => {
            hide("--eat")?;
            mischief::hang()
        }
        Behaviour::Chatter => chat("load"),
        Behaviour::Unsupported => {
            let reason = "node `conv1`: operator Conv is not supported";
            return Err(Outcome::new(OutcomeKind::Unsupported, reason));
        }
        _ => {}
    }
    Ok(())
}

/// Memory for so many samples, every page of it touched.
fn hoard(batch: u64) -> Result<Vec<u8>, Outcome> {
    let full = || Outcome::new(OutcomeKind::OutOfMemory, "there is no room for the batch");
    let bytes = batch.checked_mul(SAMPLE_BYTES).ok_or_else(full)?;
    let bytes = usize::try_from(bytes).map_err(|_| full())?;
    let mut hoard = Vec::new();
    hoard.try_reserve_exact(bytes).map_err(|_| full())?;
    hoard.resize(bytes, 1);
    Ok(hoard)
}

/// Writes its last words to the log.
pub(crate) fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "synthetic: {what}");
}

/// Writes to where a library would.
pub(crate) fn chat(what: &str) {
    let _ = writeln!(io::stdout(), "{{\"reset\"}} chatter of a library at {what}");
    let _ = io::stdout().flush();
    let _ = writeln!(io::stderr(), "warning: {what} is verbose");
}

/// The time of a step, from the cell's factors.
fn pace(behaviour: Behaviour, cell: &Cell, slower: u32) -> Result<Pace, Outcome> {
    match behaviour {
        Behaviour::Noop => return Ok(Pace::Nothing),
        Behaviour::Works => return Ok(Pace::Work(Labour::new(slower))),
        _ => {}
    }
    let factor = |name: &str| cell.factors.get(name).map(String::as_str);
    let wrong = |name: &str, value: &str| {
        Outcome::new(
            OutcomeKind::Unsupported,
            format!("factor {name}: `{value}` is no value of it"),
        )
    };
    let microseconds = match factor("step_us") {
        None => STEP_US,
        Some(text) => text
            .parse()
            .ok()
            .filter(|&time: &u64| time <= 60_000_000)
            .ok_or_else(|| wrong("step_us", text))?,
    };
    let time = Duration::from_micros(microseconds);
    match factor("wait") {
        None | Some("spin") => Ok(Pace::Spin(time)),
        Some("sleep") => Ok(Pace::Sleep(time)),
        Some(other) => Err(wrong("wait", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;

    #[test]
    fn factors_set_the_pace() {
        let mut cell = bench::load().unwrap().cell;
        assert_eq!(pace(Behaviour::Noop, &cell, 0), Ok(Pace::Nothing));
        let default = Duration::from_micros(STEP_US);
        assert_eq!(pace(Behaviour::Steady, &cell, 0), Ok(Pace::Spin(default)));
        cell.factors.insert("step_us".to_owned(), "1500".to_owned());
        cell.factors.insert("wait".to_owned(), "sleep".to_owned());
        let works = pace(Behaviour::Works, &cell, 5);
        assert_eq!(works, Ok(Pace::Work(Labour::new(5))));
        let slow = Duration::from_micros(1500);
        assert_eq!(pace(Behaviour::Steady, &cell, 0), Ok(Pace::Sleep(slow)));
        for (name, value) in [("step_us", "-1"), ("step_us", "60000001"), ("wait", "idle")] {
            let mut cell = cell.clone();
            cell.factors.insert(name.to_owned(), value.to_owned());
            let error = pace(Behaviour::Steady, &cell, 0).unwrap_err();
            assert!(
                error.reason.contains(&format!("factor {name}: `{value}`")),
                "{}",
                error.reason
            );
        }
    }

    #[test]
    fn names_are_their_own() {
        for &behaviour in Behaviour::ALL {
            assert_eq!(Behaviour::from_word(behaviour.word()), Some(behaviour));
        }
    }
}
