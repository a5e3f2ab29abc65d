// SPDX-License-Identifier: Apache-2.0
// Whose the buffers are where each queue pair has a receive queue of its own.
#include "transport/fast_paths/rc/receive_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "transport/sim/sim_rdma.h"

namespace rocecoll {
namespace {

constexpr uint32_t kCount = 8;

Rails OneRail(std::unique_ptr<RdmaDevice> device) {
  RdmaDevices devices;
  devices.push_back(std::move(device));
  return Rails(std::move(devices));
}

struct OwnReceives : testing::Test {
  size_t flushed() {
    size_t count = 0;
    for (std::array<WorkCompletion, 4> some; const size_t polled = device->poll(some);) {
      for (const WorkCompletion& one : std::span(some).first(polled)) {
        EXPECT_EQ(one.status, CompletionStatus::kFlushed);
        pool.on_failed(one.id);
      }
      pool.flush();
      count += polled;
      if (count > kCount) break;
    }
    return count;
  }

  EventQueue queue;
  SimRdmaFabric fabric{queue};
  Rails rails = OneRail(fabric.add_device(SimRdmaFabric::OwnReceiveLimits()));
  RdmaDevice* device = &rails[0];
  BlockPool blocks{rails, RemoteAccess::kNone, size_t{1} << 20};
  ReceivePool pool{rails, 0, blocks};
};

TEST_F(OwnReceives, FlushedRequestsAreNotPostedAgainButServeTheNextQueuePair) {
  ASSERT_TRUE(pool.reserve(kCount).ok());
  for (int generation = 0; generation < 3; ++generation) {
    auto queue_pair = device->create_queue_pair().take();
    ASSERT_TRUE(pool.fill(*queue_pair, kCount).ok());
    queue_pair->fail();
    EXPECT_EQ(flushed(), kCount);
    pool.empty(*queue_pair);
    queue_pair.reset();
    EXPECT_EQ(blocks.taken(), kCount);
  }
}

TEST_F(OwnReceives, ALentBufferIsNobodysUntilItComesBack) {
  ASSERT_TRUE(pool.reserve(kCount).ok());
  auto first = device->create_queue_pair().take();
  ASSERT_TRUE(pool.fill(*first, kCount).ok());
  const auto lent = pool.received(3, 100);
  pool.empty(*first);
  first.reset();
  auto second = device->create_queue_pair().take();
  ASSERT_TRUE(pool.fill(*second, kCount).ok());
  EXPECT_EQ(blocks.taken(), kCount + 1) << "another one in its place";
  EXPECT_EQ(lent.size(), 100u);
  pool.repost(3);
  pool.flush();
  second->fail();
  EXPECT_EQ(flushed(), kCount) << "the one that came back is in no queue";
  pool.empty(*second);
}

}  // namespace
}  // namespace rocecoll
