//! Energy counters of processors: Intel's "running average power limit", which AMD's processors have, too,
//! as the kernel shows it (Documentation/power/powercap/powercap.rst).

use std::{fs::File, io::ErrorKind, os::unix::fs::FileExt as _, time::Duration};

use crate::Probe;

/// Folders of zones, the first that has packages counts: the second shows the same packages by another
/// way.
const KINDS: [&str; 2] = ["intel-rapl:", "intel-rapl-mmio:"];

/// More than a package can take, or the board of a GPU: a counter that seems to say so was set back, or elsewhere.
const MOST_WATTS: f64 = 5000.0;

/// Whether a device can have taken so much energy in so much time.
pub(crate) fn is_possible(energy_uj: u64, time: Duration) -> bool {
    // A moment has no power worth telling.
    energy_uj as f64 / 1e6 <= MOST_WATTS * time.as_secs_f64().max(0.1)
}

/// The counters of all packages. What is within a package, its cores say, is in its counter; memory has
/// zones of its own, not everywhere, and is left out.
#[derive(Debug)]
pub(crate) struct Rapl {
    packages: Vec<Package>,
}

#[derive(Debug)]
struct Package {
    counter: File,
    path: String,
    /// Where it begins anew, in microjoules.
    range_uj: u64,
}

/// What all counters showed, in microjoules.
pub(crate) type Counters = Vec<u64>;

impl Rapl {
    /// # Errors
    /// Why there is nothing to be read, and what to do.
    pub(crate) fn open(probe: &Probe) -> Result<Self, String> {
        let packages_of = |kind: &str| {
            let zones = probe.folders("sys/class/powercap", kind);
            let is_package = |zone: &String| {
                let name = probe.read(&format!("{zone}/name"));
                name.is_some_and(|name| name.starts_with("package"))
            };
            zones.into_iter().filter(is_package).collect::<Vec<_>>()
        };
        let zones = KINDS.into_iter().map(packages_of);
        let mut zones = zones.into_iter().find(|zones| !zones.is_empty());
        let zones = zones.get_or_insert_default();
        if zones.is_empty() {
            return Err(
                "no energy counter of a processor: the kernel shows no package in \
                 /sys/class/powercap (load intel_rapl_msr; virtual machines have none)"
                    .to_owned(),
            );
        }
        zones.sort();
        let packages = zones.iter().map(|zone| Package::open(probe, zone));
        Ok(Self {
            packages: packages.collect::<Result<_, _>>()?,
        })
    }

    /// # Errors
    /// A counter that cannot be read.
    pub(crate) fn read(&self) -> Result<Counters, String> {
        self.packages.iter().map(Package::read).collect()
    }

    /// Energy between two readings, in microjoules. Counters may have begun anew once in between: the
    /// longest time that takes is minutes at full power.
    ///
    /// # Errors
    /// A counter that was set back.
    pub(crate) fn between(
        &self,
        before: &Counters,
        after: &Counters,
        time: Duration,
    ) -> Result<u64, String> {
        let mut sum = 0_u64;
        for (package, (before, after)) in self.packages.iter().zip(before.iter().zip(after)) {
            let taken = match after.checked_sub(*before) {
                Some(taken) => taken,
                None => package
                    .range_uj
                    .saturating_sub(*before)
                    .saturating_add(*after),
            };
            if !is_possible(taken, time) {
                return Err(format!("the counter {} was set back", package.path));
            }
            sum = sum.saturating_add(taken);
        }
        Ok(sum)
    }
}

impl Package {
    fn open(probe: &Probe, zone: &str) -> Result<Self, String> {
        let path = format!("/{zone}/energy_uj");
        let counter = File::open(probe.root.join(format!("{zone}/energy_uj")));
        let counter = counter.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => format!(
                "{path} may be read by root alone: `sudo chmod a+r \
                 /sys/class/powercap/*/energy_uj` lets others until the next start"
            ),
            _ => format!("{path}: {error}"),
        })?;
        let range_uj = probe.number(&format!("{zone}/max_energy_range_uj"));
        let package = Self {
            counter,
            range_uj: range_uj.ok_or_else(|| format!("/{zone}/max_energy_range_uj: no number"))?,
            path,
        };
        package.read()?;
        Ok(package)
    }

    fn read(&self) -> Result<u64, String> {
        let mut bytes = [0; 32];
        let count = self.counter.read_at(&mut bytes, 0);
        let count = count.map_err(|error| format!("{}: {error}", self.path))?;
        let text = bytes.get(..count).unwrap_or_default();
        let number = str::from_utf8(text).ok().map(str::trim);
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("{}: no number", self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;

    fn zone(root: &Path, folder: &str, name: &str, energy_uj: u64) {
        let zone = root.join("sys/class/powercap").join(folder);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), name).unwrap();
        fs::write(zone.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
        fs::write(zone.join("max_energy_range_uj"), "1000000\n").unwrap();
    }

    #[test]
    fn packages_are_added_up_across_the_end_of_their_range() {
        let root = tempfile::tempdir().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", 999_000);
        zone(root.path(), "intel-rapl:1", "package-1", 5_000);
        // Within a package, all of the machine, the same once more: none counts.
        zone(root.path(), "intel-rapl:0:0", "core", 1);
        zone(root.path(), "intel-rapl:2", "psys", 1);
        zone(root.path(), "intel-rapl-mmio:0", "package-0", 1);
        let rapl = Rapl::open(&Probe::at(root.path())).unwrap();
        let before = rapl.read().unwrap();
        assert_eq!(before, [999_000, 5_000]);
        zone(root.path(), "intel-rapl:0", "package-0", 500);
        zone(root.path(), "intel-rapl:1", "package-1", 6_000);
        let after = rapl.read().unwrap();
        let time = Duration::from_millis(1);
        assert_eq!(rapl.between(&before, &after, time), Ok(1_500 + 1_000));
        // Set back to nothing: of 262 kJ, which is what the range of a counter is, most would be gone.
        let package = Rapl {
            packages: vec![Package {
                range_uj: 262_143_328_850,
                path: "/sys/a".to_owned(),
                counter: File::open("/dev/null").unwrap(),
            }],
        };
        let time = Duration::from_secs(10);
        let set_back = package.between(&vec![100_000_000], &vec![7], time);
        assert_eq!(set_back, Err("the counter /sys/a was set back".to_owned()));
    }

    #[test]
    fn what_is_lacking_is_named_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let refused = Rapl::open(&Probe::at(root.path())).unwrap_err();
        assert!(refused.contains("/sys/class/powercap"), "{refused}");
        zone(root.path(), "intel-rapl:0", "package-0", 1);
        let counter = root
            .path()
            .join("sys/class/powercap/intel-rapl:0/energy_uj");
        fs::write(&counter, "nonsense").unwrap();
        let refused = Rapl::open(&Probe::at(root.path())).unwrap_err();
        assert!(
            refused.contains("intel-rapl:0/energy_uj: no number"),
            "{refused}"
        );
        fs::set_permissions(&counter, fs::Permissions::from_mode(0o000)).unwrap();
        // Root reads it all the same, and finds no number there.
        let refused = Rapl::open(&Probe::at(root.path())).unwrap_err();
        let told = if nix::unistd::geteuid().is_root() {
            "no number"
        } else {
            "chmod a+r"
        };
        assert!(refused.contains(told), "{refused}");
    }
}
