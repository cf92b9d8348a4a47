//! A control group that limits a worker's memory, where this process may make one.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::abandoned;
use crate::procfs;

/// What the names of our groups begin with; supervisor and number follow.
const PREFIX: &str = "photofinish-";

/// Numbers the groups of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A control group of one worker's own; removed when dropped, when the worker is gone.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    hierarchy: Hierarchy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    /// A controller to itself: `memory.limit_in_bytes`.
    V1,
    /// Unified: `memory.max`.
    V2,
}

impl Cgroup {
    /// A new group below one that this process is in, or below one of its ancestors, with
    /// descriptors for a worker to join it; `None` where that is not permitted.
    pub(super) fn create(limit_bytes: u64) -> Option<(Self, OwnedFd)> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
        places(&mounts, &membership)
            .into_iter()
            .find_map(|(parent, hierarchy)| Self::create_in(&parent, hierarchy, limit_bytes).ok())
    }

    fn create_in(
        parent: &Path,
        hierarchy: Hierarchy,
        limit_bytes: u64,
    ) -> io::Result<(Self, OwnedFd)> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        remove_abandoned(parent, hierarchy);
        if hierarchy == Hierarchy::V2 {
            // Without this, children of the group have no memory controller; where it is not set,
            // setting it is tried, which works unless the group itself holds processes.
            let control = parent.join("cgroup.subtree_control");
            if !fs::read_to_string(&control)?
                .split_whitespace()
                .any(|name| name == "memory")
            {
                set(&control, "+memory")?;
            }
        }
        fs::create_dir(&folder)?;
        let group = Self { folder, hierarchy };
        group.limit(limit_bytes)?;
        let procs = OpenOptions::new()
            .write(true)
            .open(group.folder.join("cgroup.procs"))?;
        Ok((group, procs.into()))
    }

    fn limit(&self, limit_bytes: u64) -> io::Result<()> {
        let limit = limit_bytes.to_string();
        match self.hierarchy {
            Hierarchy::V1 => {
                set(&self.folder.join("memory.limit_in_bytes"), &limit)?;
                // Without swap accounting this file is not there, and neither is the need.
                let _ = set(&self.folder.join("memory.memsw.limit_in_bytes"), &limit);
            }
            Hierarchy::V2 => {
                set(&self.folder.join("memory.max"), &limit)?;
                let _ = set(&self.folder.join("memory.swap.max"), "0");
                let _ = set(&self.folder.join("memory.oom.group"), "1");
            }
        }
        Ok(())
    }

    /// How often the kernel killed a process of the group for want of memory.
    pub(super) fn kills(&self) -> u64 {
        let file = match self.hierarchy {
            Hierarchy::V1 => "memory.oom_control",
            Hierarchy::V2 => "memory.events",
        };
        fs::read_to_string(self.folder.join(file))
            .ok()
            .and_then(|text| counter(&text, "oom_kill"))
            .unwrap_or(0)
    }

    /// Whether the group ever came to its limit.
    pub(super) fn came_to_its_limit(&self) -> bool {
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).ok();
        let number = |file| read(file)?.trim().parse().ok();
        match self.hierarchy {
            // Its counters of failures stay at 0 on some kernels. What is charged is charged in
            // pages, large ones among them, so that the last of the limit may never be used.
            Hierarchy::V1 => {
                let most: Option<u64> = number("memory.max_usage_in_bytes");
                let limit: Option<u64> = number("memory.limit_in_bytes");
                most.zip(limit)
                    .is_some_and(|(most, limit)| most >= limit - limit / 64)
            }
            Hierarchy::V2 => {
                let times = read("memory.events").and_then(|text| counter(&text, "oom"));
                times.is_some_and(|times| times > 0)
            }
        }
    }
}

impl Cgroup {
    /// Whether a process is a member.
    pub(super) fn holds(&self, pid: Pid) -> bool {
        self.members().contains(&pid)
    }

