// SPDX-License-Identifier: Apache-2.0
// Memory for what an operation receives before it is reduced, packs, or keeps between steps. Slabs
// of a power of two bytes from the transport's memory domain, kept for reuse.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "transport/transport.h"

namespace rocecoll {

class ScratchPool {
 public:
  ScratchPool(MemoryDomain& memory, size_t limit_bytes);
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // At least `bytes` (> 0), or an empty slice where that would exceed the limit. `force` ignores
  // the limit: an operation none of whose lanes runs must get its first one, or two ranks that
  // run their groups in different order could each hold what the other waits for. So the bound of
  // all slabs is the limit and one lane for each operation in flight. A forced slab that
  // cannot be had is a failed check.
  LocalSlice take(size_t bytes, bool force);
  void give_back(LocalSlice slab);

  size_t lent_bytes() const { return lent_bytes_; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  static constexpr int kSmallestShift = 12;  // 4 KiB
  static constexpr int kClasses = 64 - kSmallestShift;

  void drop_kept();

  MemoryDomain& memory_;
  const size_t limit_bytes_;
  size_t lent_bytes_ = 0;
  size_t kept_bytes_ = 0;
  std::array<std::vector<LocalSlice>, kClasses> kept_;
};

}  // namespace rocecoll
