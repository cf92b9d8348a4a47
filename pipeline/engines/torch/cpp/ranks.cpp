// Several processes that train together: the store in which they meet, the group in which they exchange, and
// PyTorch's own reducer, in the order in which `torch.nn.parallel.DistributedDataParallel` calls it.

#define USE_DISTRIBUTED 1
#define USE_C10D_GLOO 1

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>
#include <torch/csrc/distributed/c10d/exception.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "guard.h"

using photofinish::guarded;

namespace {

using Store = c10::intrusive_ptr<c10d::TCPStore>;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Clock = std::chrono::steady_clock;

// Parameters and buffers go out in pieces of so many bytes, as they do in Python.
constexpr size_t broadcast_bytes = size_t{250} << 20;

// Gradients are held back until all are there, in the first iteration: which bucket a weight is best in shows
// only then. Python's limit, its largest integer, comes to the same.
constexpr size_t no_limit = std::numeric_limits<int64_t>::max();

constexpr int64_t mebibyte = 1 << 20;

const Store& store_of(const void* store) { return *static_cast<const Store*>(store); }

const Group& group_of(const void* group) { return *static_cast<const Group*>(group); }

// What becomes of a bucket's gradients on their way.
enum class Compression : int { none = 0, fp16 = 1, bf16 = 2 };

// When a bucket was handed to the group, and when it was back; by this process's clock.
struct Exchange {
  uint64_t bucket;
  uint64_t bytes;
  Clock::time_point began;
  Clock::time_point ended;
};

// What was noted of the exchanges since it was last asked for. Buckets come back on threads of the group's.
struct Notes {
  std::mutex mutex;
  std::vector<Exchange> exchanges;
};

// What gradients are rounded to, if to anything.
using Kind = std::optional<c10::ScalarType>;

Kind kind_of(Compression compression) {
  switch (compression) {
    case Compression::none:
      return std::nullopt;
    case Compression::fp16:
      return at::kHalf;
    case Compression::bf16:
      return at::kBFloat16;
  }
  throw std::invalid_argument("no such compression");
}

// The gradients of a bucket as their mean over all ranks, perhaps in 16 bits on their way: what the hooks of
// `torch.distributed.algorithms.ddp_comm_hooks.default_hooks` do. libtorch has two of these in C++, which only
// its reducer can make, and none for bfloat16.
class MeanHook : public c10d::CppCommHookInterface<Group> {
 public:
  MeanHook(const Group& group, Kind kind) : CppCommHookInterface(group), kind_(kind) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const auto own = bucket.getBuffer().scalar_type();
    auto sent = kind_ ? bucket.getBuffer().to(*kind_) : bucket.getBuffer();
    sent.div_(state_->getSize());
    bucket.setBuffer(sent);
    std::vector<at::Tensor> tensors{sent};
    return state_->allreduce(tensors)->getFuture()->then(
        [own](c10::ivalue::Future& done) -> c10::IValue {
          return c10d::detail::parseCppCommHookResult(done.value()).to(own);
        },
        c10::TensorType::get());
  }

 private:
  const Kind kind_;
};

// Another hook, with the times of what goes through it.
class NotingHook : public c10d::CommHookInterface {
 public:
  NotingHook(std::unique_ptr<c10d::CommHookInterface> hook, std::shared_ptr<Notes> notes)
      : hook_(std::move(hook)), notes_(std::move(notes)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const auto began = Clock::now();
    const uint64_t index = bucket.getIndex();
    auto future = hook_->runHook(bucket);
    // A hook that compresses has made the bucket what goes out.
    const uint64_t bytes = bucket.getBuffer().nbytes();
    // Whoever waits for what comes of this waits until it is noted: a future wakes those before it calls back.
    return future->then(
        [notes = notes_, index, bytes, began](c10::ivalue::Future& done) -> c10::IValue {
          const auto ended = Clock::now();
          const std::lock_guard<std::mutex> lock(notes->mutex);
          notes->exchanges.push_back({index, bytes, began, ended});
          return done.value();
        },
        future->elementType());
  }

  at::Tensor parseHookResult(const c10::IValue& result) override {
    return hook_->parseHookResult(result);
  }

 private:
  std::unique_ptr<c10d::CommHookInterface> hook_;
  std::shared_ptr<Notes> notes_;
};

