// Where a GPU's time goes: Kineto, PyTorch's own profiler, notes operators as they run and, through
// NVIDIA's CUPTI, kernels with the operator that launched each. The interpreter says which place of the
// program it is at by an operator of ours that does nothing, so that its word lies in the same time as
// everything else; what was launched where is found out afterwards (`src/kineto/timeline.rs`).

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "guard.h"
#include "operators.h"

using photofinish::guarded;

namespace {

using libkineto::ActivityType;

// What was noted; `src/kineto.rs` knows the numbers.
enum class Kind : int32_t {
  // The program came to another place.
  arrival = 0,
  // An operator, or whatever else announces itself.
  op = 1,
  // An operator that brings numbers into another order or type.
  conversion = 2,
  // A function of autograd.
  backward = 3,
  // Autograd's loop around one.
  evaluation = 4,
  // A kernel, a copy or a fill on a device.
  device = 5,
};

struct Event {
  Kind kind;
  std::string name;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t thread;
  // Of an arrival, the place; of others, autograd's number.
  int64_t sequence;
  // Of what runs on a processor, its own; of a device's work, that of the operator that launched it.
  uint64_t id;
};

// The operator of ours; its number is the place.
constexpr std::string_view arrival = "photofinish::at";

thread_local std::vector<Event> events;
thread_local bool is_on = false;

torch::profiler::impl::ProfilerConfig configuration() {
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO);
}

// Where there is no device, that of a processor is what is left.
std::set<torch::profiler::impl::ActivityType> activities() {
  using torch::profiler::impl::ActivityType;
  return {ActivityType::CPU, ActivityType::CUDA};
}

// `nullopt`: CUDA's own functions, synchronisations, the profiler's own time and the like.
std::optional<Kind> kind_of(const torch::autograd::profiler::KinetoEvent& event,
                            std::string_view name) {
  switch (static_cast<ActivityType>(event.activityType())) {
    case ActivityType::CONCURRENT_KERNEL:
    case ActivityType::GPU_MEMCPY:
    case ActivityType::GPU_MEMSET:
      return Kind::device;
    case ActivityType::CPU_OP:
      if (name == arrival) return Kind::arrival;
      if (static_cast<at::RecordScope>(event.scope()) == at::RecordScope::BACKWARD_FUNCTION) {
        return Kind::backward;
      }
      if (photofinish::is_evaluation(name)) return Kind::evaluation;
      if (photofinish::is_among(name, photofinish::conversions)) return Kind::conversion;
      return Kind::op;
    default:
      return std::nullopt;
  }
}

}  // namespace

// What `photofinish_kineto_event` tells.
struct photofinish_kineto_told {
  const char* name;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t thread;
  int64_t sequence;
  uint64_t id;
  int32_t kind;
};

extern "C" {

// Readies the profiler: what runs from here on until it starts lets CUPTI make its buffers.
int photofinish_kineto_prepare() noexcept {
  return guarded([] {
    torch::autograd::profiler::prepareProfiler(configuration(), activities());
  });
}

// Begins to note what this thread does, and what autograd's threads do for it.
int photofinish_kineto_start() noexcept {
  return guarded([] {
    if (is_on) throw std::runtime_error("the profiler is running already");
    events.clear();
    torch::autograd::profiler::enableProfiler(
        configuration(), activities(),
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    is_on = true;
  });
}

// From here on this thread is at this place of the program; negative: at none.
void photofinish_kineto_at(int64_t place) noexcept {
  at::RecordFunction arrived(at::RecordScope::FUNCTION);
  if (arrived.isActive()) arrived.before(arrival, place);
}

// Ends it, where it runs; tells how many events there are.
int photofinish_kineto_end(uint64_t* count) noexcept {
  return guarded([&] {
    if (is_on) {
      is_on = false;
      const auto result = torch::autograd::profiler::disableProfiler();
      for (const auto& event : result->events()) {
        std::string name = event.name();
        const auto kind = kind_of(event, name);
        if (!kind) continue;
        const bool is_device = *kind == Kind::device;
        events.push_back(Event{
            *kind, std::move(name), static_cast<int64_t>(event.startNs()),
            static_cast<int64_t>(event.endNs()), event.startThreadId(),
            is_device ? -1 : event.sequenceNr(),
            is_device ? event.linkedCorrelationId() : event.correlationId()});
      }
    }
    *count = events.size();
  });
}

// An event: its name stays valid until this thread starts to note again.
int photofinish_kineto_event(uint64_t index, photofinish_kineto_told* told) noexcept {
  return guarded([&] {
    const Event& event = events.at(index);
    *told = photofinish_kineto_told{
        event.name.c_str(), event.start_ns, event.end_ns, event.thread,
        event.sequence,     event.id,       static_cast<int32_t>(event.kind)};
  });
}

}  // extern "C"
