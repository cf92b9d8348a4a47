// Held by pointer, and told of a time limit in a function that nobody calls here (see README.md).
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  virtual ~Context();
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
