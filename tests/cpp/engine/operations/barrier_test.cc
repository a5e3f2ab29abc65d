// SPDX-License-Identifier: Apache-2.0
// A barrier comes after what every rank has called before it, whose results nobody has waited for.
#include <algorithm>
#include <memory>
#include <vector>

#include "engine/call.h"
#include "engine/one_receive.h"

namespace rocecoll {
namespace {

TEST(Barrier, ComesAfterTheCollectivesBefore) {
  ClusterOptions options;
  options.ranks = 3;
  Cluster cluster(options);
  std::vector<std::unique_ptr<Call>> before;
  for (const uint64_t elements : {1u, 300000u, 1000u}) {
    before.push_back(std::make_unique<Call>(cluster, CallSpec{.elements = elements}));
  }
  Call barrier(cluster, {.collective = Collective::kBarrier});
  Call after(cluster, {.elements = 5});
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    for (const auto& call : before) call->submit(rank);
    barrier.submit(rank);
    after.submit(rank);
    cluster.settle(std::chrono::microseconds(50));
  }
  ASSERT_TRUE(cluster.run([&] {
    return std::ranges::any_of(barrier.operations(),
                               [&](const auto& passed) { return cluster.is_done(passed); });
  }));
  for (const auto& call : before) {
    for (const OperationPtr& operation : call->operations()) {
      EXPECT_TRUE(cluster.is_done(operation));
    }
    call->check();
  }
  ASSERT_TRUE(barrier.run());
  ASSERT_TRUE(after.run());
  after.check();
}

// Messages have no place among the collectives.
TEST(Barrier, WaitsForNoMessage) {
  Cluster cluster(ClusterOptions{});
  int32_t value = 0;
  const OperationPtr pending = cluster.submit(0, OneReceive(value, 1));
  RunCall(cluster, {.collective = Collective::kBarrier});
  EXPECT_FALSE(cluster.is_done(pending));
}

// What a rank does beside the engine, as the steps of a sparse all_reduce, keeps the barriers of
// all.
TEST(Barrier, WaitsForItsGateOnEveryRank) {
  ClusterOptions options;
  options.ranks = 3;
  Cluster cluster(options);
  const auto gate = std::make_shared<Gate>();
  std::vector<OperationPtr> barriers;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    OperationSpec barrier;
    if (rank == 1) barrier.gate = gate;
    barriers.push_back(cluster.submit(rank, std::move(barrier)));
  }
  Call behind(cluster, {.elements = 5});
  behind.submit_all();
  cluster.settle(std::chrono::milliseconds(50));
  for (const OperationPtr& barrier : barriers) EXPECT_FALSE(cluster.is_done(barrier));
  for (const OperationPtr& call : behind.operations()) EXPECT_FALSE(cluster.is_done(call));
  gate->open();
  ASSERT_TRUE(cluster.run_until_done(barriers));
  ASSERT_TRUE(behind.run());
  behind.check();
}

// The error names what keeps the gate closed.
TEST(Barrier, BehindAGateTimesOut) {
  Cluster cluster(ClusterOptions{});
  int32_t value = 0;
  cluster.submit(0, OneReceive(value, 1));
  OperationSpec barrier;
  barrier.gate = std::make_shared<Gate>();
  barrier.timeout = std::chrono::seconds(1);
  const OperationPtr late = cluster.submit(0, std::move(barrier));
  ASSERT_TRUE(cluster.run_until_done({late}));
  EXPECT_EQ(late->status().code(), StatusCode::kTimeout);
  EXPECT_NE(late->status().message().find("recv #1"), std::string::npos)
      << late->status().message();
  EXPECT_NE(late->status().message().find("an operation behind it timed out"), std::string::npos)
      << late->status().message();
}

}  // namespace
}  // namespace rocecoll
