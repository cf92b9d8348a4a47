//! The state a machine is in.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

use schema::Environment;

use crate::Probe;

/// Environment variables that change how fast engines are begin so: thread pools, kernel
/// libraries, allocators, the dynamic linker, drivers. (The C++ compiler is a part of the keys of what
/// compiles with it.)
const PREFIXES: [&str; 30] = [
    "AOT_INDUCTOR_",
    "ATEN_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DNNL_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "KMP_",
    "LD_PRELOAD",
    "MALLOC_",
    "MKL_",
    "NVIDIA_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "ORT_",
    "PYTORCH_",
    "TF_CUDNN_",
    "TF_ENABLE_",
    "TF_FORCE_",
    "TF_GPU_",
    "TF_NUM_",
    "TF_XLA_",
    "THP_MEM_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TRITON_",
    "XLA_",
];

/// Variables that begin so and are for whoever starts or fills a container: no engine heeds them.
const CONTAINERS: [&str; 6] = [
    "CUDA_VERSION",
    "NVIDIA_CUDA_END_OF_LIFE",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_PRODUCT_NAME",
    "NVIDIA_REQUIRE_",
    "NVIDIA_VISIBLE_DEVICES",
];

/// Holds folders of cargo's beside the user's, so it is taken from [`crate::library_path`].
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

impl Probe {
    /// What a user may set and what changes how fast everything is: the frequency governor, boost,
    /// and the environment variables that engines heed. Part of the key of every heat.
    #[must_use]
    pub fn conditions(&self) -> BTreeMap<String, String> {
        let environment = self.environment();
        let turbo = environment
            .turbo
            .map(|on| if on { "on" } else { "off" }.to_owned());
        let told = [("governor", environment.governor), ("turbo", turbo)];
        let told = told
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        told.chain(environment.variables).collect()
    }

    /// What decides the clock of the processors and somebody may set while they work, by name: their frequency
    /// governors, the highest and the lowest frequency that they are allowed, each told once where several have
    /// the same, and whether they may exceed their base frequency. The highest is left out while the kernel itself
    /// lowers it, as it does where it is hot: that is nobody's setting.
    #[must_use]
    pub fn clock_settings(&self) -> BTreeMap<&'static str, String> {
        let processors = self.folders("sys/devices/system/cpu", "cpu");
        let all = |file: &str, words: fn(String) -> Option<String>| {
            let read = |folder: &String| words(self.read(&format!("{folder}/cpufreq/{file}"))?);
            let told: BTreeSet<String> = processors.iter().filter_map(read).collect();
            let told: Vec<String> = told.into_iter().collect();
            (!told.is_empty()).then(|| told.join(", "))
        };
        let highest = || all("scaling_max_freq", megahertz);
        let turbo = self
            .turbo()
            .map(|on| if on { "on" } else { "off" }.to_owned());
        let told = [
            ("frequency governor", all("scaling_governor", Some)),
            (
                "highest frequency",
                (!self.is_held_down()).then(highest).flatten(),
            ),
            ("lowest frequency", all("scaling_min_freq", megahertz)),
            ("turbo", turbo),
        ];
        let told = told.into_iter();
        told.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// The state that the machine is in.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let cpu = |file: &str| self.read(&format!("sys/devices/system/cpu/{file}"));
        Environment {
            fingerprint: self.fingerprint(),
            kernel: self.read("proc/sys/kernel/osrelease").unwrap_or_default(),
            distribution: self
                .field("etc/os-release", "PRETTY_NAME")
                .unwrap_or_default(),
            governor: cpu("cpu0/cpufreq/scaling_governor"),
            turbo: self.turbo(),
            smt: cpu("smt/active").and_then(|text| switch(&text)),
            virtualization: self.virtualization(),
            memory_limit_bytes: self.memory_limit_bytes(),
            cpu_quota: self.cpu_quota(),
            load: self.load(),
            variables: engine_variables(
                env::vars_os().filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                }),
                &crate::library_path().to_string_lossy(),
            ),
        }
    }

    /// Whether processors may exceed their base frequency. Intel's driver tells the opposite.
    fn turbo(&self) -> Option<bool> {
        let file = |path: &str| {
            self.read(&format!("sys/devices/system/cpu/{path}"))
                .and_then(|text| switch(&text))
        };
        file("cpufreq/boost").or_else(|| file("intel_pstate/no_turbo").map(|off| !off))
    }

    /// The hypervisor's name, or `yes` where only the processor flag tells.
    fn virtualization(&self) -> Option<String> {
        self.read("sys/hypervisor/type").or_else(|| {
            let flags = self.field("proc/cpuinfo", "flags")?;
            let vendor = self.read("sys/class/dmi/id/sys_vendor");
            flags
                .split_whitespace()
                .any(|flag| flag == "hypervisor")
                .then(|| vendor.unwrap_or_else(|| "yes".to_owned()))
        })
    }
}

