// AOTInductor's packages (`.pt2`): loaded, fed and run as a C++ program would.

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "guard.h"

using photofinish::guarded;
using torch::inductor::AOTIModelContainerRunner;

namespace {

// Where a package holds what AOTInductor made.
const std::string MODEL = "data/aotinductor/model/";
const std::string LIBRARY = ".so";

struct DeleteTensor {
  void operator()(AtenTensorHandle handle) const noexcept { aoti_torch_delete_tensor_object(handle); }
};

using OwnedHandle = std::unique_ptr<AtenTensorOpaque, DeleteTensor>;

// What a runner shows to its own kind alone.
struct Inside : AOTIModelContainerRunner {
  // By which handles the code of a package knows its constants, by their original names. They stay the
  // runner's.
  static std::unordered_map<std::string, AtenTensorHandle> handles(
      const AOTIModelContainerRunner& runner) {
    const auto extract = runner.*&Inside::extract_constants_map_func_;
    if (extract == nullptr) throw std::runtime_error("the package does not show its constants");
    std::unordered_map<std::string, AtenTensorHandle> handles;
    const auto status =
        extract(runner.*&Inside::container_handle_,
                reinterpret_cast<AOTInductorConstantMapHandle>(&handles), /*use_inactive=*/false);
    if (status != AOTI_RUNTIME_SUCCESS) {
      throw std::runtime_error("the package does not tell its constants");
    }
    return handles;
  }
};

struct Package {
  // On the constants. PyTorch makes them where a user manages the constants
  // (`MaybeOwningAtenTensorHandle`), and leaves them and all that they refer to behind. The runner reads
  // them as long as it lives, so it is declared after them, and gone before them.
  std::vector<OwnedHandle> held;
  std::unique_ptr<AOTIModelContainerRunner> runner;
  // What every run reads, in the package's order.
  std::vector<at::Tensor> inputs;
  // What gets the gradients of a run, in the order in which it gives them.
  std::vector<at::Tensor> weights;
  std::vector<std::string> constants;
  std::string facts;
};

// Unpacks what AOTInductor made into `folder`; gives the path of the library among it.
//
// PyTorch's own loader unpacks into a folder of /tmp, whatever TMPDIR says, and leaves it there where
// its process is killed.
std::string unpack(const char* path, const std::string& folder) {
  caffe2::serialize::PyTorchStreamReader reader{std::string(path)};
  std::string library;
  for (const auto& record : reader.getAllRecords()) {
    if (record.compare(0, MODEL.size(), MODEL) != 0) continue;
    const std::string target = folder + "/" + record.substr(record.rfind('/') + 1);
    const auto [content, size] = reader.getRecord(record);
    std::ofstream file(target, std::ios::binary);
    file.write(static_cast<const char*>(content.get()), static_cast<std::streamsize>(size));
    file.close();
    if (!file) throw std::runtime_error(target + " cannot be written");
    const bool ends = target.size() > LIBRARY.size() &&
                      target.compare(target.size() - LIBRARY.size(), LIBRARY.size(), LIBRARY) == 0;
    if (ends) library = target;
  }
  if (library.empty()) throw std::runtime_error("the package holds no library");
  return library;
}

// What was written into the package about what became this library, or nothing.
std::string metadata(const std::string& library) {
  const std::string stem = library.substr(0, library.size() - LIBRARY.size());
  std::ifstream file(stem + "_metadata.json", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A descriptor of a file, closed where this ends.
struct File {
  const int descriptor;

  explicit File(int opened) : descriptor(opened) {}
  File(const File&) = delete;
  ~File() { close(descriptor); }
};

void write_all(int file, const unsigned char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = write(file, bytes, size);
    // A signal came first.
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw std::system_error(count < 0 ? errno : EIO, std::generic_category(), "a file in memory");
    }
    bytes += count;
    size -= static_cast<size_t>(count);
  }
}

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
int photofinish_provide_library(const unsigned char* bytes, size_t size) noexcept {
  return guarded([&] {
    const int opened = memfd_create("photofinish-library", MFD_CLOEXEC);
    if (opened < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
    const File file(opened);
    write_all(file.descriptor, bytes, size);
    const std::string path = "/proc/self/fd/" + std::to_string(file.descriptor);
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    const char* reason = dlerror();
    throw std::runtime_error(reason == nullptr ? "dlopen failed" : reason);
  });
}

// `device` is the number of a CUDA device, or -1; `folder` an empty one, which the package needs as
// long as it lives.
int photofinish_package_load(const char* path, const char* folder, int device, void** package) noexcept {
  return guarded([&] {
    const std::string library = unpack(path, folder);
    const std::string kind = device < 0 ? "cpu" : "cuda";
    const auto& runners = torch::inductor::getAOTIModelRunnerRegistry();
    const auto make = runners.find(kind);
    if (make == runners.end()) throw std::runtime_error("PyTorch has no runner for " + kind);
    const std::string place = device < 0 ? kind : kind + ":" + std::to_string(device);
    auto loaded = std::make_unique<Package>();
    loaded->runner =
        make->second(library, /*num_models=*/1, place, folder, /*run_single_threaded=*/false);
    for (const auto& [own, name] : loaded->runner->getConstantNamesToOriginalFQNs()) {
      loaded->constants.push_back(name);
    }
    loaded->facts = metadata(library);
    *package = loaded.release();
  });
}

void photofinish_package_free(void* package) noexcept { delete static_cast<Package*>(package); }

// What was written into the package about it, as JSON, or nothing.
const char* photofinish_package_facts(const void* package) noexcept {
  return static_cast<const Package*>(package)->facts.c_str();
}

size_t photofinish_package_constants(const void* package) noexcept {
  return static_cast<const Package*>(package)->constants.size();
}

// Null beyond the last.
const char* photofinish_package_constant(const void* package, size_t index) noexcept {
  const auto& constants = static_cast<const Package*>(package)->constants;
  return index < constants.size() ? constants[index].c_str() : nullptr;
}

// Gives the package all of its constants, which it reads where they lie.
int photofinish_package_hold(void* package, const char* const* names,
                             const at::Tensor* const* constants, size_t count) noexcept {
  return guarded([&] {
    auto& into = *static_cast<Package*>(package);
    auto& runner = *into.runner;
    std::unordered_map<std::string, std::string> own_names;
    for (const auto& [own, name] : runner.getConstantNamesToOriginalFQNs()) {
      own_names.emplace(name, own);
    }
    std::unordered_map<std::string, at::Tensor> held;
    for (size_t index = 0; index < count; ++index) {
      const auto own = own_names.find(names[index]);
      if (own == own_names.end()) {
        throw std::runtime_error(std::string("the package reads no constant ") + names[index]);
      }
      if (!held.emplace(own->second, constants[index]->detach()).second) {
        throw std::runtime_error(std::string("given twice: the constant ") + names[index]);
      }
    }
    runner.update_constant_buffer(held, /*use_inactive=*/false, /*validate_full_updates=*/true,
                                  /*user_managed=*/true);
    const auto handles = Inside::handles(runner);
    std::vector<AtenTensorHandle> made;
    made.reserve(count);
    for (size_t index = 0; index < count; ++index) made.push_back(handles.at(names[index]));
    // Those of an earlier call, which nothing reads any more, end here.
    into.held = std::vector<OwnedHandle>(made.begin(), made.end());
  });
}

int photofinish_package_feed(void* package, const at::Tensor* const* inputs, size_t input_count,
                             const at::Tensor* const* weights, size_t weight_count) noexcept {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    fed.inputs = tensors(inputs, input_count);
    // What a package reads and overwrites is beneath autograd.
    for (auto& input : fed.inputs) input = input.detach();
    fed.weights = tensors(weights, weight_count);
  });
}

// A forward pass whose outputs nobody keeps.
int photofinish_package_run(void* package) noexcept {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    fed.runner->run(fed.inputs);
  });
}

// A forward pass; gives at most `room` outputs, which are the caller's, and how many there are.
int photofinish_package_outputs(void* package, at::Tensor** outputs, size_t room,
                                size_t* count) noexcept {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    auto made = fed.runner->run(fed.inputs);
    std::vector<std::unique_ptr<at::Tensor>> given;
    given.reserve(made.size());
    for (auto& tensor : made) given.push_back(std::make_unique<at::Tensor>(std::move(tensor)));
    // Nothing fails from here on: the caller gets all of them, or none.
    *count = given.size();
    for (size_t index = 0; index < given.size() && index < room; ++index) {
      outputs[index] = given[index].release();
    }
  });
}

// A forward and a backward pass: the weights get their gradients; gives the loss, the caller's.
int photofinish_package_differentiate(void* package, at::Tensor** loss) noexcept {
  return guarded([&] {
    auto& fed = *static_cast<Package*>(package);
    // Running statistics are overwritten.
    c10::NoGradGuard no_grad;
    auto made = fed.runner->run(fed.inputs);
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
