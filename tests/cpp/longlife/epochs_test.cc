// SPDX-License-Identifier: Apache-2.0
// A group that is made anew thousands of times (rocecoll.reconfigure) in processes that stay: none
// of the former ones leaves anything behind.
#include "swarm/epochs.h"

#include <gtest/gtest.h>

#include <memory>

#include "conformance/world_cluster.h"
#include "datagram/transport_world.h"
#include "engine/groups/gone_groups.h"
#include "longlife/heap_bytes.h"

namespace rocecoll {
namespace {

// Names and parting words of so many groups are kept, two for each epoch.
constexpr uint64_t kSettledEpochs = GoneGroups::kMaxGroups / 2 + 50;

// Each rank goes its own way: the others may still be in the attempt that it has left.
void RunManyEpochs(uint64_t count, const SimWire& wire) {
  auto owned = std::make_unique<SimWorld>(3, wire);
  SimWorld& world = *owned;
  WorldCluster cluster(std::move(owned));
  Epochs epochs(cluster);
  const Members all{0, 1, 2};
  std::vector<bool> summed(3);
  uint64_t last = 0;
  epochs.on_result = [&](Rank rank) {
    ASSERT_TRUE(epochs.result(rank).ok()) << epochs.result(rank).message();
    const uint64_t uuid = epochs.home_uuid(rank);
    summed[rank] = !summed[rank];
    if (!summed[rank]) {
      if (uuid < last) epochs.come(rank, uuid + 1, all, std::chrono::seconds(3));
    } else {
      epochs.sum(rank);
    }
  };
  // Runs until all are in home `uuid`, and what the former ones have left to send has been sent.
  const auto run_to = [&](uint64_t uuid) {
    const uint64_t first = last + 1;
    last = uuid;
    epochs.all_come(first, all, std::chrono::seconds(3));
    ASSERT_TRUE(epochs.run(std::chrono::hours(10)));
    cluster.settle(std::chrono::seconds(30));
    for (const Rank rank : all) {
      ASSERT_EQ(epochs.home_uuid(rank), uuid);
      EXPECT_EQ(cluster.engine(rank).state().groups, 1u);
      EXPECT_EQ(cluster.engine(rank).state().failures, 0u);
      EXPECT_LE(cluster.engine(rank).peer_stats(cluster.now()).size(), 2u) << "links";
      EXPECT_FALSE(world[rank].transport->lingering());
      EXPECT_EQ(world.ports[rank]->leased(), 0u);
    }
  };
  run_to(kSettledEpochs);
  const size_t before = HeapBytes();
  run_to(count);
  EXPECT_LE(HeapBytes(), before + kNoise / 16) << "after " << count << " epochs";
  for (const Rank rank : all) cluster.engine(rank).remove_all_groups();
  cluster.settle(std::chrono::seconds(30));
  for (const Rank rank : all) EXPECT_EQ(world[rank].transport->next_deadline(), kNever);
}

TEST(LongLife, AThousandEpochs) { RunManyEpochs(1000, {}); }
TEST(LongLife, AThousandEpochsAtLoss) { RunManyEpochs(1000, {.loss = 0.05}); }
TEST(LongLife, TenThousandEpochsNightly) { RunManyEpochs(10000, {}); }
TEST(LongLife, TenThousandEpochsAtLossNightly) { RunManyEpochs(10000, {.loss = 0.05}); }

}  // namespace
}  // namespace rocecoll