/// What a file of kHz says.
fn megahertz(khz: String) -> Option<String> {
    let khz: u64 = khz.parse().ok()?;
    Some(format!("{} MHz", khz / 1000))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The variables that change what engines do; `LD_LIBRARY_PATH` holds the user's folders only.
fn engine_variables(
    all: impl Iterator<Item = (String, String)>,
    library_path: &str,
) -> BTreeMap<String, String> {
    let begins = |name: &str, all: &[&str]| all.iter().any(|prefix| name.starts_with(prefix));
    let heeded = |name: &str| begins(name, &PREFIXES) && !begins(name, &CONTAINERS);
    all.filter(|(name, _)| name != LIBRARY_PATH && heeded(name))
        .chain(
            (!library_path.is_empty()).then(|| (LIBRARY_PATH.to_owned(), library_path.to_owned())),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files: two threads of one core each on two processors, limits by cgroup v1.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| Probe::at(root.path()).put(path, text);
        write(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Test CPU @ 2.00GHz\nflags\t\t: fpu avx2 hypervisor\ncpu MHz\t\t: 1000.0\n\nprocessor\t: 1\nmodel name\t: Test CPU\ncpu MHz\t\t: 3000.0\n",
        );
        write(
            "proc/meminfo",
            "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n",
        );
        write("proc/loadavg", "1.50 1.00 0.50 1/100 42\n");
        write(
            "proc/stat",
            "cpu  100 0 50 800 10 0 0 40 5 0\ncpu0 1 2 3\ncpu17 1 2 3\nintr 7\n",
        );
        write("proc/sys/kernel/osrelease", "6.1.0-test\n");
        write("proc/self/cgroup", "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n");
        write(
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712",
        );
        write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4294967296");
        write(
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "9223372036854771712",
        );
        write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000");
        write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
        write(
            "etc/os-release",
            "NAME=\"Test\"\nPRETTY_NAME=\"Test OS 1\"\n",
        );
        write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        write("sys/devices/system/cpu/smt/active", "1\n");
        root
    }

    #[test]
    fn files_of_the_kernel_become_an_environment() {
        let root = machine();
        let found = Probe::at(root.path()).environment();
        assert_eq!(found.fingerprint.cpu_model, "Test CPU @ 2.00GHz");
        assert_eq!(found.fingerprint.cpu_features, ["avx2"]);
        assert_eq!(
            found.fingerprint.memory_gib, 4,
            "the control group's limit is the machine"
        );
        assert_eq!(found.memory_limit_bytes, Some(4 << 30));
        assert_eq!(found.cpu_quota, Some(1.5));
        assert_eq!(found.kernel, "6.1.0-test");
        assert_eq!(found.distribution, "Test OS 1");
        assert_eq!((found.turbo, found.smt), (Some(false), Some(true)));
        assert_eq!(found.governor, None);
        assert_eq!(found.virtualization.as_deref(), Some("yes"));
        assert_eq!(found.load.load_1m, 1.5);
        assert_eq!(found.load.available_memory_bytes, 4 << 30);
        assert_eq!(found.load.clock_mhz, Some(2000.0));
        assert_eq!(Probe::at(root.path()).processors(), 2);
        // 40 of 1,000 ticks stolen, 150 spent; a tick is 10 ms on Linux.
        assert_eq!(
            (found.load.steal_ns, found.load.busy_ns),
            (Some(400_000_000), Some(1_500_000_000))
        );
        assert_eq!(
            Probe::at(root.path()).total_memory_bytes(),
            Some(16 << 30),
            "whatever the control group leaves of it"
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        let found = Probe::at(root.path()).environment();
        assert_eq!(found.fingerprint.cpu_model, "unknown processor");
        assert_eq!(
            (found.governor, found.turbo, found.cpu_quota),
            (None, None, None)
        );
        assert_eq!((found.load.steal_ns, found.load.busy_ns), (None, None));
        assert!(Probe::at(root.path()).clock_settings().is_empty());
        assert!(found.fingerprint.logical_cpus >= 1);
    }

    #[test]
    fn what_somebody_may_set_of_clocks_is_told_of_every_processor() {
        let root = tempfile::tempdir().unwrap();
        let write =
            |path: &str, text: &str| Probe::at(root.path()).put(&format!("sys/{path}"), text);
        let of = |processor: u32, file: &str, content: &str| {
            write(
                &format!("devices/system/cpu/cpu{processor}/cpufreq/{file}"),
                content,
            );
        };
        for processor in [0, 1] {
            of(processor, "scaling_governor", "performance\n");
            of(processor, "scaling_max_freq", "3800000\n");
            of(processor, "scaling_min_freq", "800000\n");
        }
        let told = || Probe::at(root.path()).clock_settings();
        let mut expected = BTreeMap::from([
            ("frequency governor", "performance".to_owned()),
            ("highest frequency", "3800 MHz".to_owned()),
            ("lowest frequency", "800 MHz".to_owned()),
        ]);
        assert_eq!(told(), expected);
        of(1, "scaling_max_freq", "2000000\n");
        expected.insert("highest frequency", "2000 MHz, 3800 MHz".to_owned());
        assert_eq!(told(), expected);
        // A fan is no clock, and a device that cools nothing now has set none.
        for (number, kind, state) in [(0, "Fan", "3\n"), (1, "Processor", "0\n")] {
            write(&format!("class/thermal/cooling_device{number}/type"), kind);
            write(
                &format!("class/thermal/cooling_device{number}/cur_state"),
                state,
            );
        }
        assert_eq!(told(), expected);
        write("class/thermal/cooling_device1/cur_state", "2\n");
        expected.remove("highest frequency");
        assert_eq!(told(), expected);
    }

    #[test]
    fn only_variables_of_engines_are_kept() {
        let all = [
            ("OMP_NUM_THREADS", "2"),
            ("HOME", "x"),
            ("SECRET_TOKEN", "y"),
            ("TF_XLA_FLAGS", "1"),
            ("TF_CLI_CONFIG_FILE", "z"),
            ("MALLOC_ARENA_MAX", "1"),
            ("LD_LIBRARY_PATH", "/cargo:/users/own"),
        ];
        let kept = engine_variables(
            all.into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            "/users/own",
        );
        assert_eq!(kept["LD_LIBRARY_PATH"], "/users/own");
        assert_eq!(
            kept.keys().collect::<Vec<_>>(),
            [
                "LD_LIBRARY_PATH",
                "MALLOC_ARENA_MAX",
                "OMP_NUM_THREADS",
                "TF_XLA_FLAGS"
            ]
        );
    }
}
