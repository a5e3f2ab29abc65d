// SPDX-License-Identifier: Apache-2.0
// A group fails while one of its ranks can hear nobody and has no link to anybody.
#include <gtest/gtest.h>

#include "conformance/world_cluster.h"
#include "datagram/transport_world.h"
#include "engine/call.h"

namespace rocecoll {
namespace {

TEST(MissedNotice, IsToldToTheRankThatComesLater) {
  auto owned = std::make_unique<SimWorld>(3);
  SimWorld& world = *owned;
  WorldCluster cluster(std::move(owned));
  for (const Rank other : {1, 2}) {
    world.network.wire(0, other).blocked = true;
    world.network.wire(other, 0).blocked = true;
  }
  cluster.engine(2).abort(cluster.group(), Status(StatusCode::kAborted, "enough of this"));
  cluster.settle(std::chrono::seconds(15));
  const auto status = [&](Rank rank) { return cluster.engine(rank).group_status(cluster.group()); };
  EXPECT_FALSE(status(1).ok());
  EXPECT_TRUE(status(0).ok());
  world.network.set_partition(1, false);
  Call call(cluster, {.collective = Collective::kBroadcast, .elements = 1, .root = 1});
  call.submit(0);
  ASSERT_TRUE(cluster.run([&] { return !status(0).ok(); }, std::chrono::milliseconds(100)));
  EXPECT_EQ(status(0).code(), StatusCode::kAborted);
  EXPECT_NE(status(0).message().find("enough of this"), std::string::npos) << status(0).message();
}

}  // namespace
}  // namespace rocecoll
