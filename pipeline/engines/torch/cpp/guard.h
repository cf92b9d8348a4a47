// No exception leaves a function that Rust calls: one that can fail returns 0 for success, and
// `photofinish_last_error` says otherwise why it did not.

#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

namespace photofinish {

inline thread_local std::string last_error;

template <typename Body>
int guarded(Body body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "an unknown C++ exception";
  }
  return 1;
}

}  // namespace photofinish
