//! Execution providers: who computes, on which device.

use std::{env, path::Path};

use ort::{
    ep,
    memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType},
    session::builder::SessionBuilder,
};
use schema::{Device, Outcome, Precision, TF32_OVERRIDE};

use crate::failure::{failed, unavailable, unsupported};

/// An execution provider and its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// ONNX Runtime's own kernels.
    Cpu,
    /// cuDNN, cuBLAS and ONNX Runtime's CUDA kernels, on the device of this index.
    Cuda(i32),
    /// TensorRT, and CUDA for what it does not take.
    TensorRt(i32),
}

/// The variants of this worker.
pub(crate) const VARIANTS: [&str; 3] = ["cpu", "cuda", "tensorrt"];

impl Provider {
    /// The provider that a variant names, on `device`.
    pub(crate) fn of(variant: &str, device: Device) -> Result<Self, Outcome> {
        let index = match device {
            Device::Cpu => None,
            Device::Cuda(index) => Some(
                i32::try_from(index).map_err(|_| unavailable(format!("there is no {device}")))?,
            ),
        };
        match (variant, index) {
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", Some(index)) => Ok(Self::Cuda(index)),
            ("tensorrt", Some(index)) => Ok(Self::TensorRt(index)),
            ("cpu" | "cuda" | "tensorrt", _) => Err(unsupported(format!(
                "variant `{variant}` does not run on {device}"
            ))),
            _ => Err(unsupported(format!(
                "variant `{variant}` is not known; known: {}",
                VARIANTS.join(", ")
            ))),
        }
    }

    /// Whether the provider computes in `precision`, or how it is not done.
    pub(crate) fn accepts(self, precision: Precision) -> Result<(), Outcome> {
        match (self, precision) {
            (Self::Cpu, Precision::Bf16) => Err(unsupported(
                "the CPU execution provider has no kernels for bf16",
            )),
            (Self::Cpu, Precision::Tf32) => Err(unsupported(
                "tf32 is an arithmetic of NVIDIA GPUs; the device is cpu",
            )),
            (Self::Cuda(_) | Self::TensorRt(_), Precision::Int8Dynamic | Precision::Int8Static) => {
                Err(unsupported(format!(
                    "{} is not run in {precision} here",
                    self.title()
                )))
            }
            (Self::TensorRt(_), Precision::Fp64) => {
                Err(unsupported("TensorRT is not run in fp64 here"))
            }
            _ => Ok(()),
        }
    }

    /// The provider's own name.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPUExecutionProvider",
            Self::Cuda(_) => "CUDAExecutionProvider",
            Self::TensorRt(_) => "TensorrtExecutionProvider, CUDAExecutionProvider",
        }
    }

    /// Where outputs stay; `None` on a CPU.
    pub(crate) fn memory(self) -> Result<Option<MemoryInfo<'static>>, Outcome> {
        let (Self::Cuda(index) | Self::TensorRt(index)) = self else {
            return Ok(None);
        };
        let device = AllocationDevice::CUDA;
        MemoryInfo::new(device, index, AllocatorType::Device, MemoryType::Default)
            .map(Some)
            .map_err(|error| failed("device memory", &error))
    }

    /// Registers the provider, or says which library lacks. A provider that is silently skipped
    /// would measure the CPU under another name.
    pub(crate) fn register(
        self,
        builder: SessionBuilder,
        precision: Precision,
        has_arena: bool,
        library: &Path,
    ) -> Result<SessionBuilder, Outcome> {
        let cuda = |index| {
            // TF32 is on by default; here it is a precision of its own.
            let tf32 = precision == Precision::Tf32;
            ep::CUDA::default()
                .with_device_id(index)
                .with_tf32(tf32)
                .build()
                .error_on_failure()
        };
        let (name, providers) = match self {
            // Its own provider has an arena unless it is told otherwise.
            Self::Cpu if has_arena => return Ok(builder),
            Self::Cpu => return without_arena(builder),
            Self::Cuda(index) => ("libonnxruntime_providers_cuda.so", vec![cuda(index)]),
            Self::TensorRt(index) => {
                let tensorrt = ep::TensorRT::default()
                    .with_device_id(index)
                    .with_fp16(precision == Precision::Fp16)
                    .with_bf16(precision == Precision::Bf16)
                    .build()
                    .error_on_failure();
                (
                    "libonnxruntime_providers_tensorrt.so",
                    vec![tensorrt, cuda(index)],
                )
            }
        };
        if !library.with_file_name(name).exists() {
            return Err(unavailable(format!(
                "{name} is not beside {}: this build of ONNX Runtime has no {}",
                library.display(),
                self.title()
            )));
        }
        if let Self::TensorRt(_) = self {
            check_tf32(precision, env::var(TF32_OVERRIDE).ok().as_deref())?;
        }
        builder
            .with_execution_providers(providers)
            .map_err(|error| unavailable(format!("{}: {}", self.title(), error.message())))
    }
}

