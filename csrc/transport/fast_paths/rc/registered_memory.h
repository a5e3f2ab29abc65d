// SPDX-License-Identifier: Apache-2.0
// Makes memory usable by the RDMA devices, in the cheapest safe way. Memory that this domain has
// allocated is registered already. Announced memory is registered in chunks (chunk_cache.h). Other
// slices are copied through registered blocks, or, if they are too large for one, registered while
// they are lent. Nothing else is cached by address, because memory may be unmapped and its
// addresses used again without notice.
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
  // Less memory of a kind that does not last is cheaper to copy than to register.
  static constexpr size_t kLeastPassingBytes = size_t{1} << 20;

  // The memory that the device reads or writes: the lent slice itself, or a copy of it.
  struct Lease {
    std::byte* data = nullptr;
    RailRegion region;                   // the registration that it is a part of
    BlockPool::Block block;              // set if the slice is copied
    ChunkCache::Chunk* chunk = nullptr;  // set if the slice is a part of announced memory
    bool registered = false;             // the region is for this lease alone
    bool writable = false;               // by the peer
    bool for_read = false;
    bool held = false;
  };

  // Registrations are numbered from the one after `last_id` on.
  explicit RegisteredMemory(Rails& rails, RegistrationId last_id = kUnregistered);
  ~RegisteredMemory() override;

  Result<LocalSlice> allocate(size_t bytes) override;
  void free(LocalSlice slab) override;
  RegistrationId announce(std::span<std::byte> memory, bool writable) override;
  void withdraw(RegistrationId announced) override { chunks_.withdraw(announced); }
  // To be called now and then, so that freed memory goes back to the system.
  void drop_freed() { chunks_.drop_freed(); }

  // Sets a block aside for reading, once, and registers memory for frames. After that refusals
  // pass: one of frames() always, and one of lend_for_read() as soon as a lease for reading is
  // given back. While there is no such lease, callers that may have the block set aside are not
  // refused.
  Status reserve();
  // For the device to read. A slice that is not announced may have at most
  // BlockPool::kLargestBytes. If its bytes have to be copied, that happens now.
  Result<Lease> lend_for_read(LocalSlice from, bool may_have_reserve);
  // For the peer of that link to write into. If the lease is a copy, land() moves its bytes to
  // `into`.
  Result<Lease> lend_for_write(LocalSlice into, uint64_t link);
  void land(const Lease& lease, LocalSlice into) const;
  // The device must not use the memory any more. Idempotent.
  void give_back(Lease& lease);

  // The number of leases for reading that have not been given back.
  size_t lent_for_read() const { return lent_for_read_; }

  // Blocks that peers cannot write to. Memory that links hold for as long as they live, such as
  // receive buffers, comes from buffers(); frames on their way out come from frames(). With one
  // pool many links would leave nothing for frames, and nothing would move.
  BlockPool& buffers() { return buffers_; }
  BlockPool& frames() { return frames_; }

 private:
  struct Allocation {
    std::byte* data = nullptr;
    RailRegion region;
    bool registered = false;
  };

  RegistrationId new_id();
  // Lends memory of this domain, which needs no work. False if the slice is not of that kind.
  bool lend_own(LocalSlice slice, Lease& lease) const;
  static void use(ChunkCache::Chunk& chunk, LocalSlice slice, Lease& lease);
  bool lend_reserve(LocalSlice slice, Lease& lease);
  // Lends a block of the pool if the slice is small enough, else registers the slice as a whole.
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
  RegistrationId last_id_;
};

}  // namespace rocecoll
