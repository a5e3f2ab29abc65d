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

// In turn, each with an id and a member of its own.
struct LeftGroups {
  GoneGroups gone;
  GroupId last = 0;

  void add(uint64_t key, size_t addresses) {
    ++last;
    gone.add(last, Member(key), "name " + std::to_string(last), Word(addresses));
  }
  bool has_word(uint64_t key) const { return gone.find_word(Member(key)) != nullptr; }
  bool has_name(GroupId id) const {
    const std::string* name = gone.find_name(id);
    if (name == nullptr) return false;
    EXPECT_EQ(*name, "name " + std::to_string(id));
    return true;
  }
};

TEST(GoneGroups, ForgetTheOldestOfTooMany) {
  LeftGroups left;
  for (uint64_t key = 0; key <= GoneGroups::kMaxGroups; ++key) left.add(key, 2);
  EXPECT_FALSE(left.has_word(0));
  EXPECT_FALSE(left.has_name(1));
  EXPECT_TRUE(left.has_word(1));
  EXPECT_TRUE(left.has_name(2));
  EXPECT_TRUE(left.has_word(GoneGroups::kMaxGroups));
  EXPECT_TRUE(left.has_name(left.last));
}

TEST(GoneGroups, WordsOfManyRanksAreFewerNotNames) {
  LeftGroups left;
  for (uint64_t key = 0; key < 5; ++key) left.add(key, GoneGroups::kMaxAddresses / 4);
  EXPECT_FALSE(left.has_word(0));
  for (uint64_t key = 1; key < 5; ++key) EXPECT_TRUE(left.has_word(key));
  left.add(9, GoneGroups::kMaxAddresses + 1);
  for (uint64_t key = 0; key < 5; ++key) EXPECT_FALSE(left.has_word(key));
  EXPECT_TRUE(left.has_word(9));
  for (GroupId id = 1; id <= left.last; ++id) EXPECT_TRUE(left.has_name(id));
}

TEST(GoneGroups, OneThatIsThereAgainIsNotGone) {
  LeftGroups left;
  left.add(1, 2);
  left.add(1, 3);
  EXPECT_EQ(left.gone.find_word(Member(1))->addresses.size(), 3u);
  left.gone.forget_word(Member(1));
  EXPECT_FALSE(left.has_word(1));
  EXPECT_TRUE(left.has_name(1));
  EXPECT_TRUE(left.has_name(2));
}

TEST(GoneGroups, TheEndOfAnOldNameLeavesTheWordOfALaterGroup) {
  LeftGroups left;
  for (int turn = 0; turn < 2; ++turn) left.add(0, 2);
  for (uint64_t key = 1; key < GoneGroups::kMaxGroups; ++key) left.add(key, 2);
  EXPECT_FALSE(left.has_name(1));
  EXPECT_TRUE(left.has_word(0));
}

// Ids tell when groups were made, which may be long before they were left.
TEST(GoneGroups, ThatWhichWasThereLongestIsRemembered) {
  LeftGroups left;
  for (uint64_t key = 1; key <= GoneGroups::kMaxGroups; ++key) left.add(key, 2);
  left.gone.add(0, Member(0), "world", Word(2));
  EXPECT_EQ(*left.gone.find_name(0), "world");
  EXPECT_TRUE(left.has_word(0));
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
