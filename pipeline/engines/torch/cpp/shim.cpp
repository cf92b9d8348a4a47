// What the `tch` crate does not reach: what the CPU can do, inference mode, TF32, memory statistics, device
// synchronisation that reports its errors, and the CUDA library loaded at run time.
// `events.cpp` has the time by a GPU's own clock, `package.cpp` AOTInductor, `profile.cpp` where the time goes.

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include <ATen/autocast_mode.h>
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cpu/Utils.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include "guard.h"

using photofinish::guarded;
using photofinish::last_error;

namespace {

// Calls a function of NVIDIA's driver; the driver is there where a CUDA device is.
template <typename... Arguments>
void call_driver(const char* name, Arguments... arguments) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    const char* reason = dlerror();
    throw std::runtime_error(reason == nullptr ? name : reason);
  }
  const int status = reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
  if (status == 0) return;
  throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(status));
}

}  // namespace

extern "C" {

const char* photofinish_last_error() noexcept { return last_error.c_str(); }

const char* photofinish_torch_version() noexcept { return TORCH_VERSION; }

int photofinish_cpu_capability(const char** name) noexcept {
  return guarded([&] {
    static const std::string capability = at::get_cpu_capability();
    *name = capability.c_str();
  });
}

int photofinish_cpu_has(const char* capability, int* has) noexcept {
  return guarded([&] {
    const auto capabilities = at::cpu::get_cpu_capabilities();
    const auto found = capabilities.find(capability);
    *has = found != capabilities.end() && found->second.isBool() && found->second.toBool();
  });
}

int photofinish_onednn_says(const char* question, int* yes) noexcept {
  return guarded([&] {
    auto& dispatcher = c10::Dispatcher::singleton();
    *yes = dispatcher.findSchemaOrThrow(question, "").typed<bool()>().call();
  });
}

// An initialiser of the library that throws ends the process: the dynamic linker does not let go of its
// lock then, so that other threads would wait for it for ever.
int photofinish_load_cuda(const char* library) noexcept {
  return guarded([&] {
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    const char* reason = dlerror();
    throw std::runtime_error(reason == nullptr ? "dlopen failed" : reason);
  });
}

int photofinish_allow_tf32(int allow) noexcept {
  return guarded([&] {
    at::globalContext().setAllowTF32CuDNN(allow != 0);
    at::globalContext().setAllowTF32CuBLAS(allow != 0);
  });
}

// Whether operators of this thread compute under autocast in bfloat16 from here on; what it keeps of weights that
// were cast is forgotten where it ends, as in `torch.autocast`.
int photofinish_autocast(int cuda, int on) noexcept {
  return guarded([&] {
    const auto device = cuda != 0 ? at::kCUDA : at::kCPU;
    at::autocast::set_autocast_enabled(device, on != 0);
    if (on != 0) {
      at::autocast::set_autocast_dtype(device, at::kBFloat16);
      at::autocast::increment_nesting();
    } else if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
  });
}

int photofinish_synchronize(int device) noexcept {
  return guarded([&] {
    c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)
        ->synchronizeDevice(static_cast<c10::DeviceIndex>(device));
  });
}

// The name and the compute capability of a CUDA device. PyTorch tells them in its CUDA library alone,
// which is not linked. The name gets 256 characters of room, the last of which stays what it is.
int photofinish_gpu(int device, char* name, int* major, int* minor) noexcept {
  return guarded([&] {
    // `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
    const int attributes[] = {75, 76};
    int handle = 0;
    call_driver("cuInit", 0u);
    call_driver("cuDeviceGet", &handle, device);
    call_driver("cuDeviceGetName", name, 255, handle);
    call_driver("cuDeviceGetAttribute", major, attributes[0], handle);
    call_driver("cuDeviceGetAttribute", minor, attributes[1], handle);
  });
}

// Versions of the CUDA runtime, as `CUDART_VERSION` counts, and of cuDNN, as `CUDNN_VERSION` does.
int photofinish_cuda_versions(int64_t* runtime, int64_t* cudnn) noexcept {
  return guarded([&] {
    const auto& hooks = at::detail::getCUDAHooks();
    *runtime = static_cast<int64_t>(hooks.versionCUDART());
    *cudnn = static_cast<int64_t>(hooks.versionRuntimeCuDNN());
  });
}

int photofinish_device_memory(int device, uint64_t* current, uint64_t* peak) noexcept {
  return guarded([&] {
    const auto stats = c10::getDeviceAllocator(c10::DeviceType::CUDA)
                           ->getDeviceStats(static_cast<c10::DeviceIndex>(device));
    const auto aggregate =
        static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    *current = static_cast<uint64_t>(stats.allocated_bytes[aggregate].current);
    *peak = static_cast<uint64_t>(stats.allocated_bytes[aggregate].peak);
  });
}

int photofinish_inference_enter(void** guard) noexcept {
  return guarded([&] { *guard = new c10::InferenceMode(true); });
}

void photofinish_inference_leave(void* guard) noexcept {
  delete static_cast<c10::InferenceMode*>(guard);
}

int photofinish_hardtanh(const at::Tensor* input, double low, double high,
                         at::Tensor** output) noexcept {
  return guarded([&] { *output = new at::Tensor(at::hardtanh(*input, low, high)); });
}

int photofinish_hardtanh_(at::Tensor* tensor, double low, double high) noexcept {
  return guarded([&] { at::hardtanh_(*tensor, low, high); });
}

int photofinish_leaky_relu(const at::Tensor* input, double slope, at::Tensor** output) noexcept {
  return guarded([&] { *output = new at::Tensor(at::leaky_relu(*input, slope)); });
}

int photofinish_forget_gradient(const at::Tensor* tensor) noexcept {
  return guarded([&] { tensor->mutable_grad().reset(); });
}

int photofinish_elu(const at::Tensor* input, double alpha, at::Tensor** output) noexcept {
  return guarded([&] { *output = new at::Tensor(at::elu(*input, alpha)); });
}

}  // extern "C"
