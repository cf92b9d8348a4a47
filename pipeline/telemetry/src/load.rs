//! How busy the machine is at a moment.

use nix::unistd::{SysconfVar, sysconf};
use schema::machine::Load;

use crate::{Probe, probe::field};

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
        let ticks = self.ticks();
        let column = |index: usize| ticks.get(index).copied().unwrap_or(0);
        let spent: u64 = ticks
            .iter()
            .take(GUEST)
            .fold(0, |sum, tick| sum.saturating_add(*tick));
        let waited = column(IDLE)
            .saturating_add(column(IO_WAIT))
            .saturating_add(column(STEAL));
        Load {
            load_1m: self
                .read("proc/loadavg")
                .and_then(|text| text.split(' ').next()?.parse().ok())
                .unwrap_or(0.0),
            available_memory_bytes: self.available_memory_bytes(),
            steal_ns: nanoseconds(column(STEAL)),
            busy_ns: nanoseconds(spent.saturating_sub(waited)),
            clock_mhz: self.clock_mhz(),
        }
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

    /// The counters of all processors together, in ticks.
    fn ticks(&self) -> Vec<u64> {
        let text = self.read("proc/stat").unwrap_or_default();
        let line = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "));
        line.unwrap_or_default()
            .split_whitespace()
            .filter_map(|tick| tick.parse().ok())
            .collect()
    }

    /// Mean clock of all processors.
    fn clock_mhz(&self) -> Option<f64> {
        let text = self.read("proc/cpuinfo")?;
        let clocks: Vec<f64> = text
            .split("\n\n")
            .filter_map(|processor| field(processor, "cpu MHz")?.parse().ok())
            .collect();
        (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
    }
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
