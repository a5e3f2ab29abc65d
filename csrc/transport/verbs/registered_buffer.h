// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"
#include "transport/verbs/verbs_port.h"

namespace rocecoll {

// Registered memory on pages of its own, because registering may change what a child process sees
// of them.
class RegisteredBuffer {
 public:
  // The port outlives the buffer.
  static Result<RegisteredBuffer> Make(VerbsPort& port, size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return port.error("allocate packet buffers", errno);
    RegisteredBuffer buffer(port, {static_cast<std::byte*>(pages), bytes});
    const Result<ibv_mr*> region = port.register_memory(buffer.bytes_, IBV_ACCESS_LOCAL_WRITE);
    if (!region.ok()) return region.status();
    buffer.region_ = region.value();
    return buffer;
  }
  RegisteredBuffer(RegisteredBuffer&& other) noexcept
      : port_(other.port_),
        bytes_(std::exchange(other.bytes_, {})),
        region_(std::exchange(other.region_, nullptr)) {}
  RegisteredBuffer& operator=(RegisteredBuffer&&) = delete;
  ~RegisteredBuffer() {
    if (region_ != nullptr) port_->deregister(region_);
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }

  std::span<std::byte> bytes() const { return bytes_; }
  uint32_t local_key() const { return region_->lkey; }

 private:
  RegisteredBuffer(VerbsPort& port, std::span<std::byte> bytes) : port_(&port), bytes_(bytes) {}

  VerbsPort* port_;
  std::span<std::byte> bytes_;  // empty after a move
  ibv_mr* region_ = nullptr;
};

}  // namespace rocecoll