    /// Kills all members but the one to be spared, and waits a moment until they are gone.
    pub(super) fn kill_all(&self, spared: Option<Pid>) {
        for _ in 0..100 {
            let mut members = self.members();
            members.retain(|&pid| Some(pid) != spared);
            if members.is_empty() {
                return;
            }
            for pid in members {
                let _ = kill(pid, Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn members(&self) -> Vec<Pid> {
        let members = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        // A member in another namespace of process numbers shows as 0.
        let numbers = members.lines().filter_map(|line| line.parse().ok());
        numbers.filter(|&pid| pid > 1).map(Pid::from_raw).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A group can be removed a moment after its last process is reaped.
        for _ in 0..20 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}

/// Removes groups whose supervisor was killed, with what is left in them, unless that is somebody
/// else's: the number of a supervisor in another container means nothing here.
fn remove_abandoned(parent: &Path, hierarchy: Hierarchy) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let supervisor = entry.file_name().to_str().and_then(supervisor);
        if supervisor.is_some_and(abandoned::is_gone) {
            let folder = entry.path();
            let group = Cgroup { folder, hierarchy };
            let members = group.members();
            if members.iter().all(|&pid| procfs::is_neighbour(pid)) {
                group.kill_all(None);
            }
            // Dropping it removes it. The kernel removes none that is in use.
        }
    }
}

/// The process that made the group of this name.
fn supervisor(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn set(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(value.as_bytes())
}

/// A number in lines of the form `name number`.
pub(super) fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(key, value)| (key == name).then(|| value.trim().parse().ok())?)
}

/// Groups below which one may be made, the most likely first: this process's own memory group and
/// its ancestors.
fn places(mounts: &str, membership: &str) -> Vec<(PathBuf, Hierarchy)> {
    membership
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let hierarchy = if controllers.split(',').any(|name| name == "memory") {
                Hierarchy::V1
            } else if number == "0" && controllers.is_empty() {
                Hierarchy::V2
            } else {
                return None;
            };
            let (root, point) = mounts.lines().find_map(|mount| mounted(mount, hierarchy))?;
            let below = Path::new(path).strip_prefix(root).ok()?;
            if below.components().any(|part| part == Component::ParentDir) {
                return None;
            }
            let own: Vec<PathBuf> = below.ancestors().map(|part| point.join(part)).collect();
            Some(own.into_iter().map(move |folder| (folder, hierarchy)))
        })
        .flatten()
        .collect()
}

/// Root and mount point of a line of `mountinfo`, if it mounts this hierarchy (man 5 proc: fields
/// 4 and 5, and after the separator the type, the source and the options).
fn mounted(line: &str, hierarchy: Hierarchy) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (filesystem, options) = (kind.next()?, kind.nth(1)?);
    let wanted = match hierarchy {
        Hierarchy::V1 => filesystem == "cgroup" && options.split(',').any(|name| name == "memory"),
        Hierarchy::V2 => filesystem == "cgroup2",
    };
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    wanted.then(|| (PathBuf::from(root), PathBuf::from(point)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_own_group_and_its_ancestors() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let membership = "0::/user.slice/user-1000.slice/app.scope\n";
        let found = places(mounts, membership);
        let folders: Vec<_> = found
            .iter()
            .map(|(folder, _)| folder.to_str().unwrap())
            .collect();
        assert_eq!(
            folders,
            [
                "/sys/fs/cgroup/user.slice/user-1000.slice/app.scope",
                "/sys/fs/cgroup/user.slice/user-1000.slice",
                "/sys/fs/cgroup/user.slice",
                "/sys/fs/cgroup/",
            ]
        );
        assert!(
            found
                .iter()
                .all(|(_, hierarchy)| *hierarchy == Hierarchy::V2)
        );
    }

    #[test]
    fn the_first_version_has_its_own_hierarchy() {
        let mounts = "31 30 0:27 /docker/a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      33 30 0:29 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let membership = "5:cpu:/docker/a\n4:memory:/docker/a/b\n0::/\n";
        let found = places(mounts, membership);
        assert_eq!(
            found,
            [
                (PathBuf::from("/sys/fs/cgroup/memory/b"), Hierarchy::V1),
                (PathBuf::from("/sys/fs/cgroup/memory/"), Hierarchy::V1),
            ]
        );
        assert_eq!(places(mounts, "4:memory:/../../elsewhere\n"), []);
        assert_eq!(places("nonsense\n", "nonsense\n4:memory\n"), []);
    }

    #[test]
    fn a_group_names_its_supervisor() {
        assert_eq!(supervisor("photofinish-12-0"), Some(12));
        for other in ["photofinish-12", "photofinish-a-0", "user.slice", ""] {
            assert_eq!(supervisor(other), None);
        }
    }

    /// Where groups may be made; nothing is tried elsewhere.
    #[test]
    fn an_abandoned_group_goes_with_what_is_in_it() {
        let Some((group, _)) = Cgroup::create(1 << 30) else {
            return;
        };
        let (parent, hierarchy) = (group.folder.parent().unwrap(), group.hierarchy);
        let mut supervisor = std::process::Command::new("true").spawn().unwrap();
        supervisor.wait().unwrap();
        let abandoned = parent.join(format!("{PREFIX}{}-0", supervisor.id()));
        fs::create_dir(&abandoned).unwrap();
        let mut left = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        set(&abandoned.join("cgroup.procs"), &left.id().to_string()).unwrap();
        // This process must reap it before the group can go.
        let reaped = thread::spawn(move || left.wait().unwrap());
        remove_abandoned(parent, hierarchy);
        assert!(!reaped.join().unwrap().success());
        assert!(!abandoned.exists() && group.folder.exists());
    }

    #[test]
    fn counters_are_read_by_their_whole_name() {
        let events = "low 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(counter(events, "oom_kill"), Some(1));
        assert_eq!(
            counter("oom_kill_disable 0\nunder_oom 0\n", "oom_kill"),
            None
        );
    }
}
