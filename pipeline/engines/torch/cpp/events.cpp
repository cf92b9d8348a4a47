// The time of a step by a CUDA device's own clock: an event before its work and one after it, on the stream
// that the work is queued on.

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "guard.h"

using photofinish::guarded;

namespace {

// `BACKEND_DEFAULT` is what CUDA makes where nobody asks for less: an event that keeps the time.
c10::Event timing_event() { return {c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT}; }

struct Events {
  const c10::Device device;
  c10::Event before = timing_event();
  c10::Event after = timing_event();

  explicit Events(int index)
      : device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)) {}

  // What this thread asks of the device now is queued on this one.
  c10::Stream stream() const {
    return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->getStream(device);
  }
};

}  // namespace

extern "C" {

int photofinish_events_new(int device, void** events) noexcept {
  return guarded([&] { *events = new Events(device); });
}

void photofinish_events_free(void* events) noexcept { delete static_cast<Events*>(events); }

int photofinish_events_before(void* events) noexcept {
  return guarded([&] {
    auto& pair = *static_cast<Events*>(events);
    pair.before.record(pair.stream());
  });
}

int photofinish_events_after(void* events) noexcept {
  return guarded([&] {
    auto& pair = *static_cast<Events*>(events);
    pair.after.record(pair.stream());
  });
}

// From the one event to the other; fails unless the device has passed both.
int photofinish_events_nanoseconds(const void* events, uint64_t* nanoseconds) noexcept {
  return guarded([&] {
    const auto& pair = *static_cast<const Events*>(events);
    const double milliseconds = pair.before.elapsedTime(pair.after);
    if (!(milliseconds >= 0.0)) {
      throw std::runtime_error("the device says that a step took " + std::to_string(milliseconds) +
                               " ms");
    }
    *nanoseconds = static_cast<uint64_t>(std::llround(milliseconds * 1e6));
  });
}

}  // extern "C"
