//! Memory of this process, from the kernel.

use schema::{Outcome, OutcomeKind, protocol::Memory};

/// Resident set and its peak; device memory as the engine tells it.
pub(crate) fn read(device: Option<(u64, u64)>) -> Result<Memory, Outcome> {
    let path = "/proc/self/status";
    let status = std::fs::read_to_string(path).map_err(|error| {
        Outcome::new(OutcomeKind::Crashed, format!("cannot read {path}: {error}"))
    })?;
    let field = |name: &str| {
        crate::procfs::status_bytes(&status, name)
            .ok_or_else(|| Outcome::new(OutcomeKind::Crashed, format!("{path} has no {name}")))
    };
    Ok(Memory {
        resident_bytes: field("VmRSS")?,
        peak_resident_bytes: field("VmHWM")?,
        device_bytes: device.map(|(current, _)| current),
        peak_device_bytes: device.map(|(_, peak)| peak),
        other_ranks: Vec::new(),
    })
}
