// SPDX-License-Identifier: Apache-2.0
// Ranks that left before anybody had a link to them: whoever needs them later is told at once.
#include "engine/groups/gone_groups.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/call.h"
#include "engine/one_receive.h"

namespace rocecoll {
namespace {

Address NoPlace() { return {{}, "nowhere"}; }

PartingWord Word(size_t addresses) {
  return {SharedVector<Address>(std::vector<Address>(addresses, NoPlace())), {std::byte{1}}};
}

Membership Member(uint64_t key) { return {{key, ~key}, 0}; }

TEST(GoneGroups, ForgetTheOldestOfTooMany) {
  GoneGroups gone;
  for (uint64_t key = 0; key <= GoneGroups::kMaxGroups; ++key) gone.add(Member(key), Word(2));
  EXPECT_EQ(gone.size(), GoneGroups::kMaxGroups);
  EXPECT_EQ(gone.find(Member(0)), nullptr);
  EXPECT_NE(gone.find(Member(1)), nullptr);
  EXPECT_NE(gone.find(Member(GoneGroups::kMaxGroups)), nullptr);
}

TEST(GoneGroups, OfManyRanksAreFewer) {
  GoneGroups gone;
  for (uint64_t key = 0; key < 5; ++key) gone.add(Member(key), Word(GoneGroups::kMaxAddresses / 4));
  EXPECT_EQ(gone.size(), 4u);
  EXPECT_EQ(gone.find(Member(0)), nullptr);
  gone.add(Member(9), Word(GoneGroups::kMaxAddresses + 1));
  EXPECT_EQ(gone.size(), 1u);
  EXPECT_NE(gone.find(Member(9)), nullptr);
}

TEST(GoneGroups, OneThatIsThereAgainIsNotGone) {
  GoneGroups gone;
  gone.add(Member(1), Word(2));
  gone.add(Member(1), Word(3));
  EXPECT_EQ(gone.size(), 1u);
  gone.forget(Member(1));
  EXPECT_EQ(gone.find(Member(1)), nullptr);
}

Status AfterReceiveFrom(Cluster& cluster, Rank rank, Rank from) {
  int32_t value = 0;
  const OperationPtr waiting = cluster.submit(rank, OneReceive(value, from));
  EXPECT_TRUE(cluster.run_until_done({waiting}, std::chrono::seconds(1)));
  return waiting->status();
}

TEST(GoneGroups, ARankThatLeftBeforeFirstContactIsReported) {
  Cluster cluster(ForRanks(3));
  cluster.engine(1).remove_group(cluster.group());
  const Status status = AfterReceiveFrom(cluster, 0, 1);
  EXPECT_EQ(status.code(), StatusCode::kPeerLeft);
  EXPECT_NE(status.message().find("rank 1 (sim:1) left the group"), std::string::npos)
      << status.message();
}

// Also where the receive is there first.
TEST(GoneGroups, ARankThatLeavesWhileFirstContactIsMadeIsReported) {
  Cluster cluster(ForRanks(2));
  int32_t value = 0;
  const OperationPtr waiting = cluster.submit(0, OneReceive(value, 1));
  cluster.engine(1).remove_group(cluster.group());
  ASSERT_TRUE(cluster.run_until_done({waiting}, std::chrono::seconds(1)));
  EXPECT_EQ(waiting->status().code(), StatusCode::kPeerLeft);
}

TEST(GoneGroups, ARankWhoseGroupFailedSaysWhy) {
  Cluster cluster(ForRanks(2));
  cluster.settle(std::chrono::milliseconds(1));
  cluster.engine(1).abort(cluster.group(), Status(StatusCode::kAborted, "enough of this"));
  cluster.engine(1).remove_group(cluster.group());
  EXPECT_NE(AfterReceiveFrom(cluster, 0, 1).message().find("enough of this"), std::string::npos);
}

TEST(GoneGroups, OtherGroupsOfTheRankGoOn) {
  Cluster cluster(ForRanks(2));
  const GroupId other = cluster.add_group("other", 7);
  cluster.engine(1).remove_group(cluster.group());
  EXPECT_EQ(AfterReceiveFrom(cluster, 0, 1).code(), StatusCode::kPeerLeft);
  Call call(cluster, {.elements = 100}, other);
  call.submit_all();
  ASSERT_TRUE(call.run());
  call.check();
}

}  // namespace
}  // namespace rocecoll
