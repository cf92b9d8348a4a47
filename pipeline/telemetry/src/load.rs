//! How busy the machine is at a moment.

use nix::unistd::{SysconfVar, sysconf};
use schema::machine::Load;
use statistics::interval;

use crate::{Probe, probe::field};

/// Why the time of processors is unavailable where `/proc/stat` has none.
pub(crate) const NO_TIMES: &str = "/proc/stat tells no time of processors";

/// Columns of the line `cpu` of `/proc/stat`, see proc_stat(5).
const IDLE: usize = 3;
const IO_WAIT: usize = 4;
const STEAL: usize = 7;
/// Guest time is also counted as user time: columns from here on are left out.
const GUEST: usize = 8;

impl Probe {
    /// How busy the machine is now.
    #[must_use]
    pub fn load(&self) -> Load {
        let times = self.times();
        Load {
            load_1m: self
                .read("proc/loadavg")
                .and_then(|text| text.split(' ').next()?.parse().ok())
                .unwrap_or(0.0),
            available_memory_bytes: self.available_memory_bytes(),
            steal_ns: times.map(|times| times.steal_ns),
            busy_ns: times.map(|times| times.busy_ns),
            clock_mhz: self.clock_mhz(),
        }
    }

    /// What all processors have done until now; `None` where the kernel does not tell.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        Times::parse(&self.read("proc/stat")?)
    }

    /// The number of processors that the kernel counts the time of.
    #[must_use]
    pub fn processors(&self) -> u32 {
        let text = self.read("proc/stat").unwrap_or_default();
        let is_one = |line: &&str| {
            let number = line.strip_prefix("cpu");
            number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
        };
        u32::try_from(text.lines().filter(is_one).count()).unwrap_or(u32::MAX)
    }

    /// Memory that can be had without swapping, within the control group's limit.
    fn available_memory_bytes(&self) -> u64 {
        let available = self
            .field("proc/meminfo", "MemAvailable")
            .and_then(|text| kibibytes(&text))
            .unwrap_or(0);
        self.memory_limit_bytes()
            .map_or(available, |limit| available.min(limit))
    }

    /// Mean clock of all processors.
    fn clock_mhz(&self) -> Option<f64> {
        mean_mhz(&self.read("proc/cpuinfo")?)
    }
}

/// Time of all processors together since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// What processes used, in nanoseconds.
    pub busy_ns: u64,
    /// What a hypervisor took, in nanoseconds.
    pub steal_ns: u64,
}

impl Times {
    /// From the first line of `/proc/stat`; `None` where it has no time at all, not even idle time: so writes a
    /// kernel that only imitates Linux.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks = line.split_whitespace().map_while(|tick| tick.parse().ok());
        let ticks: Vec<u64> = ticks.collect();
        let column = |index: usize| ticks.get(index).copied().unwrap_or(0);
        let sum = |sum: u64, tick: u64| sum.saturating_add(tick);
        let spent = ticks.iter().copied().take(GUEST).fold(0, sum);
        let waited = [IDLE, IO_WAIT, STEAL].map(column).into_iter().fold(0, sum);
        (spent > 0).then(|| Self {
            busy_ns: nanoseconds(spent.saturating_sub(waited)),
            steal_ns: nanoseconds(column(STEAL)),
        })
    }
}

/// Mean clock of the processors in the text of `/proc/cpuinfo`.
pub(crate) fn mean_mhz(cpuinfo: &str) -> Option<f64> {
    let processors = cpuinfo.split("\n\n");
    let clocks = processors.filter_map(|processor| field(processor, "cpu MHz")?.parse().ok());
    mean(clocks)
}

/// The arithmetic mean; `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    interval::mean(&values.collect::<Vec<_>>())
}

/// A size such as `16384 kB`, in bytes.
pub(crate) fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// Ticks of the scheduler's clock as time.
fn nanoseconds(ticks: u64) -> u64 {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    let per_second = per_second
        .and_then(|ticks| u64::try_from(ticks).ok())
        .unwrap_or(100);
    ticks.saturating_mul(1_000_000_000 / per_second.max(1))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_processors_did_is_absent_where_the_kernel_does_not_tell() {
        let root = tempfile::tempdir().unwrap();
        let probe = Probe::at(root.path());
        let told = || {
            let load = probe.load();
            (probe.times(), load.busy_ns, load.steal_ns)
        };
        assert_eq!(told(), (None, None, None));
        fs::create_dir(root.path().join("proc")).unwrap();
        for silent in [
            "",
            "nonsense",
            "cpu ",
            "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n",
        ] {
            fs::write(root.path().join("proc/stat"), silent).unwrap();
            assert_eq!(told(), (None, None, None), "{silent}");
        }
        // One that has only idled has been busy for no time.
        fs::write(root.path().join("proc/stat"), "cpu  0 0 0 7 0 0 0 0 0 0\n").unwrap();
        assert_eq!(told(), (Some(Times::default()), Some(0), Some(0)));
    }
}
