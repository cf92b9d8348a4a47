//! GPUs, through NVML, the library that comes with NVIDIA's driver.

use nvml_wrapper::{Nvml, error::NvmlError};
use schema::machine::Gpu;

/// The GPUs of this machine; none without a driver.
pub(crate) fn list() -> Vec<Gpu> {
    Nvml::init()
        .and_then(|nvml| describe(&nvml))
        .unwrap_or_default()
}

fn describe(nvml: &Nvml) -> Result<Vec<Gpu>, NvmlError> {
    let driver = nvml.sys_driver_version()?;
    (0..nvml.device_count()?)
        .map(|index| {
            let device = nvml.device_by_index(index)?;
            Ok(Gpu {
                name: device.name()?,
                driver: driver.clone(),
                memory_bytes: device.memory_info()?.total,
            })
        })
        .collect()
}
