// SPDX-License-Identifier: Apache-2.0
#include "collectives/collective.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rocecoll {
namespace {

// Input and output of one of 7 ranks: blocks of the caller's buffers / blocks that programs see.
std::string BlockCounts(Collective collective, bool is_root) {
  std::string text;
  for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput}) {
    text += (text.empty() ? "" : " ") +
            std::to_string(BlocksOf(ContentsOf(buffer, collective, is_root), 7)) + "/" +
            std::to_string(BlocksIn(buffer, collective, 7, is_root));
  }
  return text;
}

TEST(CollectiveTest, BuffersAreAsManyBlocksAsTheCollectiveHasIt) {
  for (const bool is_root : {true, false}) {
    EXPECT_EQ(BlockCounts(Collective::kAllreduce, is_root), "7/7 7/7");
    EXPECT_EQ(BlockCounts(Collective::kReduceScatter, is_root), "7/7 1/1");
    EXPECT_EQ(BlockCounts(Collective::kBroadcast, is_root), "0/0 7/7");
    EXPECT_EQ(BlockCounts(Collective::kAllgather, is_root), "1/1 7/7");
    EXPECT_EQ(BlockCounts(Collective::kAlltoall, is_root), "7/7 7/7");
    EXPECT_EQ(BlockCounts(Collective::kBarrier, is_root), "0/1 0/1");
    EXPECT_EQ(BlockCounts(Collective::kSend, is_root), "1/1 0/0");
    EXPECT_EQ(BlockCounts(Collective::kRecv, is_root), "0/0 1/1");
  }
  EXPECT_EQ(BlockCounts(Collective::kReduce, true), "7/7 7/7");
  EXPECT_EQ(BlockCounts(Collective::kReduce, false), "7/7 0/7");
  EXPECT_EQ(BlockCounts(Collective::kGather, true), "1/1 7/7");
  EXPECT_EQ(BlockCounts(Collective::kGather, false), "1/1 0/0");
  EXPECT_EQ(BlockCounts(Collective::kScatter, true), "7/7 1/1");
  EXPECT_EQ(BlockCounts(Collective::kScatter, false), "0/0 1/1");
}

TEST(CollectiveTest, OnlyTheRootOfABroadcastGivesItsOutput) {
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    EXPECT_EQ(GivesOutput(traits.collective, true), traits.collective == Collective::kBroadcast);
    EXPECT_FALSE(GivesOutput(traits.collective, false));
  }
}

TEST(CollectiveTest, NamesAreDistinct) {
  std::set<std::string_view> names, calls;
  for (const CollectiveTraits& traits : kCollectiveTraits) {
    names.insert(traits.name);
    calls.insert(traits.call);
  }
  EXPECT_EQ(names.size(), kCollectiveTraits.size());
  EXPECT_EQ(calls.size(), kCollectiveTraits.size());
  EXPECT_EQ(ToString(Collective::kReduceScatter), "reduce_scatter");
  EXPECT_EQ(TraitsOf(Collective::kAlltoall).call, "all_to_all");
}

TEST(CollectiveTest, NumbersOnTheWireStay) {
  std::string names;
  for (const CollectiveTraits& traits : kCollectiveTraits) names += std::string(traits.name) + " ";
  EXPECT_EQ(names,
            "allreduce reduce reduce_scatter broadcast allgather gather scatter alltoall barrier "
            "send recv ");
}

}  // namespace
}  // namespace rocecoll
