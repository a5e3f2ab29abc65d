// SPDX-License-Identifier: Apache-2.0
// Large memory of the caller's, registered in chunks: one when the first slice of it is lent, so
// that a registration takes a bounded time, and all of them a bounded amount of memory. A chunk
// stays registered until its memory is withdrawn - or, of memory whose end is seen, freed - or
// another one needs the room while no slice of it is lent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/intrusive_list.h"
#include "base/lasting_memory.h"
#include "transport/fast_paths/rc/rails.h"
#include "transport/fast_paths/rc/rc_options.h"
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
    // The last announcement by which it was written to.
    RegistrationId written_for = kUnregistered;
    ListHook<Chunk> idle;  // while no slice of it is lent
  };
  // What is registered at a time of memory that passes, or of memory that lasts.
  struct Room {
    uint64_t limit_bytes = 0;
    uint64_t registered_bytes = 0;
    IntrusiveList<Chunk, &Chunk::idle> idle;  // the longest idle first
  };
  struct Memory {
    std::span<std::byte> bytes;
    RemoteAccess access = RemoteAccess::kNone;
    Room* room = nullptr;
    LastingMemory::Holder block;       // null: it passes with its announcement
    bool given_up = false;             // cannot be registered, or does not stay so for long enough
    std::map<uint64_t, Chunk> chunks;  // by index
  };

  explicit ChunkCache(Rails& rails);
  ~ChunkCache();
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  // What lies in a block stays registered with it.
  void announce(RegistrationId id, std::span<std::byte> memory, RemoteAccess access,
                LastingMemory::Holder block = nullptr);
  // Of nothing that was announced: does nothing. No slice of it may be lent.
  void withdraw(RegistrationId id);
  // Lets go of blocks that were freed: of some chunks at a time, as each takes the system a while.
  void drop_freed();

  // The registered chunk that covers the slice, until give_back(). Null if there is none for it.
  Chunk* lend_for_read(LocalSlice slice) { return lend(slice, RemoteAccess::kNone, 0); }
  // Only one link may write to a chunk: its key does for all of it.
  Chunk* lend_for_write(LocalSlice slice, uint64_t link) {
    return lend(slice, RemoteAccess::kWrite, link);
  }
  void give_back(Chunk& chunk);

  const Room& passing() const { return passing_; }
  const Room& lasting() const { return lasting_; }

 private:
  struct Announcement {
    std::shared_ptr<Memory> memory;
    std::span<std::byte> bytes;
    RemoteAccess access = RemoteAccess::kNone;
  };

  Chunk* lend(LocalSlice slice, RemoteAccess access, uint64_t link);
  // Registers it where it is not. Null: it cannot be.
  Chunk* find_chunk(Memory& memory, uint64_t index);
  Chunk* for_writer(Chunk& chunk, uint64_t link, RegistrationId id);
  bool make_room(Room& room, size_t bytes);
  void drop(Chunk& chunk);
  void drop_all(Memory& memory);

  Rails& rails_;
  Room passing_;
  Room lasting_;
  std::unordered_map<RegistrationId, Announcement> announced_;
  // Shared with the announcements of them, or of parts of them.
  std::unordered_map<const LastingMemory::Block*, std::shared_ptr<Memory>> blocks_;
  uint64_t frees_seen_ = 0;
};

}  // namespace rocecoll
