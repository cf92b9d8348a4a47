//! What the machine is.

use std::{collections::BTreeSet, env::consts};

use nix::{sched::sched_getaffinity, unistd::Pid};
use schema::Fingerprint;

use crate::{Probe, gpu, load::kibibytes, probe::field};

/// Instruction sets by which engines choose their kernels.
const FEATURES: [&str; 14] = [
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_fp16",
    "amx_int8",
];

impl Probe {
    /// What the machine is.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let cpus = self.usable_cpus();
        let text = self.read("proc/cpuinfo").unwrap_or_default();
        let flags: BTreeSet<&str> = field(&text, "flags")
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let quota = self
            .cpu_quota()
            .map_or(u32::MAX, |quota| quota.ceil().max(1.0) as u32);
        Fingerprint {
            cpu_model: field(&text, "model name")
                .unwrap_or("unknown processor")
                .to_owned(),
            cpu_features: FEATURES
                .into_iter()
                .filter(|feature| flags.contains(feature))
                .map(str::to_owned)
                .collect(),
            logical_cpus: count(&cpus).min(quota),
            physical_cores: self.physical_cores(&cpus).min(quota),
            memory_gib: self.memory_bytes() >> 30,
            platform: format!("{} {}", consts::OS, consts::ARCH),
            gpus: gpu::list(),
        }
    }

    /// Processors that this process may run on.
    fn usable_cpus(&self) -> Vec<usize> {
        let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
            return vec![0];
        };
        let limit = nix::sched::CpuSet::count();
        (0..limit)
            .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
            .collect()
    }

    /// Cores among the processors: those that share a core's identity count once.
    fn physical_cores(&self, cpus: &[usize]) -> u32 {
        let cores: BTreeSet<_> = cpus
            .iter()
            .map(|cpu| {
                let part =
                    |name| self.read(&format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
                // A kernel that does not tell: each processor counts as a core of its own.
                match (part("physical_package_id"), part("core_id")) {
                    (Some(package), Some(core)) => (package, core),
                    _ => (String::new(), cpu.to_string()),
                }
            })
            .collect();
        u32::try_from(cores.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Memory of the machine in bytes, whatever a control group leaves of it; `None` where the kernel does not tell.
    #[must_use]
    pub fn total_memory_bytes(&self) -> Option<u64> {
        kibibytes(&self.field("proc/meminfo", "MemTotal")?)
    }

    /// Memory of the machine, within the control group's limit.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let total = self.total_memory_bytes().unwrap_or(0);
        self.memory_limit_bytes()
            .map_or(total, |limit| total.min(limit))
    }
}

fn count(cpus: &[usize]) -> u32 {
    u32::try_from(cpus.len()).unwrap_or(u32::MAX).max(1)
}
