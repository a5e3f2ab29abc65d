// SPDX-License-Identifier: Apache-2.0
#include "base/lasting_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/arithmetic.h"

namespace rocecoll {
namespace {

// The size of a transparent huge page on x86-64, and on aarch64 with 4 KiB pages.
constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

LastingMemory::Block::~Block() { std::free(bytes.data()); }

LastingMemory::Owner LastingMemory::Allocate(size_t bytes) {
  const bool large = bytes >= kHugePageBytes;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t whole = RoundUp(std::max<size_t>(bytes, 1), page);
  void* data = nullptr;
  if (whole < bytes || posix_memalign(&data, large ? kHugePageBytes : page, whole) != 0) {
    return nullptr;
  }
  // This is advice only: a kernel without huge pages refuses it.
  if (large) madvise(data, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  const auto first = static_cast<std::byte*>(data);
  auto block = std::make_shared<Block>(std::span(first, whole));
  LastingMemory& memory = instance();
  const std::lock_guard lock(memory.mutex_);
  memory.blocks_.emplace(first, std::move(block));
  return Owner(first);
}

void LastingMemory::Free(void* data) {
  if (data == nullptr) return;
  std::shared_ptr<Block> block;
  {
    LastingMemory& memory = instance();
    const std::lock_guard lock(memory.mutex_);
    const auto found = memory.blocks_.find(static_cast<std::byte*>(data));
    if (found != memory.blocks_.end()) {
      block = std::move(found->second);
      memory.blocks_.erase(found);
      block->freed.store(true, std::memory_order_release);
      memory.frees_.fetch_add(1, std::memory_order_acq_rel);
    }
  }
  if (block == nullptr) std::free(data);  // allocated by the parent of this forked child
}

LastingMemory::Holder LastingMemory::Find(std::span<const std::byte> memory) {
  LastingMemory& known = instance();
  const std::lock_guard lock(known.mutex_);
  auto after = known.blocks_.upper_bound(memory.data());
  if (after == known.blocks_.begin()) return nullptr;
  const std::shared_ptr<Block>& block = (--after)->second;
  const std::byte* end = block->bytes.data() + block->bytes.size();
  const bool inside =
      memory.data() < end && memory.size() <= static_cast<size_t>(end - memory.data());
  return inside ? block : nullptr;
}

uint64_t LastingMemory::Frees() { return instance().frees_.load(std::memory_order_acquire); }

}  // namespace rocecoll
