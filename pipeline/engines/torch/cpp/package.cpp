// AOTInductor's packages (`.pt2`): loaded, fed and run as a C++ program would.

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include "guard.h"

using photofinish::guarded;

namespace {

struct Package {
  Package(const char* path, int device)
      : loader(path, "model", /*run_single_threaded=*/false, /*num_runners=*/1,
               static_cast<c10::DeviceIndex>(device)) {}

  torch::inductor::AOTIModelPackageLoader loader;
  // What every run reads, in the package's order.
  std::vector<at::Tensor> inputs;
  // What gets the gradients of a run, in the order in which it gives them.
  std::vector<at::Tensor> weights;
  std::vector<std::string> constants;
  std::string facts;
};

std::vector<at::Tensor> tensors(const at::Tensor* const* from, size_t count) {
  std::vector<at::Tensor> into;
  into.reserve(count);
  for (size_t index = 0; index < count; ++index) into.push_back(*from[index]);
  return into;
}

}  // namespace

extern "C" {

// Makes a library known to the dynamic linker by the name that it holds, for packages that ask for
// it and need nothing of it.
int photofinish_provide_library(const unsigned char* bytes, size_t size) {
  return guarded([&] {
    const int file = memfd_create("photofinish-library", MFD_CLOEXEC);
    if (file < 0) throw std::runtime_error("memfd_create failed");
    size_t written = 0;
    while (written < size) {
      const ssize_t count = write(file, bytes + written, size - written);
      if (count <= 0) {
        close(file);
        throw std::runtime_error("a file in memory cannot be written");
      }
      written += static_cast<size_t>(count);
    }
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    const void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    const char* reason = library == nullptr ? dlerror() : nullptr;
    const std::string error = reason == nullptr ? "dlopen failed" : reason;
    close(file);
    if (library == nullptr) throw std::runtime_error(error);
  });
}

// `device` is the number of a CUDA device, or -1.
int photofinish_package_load(const char* path, int device, void** package) {
  return guarded([&] {
    auto loaded = std::make_unique<Package>(path, device);
    loaded->constants = loaded->loader.get_constant_fqns();
    loaded->facts = loaded->loader.get_metadata()["photofinish"];
    *package = loaded.release();
  });
}

void photofinish_package_free(void* package) { delete static_cast<Package*>(package); }

// What was written into the package about it, or nothing.
const char* photofinish_package_facts(const void* package) {
  return static_cast<const Package*>(package)->facts.c_str();
}

size_t photofinish_package_constants(const void* package) {
  return static_cast<const Package*>(package)->constants.size();
}

// Null beyond the last.
const char* photofinish_package_constant(const void* package, size_t index) {
  const auto& constants = static_cast<const Package*>(package)->constants;
  return index < constants.size() ? constants[index].c_str() : nullptr;
}

// Gives the package all of its constants, which it reads where they lie.
int photofinish_package_hold(void* package, const char* const* names,
                             const at::Tensor* const* constants, size_t count) {
  return guarded([&] {
    std::unordered_map<std::string, at::Tensor> held;
    for (size_t index = 0; index < count; ++index) {
      held.emplace(names[index], constants[index]->detach());
    }
    static_cast<Package*>(package)->loader.load_constants(
        held, /*use_inactive=*/false, /*check_full_update=*/true, /*user_managed=*/true);
  });
}

int photofinish_package_feed(void* package, const at::Tensor* const* inputs, size_t input_count,
                             const at::Tensor* const* weights, size_t weight_count) {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    fed.inputs = tensors(inputs, input_count);
    // What a package reads and overwrites is beneath autograd.
    for (auto& input : fed.inputs) input = input.detach();
    fed.weights = tensors(weights, weight_count);
  });
}

// A forward pass whose outputs nobody keeps.
int photofinish_package_run(void* package) {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    fed.loader.run(fed.inputs);
  });
}

// A forward pass; gives at most `room` outputs, which are the caller's, and how many there are.
int photofinish_package_outputs(void* package, at::Tensor** outputs, size_t room, size_t* count) {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    auto made = fed.loader.run(fed.inputs);
    *count = made.size();
    for (size_t index = 0; index < made.size() && index < room; ++index) {
      outputs[index] = new at::Tensor(std::move(made[index]));
    }
  });
}

// A forward and a backward pass: the weights get their gradients; gives the loss, the caller's.
int photofinish_package_differentiate(void* package, at::Tensor** loss) {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    // Running statistics are overwritten.
    c10::NoGradGuard no_grad;
    auto made = fed.loader.run(fed.inputs);
    if (made.size() != fed.weights.size() + 1) {
      throw std::runtime_error("the package gives " + std::to_string(made.size()) +
                               " tensors instead of the loss and " +
                               std::to_string(fed.weights.size()) + " gradients");
    }
    for (size_t index = 0; index < fed.weights.size(); ++index) {
      fed.weights[index].mutable_grad() = std::move(made[index + 1]);
    }
    *loss = new at::Tensor(std::move(made.front()));
  });
}

}  // extern "C"
