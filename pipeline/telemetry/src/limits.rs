//! What the container or control group leaves of the machine.

use std::path::PathBuf;

use crate::Probe;

/// Control groups report "no limit" as a number near 2⁶³, rounded down to pages.
const NO_LIMIT_BYTES: u64 = 1 << 60;

impl Probe {
    /// Memory limit of the control group in bytes, the tightest one above this process; `None`
    /// where there is none.
    pub(crate) fn memory_limit_bytes(&self) -> Option<u64> {
        let unified = self
            .group("")
            .map(|group| ("sys/fs/cgroup", group, "memory.max"));
        let legacy = self
            .group("memory")
            .map(|group| ("sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
        [unified, legacy]
            .into_iter()
            .flatten()
            .flat_map(|(mount, group, file)| {
                ancestors(&group)
                    .into_iter()
                    .filter_map(move |folder| self.number(&format!("{mount}{folder}/{file}")))
            })
            .filter(|&limit| limit < NO_LIMIT_BYTES)
            .min()
    }

    /// Processor limit of the control group in processors, the tightest one above this process;
    /// `None` where there is none.
    pub(crate) fn cpu_quota(&self) -> Option<f64> {
        self.tightest_quota().map(|(quota, _)| quota)
    }

    /// The file that tells for how long that limit has held processes back; `None` where there is no limit.
    pub(crate) fn throttle(&self) -> Option<PathBuf> {
        let (_, folder) = self.tightest_quota()?;
        Some(self.root.join(folder).join("cpu.stat"))
    }

    /// The tightest quota in processors, and the folder of its group.
    fn tightest_quota(&self) -> Option<(f64, String)> {
        let unified = self
            .group("")
            .into_iter()
            .flat_map(|group| ancestors(&group))
            .filter_map(|group| {
                let folder = format!("sys/fs/cgroup{group}");
                let text = self.read(&format!("{folder}/cpu.max"))?;
                let (quota, period) = text.split_once(' ')?;
                Some((share(quota, period)?, folder))
            });
        let legacy = self
            .group("cpu")
            .into_iter()
            .flat_map(|group| ancestors(&group))
            .filter_map(|group| {
                let folder = format!("sys/fs/cgroup/cpu{group}");
                let file = |name| self.read(&format!("{folder}/{name}"));
                let quota = share(&file("cpu.cfs_quota_us")?, &file("cpu.cfs_period_us")?)?;
                Some((quota, folder))
            });
        let all = unified.chain(legacy);
        all.min_by(|(one, _), (other, _)| one.total_cmp(other))
    }

    /// The path of this process in the hierarchy that has the controller.
    fn group(&self, controller: &str) -> Option<String> {
        let text = self.read("proc/self/cgroup")?;
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            controllers
                .split(',')
                .any(|name| name == controller)
                .then(|| path.to_owned())
        })
    }
}

/// For how long a quota has held a group's processes back, on every processor by itself, in nanoseconds: from the text
/// of its `cpu.stat`, in which the unified hierarchy counts microseconds.
pub(crate) fn throttled_ns(stat: &str) -> Option<u64> {
    let number = |name: &str| {
        let told = stat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        told?.trim().parse::<u64>().ok()
    };
    let unified = number("throttled_usec").map(|told| told.saturating_mul(1000));
    unified.or_else(|| number("throttled_time"))
}

/// A path of a control group and those above it, the root as the empty text.
fn ancestors(group: &str) -> Vec<String> {
    let mut folders = vec![String::new()];
    for part in group.split('/').filter(|part| !part.is_empty()) {
        let parent = folders.last().cloned().unwrap_or_default();
        folders.push(format!("{parent}/{part}"));
    }
    folders
}

/// Quota over period; `None` for no quota.
fn share(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.parse().ok()?;
    let period: f64 = period.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_quota_holds_back_is_told_by_the_group_that_has_it() {
        let root = tempfile::tempdir().unwrap();
        let probe = Probe::at(root.path());
        probe.put("proc/self/cgroup", "0::/kube/pod");
        probe.put("sys/fs/cgroup/kube/pod/cpu.max", "max 100000");
        assert_eq!(probe.throttle(), None);
        probe.put("sys/fs/cgroup/kube/cpu.max", "150000 100000");
        assert_eq!(probe.cpu_quota(), Some(1.5));
        let told = probe.throttle();
        assert_eq!(told, Some(root.path().join("sys/fs/cgroup/kube/cpu.stat")));
    }

    #[test]
    fn both_hierarchies_count_what_is_held_back() {
        for (text, told) in [
            (
                "usage_usec 9\nnr_throttled 3\nthrottled_usec 250\n",
                Some(250_000),
            ),
            (
                "nr_periods 7\nnr_throttled 3\nthrottled_time 250\n",
                Some(250),
            ),
            ("usage_usec 9\n", None),
            ("throttled_usec much\n", None),
            ("", None),
        ] {
            assert_eq!(throttled_ns(text), told, "{text}");
        }
    }
}