/// The CPU's provider, with the C library's memory.
fn without_arena(builder: SessionBuilder) -> Result<SessionBuilder, Outcome> {
    let provider = ep::CPU::default().with_arena_allocator(false).build();
    builder
        .with_execution_providers([provider.error_on_failure()])
        .map_err(|error| failed("memory arena", &error))
}

/// Refuses a process in which TensorRT would compute in another arithmetic than is asked for: it
/// rounds to TF32 unless the variable, of this `value`, says otherwise, and ONNX Runtime has no other
/// switch for it.
fn check_tf32(precision: Precision, value: Option<&str>) -> Result<(), Outcome> {
    let is_off = value.is_some_and(schema::forbids_tf32);
    match precision {
        Precision::Tf32 if is_off => Err(unavailable(format!(
            "{TF32_OVERRIDE}=0 keeps TensorRT from tf32: unset it"
        ))),
        Precision::Tf32 => Ok(()),
        _ if is_off => Ok(()),
        _ => Err(unavailable(format!(
            "TensorRT rounds to tf32 unless {TF32_OVERRIDE}=0 is set: set it, or ask for tf32"
        ))),
    }
}

/// The host's memory, for outputs whose shapes nobody knows beforehand.
pub(crate) fn host_memory() -> Result<MemoryInfo<'static>, Outcome> {
    let device = AllocationDevice::CPU;
    MemoryInfo::new(device, 0, AllocatorType::Device, MemoryType::CPUOutput)
        .map_err(|error| failed("host memory", &error))
}

#[cfg(test)]
mod tests {
    use schema::OutcomeKind;

    use super::*;

    #[test]
    fn variants_and_devices_must_agree() {
        assert_eq!(Provider::of("cpu", Device::Cpu), Ok(Provider::Cpu));
        assert_eq!(Provider::of("cuda", Device::Cuda(1)), Ok(Provider::Cuda(1)));
        for (variant, device) in [
            ("cpu", Device::Cuda(0)),
            ("tensorrt", Device::Cpu),
            ("openvino", Device::Cpu),
        ] {
            let outcome = Provider::of(variant, device).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
        }
        let outcome = Provider::of("cuda", Device::Cuda(u32::MAX)).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    }

    #[test]
    fn tensorrt_rounds_to_tf32_just_where_it_is_asked_to() {
        let check = |precision, value| check_tf32(precision, value).is_ok();
        assert!(check(Precision::Fp32, Some("0")));
        assert!(check(Precision::Fp16, Some(" 0 ")));
        assert!(!check(Precision::Fp32, None));
        assert!(!check(Precision::Fp16, Some("1")));
        assert!(check(Precision::Tf32, None));
        assert!(!check(Precision::Tf32, Some("0")));
    }

    #[test]
    fn precisions_without_kernels_are_refused() {
        assert!(Provider::Cpu.accepts(Precision::Fp16).is_ok());
        assert!(Provider::Cpu.accepts(Precision::Bf16).is_err());
        assert!(Provider::Cpu.accepts(Precision::Tf32).is_err());
        assert!(Provider::Cuda(0).accepts(Precision::Tf32).is_ok());
        assert!(Provider::Cpu.accepts(Precision::Int8Static).is_ok());
        assert!(
            Provider::TensorRt(0)
                .accepts(Precision::Int8Static)
                .is_err()
        );
    }
}
