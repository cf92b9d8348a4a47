//! How hot the machine is, and whether heat has slowed it down.

use std::fs;

use crate::Probe;

/// What the kernel tells of heat.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Thermal {
    /// The hottest of the sensors in processors, in degrees Celsius.
    pub hottest_celsius: Option<f64>,
    /// How often a processor was slowed down because of heat since the machine was started: of the one
    /// to which that happened most.
    pub throttled: Option<u64>,
}

impl Probe {
    /// What the kernel tells of heat.
    #[must_use]
    pub fn thermal(&self) -> Thermal {
        let zones = self.folders("sys/class/thermal", "thermal_zone");
        let zones = zones.into_iter().filter_map(|zone| {
            let kind = self.read(&format!("{zone}/type"))?;
            is_of_processors(&kind).then(|| format!("{zone}/temp"))
        });
        let chips = self.folders("sys/class/hwmon", "hwmon");
        let chips = chips.into_iter().filter_map(|chip| {
            let name = self.read(&format!("{chip}/name"))?;
            is_of_processors(&name).then(|| format!("{chip}/temp1_input"))
        });
        // In thousandths; what is below freezing or above what silicon stands is no temperature.
        let celsius = zones
            .chain(chips)
            .filter_map(|file| Some(self.number(&file)? as f64 / 1e3))
            .filter(|celsius| (0.0..150.0).contains(celsius));
        let processors = self.folders("sys/devices/system/cpu", "cpu");
        let counts = processors.iter().flat_map(|processor| {
            ["core_throttle_count", "package_throttle_count"]
                .map(|file| self.number(&format!("{processor}/thermal_throttle/{file}")))
        });
        Thermal {
            hottest_celsius: celsius.max_by(f64::total_cmp),
            throttled: counts.flatten().max(),
        }
    }

    /// Whether the kernel holds the clock of processors down now, as it does where they are hot. What does is called
    /// `Processor` by ACPI, and by its driver elsewhere, as `cpufreq-cpu0`.
    pub(crate) fn is_held_down(&self) -> bool {
        let devices = self.folders("sys/class/thermal", "cooling_device");
        devices.iter().any(|device| {
            let kind = self.read(&format!("{device}/type"));
            let is_of_clocks =
                kind.is_some_and(|kind| kind == "Processor" || kind.contains("cpufreq"));
            let state = || self.number(&format!("{device}/cur_state"));
            is_of_clocks && state().is_some_and(|state| state > 0)
        })
    }

    /// The folders that are called so, with a number behind.
    pub(crate) fn folders(&self, parent: &str, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(parent)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter(|folder| {
                let number = folder.strip_prefix(name);
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            })
            .map(|folder| format!("{parent}/{folder}"))
            .collect()
    }
}

/// Whether a sensor of this name is in a processor, as `x86_pkg_temp`, `coretemp` and `k10temp` are.
fn is_of_processors(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let known = ["cpu", "pkg", "coretemp", "k10temp", "zenpower", "soc"];
    known.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_counters_are_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| Probe::at(root.path()).put(path, text);
        assert_eq!(Probe::at(root.path()).thermal(), Thermal::default());
        let zone = |number: u32, kind: &str, temperature: &str| {
            let zone = format!("sys/class/thermal/thermal_zone{number}");
            write(&format!("{zone}/type"), kind);
            write(&format!("{zone}/temp"), temperature);
        };
        zone(0, "x86_pkg_temp\n", "41000\n");
        // Another's, and a sensor that is off.
        zone(1, "iwlwifi_1\n", "93000\n");
        zone(2, "cpu-thermal\n", "-274000\n");
        write("sys/class/hwmon/hwmon3/name", "k10temp\n");
        write("sys/class/hwmon/hwmon3/temp1_input", "67500\n");
        write("sys/class/hwmon/hwmon4/name", "nvme\n");
        write("sys/class/hwmon/hwmon4/temp1_input", "99000\n");
        let counter = "thermal_throttle/core_throttle_count";
        write(&format!("sys/devices/system/cpu/cpu0/{counter}"), "3\n");
        write(&format!("sys/devices/system/cpu/cpu1/{counter}"), "7\n");
        write(&format!("sys/devices/system/cpu/cpufreq/{counter}"), "9\n");
        let found = Probe::at(root.path()).thermal();
        assert_eq!(
            (found.hottest_celsius, found.throttled),
            (Some(67.5), Some(7))
        );
    }
}
