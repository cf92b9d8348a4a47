// Where the time goes: PyTorch calls us before and after every operator that goes through its
// dispatcher and every function of autograd (`at::RecordFunction`, on which its own profilers stand),
// and the interpreter says which place of the program it is at. A function of autograd knows the number
// of the operator that it is the derivative of, and so its place.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ATen/record_function.h>

#include "guard.h"
#include "operators.h"

using photofinish::conversions;
using photofinish::guarded;
using photofinish::is_among;
using photofinish::is_evaluation;

namespace {

// Neither compute nor move anything themselves: views, allocations, questions, and dropout that drops
// nothing.
constexpr std::string_view free_of_work[] = {
    "aten::_reshape_alias", "aten::_reshape_copy", "aten::_unsafe_view", "aten::alias",
    "aten::as_strided", "aten::as_strided_", "aten::chunk", "aten::contiguous", "aten::detach",
    "aten::detach_", "aten::dropout", "aten::empty", "aten::empty_like", "aten::empty_strided",
    "aten::expand", "aten::expand_as", "aten::flatten", "aten::is_same_size", "aten::lift_fresh",
    "aten::narrow", "aten::new_empty", "aten::new_empty_strided", "aten::permute", "aten::reshape",
    "aten::resize_", "aten::resolve_conj", "aten::resolve_neg", "aten::result_type", "aten::select",
    "aten::set_", "aten::slice", "aten::split", "aten::split_with_sizes", "aten::squeeze",
    "aten::squeeze_", "aten::t", "aten::to", "aten::transpose", "aten::transpose_", "aten::unbind",
    "aten::unflatten", "aten::unsqueeze", "aten::unsqueeze_", "aten::view", "aten::view_as",
    "detach", "detach_",
};

// A place that is none of the program's.
constexpr int64_t nowhere = -1;

int64_t now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

struct Sum {
  int64_t time_ns = 0;
  int64_t calls = 0;
};

// Place, name, whether it converts.
using Key = std::tuple<int64_t, std::string, bool>;

struct Row {
  Key key;
  Sum sum;
};

struct Frame {
  int64_t start_ns;
  // Whether another operator was called that did something.
  bool calls = false;
  // Whether numbers were copied in it.
  bool copies = false;
  // Time of conversions in it, which are told apart.
  int64_t converting_ns = 0;
  bool is_evaluation = false;
  bool is_conversion = false;
  // The place before it.
  int64_t place_before;
};

// All that is kept is this thread's: autograd's work on a processor runs on the thread that asks for
// it.
thread_local std::vector<Frame> frames;
thread_local int64_t place = nowhere;
thread_local std::unordered_map<int64_t, int64_t> places_of_numbers;

thread_local std::map<Key, Sum> sums;
thread_local std::vector<Row> rows;
thread_local int64_t kernels = 0;
thread_local at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;

// What has no frame around it but autograd's loop.
bool is_outermost() {
  return std::all_of(frames.begin(), frames.end(),
                     [](const Frame& frame) { return frame.is_evaluation; });
}

bool is_within_conversion() {
  return std::any_of(frames.begin(), frames.end(),
                     [](const Frame& frame) { return frame.is_conversion; });
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  Frame frame{};
  frame.place_before = place;
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    // What follows in autograd's loop is this function's as well: the sums of gradients.
    const auto found = places_of_numbers.find(function.seqNr());
    place = found == places_of_numbers.end() ? nowhere : found->second;
    if (!frames.empty()) frame.place_before = place;
  } else if (is_evaluation(name)) {
    frame.is_evaluation = true;
    place = nowhere;
  } else if (function.seqNr() >= 0) {
    // The number of the function that autograd will make of it; the last to see it makes it.
    places_of_numbers[function.seqNr()] = place;
  }
  frame.is_conversion = is_among(name, conversions) && !is_within_conversion();
  frame.start_ns = now();
  frames.push_back(frame);
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext*) {
  const int64_t end_ns = now();
  // One that began before we were asked.
  if (frames.empty()) return;
  const Frame frame = frames.back();
  frames.pop_back();
  const std::string_view name = function.name();
  const int64_t at = place;
  place = frame.place_before;
  const int64_t time_ns = end_ns - frame.start_ns;
  const bool is_operator =
      function.scope() == at::RecordScope::FUNCTION && !frame.is_evaluation;
  const bool is_kernel = is_operator && !frame.calls && !is_among(name, free_of_work);
  const bool copies = frame.copies || name == "aten::copy_";
  const bool converts = frame.is_conversion && copies;
  kernels += is_kernel;
  if (!frames.empty()) {
    frames.back().calls |= frame.calls || is_kernel;
    frames.back().copies |= copies;
    frames.back().converting_ns += converts ? time_ns : frame.converting_ns;
  }
  if (frame.is_evaluation) return;
  if (converts) {
    Sum& sum = sums[Key(at, name, true)];
    sum.time_ns += time_ns;
    sum.calls += 1;
  } else if (is_outermost()) {
    Sum& sum = sums[Key(at, name, false)];
    sum.time_ns += time_ns - frame.converting_ns;
    sum.calls += 1;
  }
}

}  // namespace

extern "C" {

// Begins to record what this thread does. One recording at a time.
int photofinish_record_begin() noexcept {
  return guarded([] {
    if (handle != at::INVALID_CALLBACK_HANDLE) {
      throw std::runtime_error("operators are being recorded already");
    }
    sums.clear();
    rows.clear();
    kernels = 0;
    frames.clear();
    places_of_numbers.clear();
    place = nowhere;
    auto callback = at::RecordFunctionCallback(begin, end).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    handle = at::addThreadLocalCallback(callback);
  });
}

// From here on this thread is at this place of the program; negative: at none.
void photofinish_record_at(int64_t now_at) noexcept { place = now_at; }

// Ends recording; tells how many rows there are, and how many operators called no other.
int photofinish_record_end(uint64_t* count, uint64_t* launched) noexcept {
  return guarded([&] {
    if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
    handle = at::INVALID_CALLBACK_HANDLE;
    rows.clear();
    for (const auto& [key, sum] : sums) rows.push_back(Row{key, sum});
    *count = rows.size();
    *launched = static_cast<uint64_t>(kernels);
  });
}

// A row: its name stays valid until the next recording.
int photofinish_record_row(uint64_t index, int64_t* at, const char** name, int* converts,
                           uint64_t* time_ns, uint64_t* calls) noexcept {
  return guarded([&] {
    const Row& row = rows.at(index);
    *at = std::get<0>(row.key);
    *name = std::get<1>(row.key).c_str();
    *converts = std::get<2>(row.key);
    *time_ns = static_cast<uint64_t>(std::max<int64_t>(row.sum.time_ns, 0));
    *calls = static_cast<uint64_t>(row.sum.calls);
  });
}

}  // extern "C"
