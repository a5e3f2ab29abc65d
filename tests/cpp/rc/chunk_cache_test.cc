// SPDX-License-Identifier: Apache-2.0
// Announced memory is registered in chunks, within a bound, and each key is told to one link.
#include "transport/rc/chunk_cache.h"

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
    EXPECT_LE(cache_->registered_bytes(), cache_->limit_bytes());
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

}  // namespace
}  // namespace rocecoll
