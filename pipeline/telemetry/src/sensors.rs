//! The sensors that a machine may have.

use std::{fmt, path::Path, sync::Arc};

use nvml_wrapper::Nvml;
use schema::Device;

use crate::{
    Probe,
    gpu::{self, Library},
};

/// The sensors of a machine. Whether each of them is there, shows when it is asked.
#[derive(Clone)]
pub struct Sensors {
    pub(crate) probe: Probe,
    nvml: Library,
}

impl Sensors {
    /// Those of this machine. NVML is the system's, or that which `PHOTOFINISH_NVML` names.
    #[must_use]
    pub fn system() -> Self {
        Self {
            probe: Probe::system(),
            nvml: gpu::system(),
        }
    }

    /// Those of the machine whose files lie below `root`, with the NVML of this path.
    #[must_use]
    pub fn at(root: &Path, nvml: Option<&Path>) -> Self {
        let lacking = || Err("no NVIDIA driver".to_owned());
        Self {
            probe: Probe::at(root),
            nvml: nvml.map_or_else(lacking, |path| gpu::open(Some(path.as_os_str()))),
        }
    }

    /// NVML, and its number of a CUDA device.
    ///
    /// # Errors
    /// Why its sensors cannot be reached.
    pub(crate) fn card(&self, cuda: u32) -> Result<(Arc<Nvml>, u32), String> {
        let nvml = self.nvml.clone()?;
        let index = gpu::index_of(&nvml, cuda)?;
        Ok((nvml, index))
    }

    /// Why a device is gone, if its driver says that it is.
    #[must_use]
    pub fn lost(&self, device: Device) -> Option<String> {
        let Device::Cuda(cuda) = device else {
            return None;
        };
        let (nvml, index) = self.card(cuda).ok()?;
        let asked = nvml.device_by_index(index);
        let answer = asked.and_then(|card| card.power_usage());
        let error = answer.err().filter(gpu::is_lost)?;
        Some(gpu::lost(cuda, &error))
    }

    pub(crate) fn nvml(&self) -> Result<&Arc<Nvml>, &String> {
        self.nvml.as_ref()
    }
}

impl fmt::Debug for Sensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sensors")
            .field("probe", &self.probe)
            .field("nvml", &self.nvml.as_ref().map(|_| "open"))
            .finish()
    }
}
