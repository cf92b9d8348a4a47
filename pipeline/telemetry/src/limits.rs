//! What the container or control group leaves of the machine.

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
        let unified = self
            .group("")
            .into_iter()
            .flat_map(|group| ancestors(&group))
            .filter_map(|folder| {
                let text = self.read(&format!("sys/fs/cgroup{folder}/cpu.max"))?;
                let (quota, period) = text.split_once(' ')?;
                share(quota, period)
            });
        let legacy = self
            .group("cpu")
            .into_iter()
            .flat_map(|group| ancestors(&group))
            .filter_map(|folder| {
                let file = |name| self.read(&format!("sys/fs/cgroup/cpu{folder}/{name}"));
                share(&file("cpu.cfs_quota_us")?, &file("cpu.cfs_period_us")?)
            });
        unified.chain(legacy).min_by(f64::total_cmp)
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
