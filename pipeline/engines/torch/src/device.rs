//! The device of a cell: found, or found missing with a reason.

use std::ffi::c_int;

use schema::{Device, Outcome};
use tch::Cuda;

use crate::{
    failure::{Fault, unavailable},
    shim,
};

/// PyTorch's CUDA kernels, beside `libtorch_cpu.so` in the wheel.
const CUDA_LIBRARY: &str = "libtorch_cuda.so";

/// A device that PyTorch can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The processors.
    Cpu,
    /// A CUDA device.
    Cuda(c_int),
}

impl Place {
    /// Makes the device ready.
    ///
    /// The CUDA library is opened before anything else asks PyTorch about CUDA: the first
    /// question caches its answer for good.
    pub(crate) fn open(device: Device) -> Result<Self, Outcome> {
        let Device::Cuda(index) = device else {
            return Ok(Self::Cpu);
        };
        shim::load_cuda(CUDA_LIBRARY)
            .map_err(|error| unavailable(format!("{CUDA_LIBRARY} cannot be loaded: {error}")))?;
        if !Cuda::is_available() {
            return Err(unavailable(
                "PyTorch finds no CUDA device or driver".to_owned(),
            ));
        }
        let count = Cuda::device_count();
        if i64::from(index) >= count {
            return Err(unavailable(format!(
                "there is no {device}: PyTorch finds {count} CUDA device(s)"
            )));
        }
        c_int::try_from(index)
            .map(Self::Cuda)
            .map_err(|_| unavailable(format!("there is no {device}")))
    }

    /// The same in `tch`'s words.
    pub(crate) fn tch(self) -> tch::Device {
        match self {
            Self::Cpu => tch::Device::Cpu,
            Self::Cuda(index) => tch::Device::Cuda(usize::try_from(index).unwrap_or(0)),
        }
    }

    /// So many places for replicas, this one first: the processors for all of them, or a CUDA device for each.
    pub(crate) fn replicas(self, count: u32) -> Result<Vec<tch::Device>, Outcome> {
        let Self::Cuda(first) = self else {
            return Ok(vec![tch::Device::Cpu; count as usize]);
        };
        let first = usize::try_from(first).unwrap_or(0);
        let there = usize::try_from(Cuda::device_count()).unwrap_or(0);
        let last = first + count as usize;
        if last > there {
            return Err(unavailable(format!(
                "{count} replicas from cuda:{first} on take {last} CUDA devices: PyTorch finds {there}"
            )));
        }
        Ok((first..last).map(tch::Device::Cuda).collect())
    }

    /// Waits until the device has done everything it was asked. A CPU has: eager PyTorch returns
    /// from an operator, and from `backward`, when it is done.
    pub(crate) fn synchronize(self) -> Result<(), Outcome> {
        match self {
            Self::Cpu => Ok(()),
            Self::Cuda(index) => {
                shim::synchronize(index).map_err(|error| Fault::from(error).at("synchronisation"))
            }
        }
    }

    /// Bytes in use and at the peak; `None` on a CPU.
    pub(crate) fn memory(self) -> Option<(u64, u64)> {
        match self {
            Self::Cpu => None,
            Self::Cuda(index) => shim::device_memory(index).ok(),
        }
    }
}
