// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rocecoll {

BlockPool::~BlockPool() {
  for (const Slab& slab : slabs_) {
    rails_.deregister(slab.region);
    ::operator delete(slab.memory, kPage);
  }
}

bool BlockPool::add_slab() {
  if ((slabs_.size() + 1) * kSlabBytes > limit_bytes_) {
    refusal_ = Status(StatusCode::kNetwork,
                      "all " + std::to_string(limit_bytes_ >> 20) + " MiB of buffers are in use");
    return false;
  }
  auto* memory = static_cast<std::byte*>(::operator new(kSlabBytes, kPage, std::nothrow));
  if (memory == nullptr) {
    refusal_ = Status(StatusCode::kInternal, "out of memory for buffers");
    return false;
  }
  auto region = rails_.register_memory({memory, kSlabBytes}, access_);
  if (!region.ok()) {
    ::operator delete(memory, kPage);
    refusal_ = region.status();
    return false;
  }
  slabs_.push_back({memory, region.value()});
  slab_used_ = 0;
  return true;
}

BlockPool::Block BlockPool::take(size_t bytes) {
  ROCECOLL_CHECK(bytes > 0 && bytes <= kLargestBytes);
  const int shift = std::max(static_cast<int>(std::bit_width(bytes - 1)), kSmallestShift);
  auto& free = free_[shift - kSmallestShift];
  if (free.empty()) {
    const size_t size = size_t{1} << shift;
    // The rest of the slab is too small for a block of this size and is cut into smaller ones.
    while (slab_used_ + size > kSlabBytes && slab_used_ < kSlabBytes) {
      const int rest = std::min(std::countr_zero(slab_used_), kLargestShift);
      const Slab& slab = slabs_.back();
      free_[rest - kSmallestShift].push_back(
          {slab.memory + slab_used_, size_t{1} << rest, slab.region});
      slab_used_ += size_t{1} << rest;
    }
    if (slab_used_ == kSlabBytes && !add_slab()) return {};
    const Slab& slab = slabs_.back();
    free.push_back({slab.memory + slab_used_, size, slab.region});
    slab_used_ += size;
  }
  const Block block = free.back();
  free.pop_back();
  ++taken_;
  return block;
}

void BlockPool::give_back(const Block& block) {
  ROCECOLL_CHECK(taken_ > 0 && std::has_single_bit(block.size));
  --taken_;
  free_[std::countr_zero(block.size) - kSmallestShift].push_back(block);
}

}  // namespace rocecoll
