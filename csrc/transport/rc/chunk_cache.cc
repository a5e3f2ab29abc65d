// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/chunk_cache.h"

#include <algorithm>

#include "base/check.h"

namespace rocecoll {
namespace {

constexpr uint64_t kMaxRegisteredBytes = uint64_t{256} << 20;
// Of what this process may lock; the rest is for what cannot do without.
constexpr uint64_t kLockedParts = 4;

uint64_t LimitBytes(const RdmaLimits& limits) {
  if (limits.max_region_bytes < ChunkCache::kLargestRegionBytes) return 0;
  return std::min(kMaxRegisteredBytes, limits.max_registered_bytes / kLockedParts);
}

}  // namespace

ChunkCache::ChunkCache(Rails& rails) : rails_(rails), limit_bytes_(LimitBytes(rails.limits())) {}

ChunkCache::~ChunkCache() {
  while (!memories_.empty()) withdraw(memories_.begin()->first);
}

void ChunkCache::announce(RegistrationId id, std::span<std::byte> memory, RemoteAccess access) {
  const bool added = memories_.try_emplace(id, Memory{memory, access, false, {}}).second;
  ROCECOLL_CHECK(added);
}

void ChunkCache::withdraw(RegistrationId id) {
  const auto found = memories_.find(id);
  if (found == memories_.end()) return;
  auto& chunks = found->second.chunks;
  while (!chunks.empty()) drop(chunks.begin()->second);
  memories_.erase(found);
}

ChunkCache::Chunk* ChunkCache::lend(LocalSlice slice, RemoteAccess access, uint64_t link) {
  const auto found = memories_.find(slice.registration);
  if (found == memories_.end()) return nullptr;
  Memory& memory = found->second;
  if (access == RemoteAccess::kWrite && memory.access != RemoteAccess::kWrite) return nullptr;
  ROCECOLL_CHECK(slice.data >= memory.bytes.data() &&
                 slice.data + slice.size <= memory.bytes.data() + memory.bytes.size());
  const auto offset = static_cast<uint64_t>(slice.data - memory.bytes.data());
  const uint64_t index = offset / kChunkBytes;
  if (offset % kChunkBytes + slice.size > kLargestRegionBytes) return nullptr;
  const auto present = memory.chunks.find(index);
  Chunk* chunk = present == memory.chunks.end() ? add_chunk(memory, index) : &present->second;
  if (chunk == nullptr) return nullptr;
  if (access == RemoteAccess::kWrite) {
    if (chunk->writer == 0) chunk->writer = link;
    if (chunk->writer != link) return nullptr;
  }
  idle_.erase(*chunk);
  ++chunk->leases;
  chunk->lent_bytes += slice.size;
  return chunk;
}

void ChunkCache::give_back(Chunk& chunk) {
  ROCECOLL_CHECK(chunk.leases > 0);
  if (--chunk.leases == 0) idle_.push_back(chunk);
}

ChunkCache::Chunk* ChunkCache::add_chunk(Memory& memory, uint64_t index) {
  const std::span<std::byte> rest = memory.bytes.subspan(index * kChunkBytes);
  const auto bytes = rest.first(std::min(rest.size(), kLargestRegionBytes));
  if (memory.given_up || !make_room(bytes.size())) return nullptr;
  const Result<RailRegion> region = rails_.register_memory(bytes, memory.access);
  if (!region.ok()) {
    memory.given_up = true;
    return nullptr;
  }
  registered_bytes_ += bytes.size();
  Chunk& chunk = memory.chunks[index];
  chunk.memory = &memory;
  chunk.index = index;
  chunk.bytes = bytes.size();
  chunk.region = region.value();
  idle_.push_back(chunk);
  return &chunk;
}

bool ChunkCache::make_room(size_t bytes) {
  if (bytes > limit_bytes_) return false;
  while (registered_bytes_ > limit_bytes_ - bytes) {
    Chunk* oldest = idle_.front();
    if (oldest == nullptr) return false;
    // Its slices come again and again, too far apart.
    if (oldest->lent_bytes < oldest->bytes / 2) oldest->memory->given_up = true;
    drop(*oldest);
  }
  return true;
}

void ChunkCache::drop(Chunk& chunk) {
  ROCECOLL_CHECK(chunk.leases == 0);
  idle_.erase(chunk);
  rails_.deregister(chunk.region);
  registered_bytes_ -= chunk.bytes;
  chunk.memory->chunks.erase(chunk.index);
}

}  // namespace rocecoll
