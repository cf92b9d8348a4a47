//! What a machine is (its fingerprint, part of a heat's key) and the state it was in (its
//! environment, kept with every heat).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What decides a speed and does not change by itself. Part of the key of every heat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Processor model, as the kernel names it.
    pub cpu_model: String,
    /// Instruction sets that matter to kernels' choice: `avx2`, `avx512f`, `amx_bf16`, ….
    pub cpu_features: Vec<String>,
    /// Logical processors that this process may use (affinity and container quota).
    pub logical_cpus: u32,
    /// Physical cores among them.
    pub physical_cores: u32,
    /// Memory that this process may use, rounded down to whole GiB.
    pub memory_gib: u64,
    /// Operating system and architecture, for example `linux x86_64`.
    pub platform: String,
    /// GPUs with their drivers, in the order of their indices.
    pub gpus: Vec<Gpu>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// For example `NVIDIA H200`.
    pub name: String,
    /// Version of its driver.
    pub driver: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// The state of a machine when a heat began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// What it is.
    pub fingerprint: Fingerprint,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, for example `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: String,
    /// Frequency governor, where the kernel tells.
    pub governor: Option<String>,
    /// Whether the processor may exceed its base frequency, where the kernel tells.
    pub turbo: Option<bool>,
    /// Whether cores run several threads, where the kernel tells.
    pub smt: Option<bool>,
    /// Hypervisor, where there is one.
    pub virtualization: Option<String>,
    /// Memory limit of the container or control group, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Processor limit of the container or control group, in processors.
    pub cpu_quota: Option<f64>,
    /// The load found.
    pub load: Load,
    /// Environment variables that change what engines do (`OMP_*`, `MKL_*`, `KMP_*`, …).
    pub variables: BTreeMap<String, String>,
}

/// How busy a machine is at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Mean number of runnable tasks over one minute.
    pub load_1m: f64,
    /// Memory that can be had without swapping, in bytes.
    pub available_memory_bytes: u64,
    /// Processor time stolen by the hypervisor since boot, in nanoseconds, over all processors; absent where the
    /// kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<u64>,
    /// Processor time spent by all processes since boot, in nanoseconds, over all processors; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// Mean clock of the processors in MHz, where the kernel tells.
    pub clock_mhz: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_they_were_written_before_their_times_could_be_absent() {
        let before = r#"{"load_1m":0.5,"available_memory_bytes":1,"steal_ns":0,"busy_ns":7,"clock_mhz":null}"#;
        let load: Load = serde_json::from_str(before).unwrap();
        assert_eq!((load.steal_ns, load.busy_ns), (Some(0), Some(7)));
        assert_eq!(serde_json::to_string(&load).unwrap(), before);
        let silent = r#"{"load_1m":0.5,"available_memory_bytes":1,"clock_mhz":null}"#;
        let load: Load = serde_json::from_str(silent).unwrap();
        assert_eq!((load.steal_ns, load.busy_ns), (None, None));
        assert_eq!(serde_json::to_string(&load).unwrap(), silent);
    }
}
