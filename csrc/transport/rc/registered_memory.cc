// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/registered_memory.h"

#include <cstring>
#include <new>
#include <string>

#include "base/check.h"

namespace rocecoll {
namespace {

constexpr size_t kPoolLimitBytes = size_t{64} << 20;  // each

}  // namespace

RegisteredMemory::RegisteredMemory(RdmaDevice& device)
    : device_(device),
      frames_(device, RemoteAccess::kNone, kPoolLimitBytes),
      sources_(device, RemoteAccess::kNone, kPoolLimitBytes),
      targets_(device, RemoteAccess::kWrite, kPoolLimitBytes) {}

RegisteredMemory::~RegisteredMemory() {
  for (const auto& [id, allocation] : allocations_) {
    if (allocation.registered) device_.deregister(allocation.region);
    ::operator delete(allocation.data, kPage);
  }
}

Result<LocalSlice> RegisteredMemory::allocate(size_t bytes) {
  const size_t size = bytes == 0 ? 1 : bytes;
  auto* data = static_cast<std::byte*>(::operator new(size, kPage, std::nothrow));
  if (data == nullptr) {
    return Status(StatusCode::kInternal, "out of memory: " + std::to_string(bytes) + " bytes");
  }
  Allocation allocation;
  allocation.data = data;
  // Without registration it is memory like the user's: copied, or registered when lent.
  auto region = device_.register_memory({data, size}, RemoteAccess::kWrite);
  allocation.registered = region.ok();
  if (region.ok()) allocation.region = region.value();
  const RegistrationId id = next_id_++;
  allocations_.emplace(id, allocation);
  return LocalSlice{data, bytes, id};
}

void RegisteredMemory::free(LocalSlice slab) {
  const auto found = allocations_.find(slab.registration);
  ROCECOLL_CHECK(found != allocations_.end() && found->second.data == slab.data);
  if (found->second.registered) device_.deregister(found->second.region);
  ::operator delete(found->second.data, kPage);
  allocations_.erase(found);
}

bool RegisteredMemory::lend_own(LocalSlice slice, Lease& lease) const {
  if (slice.registration == kUnregistered) return false;
  const auto found = allocations_.find(slice.registration);
  ROCECOLL_CHECK(found != allocations_.end());
  if (!found->second.registered) return false;
  lease.data = slice.data;
  lease.local_key = found->second.region.local_key;
  lease.remote_key = found->second.region.remote_key;
  lease.held = true;
  return true;
}

Result<RegisteredMemory::Lease> RegisteredMemory::lend(LocalSlice slice, BlockPool& pool,
                                                       RemoteAccess access) {
  Lease lease;
  if (lend_own(slice, lease)) return lease;
  if (slice.size <= BlockPool::kLargestBytes) lease.block = pool.take(slice.size);
  if (lease.block) {
    lease.data = lease.block.data;
    lease.local_key = lease.block.local_key;
    lease.remote_key = lease.block.remote_key;
    lease.writable = access == RemoteAccess::kWrite;
  } else {
    auto region = device_.register_memory({slice.data, slice.size}, access);
    if (!region.ok()) return region.status();
    lease.data = slice.data;
    lease.region = region.value();
    lease.local_key = lease.region.local_key;
    lease.remote_key = lease.region.remote_key;
    lease.registered = true;
  }
  lease.held = true;
  return lease;
}

Result<RegisteredMemory::Lease> RegisteredMemory::lend_for_read(LocalSlice from) {
  auto lease = lend(from, sources_, RemoteAccess::kNone);
  if (lease.ok() && lease.value().block) {
    std::memcpy(lease.value().block.data, from.data, from.size);
  }
  return lease;
}

Result<RegisteredMemory::Lease> RegisteredMemory::lend_for_write(LocalSlice into) {
  return lend(into, targets_, RemoteAccess::kWrite);
}

void RegisteredMemory::land(const Lease& lease, LocalSlice into) const {
  if (lease.block) std::memcpy(into.data, lease.block.data, into.size);
}

void RegisteredMemory::give_back(Lease& lease) {
  if (!lease.held) return;
  if (lease.registered) device_.deregister(lease.region);
  if (lease.block) (lease.writable ? targets_ : sources_).give_back(lease.block);
  lease = {};
}

}  // namespace rocecoll
