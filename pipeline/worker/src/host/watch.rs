//! Watching how much memory a worker holds.

use std::fs;

use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::procfs;

/// The worker itself is looked at every tick; its children every so many, since finding them
/// costs a walk through all processes.
const TICKS_PER_WALK: u32 = 5;

/// Resident memory of a worker and of the other processes of its launch.
#[derive(Debug)]
pub(super) struct Watch {
    leader: Pid,
    page_bytes: u64,
    ticks: u32,
    others_bytes: u64,
    resident_bytes: u64,
    peak_bytes: u64,
}

impl Watch {
    pub(super) fn new(leader: Pid) -> Self {
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE)
            .ok()
            .flatten()
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(4096);
        Self {
            leader,
            page_bytes,
            ticks: 0,
            others_bytes: 0,
            resident_bytes: 0,
            peak_bytes: 0,
        }
    }

    /// Looks; gives what the launch holds now, in bytes, or what the worker alone ever held, if that is
    /// more: what it took and gave back between two looks, the kernel has seen. `others` finds its
    /// other processes.
    pub(super) fn look<I: IntoIterator<Item = Pid>>(&mut self, others: impl FnOnce() -> I) -> u64 {
        if self.ticks.is_multiple_of(TICKS_PER_WALK) {
            self.others_bytes = self.unshared_bytes(others());
        }
        self.ticks = self.ticks.wrapping_add(1);
        let held_bytes = self.look_at_leader().saturating_add(self.others_bytes);
        held_bytes.max(self.peak_bytes)
    }

    /// Looks at the worker alone; gives what it holds now, in bytes.
    pub(super) fn look_at_leader(&mut self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.leader));
        let field = |name| {
            status
                .as_ref()
                .ok()
                .and_then(|text| procfs::status_bytes(text, name))
                .unwrap_or(0)
        };
        self.peak_bytes = self.peak_bytes.max(field("VmHWM"));
        let resident_bytes = field("VmRSS");
        // A process that is dead holds nothing, and says nothing of what it held.
        if resident_bytes > 0 {
            self.resident_bytes = resident_bytes;
        }
        resident_bytes
    }

    /// The worker's own resident set when it was last looked at alive; `None` for never.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        (self.resident_bytes > 0).then_some(self.resident_bytes)
    }

    /// The worker's own largest resident set, as far as it was seen; 0 for never.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Memory that these processes hold and do not share.
    fn unshared_bytes(&self, processes: impl IntoIterator<Item = Pid>) -> u64 {
        processes
            .into_iter()
            .filter_map(procfs::unshared_pages)
            .fold(0, |sum, pages| {
                sum.saturating_add(pages.saturating_mul(self.page_bytes))
            })
    }
}
