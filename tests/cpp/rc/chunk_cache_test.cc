// SPDX-License-Identifier: Apache-2.0
// Announced memory is registered in chunks, within a bound, and each key is told to one link.
#include "transport/fast_paths/rc/chunk_cache.h"

#include "rc/rc_world.h"

namespace rocecoll {
namespace {

constexpr size_t kMib = size_t{1} << 20;

TEST(ChunkCache, AKeyIsToldToOneLinkOnly) {
  RcWorld world(3);
  Link* first = world.open(0, 1);
  Link* second = world.open(0, 2);
  world.open(1, 0);
  world.open(2, 0);
  ASSERT_TRUE(world.run([&] { return world.transports[0]->links_on_path() == 2; }));
  Bytes memory(2 * kMib);
  MemoryDomain& domain = world.transports[0]->memory();
  const RegistrationId announced = domain.announce(memory, /*writable=*/true);
  const auto expose = [&](Link* link, size_t at) {
    return link->expose({memory.data() + at, 1000, announced}, 1);
  };
  const RemoteSlice a = expose(first, 0);
  const RemoteSlice again = expose(first, 1000);
  const RemoteSlice other = expose(second, 2000);
  EXPECT_EQ(static_cast<uint32_t>(a.key), static_cast<uint32_t>(again.key));
  EXPECT_NE(static_cast<uint32_t>(a.key), static_cast<uint32_t>(other.key));
  first->unexpose(a);
  first->unexpose(again);
  second->unexpose(other);
  domain.withdraw(announced);
}

class Chunks : public testing::Test {
 protected:
  Chunks() {
    RdmaLimits limits = SimRdmaFabric::DefaultLimits();
    limits.max_registered_bytes =
        4 * 3 * ChunkCache::kLargestRegionBytes;  // a quarter is for these
    RdmaDevices devices;
    devices.push_back(fabric_.add_device(limits));
    rails_ = std::make_unique<Rails>(std::move(devices));
    cache_ = std::make_unique<ChunkCache>(*rails_);
    cache_->announce(1, memory_, RemoteAccess::kNone);
  }
  ~Chunks() override { cache_.reset(); }
  ChunkCache::Chunk* lend(size_t chunk, size_t bytes) {
    return cache_->lend_for_read({memory_.data() + chunk * ChunkCache::kChunkBytes, bytes, 1});
  }

  EventQueue queue_;
  SimRdmaFabric fabric_{queue_};
  std::unique_ptr<Rails> rails_;
  std::unique_ptr<ChunkCache> cache_;
  Bytes memory_ = Bytes(32 * kMib);
};

TEST_F(Chunks, TheLongestIdleGivesWay) {
  for (size_t chunk = 0; chunk < 8; ++chunk) {
    for (int slice = 0; slice < 16; ++slice) {
      ChunkCache::Chunk* lent = lend(chunk, 256 << 10);
      ASSERT_NE(lent, nullptr) << chunk;
      cache_->give_back(*lent);
    }
    EXPECT_LE(cache_->passing().registered_bytes, cache_->passing().limit_bytes);
  }
  EXPECT_EQ(fabric_.registrations(0).calls, 8u) << "each once";
}

TEST_F(Chunks, WhatIsLentStaysRegistered) {
  std::vector<ChunkCache::Chunk*> lent;
  for (size_t chunk = 0; chunk < 3; ++chunk) lent.push_back(lend(chunk, 4096));
  EXPECT_EQ(lend(3, 4096), nullptr) << "no room";
  for (ChunkCache::Chunk* chunk : lent) cache_->give_back(*chunk);
  EXPECT_EQ(fabric_.registrations(0).calls, 3u);
}

// Else each slice would cost the registration of a chunk.
TEST_F(Chunks, MemoryWhoseChunksGiveWayTooSoonIsNoLongerRegistered) {
  for (int round = 0; round < 10; ++round) {
    for (size_t chunk = 0; chunk < 8; ++chunk) {
      if (ChunkCache::Chunk* lent = lend(chunk, 4096); lent != nullptr) cache_->give_back(*lent);
    }
  }
  EXPECT_LE(fabric_.registrations(0).calls, 4u);
}

TEST_F(Chunks, WithdrawnMemoryIsNotRegistered) {
  cache_->give_back(*lend(0, 4096));
  cache_->withdraw(1);
  EXPECT_EQ(fabric_.registrations(0).bytes, 0u);
  EXPECT_EQ(lend(0, 4096), nullptr);
}

// Memory whose end is seen: three chunks of a block, as tensors of the backend's own are.
class LastingChunks : public Chunks {
 protected:
  static constexpr size_t kBytes = 10 * kMib;
  void SetUp() override {
    block_ = LastingMemory::Allocate(kBytes);
    ASSERT_NE(block_, nullptr);
  }
  void announce(RegistrationId id, size_t at = 0, size_t bytes = kBytes,
                RemoteAccess access = RemoteAccess::kWrite) {
    const std::span memory(block_.get() + at, bytes);
    cache_->announce(id, memory, access, LastingMemory::Find(memory));
  }
  ChunkCache::Chunk* expose(RegistrationId id, uint64_t link, size_t at = 0) {
    return cache_->lend_for_write({block_.get() + at, 1000, id}, link);
  }
  // An operation that writes to all of it from one link.
  void operate(RegistrationId id, uint64_t link) {
    announce(id);
    for (size_t at = 0; at < kBytes; at += ChunkCache::kChunkBytes) {
      ChunkCache::Chunk* chunk = expose(id, link, at);
      ASSERT_NE(chunk, nullptr);
      cache_->give_back(*chunk);
    }
    cache_->withdraw(id);
  }
  uint64_t registrations() { return fabric_.registrations(0).calls; }

