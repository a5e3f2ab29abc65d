// SPDX-License-Identifier: Apache-2.0
// The memory domain of transports that need no registration: cache-line-aligned allocations.
#pragma once

#include <new>

#include "transport/transport.h"

namespace rocecoll {

class PlainMemoryDomain final : public MemoryDomain {
 public:
  Result<LocalSlice> allocate(size_t bytes) override {
    void* data = ::operator new(bytes == 0 ? 1 : bytes, kAlignment, std::nothrow);
    if (data == nullptr) {
      return Status(StatusCode::kInternal, "out of memory: " + std::to_string(bytes) + " bytes");
    }
    return LocalSlice{static_cast<std::byte*>(data), bytes, kUnregistered};
  }
  void free(LocalSlice slab) override { ::operator delete(slab.data, kAlignment); }

 private:
  static constexpr std::align_val_t kAlignment{64};
};

}  // namespace rocecoll
