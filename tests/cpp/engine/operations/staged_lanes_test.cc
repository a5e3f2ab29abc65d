// SPDX-License-Identifier: Apache-2.0
// Lanes of staged memory share what host memory there is: what an operation takes, and that it goes
// on whatever others hold.
#include <algorithm>

#include "engine/call.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kManyLanes = 40000;  // elements

ClusterOptions SmallLanes(uint32_t ranks) {
  ClusterOptions options;
  options.ranks = ranks;
  options.engine.lane_bytes = 4096;
  options.fabric.max_frame_bytes = 512;
  options.timeout = std::chrono::seconds(10);
  return options;
}

DeviceScript AtOnce(Rank /*rank*/) {
  return [](DeviceCall, uint32_t) -> Result<bool> { return true; };
}

// What the devices of each rank share.
class Budgets {
 public:
  Budgets(uint32_t ranks, size_t limit) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      budgets_.push_back(std::make_shared<LaneBudget>(LaneBudget{.limit = limit}));
    }
  }

  std::function<std::shared_ptr<LaneBudget>(Rank)> share() const {
    return [this](Rank rank) { return budgets_[rank]; };
  }
  std::shared_ptr<LaneBudget> of(Rank rank) const { return budgets_[rank]; }
  size_t most() const {
    size_t most = 0;
    for (const auto& budget : budgets_) most = std::max(most, budget->most);
    return most;
  }
  size_t lent() const {
    size_t lent = 0;
    for (const auto& budget : budgets_) lent += budget->lent;
    return lent;
  }

 private:
  std::vector<std::shared_ptr<LaneBudget>> budgets_;
};

TEST(StagedLanes, AnOperationOfManyTakesMemoryForAFew) {
  for (const size_t limit : {1u, 2u, 5u, 100u}) {
    for (const Collective collective :
         {Collective::kAllreduce, Collective::kBroadcast, Collective::kAllgather,
          Collective::kReduceScatter, Collective::kAlltoall, Collective::kReduce}) {
      const Budgets budgets(3, limit);
      Cluster cluster(SmallLanes(3));
      RunCall(cluster, {.collective = collective,
                        .elements = kManyLanes,
                        .device = AtOnce,
                        .budget = budgets.share()});
      EXPECT_LE(budgets.most(), limit);
      EXPECT_LE(budgets.most(), kStagedLanesAhead + EngineOptions().max_lanes_in_flight + 1);
      EXPECT_EQ(budgets.lent(), 0u);
    }
  }
}

// Each rank gives all it has to another group's operation first.
TEST(StagedLanes, GroupsInAnotherOrderOnEachRankGoOn) {
  constexpr uint32_t kRanks = 3;
  constexpr uint32_t kGroups = 4;
  for (const size_t limit : {1u, 2u, 6u}) {
    const Budgets budgets(kRanks, limit);
    Cluster cluster(SmallLanes(kRanks));
    std::vector<std::unique_ptr<Call>> calls;
    for (uint32_t group = 0; group < kGroups; ++group) {
      const GroupId id = cluster.add_group("group " + std::to_string(group), 10 + group);
      const bool gathers = group % 2 == 1;
      calls.push_back(std::make_unique<Call>(
          cluster,
          CallSpec{.collective = gathers ? Collective::kAllgather : Collective::kAllreduce,
                   .elements = kManyLanes,
                   .device = AtOnce,
                   .budget = budgets.share()},
          id));
    }
    for (Rank rank = 0; rank < kRanks; ++rank) {
      for (uint32_t i = 0; i < kGroups; ++i) calls[(i + rank) % kGroups]->submit(rank);
      cluster.settle(milliseconds(1));
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(call->run()) << "at most " << limit;
      call->check();
    }
    EXPECT_LE(budgets.most(), limit + kGroups);
    EXPECT_EQ(budgets.lent(), 0u);
  }
}

// A collective that one rank has yet to call holds all that the other has.
TEST(StagedLanes, MessagesGoOnWhileACollectiveWaits) {
  const Budgets budgets(2, 3);
  Cluster cluster(SmallLanes(2));
  Call collective(cluster, {.elements = kManyLanes, .device = AtOnce, .budget = budgets.share()});
  collective.submit(0);
  cluster.settle(milliseconds(1));
  EXPECT_EQ(budgets.of(0)->lent, 3u);
  std::vector<int32_t> sent(50000, 7);
  std::vector<int32_t> received(50000, -1);
  FakeDevice sender(AtOnce(0), budgets.of(0));
  FakeDevice receiver(AtOnce(1), budgets.of(1));
  const auto post = [&](Rank rank, Collective kind, std::vector<int32_t>& data,
                        FakeDevice& device) {
    OperationSpec spec;
    spec.collective = kind;
    spec.type = DataType::kInt32;
    spec.root = 1 - rank;
    (rank == 0 ? spec.input : spec.output) = {data.data(), Partition::Even(data.size(), 1)};
    device.mirror(data);
    spec.staged = &device;
    return cluster.submit(rank, std::move(spec));
  };
  const std::vector messages{post(0, Collective::kSend, sent, sender),
                             post(1, Collective::kRecv, received, receiver)};
  ASSERT_TRUE(cluster.run_until_done(messages));
  receiver.take_back();
  EXPECT_EQ(received, std::vector<int32_t>(50000, 7));
  collective.submit(1);
  ASSERT_TRUE(collective.run());
  collective.check();
  EXPECT_EQ(budgets.lent(), 0u);
}

TEST(StagedLanes, ARankWithoutAnyMemoryFailsTheGroup) {
  const Budgets budgets(2, 4);
  budgets.of(1)->none = true;
  Cluster cluster(SmallLanes(2));
  Call call(cluster, {.elements = kManyLanes, .device = AtOnce, .budget = budgets.share()});
  for (Rank rank = 0; rank < 2; ++rank) call.submit(rank);
  ASSERT_TRUE(cluster.run_until_done(call.operations()));
  EXPECT_EQ(call.operations()[1]->status().code(), StatusCode::kDevice);
  EXPECT_FALSE(call.operations()[0]->status().ok());
}

// Its owner has it back then, and what it may still be used for is the owner's business.
TEST(StagedLanes, AnAbortLeavesTheMemoryWithItsOwner) {
  const Budgets budgets(2, 4);
  Cluster cluster(SmallLanes(2));
  Call call(cluster, {.elements = kManyLanes, .device = AtOnce, .budget = budgets.share()});
  call.submit(0);
  cluster.settle(milliseconds(1));
  EXPECT_EQ(call.device(0).lanes_with_memory(), 4u);
  cluster.engine(0).abort(cluster.group(), Status(StatusCode::kAborted, "no more"));
  ASSERT_TRUE(cluster.run_until_done(call.operations()));
  EXPECT_EQ(call.device(0).lanes_with_memory(), 4u);
  EXPECT_EQ(call.operations()[0]->status().code(), StatusCode::kAborted);
}

}  // namespace
}  // namespace rocecoll
