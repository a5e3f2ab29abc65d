// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/registered_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace rocecoll {

Result<RegisteredBuffer> RegisteredBuffer::Make(VerbsPort& port, size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return port.error("allocate packet buffers", errno);
  RegisteredBuffer buffer(port, {static_cast<std::byte*>(pages), bytes});
  const Result<ibv_mr*> region = port.register_memory(buffer.bytes_, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  buffer.region_ = region.value();
  return buffer;
}

RegisteredBuffer::RegisteredBuffer(RegisteredBuffer&& other) noexcept
    : port_(other.port_),
      bytes_(std::exchange(other.bytes_, {})),
      region_(std::exchange(other.region_, nullptr)) {}

RegisteredBuffer::~RegisteredBuffer() {
  if (region_ != nullptr) port_->deregister(region_);
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace rocecoll
