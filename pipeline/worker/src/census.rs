//! Who used the processors between two moments.

use std::{cmp::Reverse, collections::BTreeMap};

use nix::unistd::Pid;

use crate::procfs::{self, Seen};

/// A tick of the processor times that the kernel tells: a hundredth of a second.
pub const TICK_NS: u64 = 10_000_000;

/// What processes of other users are called: their names are nobody's business, and results are published.
const ANOTHER_USER: &str = "a process of another user";

/// All processes at a moment.
#[derive(Debug, Clone)]
pub struct Census(Seen);

/// A program that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// What it calls itself, for a reader; several processes may share it.
    pub name: String,
    /// Processor time of all of them.
    pub cpu_ns: u64,
}

/// Whose a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// It is this one, or comes from it.
    Ours,
    /// Another, that calls itself so, for a reader.
    Other(String),
    /// None of this number can be seen.
    Nobody,
}

/// Whose the process of this number is now.
#[must_use]
pub fn owner(pid: u32) -> Owner {
    let pid = Pid::from_raw(pid.cast_signed());
    let (mut at, mut line) = (pid, Seen::new());
    while let Some(stat) = procfs::stat(at).filter(|_| !line.contains_key(&at)) {
        line.insert(at, stat);
        at = stat.parent;
    }
    let line = Census(line);
    match line.0.contains_key(&pid) {
        false => Owner::Nobody,
        true if line.descends(pid, Pid::this()) => Owner::Ours,
        true => Owner::Other(called(pid)),
    }
}

/// What a process of another is called, for a reader.
fn called(pid: Pid) -> String {
    if procfs::is_neighbour(pid) {
        format!("`{}`", procfs::name(pid))
    } else {
        ANOTHER_USER.to_owned()
    }
}

impl Census {
    /// Takes it now: some tens of microseconds a process.
    #[must_use]
    pub fn take() -> Self {
        Self(procfs::seen())
    }

    /// Others than this process and all that descend from it, by what they used since an earlier census,
    /// the most first. Those that have ended by now are not among them.
    #[must_use]
    pub fn others_since(&self, earlier: &Self) -> Vec<Other> {
        self.others(earlier, Pid::this(), called)
    }

    fn others(&self, earlier: &Self, own: Pid, name: impl Fn(Pid) -> String) -> Vec<Other> {
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        for (pid, stat) in &self.0 {
            // A number may have been given to another process since.
            let before = earlier.0.get(pid);
            let before = before.filter(|before| before.start == stat.start);
            let used = before.map_or(0, |before| before.cpu_ticks);
            let ticks = stat.cpu_ticks.saturating_sub(used);
            if ticks > 0 && !self.descends(*pid, own) {
                let sum = by_name.entry(name(*pid)).or_default();
                *sum = sum.saturating_add(ticks.saturating_mul(TICK_NS));
            }
        }
        let others = by_name.into_iter();
        let others = others.map(|(name, cpu_ns)| Other { name, cpu_ns });
        let mut others: Vec<Other> = others.collect();
        others.sort_by_key(|other| Reverse(other.cpu_ns));
        others
    }

    /// Whether a process is this one or comes from it.
    fn descends(&self, pid: Pid, ancestor: Pid) -> bool {
        let mut at = pid;
        // Parents may form a ring while numbers are given anew.
        for _ in 0..=self.0.len() {
            if at == ancestor {
                return true;
            }
            match self.0.get(&at) {
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    }
}

/// Whose most of some processor time was, in words that follow it; empty where nobody had half of it.
#[must_use]
pub fn mostly(others: &[Other], total_ns: u64) -> String {
    match others.first() {
        Some(first) if first.cpu_ns.saturating_mul(2) >= total_ns && total_ns > 0 => {
            format!(", most of it {}", first.name)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::Stat;

    fn stat(parent: i32, cpu_ticks: u64, start: u64) -> Stat {
        Stat {
            parent: Pid::from_raw(parent),
            group: Pid::from_raw(1),
            cpu_ticks,
            start,
            dead: false,
            stopped: false,
        }
    }

    fn census(of: &[(i32, Stat)]) -> Census {
        Census(
            of.iter()
                .map(|(pid, stat)| (Pid::from_raw(*pid), *stat))
                .collect(),
        )
    }

    #[test]
    fn others_are_told_by_what_they_used_since() {
        let before = census(&[
            (1, stat(0, 50, 1)),
            (7, stat(1, 10, 5)),
            (8, stat(7, 10, 6)),
            (20, stat(1, 100, 9)),
            (21, stat(1, 100, 9)),
        ]);
        let after = census(&[
            (1, stat(0, 50, 1)),
            // This process and what it started.
            (7, stat(1, 90, 5)),
            (8, stat(7, 90, 6)),
            (9, stat(8, 90, 50)),
            // Another, one that began since, and one whose number was given anew.
            (20, stat(1, 140, 9)),
            (22, stat(1, 5, 60)),
            (21, stat(1, 30, 70)),
        ]);
        let name = |pid: Pid| if pid.as_raw() == 22 { "b" } else { "a" }.to_owned();
        let others = after.others(&before, Pid::from_raw(7), name);
        let told: Vec<_> = others
            .iter()
            .map(|it| (it.name.as_str(), it.cpu_ns / TICK_NS))
            .collect();
        assert_eq!(told, [("a", 40 + 30), ("b", 5)]);
        assert_eq!(mostly(&others, 140 * TICK_NS), ", most of it a");
        assert_eq!(mostly(&others, 141 * TICK_NS), "");
        assert_eq!(mostly(&[], 0), "");
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let ring = census(&[(3, stat(4, 9, 1)), (4, stat(3, 0, 1))]);
        assert!(!ring.descends(Pid::from_raw(3), Pid::from_raw(7)));
    }

    #[test]
    fn whose_a_process_is_shows_in_its_line() {
        assert_eq!(owner(Pid::this().as_raw().unsigned_abs()), Owner::Ours);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert_eq!(owner(child.id()), Owner::Ours);
        let parent = Pid::parent().as_raw().unsigned_abs();
        let told = owner(parent);
        assert!(matches!(told, Owner::Other(_)), "{told:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(owner(child.id()), Owner::Nobody);
        assert_eq!(owner(u32::MAX), Owner::Nobody);
    }

    #[test]
    fn what_this_process_uses_is_no_other_s() {
        let before = Census::take();
        assert!(!before.0.is_empty());
        let mut sum = 0_u64;
        while Census::take().0.get(&Pid::this()).unwrap().cpu_ticks
            == before.0.get(&Pid::this()).unwrap().cpu_ticks
        {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let own = procfs::name(Pid::this());
        let others = Census::take().others(&before, Pid::this(), |pid| pid.to_string());
        assert!(
            others.iter().all(|it| it.name != Pid::this().to_string()),
            "{own}"
        );
    }
}
