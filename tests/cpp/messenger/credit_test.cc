// SPDX-License-Identifier: Apache-2.0
// Credits bound what a receiver buffers; starvation never blocks a message whose receive is posted.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "messenger/eager_bounds.h"
#include "messenger/world.h"

namespace rocecoll {
namespace {

class CreditTest : public testing::TestWithParam<uint32_t> {
 protected:
  static WorldOptions Options() {
    WorldOptions options = SmallWorld();
    options.messenger.eager_credits = GetParam();
    return options;
  }
};

TEST_P(CreditTest, UnmatchedSendsStopAtTheCredits) {
  World world(Options());
  std::deque<Payload> from;
  for (uint32_t i = 0; i < 100; ++i) {
    from.emplace_back(8, i);
    world.send(0, 1, PointToPointTag(i), from.back(), i);
  }
  world.settle();
  EXPECT_EQ(world.done(0).size(), std::min(GetParam(), 100u));
}

TEST_P(CreditTest, ThousandUnmatchedSendsInReverseWhileALaterMessageGetsThrough) {
  constexpr uint32_t kMessages = 1000;
  World world(Options());
  std::deque<Payload> from, into;
  for (uint32_t i = 0; i < kMessages; ++i) {
    from.emplace_back(i % 190, i);
    into.push_back(Payload::Blank(i % 190));
    world.send(0, 1, PointToPointTag(i), from[i], i);
  }
  Payload later(100, 77), arrived = Payload::Blank(100);
  Payload large(3000, 78), large_arrived = Payload::Blank(3000);
  world.settle();
  world.send(0, 1, CollectiveTag(9), later, 5000);
  world.send(0, 1, CollectiveTag(9, 1), large, 5001);
  world.recv(1, 0, CollectiveTag(9), arrived, 6000);
  world.recv(1, 0, CollectiveTag(9, 1), large_arrived, 6001);
  ASSERT_TRUE(world.run_until_done(1, 6000));
  ASSERT_TRUE(world.run_until_done(1, 6001));
  EXPECT_EQ(arrived, later);
  EXPECT_EQ(large_arrived, large);
  EXPECT_EQ(world.done(0).contains(kMessages - 1), GetParam() >= kMessages);
  for (uint32_t i = kMessages; i-- > 0;) {
    world.recv(1, 0, PointToPointTag(i), into[i], i);
    if (i % 100 == 0) world.settle();
  }
  ASSERT_TRUE(world.run([&] { return world.done(1).size() == kMessages + 2; }));
  EXPECT_EQ(world.done(0).size(), kMessages + 2);
  EXPECT_EQ(into, from);
}

TEST_P(CreditTest, ReceivesPostedBeforeTheStarvedSends) {
  World world(Options());
  Payload blocker(8);
  for (uint32_t i = 0; i < GetParam(); ++i) world.send(0, 1, CollectiveTag(2, i), blocker, i);
  world.settle();
  std::deque<Payload> from, into;
  for (uint32_t i = 0; i < 50; ++i) {
    into.push_back(Payload::Blank(16));
    world.recv(1, 0, CollectiveTag(1, i), into.back(), i);
  }
  world.settle();
  for (uint32_t i = 0; i < 50; ++i) {
    from.emplace_back(16, i);
    world.send(0, 1, CollectiveTag(1, i), from.back(), 5000 + i);
    if (i % 7 == 0) world.settle();
  }
  ASSERT_TRUE(world.run([&] { return world.done(1).size() == 50; }));
  EXPECT_EQ(into, from);
}

// The clear-to-send of one period of starvation crosses the eager message that ends it.
TEST_P(CreditTest, PeriodsOfStarvationFollowEachOther) {
  World world(Options());
  std::deque<Payload> from, into;
  uint32_t next = 0;
  for (uint32_t round = 0; round < 40; ++round) {
    const uint32_t first = next;
    for (uint32_t i = 0; i < GetParam() % 100 + 3; ++i, ++next) {
      from.emplace_back(16, next);
      into.push_back(Payload::Blank(16));
      world.send(0, 1, PointToPointTag(next), from.back(), next);
    }
    world.settle(std::chrono::microseconds(round));
    for (uint32_t i = next; i-- > first;) {
      world.recv(1, 0, PointToPointTag(i), into[i], i);
      world.settle(std::chrono::microseconds(round % 3));
    }
  }
  ASSERT_TRUE(world.run([&] { return world.done(1).size() == next; }));
  EXPECT_EQ(world.done(0).size(), next);
  EXPECT_EQ(into, from);
}

INSTANTIATE_TEST_SUITE_P(Credits, CreditTest, testing::Values(1u, 2u, 5u, 64u, 2000u));

// What a rank may be made to keep does not grow with the group.
TEST(EagerBounds, AllPeersTogetherFillABoundedPartOfMemory) {
  TransportLimits limits;
  limits.max_frame_bytes = 65535;
  limits.preferred_eager_bytes = 32 * 1024;
  const MessengerOptions options;
  for (const size_t ranks : {2u, 3u, 128u, 129u, 1000u, 2048u, 2049u, 16384u, 1u << 20}) {
    const EagerBounds bounds = EagerBounds::Of(limits, options, ranks);
    EXPECT_LE(bounds.bytes * bounds.credits * ranks, EagerBounds::kUnexpectedBytes) << ranks;
    EXPECT_GE(bounds.credits, EagerBounds::kLeastCredits) << ranks;
    EXPECT_EQ(bounds.bytes == limits.preferred_eager_bytes, ranks <= 2048) << ranks;
    EXPECT_EQ(bounds.credits == options.eager_credits, ranks <= 128) << ranks;
  }
}

// Who names a limit has it, as all ranks do.
TEST(EagerBounds, AreNoMoreThanWhatIsAskedForAndWhatAFrameTakes) {
  TransportLimits limits;
  limits.max_frame_bytes = 4088;
  limits.preferred_eager_bytes = 4088;
  MessengerOptions options;
  options.eager_credits = 1;
  EagerBounds bounds = EagerBounds::Of(limits, options, 16384);
  EXPECT_EQ(bounds.bytes, 4088 - MessageFrame::kHeaderBytes);
  EXPECT_EQ(bounds.credits, 1u);
  options.eager_bytes = 100;
  EXPECT_EQ(EagerBounds::Of(limits, options, 1 << 20).bytes, 100u);
}

}  // namespace
}  // namespace rocecoll
