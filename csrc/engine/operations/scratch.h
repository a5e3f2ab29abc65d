// SPDX-License-Identifier: Apache-2.0
// Memory for what an operation packs, keeps between steps, or receives before it is reduced. Slabs
// of a power of two bytes from the transport's memory domain, kept for reuse.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "transport/transport.h"

namespace rocecoll {

class ScratchPool {
 public:
  ScratchPool(MemoryDomain& memory, size_t limit_bytes)
      : memory_(memory), limit_bytes_(limit_bytes) {}
  ~ScratchPool() { drop_kept(); }
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // At least `bytes` (> 0), or an empty slice where that would exceed the limit. `force` ignores
  // the limit: an operation none of whose lanes runs must get its first one, or two ranks that
  // run their groups in different order could each hold what the other waits for. So the bound of
  // all slabs is the limit and one lane for each operation in flight. A forced slab that
  // cannot be had is a failed check.
  LocalSlice take(size_t bytes, bool force) {
    ROCECOLL_CHECK(bytes > 0);
    const int shift = std::max(static_cast<int>(std::bit_width(bytes - 1)), kSmallestShift);
    const size_t size = size_t{1} << shift;
    auto& kept = kept_[shift - kSmallestShift];
    if (!force && lent_bytes_ + size > limit_bytes_) return {};
    LocalSlice slab;
    if (!kept.empty()) {
      slab = kept.back();
      kept.pop_back();
      kept_bytes_ -= size;
    } else {
      if (lent_bytes_ + kept_bytes_ + size > limit_bytes_) drop_kept();
      auto fresh = memory_.allocate(size);
      const bool out_of_memory = !fresh.ok();
      ROCECOLL_CHECK(!out_of_memory || !force);
      if (out_of_memory) return {};
      slab = fresh.value();
      slab.size = size;
    }
    lent_bytes_ += size;
    return slab;
  }
  void give_back(LocalSlice slab) {
    ROCECOLL_CHECK(std::has_single_bit(slab.size) && lent_bytes_ >= slab.size);
    lent_bytes_ -= slab.size;
    if (lent_bytes_ + kept_bytes_ + slab.size > limit_bytes_) {
      memory_.free(slab);
      return;
    }
    kept_bytes_ += slab.size;
    kept_[std::countr_zero(slab.size) - kSmallestShift].push_back(slab);
  }

  size_t lent_bytes() const { return lent_bytes_; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  static constexpr int kSmallestShift = 12;  // 4 KiB
  static constexpr int kClasses = 64 - kSmallestShift;

  void drop_kept() {
    for (auto& slabs : kept_) {
      for (const LocalSlice& slab : slabs) memory_.free(slab);
      slabs.clear();
    }
    kept_bytes_ = 0;
  }

  MemoryDomain& memory_;
  const size_t limit_bytes_;
  size_t lent_bytes_ = 0;
  size_t kept_bytes_ = 0;
  std::array<std::vector<LocalSlice>, kClasses> kept_;
};

}  // namespace rocecoll