struct Ddp {
  Group group;
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> buffers;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<Notes> notes;
  bool static_graph = false;
  bool first = true;
};

std::vector<at::Tensor> tensors_of(at::Tensor* const* tensors, size_t count) {
  std::vector<at::Tensor> copied;
  copied.reserve(count);
  for (size_t i = 0; i < count; ++i) copied.push_back(*tensors[i]);
  return copied;
}

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copied;
  copied.reserve(tensors.size());
  for (const auto& tensor : tensors) copied.push_back(tensor.detach());
  return copied;
}

uint64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

extern "C" {

// The store of `world` ranks. Who serves it may leave the port to the system (0), and does not wait for the
// others; they wait `patience_ms` for it.
int photofinish_store_new(const char* host, uint16_t port, int serves, uint64_t world,
                          int64_t patience_ms, void** store) noexcept {
  return guarded([&] {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = serves != 0;
    options.numWorkers = world;
    options.waitWorkers = false;
    options.timeout = std::chrono::milliseconds(patience_ms);
    *store = new Store(c10::make_intrusive<c10d::TCPStore>(host, options));
  });
}

void photofinish_store_free(void* store) noexcept { delete static_cast<Store*>(store); }

uint16_t photofinish_store_port(const void* store) noexcept { return store_of(store)->getPort(); }

int photofinish_store_set(const void* store, const char* name, const uint8_t* value,
                          size_t length) noexcept {
  return guarded([&] {
    store_of(store)->set(name, std::vector<uint8_t>(value, value + length));
  });
}

// The value of a name once it has one, to be freed by `photofinish_bytes_free`; nothing where it has none within
// `patience_ms`.
int photofinish_store_get(const void* store, const char* name, int64_t patience_ms, uint8_t** value,
                          size_t* length) noexcept {
  return guarded([&] {
    *value = nullptr;
    *length = 0;
    const std::vector<std::string> names{name};
    if (patience_ms == 0) {
      if (!store_of(store)->check(names)) return;
    } else {
      try {
        store_of(store)->wait(names, std::chrono::milliseconds(patience_ms));
      } catch (const c10::DistStoreError&) {
        // It says so of a wait that was in vain; connections that break are another error.
        return;
      }
    }
    const auto found = store_of(store)->get(name);
    auto copied = std::make_unique<uint8_t[]>(found.size() + 1);
    std::copy(found.begin(), found.end(), copied.get());
    *length = found.size();
    *value = copied.release();
  });
}

void photofinish_bytes_free(uint8_t* bytes) noexcept { delete[] bytes; }

int photofinish_store_forget(const void* store, const char* name) noexcept {
  return guarded([&] { store_of(store)->deleteKey(name); });
}

// The group of all ranks, over Gloo. `address` is that of this machine at which the others reach it, or empty:
// then it is the network interface that `GLOO_SOCKET_IFNAME` names, or what the machine's own name stands for.
int photofinish_group_new(const void* store, int rank, int world, const char* address,
                          void** group) noexcept {
  return guarded([&] {
    auto named = c10::make_intrusive<c10d::PrefixStore>("photofinish/group", store_of(store));
    auto options = c10d::ProcessGroupGloo::Options::create();
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (*address != '\0') {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    } else if (interface != nullptr) {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    } else {
      options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    }
    // As many as Python starts for one device.
    options->threads = 2;
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(named, rank, world, options);
    auto made = c10::make_intrusive<c10d::ProcessGroup>(named, rank, world);
    made->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
    made->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    made->setGroupName("photofinish");
    *group = new Group(std::move(made));
  });
}

void photofinish_group_free(void* group) noexcept { delete static_cast<Group*>(group); }

// Waits until all ranks are here.
int photofinish_group_barrier(const void* group) noexcept {
  return guarded([&] { group_of(group)->barrier()->wait(); });
}

// A reducer over the weights of this rank, which become those of rank 0, as buffers do. A bucket holds
// `bucket_mib`; 0 is PyTorch's default, whose first bucket is smaller.
int photofinish_ddp_new(const void* group, at::Tensor* const* weights, size_t weight_count,
                        at::Tensor* const* buffers, size_t buffer_count, int64_t bucket_mib,
                        int bucket_views, int static_graph, int compression, int notes,
                        void** ddp) noexcept {
  return guarded([&] {
    auto made = std::make_unique<Ddp>();
    made->group = group_of(group);
    made->weights = tensors_of(weights, weight_count);
    made->buffers = tensors_of(buffers, buffer_count);
    made->static_graph = static_graph != 0;
    c10d::verify_params_across_processes(made->group, made->weights, std::nullopt);
    auto all = detached(made->weights);
    for (const auto& buffer : made->buffers) all.push_back(buffer);
    c10d::broadcast_coalesced(made->group, all, broadcast_bytes);
    const std::vector<bool> sparse(weight_count, false);
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(made->weights, {no_limit}, sparse);
    std::reverse(buckets.begin(), buckets.end());
    std::unordered_map<size_t, std::string> names;
    for (size_t i = 0; i < weight_count; ++i) names[i] = std::to_string(i);
    const bool usual = bucket_mib == 0;
    const int64_t cap = usual ? c10d::kDefaultBucketBytesCap : bucket_mib * mebibyte;
    const int64_t first = usual ? c10d::kDefaultFirstBucketBytes : cap;
    made->reducer = std::make_shared<c10d::Reducer>(
        made->weights, std::move(buckets), made->group, sparse, cap,
        /*find_unused_parameters=*/false, bucket_views != 0, names, first,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<int64_t>{});
    if (made->static_graph) made->reducer->set_static_graph();
    const auto asked = static_cast<Compression>(compression);
    auto hook = [&] { return std::make_unique<MeanHook>(made->group, kind_of(asked)); };
    if (notes != 0) {
      made->notes = std::make_shared<Notes>();
      made->reducer->register_comm_hook(std::make_unique<NotingHook>(hook(), made->notes));
    } else if (asked == Compression::fp16) {
      made->reducer->register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
    } else if (asked != Compression::none) {
      made->reducer->register_comm_hook(hook());
    }
    *ddp = made.release();
  });
}

void photofinish_ddp_free(void* ddp) noexcept { delete static_cast<Ddp*>(ddp); }

// Before a forward pass: buckets that fit what the first iteration showed, and before the first of an iteration
// buffers as rank 0 has them. What is not `exchanged` is left to a later backward pass of the same iteration, as under
// Python's `no_sync`.
int photofinish_ddp_before_forward(void* ddp, int first, int exchanged) noexcept {
  return guarded([&] {
    auto& held = *static_cast<Ddp*>(ddp);
    if (exchanged != 0) held.reducer->prepare_for_forward();
    held.reducer->rebuild_buckets();
    if (first == 0 || held.buffers.empty()) return;
    const c10::AutoGradMode off(false);
    c10d::broadcast_coalesced(held.group, held.buffers, broadcast_bytes);
  });
}

// Before the backward pass, in which buckets go out as they fill.
int photofinish_ddp_before_backward(void* ddp) noexcept {
  return guarded([&] { static_cast<Ddp*>(ddp)->reducer->prepare_for_backward({}); });
}

// After it. Of a graph that is said to be static the first iteration is exchanged only now.
int photofinish_ddp_after_backward(void* ddp) noexcept {
  return guarded([&] {
    auto& held = *static_cast<Ddp*>(ddp);
    if (held.static_graph && held.first) held.reducer->delay_all_reduce();
    held.first = false;
  });
}

// Nanoseconds by the clock that exchanges are noted by.
uint64_t photofinish_ddp_now() noexcept { return nanoseconds(Clock::now()); }

// Hands over what was noted since it was last asked for, at most `room`: bucket, bytes, beginning and end of
// each, four numbers one after another; gives how many there were.
int photofinish_ddp_notes(void* ddp, uint64_t* numbers, size_t room, size_t* count) noexcept {
  return guarded([&] {
    auto& held = *static_cast<Ddp*>(ddp);
    if (!held.notes) throw std::logic_error("nothing is noted");
    const std::lock_guard<std::mutex> lock(held.notes->mutex);
    *count = held.notes->exchanges.size();
    for (size_t i = 0; i < std::min(room, *count); ++i) {
      const auto& exchange = held.notes->exchanges[i];
      numbers[4 * i] = exchange.bucket;
      numbers[4 * i + 1] = exchange.bytes;
      numbers[4 * i + 2] = nanoseconds(exchange.began);
      numbers[4 * i + 3] = nanoseconds(exchange.ended);
    }
    held.notes->exchanges.clear();
  });
}

}  // extern "C"
