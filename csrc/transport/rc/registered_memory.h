// SPDX-License-Identifier: Apache-2.0
// Makes memory usable by an RDMA device, in the cheapest safe way: what this domain has allocated
// is registered already; small slices are copied through registered blocks; large ones are
// registered for as long as they are lent. Nothing is cached by address: memory may be unmapped and
// its addresses used again without anybody telling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "transport/rc/block_pool.h"
#include "transport/rdma.h"
#include "transport/transport.h"

namespace rocecoll {

class RegisteredMemory final : public MemoryDomain {
 public:
  // What the device reads from or writes to instead of, or in, the lent slice.
  struct Lease {
    std::byte* data = nullptr;
    uint32_t local_key = 0;
    uint32_t remote_key = 0;
    BlockPool::Block block;  // set if the slice is copied
    MemoryRegion region;     // set if it was registered for this lease
    bool registered = false;
    bool writable = false;  // by the peer
    bool held = false;
  };

  explicit RegisteredMemory(RdmaDevice& device);
  ~RegisteredMemory() override;

  Result<LocalSlice> allocate(size_t bytes) override;
  void free(LocalSlice slab) override;

  // For the device to read; the bytes are as they are now.
  Result<Lease> lend_for_read(LocalSlice from);
  // For the peer to write into. Bytes that went to a copy reach `into` by land().
  Result<Lease> lend_for_write(LocalSlice into);
  void land(const Lease& lease, LocalSlice into) const;
  // The device must not be using it any more. Idempotent.
  void give_back(Lease& lease);

  // Blocks that the peer cannot write to, for frames.
  BlockPool& frames() { return frames_; }

 private:
  struct Allocation {
    std::byte* data = nullptr;
    MemoryRegion region;
    bool registered = false;
  };

  // What needs no work: memory of this domain.
  bool lend_own(LocalSlice slice, Lease& lease) const;
  // Through a block of the pool if the slice is small, else registered as a whole.
  Result<Lease> lend(LocalSlice slice, BlockPool& pool, RemoteAccess access);

  RdmaDevice& device_;
  BlockPool frames_;
  BlockPool sources_;
  BlockPool targets_;
  std::unordered_map<RegistrationId, Allocation> allocations_;
  RegistrationId next_id_ = kUnregistered + 1;
};

}  // namespace rocecoll
