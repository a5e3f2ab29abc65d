// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

// Registered memory of its own pages: registering may change what a child process sees of them.
class RegisteredBuffer {
 public:
  // The port outlives it.
  static Result<RegisteredBuffer> Make(VerbsPort& port, size_t bytes);
  RegisteredBuffer(RegisteredBuffer&& other) noexcept;
  RegisteredBuffer& operator=(RegisteredBuffer&&) = delete;
  ~RegisteredBuffer();

  std::span<std::byte> bytes() const { return bytes_; }
  uint32_t local_key() const { return region_->lkey; }

 private:
  RegisteredBuffer(VerbsPort& port, std::span<std::byte> bytes) : port_(&port), bytes_(bytes) {}

  VerbsPort* port_;
  std::span<std::byte> bytes_;  // empty: moved from
  ibv_mr* region_ = nullptr;
};

}  // namespace rocecoll
