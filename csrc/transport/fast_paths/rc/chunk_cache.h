// SPDX-License-Identifier: Apache-2.0
// Registers large memory of the caller's in chunks, each when the first slice of it is lent. So a
// single registration takes a bounded time, and all of them together cover a bounded amount of
// memory. A chunk stays registered until its memory is withdrawn, or is freed if that is noticed
// (base/lasting_memory.h), or until another chunk needs the room while no slice of this one is
// lent.
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
  // A chunk's registration extends this far into the next chunk. So it covers every slice of up to
  // this size that begins in the chunk.
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
    uint64_t writer = 0;      // the only link that knows its remote key; 0: none does
    // The last announcement under which a peer was given it to write to.
    RegistrationId written_for = kUnregistered;
    ListHook<Chunk> idle;  // in the list while no slice of it is lent
  };
  // How much is registered at a time. Memory that passes, announced for one use, has one room;
  // memory that lasts, whose end is noticed, has another.
  struct Room {
    uint64_t limit_bytes = 0;
    uint64_t registered_bytes = 0;
    IntrusiveList<Chunk, &Chunk::idle> idle;  // the chunk that has been idle longest comes first
  };
  struct Memory {
    std::span<std::byte> bytes;
    RemoteAccess access = RemoteAccess::kNone;
    Room* room = nullptr;
    LastingMemory::Holder block;  // null: it passes with its announcement
    bool given_up = false;        // cannot be registered, or is dropped too soon to be worth it
    std::map<uint64_t, Chunk> chunks;  // by index
  };

  explicit ChunkCache(Rails& rails);
  ~ChunkCache();
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  // Memory that lies in a block stays registered as long as the block lasts.
  void announce(RegistrationId id, std::span<std::byte> memory, RemoteAccess access,
                LastingMemory::Holder block = nullptr);
  // Whether something is announced as `id`.
  bool knows(RegistrationId id) const { return announced_.contains(id); }
  // Does nothing if nothing was announced as `id`. No slice of the memory may be lent.
  void withdraw(RegistrationId id);
  // Deregisters blocks that were freed, a few chunks at a time, because each takes the system a
  // while.
  void drop_freed();

  // Returns the registered chunk that covers the slice, lent until give_back(), or null if none
  // can.
  Chunk* lend_for_read(LocalSlice slice) { return lend(slice, RemoteAccess::kNone, 0); }
  // Only one link may write to a chunk, because the chunk's key gives access to all of it.
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
  // Registers the chunk if it is not registered. Null if that is impossible.
  Chunk* find_chunk(Memory& memory, uint64_t index);
  Chunk* for_writer(Chunk& chunk, uint64_t link, RegistrationId id);
  bool make_room(Room& room, size_t bytes);
  void drop(Chunk& chunk);
  void drop_all(Memory& memory);

  Rails& rails_;
  Room passing_;
  Room lasting_;
  std::unordered_map<RegistrationId, Announcement> announced_;
  // Each is shared with the announcements of the block or of parts of it.
  std::unordered_map<const LastingMemory::Block*, std::shared_ptr<Memory>> blocks_;
  uint64_t frees_seen_ = 0;
};

}  // namespace rocecoll
