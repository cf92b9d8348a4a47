// No exception leaves a function that Rust calls: one that can fail returns 0 for success, and
// `photofinish_last_error` says otherwise why it did not. All of them are `noexcept`: what escapes all
// the same, from a destructor of PyTorch's for example, ends the process instead of unwinding into Rust.

#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

namespace photofinish {

inline thread_local std::string last_error;

// Keeps why a function failed; where there is no memory even for that, that.
inline void keep_error(const char* error) noexcept {
  try {
    last_error = error;
  } catch (...) {
    // A string has room for so few characters in itself.
    last_error = "bad_alloc";
  }
}

template <typename Body>
int guarded(Body body) noexcept {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    keep_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    keep_error(error.what());
  } catch (...) {
    keep_error("an unknown C++ exception");
  }
  return 1;
}

}  // namespace photofinish
