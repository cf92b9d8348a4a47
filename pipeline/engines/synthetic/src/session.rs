//! Steps that last as long as they are told to, or go wrong.

use std::{
    ffi::OsStr,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use schema::{
    Outcome, OutcomeKind, Precision,
    protocol::{Profile, ProfileEntry},
};
use worker::{ParityData, ProfileEntries, Session, nanoseconds};

use crate::{
    behaviour::Behaviour,
    mischief::{self, ProtocolStream},
    outputs::Outputs,
};

/// How a step passes its time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pace {
    /// Not at all.
    Nothing,
    /// On the processor.
    Spin(Duration),
    /// Off it.
    Sleep(Duration),
    /// Computing.
    Work(Labour),
}

/// What there is to compute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labour {
    numbers: Vec<f32>,
    /// What a step takes longer than that, as a share of it.
    extra: f64,
}

impl Labour {
    /// 256 KiB: what a core's own second cache holds, where an engine keeps the tiles that it works on.
    const NUMBERS: usize = 64 << 10;

    /// Passes of a step over them: some milliseconds.
    const PASSES: u32 = 128;

    pub(crate) fn new(slower_percent: u32) -> Self {
        Self {
            numbers: vec![1.0; Self::NUMBERS],
            extra: f64::from(slower_percent) / 100.0,
        }
    }

    fn step(&mut self) {
        let start = Instant::now();
        for _ in 0..Self::PASSES {
            for number in &mut self.numbers {
                *number = *number * 0.5 + 1.0;
            }
            std::hint::black_box(&mut self.numbers);
        }
        spin(start.elapsed().mul_f64(self.extra));
    }
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A "network".
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) behaviour: Behaviour,
    pub(crate) pace: Pace,
    /// Whether a device is to say how long steps take.
    pub(crate) by_device: bool,
    pub(crate) outputs: Outputs,
    pub(crate) stream: ProtocolStream,
    pub(crate) scratch: PathBuf,
    /// Memory that it holds for nothing.
    pub(crate) _hoard: Vec<u8>,
    /// Names of the graph's nodes, in order.
    pub(crate) nodes: Vec<String>,
    /// Whether the first step, which belongs to `load`, is done.
    pub(crate) started: bool,
}

impl Session for Steps {
    fn step(&mut self) -> Result<(), Outcome> {
        match &mut self.pace {
            Pace::Nothing => {}
            Pace::Spin(time) => spin(*time),
            Pace::Sleep(time) => thread::sleep(*time),
            Pace::Work(labour) => labour.step(),
        }
        if self.started {
            return self.misbehave();
        }
        self.started = true;
        Ok(())
    }

    fn device_ns(&mut self) -> Result<Option<u64>, Outcome> {
        let (Pace::Spin(time) | Pace::Sleep(time)) = self.pace else {
            return Ok(None);
        };
        let step_ns = nanoseconds(time);
        Ok(match self.behaviour {
            Behaviour::ByDevice if self.by_device => Some(step_ns / 2),
            Behaviour::WrongUnit if self.by_device => Some(step_ns / 2000),
            _ => None,
        })
    }

    fn parity(&mut self, steps: u32) -> Result<ParityData, Outcome> {
        self.outputs.make(steps, |values| match self.behaviour {
            Behaviour::WrongOutput => values.iter_mut().for_each(|value| *value *= 1.1),
            Behaviour::OtherSide => to_the_other_side(values),
            Behaviour::NanOutput => {
                if let Some(first) = values.first_mut() {
                    *first = f32::NAN;
                }
            }
            _ => {}
        })
    }

    fn parity_across_kinks(&mut self, steps: u32, _: Precision) -> Result<ParityData, Outcome> {
        self.outputs.make(steps, |values| to_the_other_side(values))
    }

    /// The step is as long as it is told to be, whatever the nodes are: one half of them has one half of
    /// it, the other the other.
    fn profile(&mut self, steps: u64) -> Result<Profile, Outcome> {
        if self.behaviour == Behaviour::Noop {
            let reason = "there is nothing that could take time";
            return Err(Outcome::new(OutcomeKind::Unsupported, reason));
        }
        let start = Instant::now();
        for _ in 0..steps {
            self.step()?;
        }
        let wall_ns = nanoseconds(start.elapsed()).max(1);
        let strange = (self.behaviour == Behaviour::StrangeProfile).then_some("nobody");
        let times = match self.behaviour {
            Behaviour::LongProfile => 10,
            _ => 1,
        };
        let (first, second) = self.nodes.split_at(self.nodes.len() / 2);
        let mut entries = ProfileEntries::default();
        for (name, nodes) in [("first half", first), ("second half", second)] {
            let nodes = nodes.iter().map(String::as_str).chain(strange);
            entries.add(ProfileEntry {
                name: name.to_owned(),
                nodes: nodes.map(str::to_owned).collect(),
                time_ns: (wall_ns / 2).saturating_mul(times),
                calls: steps,
                conversion: false,
            });
        }
        entries.finish(steps, wall_ns, steps)
    }

    fn diverged(&mut self) -> Result<Option<String>, Outcome> {
        Ok((self.behaviour == Behaviour::Diverges).then(|| "fc.weight".to_owned()))
    }

    fn reset(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    fn device_memory(&mut self) -> Option<(u64, u64)> {
        None
    }
}

fn to_the_other_side(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value *= 1.02);
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.behaviour == Behaviour::MemoryGulper {
            mischief::gulp_memory();
        }
        if self.behaviour == Behaviour::RemovesScratch
            && let Some(folder) = self.scratch.parent()
            // Whoever gives it another kind of folder is not to lose what else is there.
            && let Some(name) = folder.file_name().and_then(OsStr::to_str)
            && name.starts_with("scratch-")
        {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Steps {
    #[inline]
    fn misbehave(&self) -> Result<(), Outcome> {
        match self.behaviour {
            Behaviour::Segfault => mischief::segfault(),
            Behaviour::HangAtMeasure => mischief::hang(),
            Behaviour::Stubborn => mischief::hang_stubbornly(),
            Behaviour::Garbage => self.stream.garbage(),
            Behaviour::Flood => self.stream.flood(),
            Behaviour::FloodStderr => mischief::flood_stderr(),
            Behaviour::HugeMessage => self.stream.huge_message(),
            Behaviour::Chatter => crate::engine::chat("step"),
            #[expect(clippy::panic, reason = "what is asked for")]
            Behaviour::Panics => panic!("as it was told to"),
            Behaviour::OutOfMemory => {
                let reason = "the engine could not allocate 12 GiB";
                return Err(Outcome::new(OutcomeKind::OutOfMemory, reason));
            }
            _ => {}
        }
        Ok(())
    }
}
