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
