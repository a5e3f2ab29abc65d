// SPDX-License-Identifier: Apache-2.0
#include "transport/fast_paths/rc/chunk_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocecoll {
namespace {

// Memory that passes is registered anew for each operation, so keeping more of it registered gains
// nothing.
constexpr uint64_t kMaxPassingBytes = uint64_t{256} << 20;
// Each of the two rooms may use 1 / kLockedParts of the memory that the process may lock. The rest
// is for buffers, which must be registered.
constexpr uint64_t kLockedParts = 4;
// Unpinning a chunk takes the system some 100 us, and everything else waits meanwhile.
constexpr size_t kDropsAtATime = 8;

uint64_t LimitBytes(const RdmaLimits& limits) {
  if (limits.max_region_bytes < ChunkCache::kLargestRegionBytes) return 0;
  return limits.max_registered_bytes / kLockedParts;
}

}  // namespace

ChunkCache::ChunkCache(Rails& rails) : rails_(rails) {
  lasting_.limit_bytes = LimitBytes(rails.limits());
  passing_.limit_bytes = std::min(kMaxPassingBytes, lasting_.limit_bytes);
}

ChunkCache::~ChunkCache() {
  while (!announced_.empty()) withdraw(announced_.begin()->first);
  for (const auto& [block, memory] : blocks_) drop_all(*memory);
}

void ChunkCache::announce(RegistrationId id, std::span<std::byte> memory, RemoteAccess access,
                          LastingMemory::Holder block) {
  const LastingMemory::Block* lasting = block.get();
  std::shared_ptr<Memory> whole;
  if (lasting != nullptr) whole = blocks_[lasting];
  if (whole == nullptr) {
    whole = std::make_shared<Memory>();
    whole->bytes = lasting == nullptr ? memory : lasting->bytes;
    whole->access = lasting == nullptr ? access : RemoteAccess::kWrite;
    whole->room = lasting == nullptr ? &passing_ : &lasting_;
    whole->block = std::move(block);
    if (lasting != nullptr) blocks_[lasting] = whole;
  }
  const bool added =
      announced_.try_emplace(id, Announcement{std::move(whole), memory, access}).second;
  ROCECOLL_CHECK(added);
}

void ChunkCache::withdraw(RegistrationId id) {
  const auto found = announced_.find(id);
  if (found == announced_.end()) return;
  Memory& memory = *found->second.memory;
  if (memory.block == nullptr) drop_all(memory);
  announced_.erase(found);
}

void ChunkCache::drop_freed() {
  const uint64_t frees = LastingMemory::Frees();
  if (frees == frees_seen_) return;
  size_t drops = kDropsAtATime;
  bool all = true;
  std::erase_if(blocks_, [&](const auto& item) {
    Memory& memory = *item.second;
    if (!memory.block->freed.load(std::memory_order_acquire)) return false;
    const bool announced = item.second.use_count() > 1;
    for (; !announced && drops > 0 && !memory.chunks.empty(); --drops) {
      drop(memory.chunks.begin()->second);
    }
    const bool gone = !announced && memory.chunks.empty();
    all = all && gone;
    return gone;
  });
  if (all) frees_seen_ = frees;
}

ChunkCache::Chunk* ChunkCache::lend(LocalSlice slice, RemoteAccess access, uint64_t link) {
  const auto found = announced_.find(slice.registration);
  if (found == announced_.end()) return nullptr;
  const Announcement& announced = found->second;
  if (access == RemoteAccess::kWrite && announced.access != RemoteAccess::kWrite) return nullptr;
  ROCECOLL_CHECK(slice.data >= announced.bytes.data() &&
                 slice.data + slice.size <= announced.bytes.data() + announced.bytes.size());
  Memory& memory = *announced.memory;
  const auto offset = static_cast<uint64_t>(slice.data - memory.bytes.data());
  const uint64_t index = offset / kChunkBytes;
  if (offset % kChunkBytes + slice.size > kLargestRegionBytes) return nullptr;
  Chunk* chunk = find_chunk(memory, index);
  if (chunk != nullptr && access == RemoteAccess::kWrite) {
    chunk = for_writer(*chunk, link, slice.registration);
  }
  if (chunk == nullptr) return nullptr;
  chunk->memory->room->idle.erase(*chunk);
  ++chunk->leases;
  chunk->lent_bytes += slice.size;
  return chunk;
}

// Peers write to memory that lasts one after the other. A chunk is registered again, under a new
// key, for the next peer, but at most once per announcement: registering it costs more than copying
// some slices.
ChunkCache::Chunk* ChunkCache::for_writer(Chunk& chunk, uint64_t link, RegistrationId id) {
  Chunk* own = &chunk;
  if (chunk.writer != 0 && chunk.writer != link) {
    if (chunk.written_for == id || chunk.leases > 0) return nullptr;
    Memory& memory = *chunk.memory;
    const uint64_t index = chunk.index;
    drop(chunk);
    own = find_chunk(memory, index);
    if (own == nullptr) return nullptr;
  }
  own->writer = link;
  own->written_for = id;
  return own;
}

void ChunkCache::give_back(Chunk& chunk) {
  ROCECOLL_CHECK(chunk.leases > 0);
  if (--chunk.leases == 0) chunk.memory->room->idle.push_back(chunk);
}

ChunkCache::Chunk* ChunkCache::find_chunk(Memory& memory, uint64_t index) {
  const auto present = memory.chunks.find(index);
  if (present != memory.chunks.end()) return &present->second;
  const std::span<std::byte> rest = memory.bytes.subspan(index * kChunkBytes);
  const auto bytes = rest.first(std::min(rest.size(), kLargestRegionBytes));
  if (memory.given_up || !make_room(*memory.room, bytes.size())) return nullptr;
  const Result<RailRegion> region = rails_.register_memory(bytes, memory.access);
  if (!region.ok()) {
    memory.given_up = true;
    return nullptr;
  }
  memory.room->registered_bytes += bytes.size();
  Chunk& chunk = memory.chunks[index];
  chunk.memory = &memory;
  chunk.index = index;
  chunk.bytes = bytes.size();
  chunk.region = region.value();
  memory.room->idle.push_back(chunk);
  return &chunk;
}

bool ChunkCache::make_room(Room& room, size_t bytes) {
  if (bytes > room.limit_bytes) return false;
  while (room.registered_bytes > room.limit_bytes - bytes) {
    Chunk* oldest = room.idle.front();
    if (oldest == nullptr) return false;
    // Its slices are lent again and again, but too far apart for it to stay registered in between.
    if (oldest->lent_bytes < oldest->bytes / 2) oldest->memory->given_up = true;
    drop(*oldest);
  }
  return true;
}

void ChunkCache::drop(Chunk& chunk) {
  ROCECOLL_CHECK(chunk.leases == 0);
  Room& room = *chunk.memory->room;
  room.idle.erase(chunk);
  rails_.deregister(chunk.region);
  room.registered_bytes -= chunk.bytes;
  chunk.memory->chunks.erase(chunk.index);
}

void ChunkCache::drop_all(Memory& memory) {
  while (!memory.chunks.empty()) drop(memory.chunks.begin()->second);
}

}  // namespace rocecoll
