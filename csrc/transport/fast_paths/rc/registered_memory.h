// SPDX-License-Identifier: Apache-2.0
// Makes memory usable by the RDMA devices, in the cheapest safe way: what this domain has allocated
// is registered already; announced memory is registered in chunks, until it is withdrawn, or freed
// if its end is seen (base/lasting_memory.h); other slices are copied through registered blocks, or
// registered while they are lent where they are too large for one. Nothing else is cached by
// address: memory may be unmapped and its addresses used again without anybody telling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "transport/fast_paths/rc/block_pool.h"
#include "transport/fast_paths/rc/chunk_cache.h"
#include "transport/fast_paths/rc/rails.h"
#include "transport/transport.h"

namespace rocecoll {

class RegisteredMemory final : public MemoryDomain {
 public:
  // To copy less of what does not last costs less than to register it.
  static constexpr size_t kLeastPassingBytes = size_t{1} << 20;

  // What the device reads from or writes to instead of, or in, the lent slice.
  struct Lease {
    std::byte* data = nullptr;
    RailRegion region;                   // that it lies in
    BlockPool::Block block;              // set if the slice is copied
    ChunkCache::Chunk* chunk = nullptr;  // set if it is a part of announced memory
    bool registered = false;             // the region is for this lease
    bool writable = false;               // by the peer
    bool for_read = false;
    bool held = false;
  };

  explicit RegisteredMemory(Rails& rails);
  ~RegisteredMemory() override;

  Result<LocalSlice> allocate(size_t bytes) override;
  void free(LocalSlice slab) override;
  RegistrationId announce(std::span<std::byte> memory, bool writable) override;
  void withdraw(RegistrationId announced) override { chunks_.withdraw(announced); }
  // Now and then, so that what is freed goes back to the system.
  void drop_freed() { chunks_.drop_freed(); }

  // Sets a block aside for reading, once: then a refusal to lend_for_read() while lent_for_read()
  // is above 0 passes by itself, and while it is 0 nobody is refused who may have that block. And
  // registers memory for frames: a refusal of frames() passes by itself then.
  Status reserve();
  // For the device to read, at most BlockPool::kLargestBytes of what is not announced; the bytes
  // are as they are now.
  Result<Lease> lend_for_read(LocalSlice from, bool may_have_reserve);
  // For the peer of that link to write into. Bytes that went to a copy reach `into` by land().
  Result<Lease> lend_for_write(LocalSlice into, uint64_t link);
  void land(const Lease& lease, LocalSlice into) const;
  // The device must not be using it any more. Idempotent.
  void give_back(Lease& lease);

  // Leases for reading that are not back.
  size_t lent_for_read() const { return lent_for_read_; }

  // Blocks that the peer cannot write to. What links hold for as long as they live, such as receive
  // buffers, comes from one pool, and frames on their way out from another: many links would leave
  // nothing for these otherwise, and nothing would move.
  BlockPool& buffers() { return buffers_; }
  BlockPool& frames() { return frames_; }

 private:
  struct Allocation {
    std::byte* data = nullptr;
    RailRegion region;
    bool registered = false;
  };

  // What needs no work: memory of this domain.
  bool lend_own(LocalSlice slice, Lease& lease) const;
  static void use(ChunkCache::Chunk& chunk, LocalSlice slice, Lease& lease);
  bool lend_reserve(LocalSlice slice, Lease& lease);
  // Through a block of the pool if the slice is small, else registered as a whole.
  Result<Lease> lend(LocalSlice slice, BlockPool& pool, RemoteAccess access);

  Rails& rails_;
  BlockPool buffers_;
  BlockPool frames_;
  BlockPool sources_;
  BlockPool targets_;
  BlockPool::Block reserve_;
  bool reserve_lent_ = false;
  ChunkCache chunks_;
  size_t lent_for_read_ = 0;
  std::unordered_map<RegistrationId, Allocation> allocations_;
  RegistrationId next_id_ = kUnregistered + 1;
};

}  // namespace rocecoll
