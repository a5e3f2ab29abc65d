// SPDX-License-Identifier: Apache-2.0
#include "engine/scratch.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rocecoll {

ScratchPool::ScratchPool(MemoryDomain& memory, size_t limit_bytes)
    : memory_(memory), limit_bytes_(limit_bytes) {}

ScratchPool::~ScratchPool() { drop_kept(); }

LocalSlice ScratchPool::take(size_t bytes, bool force) {
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

void ScratchPool::give_back(LocalSlice slab) {
  ROCECOLL_CHECK(std::has_single_bit(slab.size) && lent_bytes_ >= slab.size);
  lent_bytes_ -= slab.size;
  if (lent_bytes_ + kept_bytes_ + slab.size > limit_bytes_) {
    memory_.free(slab);
    return;
  }
  kept_bytes_ += slab.size;
  kept_[std::countr_zero(slab.size) - kSmallestShift].push_back(slab);
}

void ScratchPool::drop_kept() {
  for (auto& slabs : kept_) {
    for (const LocalSlice& slab : slabs) memory_.free(slab);
    slabs.clear();
  }
  kept_bytes_ = 0;
}

}  // namespace rocecoll