  LastingMemory::Owner block_;
};

TEST_F(LastingChunks, OperationsOneAfterTheOtherRegisterItOnce) {
  for (RegistrationId id = 2; id < 10; ++id) operate(id, 7);
  EXPECT_EQ(registrations(), 3u);
  EXPECT_EQ(cache_->passing().registered_bytes, 0u);
}

TEST_F(LastingChunks, PartsOfABlockShareItsChunks) {
  announce(2, 0, kMib);
  announce(3, kMib / 2, kMib, RemoteAccess::kNone);
  ChunkCache::Chunk* written = expose(2, 7);
  ChunkCache::Chunk* read = cache_->lend_for_read({block_.get() + kMib / 2, 1000, 3});
  EXPECT_EQ(written, read);
  EXPECT_EQ(expose(3, 7, kMib / 2), nullptr) << "it was announced to be read alone";
  cache_->give_back(*written);
  cache_->withdraw(2);
  EXPECT_EQ(registrations(), 1u);
  EXPECT_EQ(expose(2, 7), nullptr) << "its operation is over";
  cache_->give_back(*read);
  cache_->withdraw(3);
}

TEST_F(LastingChunks, AnotherLinkGetsAnotherKeyOnceAnOperation) {
  operate(2, 7);
  announce(3);
  ChunkCache::Chunk* other = expose(3, 8);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(registrations(), 4u) << "the key that the first one knows is dead";
  EXPECT_EQ(expose(3, 9), nullptr) << "while a slice is lent";
  cache_->give_back(*other);
  EXPECT_EQ(expose(3, 9), nullptr) << "and later: to copy costs less";
  cache_->withdraw(3);
  announce(4);
  ChunkCache::Chunk* third = expose(4, 9);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(registrations(), 5u);
  cache_->give_back(*third);
}

TEST_F(LastingChunks, WhatIsFreedIsLetGoOf) {
  operate(2, 7);
  EXPECT_GT(fabric_.registrations(0).bytes, 0u);
  block_.reset();
  cache_->drop_freed();
  EXPECT_EQ(fabric_.registrations(0).bytes, 0u);
  EXPECT_EQ(cache_->lasting().registered_bytes, 0u);
  SetUp();
  operate(3, 7);
  EXPECT_EQ(registrations(), 6u) << "whatever lay there before";
}

TEST_F(LastingChunks, WhatIsFreedInAnOperationStaysUntilItsEnd) {
  announce(2);
  ChunkCache::Chunk* lent = expose(2, 7);
  std::byte* data = block_.get();
  block_.reset();
  cache_->drop_freed();
  *data = std::byte{1};
  cache_->give_back(*lent);
  cache_->withdraw(2);
  cache_->drop_freed();
  EXPECT_EQ(fabric_.registrations(0).bytes, 0u);
}

TEST_F(LastingChunks, MuchIsLetGoOfBitByBit) {
  std::vector<LastingMemory::Owner> blocks;
  for (RegistrationId id = 2; id < 22; ++id) {
    blocks.push_back(LastingMemory::Allocate(kMib / 2));
    const std::span memory(blocks.back().get(), kMib / 2);
    cache_->announce(id, memory, RemoteAccess::kWrite, LastingMemory::Find(memory));
    cache_->give_back(*cache_->lend_for_read({memory.data(), 1000, id}));
    cache_->withdraw(id);
  }
  blocks.clear();
  uint64_t left = cache_->lasting().registered_bytes;
  for (int looks = 0; left > 0; ++looks) {
    ASSERT_LT(looks, 20);
    cache_->drop_freed();
    EXPECT_LE(left - cache_->lasting().registered_bytes, 8 * kMib / 2);
    EXPECT_LT(cache_->lasting().registered_bytes, left);
    left = cache_->lasting().registered_bytes;
  }
}

// It has no bound of its own: what the process may lock is one.
TEST_F(LastingChunks, TheLongestIdleGivesWayToo) {
  block_ = LastingMemory::Allocate(32 * kMib);
  announce(2, 0, 32 * kMib);
  for (size_t chunk = 0; chunk < 8; ++chunk) {
    for (int slice = 0; slice < 4'000; ++slice) {
      ChunkCache::Chunk* lent = expose(2, 7, chunk * ChunkCache::kChunkBytes);
      ASSERT_NE(lent, nullptr) << chunk;
      cache_->give_back(*lent);
    }
    EXPECT_LE(cache_->lasting().registered_bytes, cache_->lasting().limit_bytes);
  }
  EXPECT_EQ(registrations(), 8u);
}

}  // namespace
}  // namespace rocecoll
