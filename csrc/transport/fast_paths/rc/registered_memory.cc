// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/registered_memory.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "transport/fast_paths/rc/receive_pool.h"

namespace rocecoll {
namespace {

constexpr size_t kPoolLimitBytes = size_t{64} << 20;  // of each of the two for writes
// All receive buffers; and as much for the headers of links, or for frames on their way out.
constexpr size_t kReceivesLimitBytes = ReceivePool::kMaxBuffers * ReceivePool::kBufferBytes;
// One that takes longer holds up everything else: at 1 ms for a MiB, 16 ms.
constexpr size_t kLargestRegistrationBytes = size_t{16} << 20;
static_assert(BlockPool::kLargestBytes >= RcOptions::kMaxWriteBytes, "or writes find no block");

}  // namespace

RegisteredMemory::RegisteredMemory(Rails& rails, RegistrationId last_id)
    : rails_(rails),
      buffers_(rails, RemoteAccess::kNone, 2 * kReceivesLimitBytes),
      frames_(rails, RemoteAccess::kNone, kReceivesLimitBytes),
      sources_(rails, RemoteAccess::kNone, kPoolLimitBytes),
      targets_(rails, RemoteAccess::kWrite, kPoolLimitBytes),
      chunks_(rails),
      last_id_(last_id) {}

RegisteredMemory::~RegisteredMemory() {
  for (const auto& [id, allocation] : allocations_) {
    if (allocation.registered) rails_.deregister(allocation.region);
    ::operator delete(allocation.data, kPage);
  }
}

// After 2^32 announcements ids come again, but for those that are in use and for kUnregistered.
RegistrationId RegisteredMemory::new_id() {
  do {
    ++last_id_;
  } while (last_id_ == kUnregistered || allocations_.contains(last_id_) || chunks_.knows(last_id_));
  return last_id_;
}

Result<LocalSlice> RegisteredMemory::allocate(size_t bytes) {
  const size_t size = bytes == 0 ? 1 : bytes;
  auto* data = static_cast<std::byte*>(::operator new(size, kPage, std::nothrow));
  if (data == nullptr) {
    return Status(StatusCode::kInternal, "out of memory: " + std::to_string(bytes) + " bytes");
  }
  Allocation allocation;
  allocation.data = data;
  const RegistrationId id = new_id();
  // If it cannot be registered, it is treated like memory of the user's.
  if (size <= ChunkCache::kLargestRegionBytes) {
    auto region = rails_.register_memory({data, size}, RemoteAccess::kWrite);
    allocation.registered = region.ok();
    if (region.ok()) allocation.region = region.value();
  } else {
    chunks_.announce(id, {data, size}, RemoteAccess::kWrite);
  }
  allocations_.emplace(id, allocation);
  return LocalSlice{data, bytes, id};
}

void RegisteredMemory::free(LocalSlice slab) {
  const auto found = allocations_.find(slab.registration);
  ROCECOLL_CHECK(found != allocations_.end() && found->second.data == slab.data);
  if (found->second.registered) rails_.deregister(found->second.region);
  chunks_.withdraw(slab.registration);
  ::operator delete(found->second.data, kPage);
  allocations_.erase(found);
}

Status RegisteredMemory::reserve() {
  if (reserve_) return {};
  const BlockPool::Block frame = frames_.take(ReceivePool::kBufferBytes);
  if (!frame) return frames_.refusal();
  frames_.give_back(frame);  // a pool keeps its memory registered
  reserve_ = sources_.take(BlockPool::kLargestBytes);
  return reserve_ ? Status() : sources_.refusal();
}

bool RegisteredMemory::lend_reserve(LocalSlice slice, Lease& lease) {
  if (!reserve_ || reserve_lent_ || slice.size > reserve_.size) return false;
  reserve_lent_ = true;
  lease.block = reserve_;
  lease.data = reserve_.data;
  lease.region = reserve_.region;
  lease.held = true;
  return true;
}

RegistrationId RegisteredMemory::announce(std::span<std::byte> memory, bool writable) {
  if (memory.size() < kLeastAnnouncedBytes) return kUnregistered;
  LastingMemory::Holder block = LastingMemory::Find(memory);
  if (block == nullptr && memory.size() < kLeastPassingBytes) return kUnregistered;
  const RegistrationId id = new_id();
  const RemoteAccess access = writable ? RemoteAccess::kWrite : RemoteAccess::kNone;
  chunks_.announce(id, memory, access, std::move(block));
  return id;
}

bool RegisteredMemory::lend_own(LocalSlice slice, Lease& lease) const {
  const auto found = allocations_.find(slice.registration);
  if (found == allocations_.end() || !found->second.registered) return false;
  lease.data = slice.data;
  lease.region = found->second.region;
  lease.held = true;
  return true;
}

Result<RegisteredMemory::Lease> RegisteredMemory::lend(LocalSlice slice, BlockPool& pool,
                                                       RemoteAccess access) {
  Lease lease;
  if (slice.size <= BlockPool::kLargestBytes) lease.block = pool.take(slice.size);
  if (lease.block) {
    lease.data = lease.block.data;
    lease.region = lease.block.region;
    lease.writable = access == RemoteAccess::kWrite;
  } else if (slice.size > kLargestRegistrationBytes) {
    return Status(StatusCode::kNetwork, std::to_string(slice.size) + " bytes at once are too many");
  } else {
    auto region = rails_.register_memory({slice.data, slice.size}, access);
    if (!region.ok()) return region.status();
    lease.data = slice.data;
    lease.region = region.value();
    lease.registered = true;
  }
  lease.held = true;
  return lease;
}

void RegisteredMemory::use(ChunkCache::Chunk& chunk, LocalSlice slice, Lease& lease) {
  lease.data = slice.data;
  lease.region = chunk.region;
  lease.chunk = &chunk;
  lease.held = true;
}

Result<RegisteredMemory::Lease> RegisteredMemory::lend_for_read(LocalSlice from,
                                                                bool may_have_reserve) {
  Lease lease;
  if (!lend_own(from, lease)) {
    if (ChunkCache::Chunk* chunk = chunks_.lend_for_read(from); chunk != nullptr) {
      use(*chunk, from, lease);
    } else {
      auto copied = lend(from, sources_, RemoteAccess::kNone);
      if (!copied.ok() && !(may_have_reserve && lend_reserve(from, lease))) return copied.status();
      if (copied.ok()) lease = copied.value();
      if (lease.block) std::memcpy(lease.block.data, from.data, from.size);
    }
  }
  lease.for_read = true;
  ++lent_for_read_;
  return lease;
}

Result<RegisteredMemory::Lease> RegisteredMemory::lend_for_write(LocalSlice into, uint64_t link) {
  Lease lease;
  if (lend_own(into, lease)) return lease;
  if (ChunkCache::Chunk* chunk = chunks_.lend_for_write(into, link); chunk != nullptr) {
    use(*chunk, into, lease);
    return lease;
  }
  return lend(into, targets_, RemoteAccess::kWrite);
}

void RegisteredMemory::land(const Lease& lease, LocalSlice into) const {
  if (lease.block) std::memcpy(into.data, lease.block.data, into.size);
}

void RegisteredMemory::give_back(Lease& lease) {
  if (!lease.held) return;
  if (lease.registered) rails_.deregister(lease.region);
  if (lease.chunk != nullptr) chunks_.give_back(*lease.chunk);
  if (lease.block && lease.block.data == reserve_.data) {
    reserve_lent_ = false;
  } else if (lease.block) {
    (lease.writable ? targets_ : sources_).give_back(lease.block);
  }
  if (lease.for_read) --lent_for_read_;
  lease = {};
}

}  // namespace rocecoll
