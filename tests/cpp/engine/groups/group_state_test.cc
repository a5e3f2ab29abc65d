// SPDX-License-Identifier: Apache-2.0
// What people are told who ask what a group is doing.
#include "engine/groups/group_state.h"

#include "engine/call.h"

namespace rocecoll {
namespace {

using std::chrono::seconds;

GroupState StateAt(Cluster& cluster, Rank rank) {
  const auto states = cluster.engine(rank).group_states(cluster.now());
  EXPECT_EQ(states.size(), 1u);
  return states.empty() ? GroupState{} : states[0];
}

TEST(GroupState, SaysWhatWasDoneAndThatNothingRuns) {
  Cluster cluster(ForRanks(3));
  const GroupState before = StateAt(cluster, 2);
  EXPECT_EQ(before.name, "default");
  EXPECT_EQ(before.key, (GroupKey{1, ~uint64_t{1}}));
  EXPECT_EQ(before.rank, 2u);
  EXPECT_EQ(before.ranks, 3u);
  EXPECT_EQ(before.collectives, 0u);
  EXPECT_EQ(before.last, "");
  RunCall(cluster, {.elements = 4});
  RunCall(cluster, {.collective = Collective::kBarrier});
  const GroupState after = StateAt(cluster, 2);
  EXPECT_EQ(after.collectives, 2u);
  EXPECT_EQ(after.pending, 0u);
  EXPECT_EQ(after.last, "barrier #2");
  EXPECT_EQ(after.running, "");
  EXPECT_EQ(after.failure, "");
}

TEST(GroupState, SaysWhatRunsForHowLongAndWhoIsWaitedFor) {
  Cluster cluster(ForRanks(3));
  Call call(cluster, {.elements = 1024});
  call.submit(0);
  call.submit(1);
  cluster.settle(seconds(3));
  EXPECT_EQ(StateAt(cluster, 2).collectives, 0u);
  std::vector<Rank> waited_for;
  for (const Rank rank : {0u, 1u}) {
    const GroupState state = StateAt(cluster, rank);
    EXPECT_EQ(state.collectives, 1u);
    EXPECT_EQ(state.pending, 1u);
    EXPECT_EQ(state.running, "all_reduce #1 (SUM, int32, 1024 elements)");
    EXPECT_GE(state.running_for, seconds(2));
    EXPECT_NE(state.progress.find("0 of 1 parts done"), std::string::npos) << state.progress;
    waited_for.insert(waited_for.end(), state.waits_for.begin(), state.waits_for.end());
  }
  EXPECT_NE(std::ranges::find(waited_for, 2u), waited_for.end());
  call.submit(2);
  ASSERT_TRUE(call.run());
}

TEST(GroupState, SaysOfMessagesWhichWayTheyGoAndHowLargeTheyAre) {
  Cluster cluster(ForRanks(3));
  std::vector<float> numbers(300'000);
  for (const Rank rank : {0u, 1u}) {  // in a circle of two: neither receives
    OperationSpec send;
    send.collective = Collective::kSend;
    send.type = DataType::kFloat32;
    send.root = 1 - rank;
    send.user_tag = 8 + rank;
    send.input = {numbers.data(), Partition::Even(numbers.size(), 1)};
    cluster.submit(rank, send);
  }
  OperationSpec any;
  any.collective = Collective::kRecv;
  any.any_source = true;
  any.output = {numbers.data(), Partition::Even(1, 1)};
  cluster.submit(2, any);
  cluster.settle(seconds(3));
  const GroupState sends = StateAt(cluster, 1);
  EXPECT_EQ(sends.running, "send #1 (to rank 0, tag 9, float32, 300000 elements)");
  EXPECT_EQ(sends.message, "send");
  EXPECT_EQ(sends.tag, 9u);
  EXPECT_EQ(sends.waits_for, std::vector<Rank>{0});
  const GroupState receives = StateAt(cluster, 2);
  EXPECT_EQ(receives.running, "recv #1 (from any rank, tag 0, uint8, 1 element)");
  EXPECT_EQ(receives.message, "recv");
  EXPECT_TRUE(receives.waits_for.empty());
}

TEST(GroupState, SaysWhomOneOperationWaitsFor) {
  ClusterOptions options = ForRanks(2);
  options.engine.max_operations_in_flight = 1;
  Cluster cluster(options);
  Call first(cluster, {.elements = 8});
  Call second(cluster, {.elements = 9});
  first.submit(0);
  second.submit(0);
  cluster.settle(seconds(1));
  const auto told = [&](const Call& call) {
    return cluster.engine(0).describe_wait(cluster.group(), *call.operations()[0]);
  };
  EXPECT_EQ(told(first).find("group \"default\": all_reduce #1 (SUM, int32, 8 elements) waits for "
                             "rank 1"),
            0u)
      << told(first);
  EXPECT_EQ(told(second),
            "group \"default\": all_reduce #2 (SUM, int32, 9 elements) waits for the operations "
            "that were called before it");
  first.submit(1);
  second.submit(1);
  ASSERT_TRUE(first.run() && second.run());
  EXPECT_EQ(told(first), "");
}

TEST(GroupState, SaysWhyItFailed) {
  Cluster cluster(ForRanks(2, seconds(2)));
  Call call(cluster, {.elements = 8});
  call.submit(0);
  ASSERT_TRUE(call.run());
  const GroupState state = StateAt(cluster, 0);
  EXPECT_NE(state.failure.find("timed out after 2 s"), std::string::npos) << state.failure;
  EXPECT_EQ(state.pending, 0u);
  EXPECT_TRUE(state.waits_for.empty());
}

TEST(GroupState, NumbersStartAtOneWhereverTheyBegin) {
  ClusterOptions options = ForRanks(2);
  options.engine.first_number = UINT32_MAX;
  Cluster cluster(options);
  RunCall(cluster, {.elements = 4});
  EXPECT_EQ(StateAt(cluster, 0).collectives, 1u);
}

}  // namespace
}  // namespace rocecoll
