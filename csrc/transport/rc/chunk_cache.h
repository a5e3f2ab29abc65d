// SPDX-License-Identifier: Apache-2.0
// Large memory of the caller's, registered in chunks: one when the first slice of it is lent, so
// that a registration takes a bounded time, and all of them a bounded amount of memory. A chunk
// stays registered until its memory is withdrawn, or another one needs the room while no slice of
// it is lent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>

#include "base/intrusive_list.h"
#include "transport/rc/rails.h"
#include "transport/rc/rc_options.h"
#include "transport/rdma.h"
#include "transport/transport.h"

namespace rocecoll {

class ChunkCache {
 public:
  static constexpr size_t kChunkBytes = size_t{4} << 20;
  // A chunk's registration reaches so far into the next one: a slice of this size that begins in a
  // chunk is covered by it.
  static constexpr size_t kOverlapBytes = RcOptions::kMaxWriteBytes;
  static constexpr size_t kLargestRegionBytes = kChunkBytes + kOverlapBytes;

  struct Memory;
  struct Chunk {
    Memory* memory = nullptr;
    uint64_t index = 0;
    size_t bytes = 0;
    RailRegion region;
    uint32_t leases = 0;
    uint64_t lent_bytes = 0;  // of all slices so far
    uint64_t writer = 0;      // the one link that has been told its key; 0: none
    ListHook<Chunk> idle;     // while no slice of it is lent
  };
  struct Memory {
    std::span<std::byte> bytes;
    RemoteAccess access = RemoteAccess::kNone;
    bool given_up = false;  // its chunks cannot be registered, or do not stay so for long enough
    std::map<uint64_t, Chunk> chunks;  // by index
  };

  explicit ChunkCache(Rails& rails);
  ~ChunkCache();
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  void announce(RegistrationId id, std::span<std::byte> memory, RemoteAccess access);
  // Of nothing that was announced: does nothing. No slice of it may be lent.
  void withdraw(RegistrationId id);

  // The registered chunk that covers the slice, until give_back(). Null if there is none for it.
  Chunk* lend_for_read(LocalSlice slice) { return lend(slice, RemoteAccess::kNone, 0); }
  // Only one link may write to a chunk: its key does for all of it.
  Chunk* lend_for_write(LocalSlice slice, uint64_t link) {
    return lend(slice, RemoteAccess::kWrite, link);
  }
  void give_back(Chunk& chunk);

  uint64_t registered_bytes() const { return registered_bytes_; }
  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  Chunk* lend(LocalSlice slice, RemoteAccess access, uint64_t link);
  Chunk* add_chunk(Memory& memory, uint64_t index);
  bool make_room(size_t bytes);
  void drop(Chunk& chunk);

  Rails& rails_;
  const uint64_t limit_bytes_;
  uint64_t registered_bytes_ = 0;
  std::unordered_map<RegistrationId, Memory> memories_;
  IntrusiveList<Chunk, &Chunk::idle> idle_;  // the longest idle first
};

}  // namespace rocecoll
