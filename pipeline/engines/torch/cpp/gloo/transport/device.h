// Held by pointer alone (see README.md).
#pragma once

namespace gloo::transport {
class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace gloo::transport
