// SPDX-License-Identifier: Apache-2.0
// Ranks that disagree learn so, whatever was sent or posted first.
#include <gtest/gtest.h>

#include <algorithm>

#include "messenger/world.h"

namespace rocecoll {
namespace {

struct Disagreement {
  size_t sent;
  size_t expected;
  bool send_first;
};

class LengthMismatchTest : public testing::TestWithParam<Disagreement> {};

TEST_P(LengthMismatchTest, NamesBothLengthsOnOneSideAtLeast) {
  const auto [sent, expected, send_first] = GetParam();
  World world(SmallWorld());
  Payload from(sent), into = Payload::Blank(expected);
  const Tag tag = PointToPointTag(4);
  if (send_first) {
    world.send(0, 1, tag, from, 1);
    world.settle(std::chrono::milliseconds(200));
    world.recv(1, 0, tag, into, 2);
  } else {
    world.recv(1, 0, tag, into, 2);
    world.settle(std::chrono::milliseconds(200));
    world.send(0, 1, tag, from, 1);
  }
  ASSERT_TRUE(
      world.run([&] { return world[0].failure() != nullptr || world[1].failure() != nullptr; }));
  const Rank found_by = world[0].failure() != nullptr ? 0 : 1;
  const MessengerFailure& failure = *world[found_by].failure();
  EXPECT_EQ(failure.status.code(), StatusCode::kMismatch) << failure.status.message();
  EXPECT_EQ(failure.peer, 1 - found_by);
  EXPECT_FALSE(failure.fingerprints_differ);
  EXPECT_EQ(failure.our_bytes, found_by == 0 ? sent : expected);
  EXPECT_EQ(failure.their_bytes, found_by == 0 ? expected : sent);
  EXPECT_EQ(failure.tag, tag);
  EXPECT_FALSE(world.done(1).contains(2));
}

INSTANTIATE_TEST_SUITE_P(SmallAndLarge, LengthMismatchTest,
                         testing::Values(Disagreement{8, 9, true}, Disagreement{8, 9, false},
                                         Disagreement{0, 1, true}, Disagreement{0, 1, false},
                                         Disagreement{8, 5000, true}, Disagreement{8, 5000, false},
                                         Disagreement{5000, 8, true}, Disagreement{5000, 8, false},
                                         Disagreement{5000, 5001, true},
                                         Disagreement{5000, 5001, false}));

struct Call {
  bool sends;
  size_t size;
  Tag tag;
};

void Post(World& world, Rank rank, const Call& call, Payload& payload, uint8_t print) {
  if (call.sends) {
    world.send(rank, 1 - rank, call.tag, payload, 1, PrintOf(print));
  } else {
    world.recv(rank, 1 - rank, call.tag, payload, 1, PrintOf(print));
  }
}

// Two ranks call different collectives as number 7: every pairing of what their algorithms may do
// first, with the same and with another step, posted together or long after each other.
TEST(FingerprintMismatch, IsFoundWhateverBothSidesPost) {
  for (bool first_sends : {true, false}) {
    for (bool second_sends : {true, false}) {
      for (size_t first_size : {0u, 8u, 5000u}) {
        for (size_t second_size : {0u, 8u, 5000u}) {
          for (uint32_t step : {0u, 3u}) {
            for (bool together : {true, false}) {
              SCOPED_TRACE(testing::Message() << first_sends << second_sends << " " << first_size
                                              << " " << second_size << " " << step << together);
              World world(SmallWorld());
              Payload first(first_size), second(second_size);
              Post(world, 0, {first_sends, first_size, CollectiveTag(7)}, first, 1);
              if (!together) world.settle(std::chrono::milliseconds(300));
              Post(world, 1, {second_sends, second_size, CollectiveTag(7, step)}, second, 2);
              ASSERT_TRUE(world.run(
                  [&] { return world[0].failure() != nullptr || world[1].failure() != nullptr; }));
              const Rank by = world[0].failure() != nullptr ? 0 : 1;
              const MessengerFailure& failure = *world[by].failure();
              EXPECT_EQ(failure.status.code(), StatusCode::kMismatch);
              EXPECT_TRUE(failure.fingerprints_differ);
              EXPECT_EQ(failure.ours, PrintOf(static_cast<uint8_t>(1 + by)));
              EXPECT_EQ(failure.theirs, PrintOf(static_cast<uint8_t>(2 - by)));
            }
          }
        }
      }
    }
  }
}

TEST(FingerprintMismatch, TheSameTagBetweenTwoPointToPointCalls) {
  World world(SmallWorld());
  Payload from(8), into(8);
  world.send(0, 1, PointToPointTag(1), from, 1, PrintOf(1));
  world.recv(1, 0, PointToPointTag(1), into, 1, PrintOf(2));
  ASSERT_TRUE(world.run_until_failure(1));
  EXPECT_TRUE(world[1].failure()->fingerprints_differ);
}

TEST(FingerprintMismatch, OtherOperationsAndPointToPointNumbersMayDiffer) {
  World world(SmallWorld());
  Payload a(8, 1), b(8, 2), c(8, 3), into_a(8), into_b(8), into_c(8);
  world.send(0, 1, CollectiveTag(1), a, 1, PrintOf(1));
  world.send(0, 1, CollectiveTag(2), b, 2, PrintOf(2));
  world.send(0, 1, PointToPointTag(1), c, 3, PrintOf(3));
  world.recv(1, 0, PointToPointTag(1), into_c, 3, PrintOf(3));
  world.recv(1, 0, CollectiveTag(2), into_b, 2, PrintOf(2));
  world.recv(1, 0, CollectiveTag(1), into_a, 1, PrintOf(1));
  ASSERT_TRUE(world.run([&] { return world.done(1).size() == 3; }));
  EXPECT_EQ(into_a, a);
  EXPECT_EQ(into_b, b);
  EXPECT_EQ(into_c, c);
}

// One rank is far ahead: what it said about an operation is remembered until we get there.
TEST(FingerprintMismatch, AnyOperationOfARankThatRanAhead) {
  for (const uint64_t differs : {1, 8, 16, 17, 30, 48, 60}) {
    WorldOptions options = SmallWorld();
    options.messenger.eager_credits = 64;
    World world(options);
    Payload ahead(8), into(8), other(8);
    world.recv(1, 0, PointToPointTag(1), other, 99);  // opens the link
    for (uint64_t n = 1; n <= 60; ++n) world.send(0, 1, CollectiveTag(n), ahead, n, PrintOf(1));
    world.settle();
    for (uint64_t n = 1; n < differs; ++n) {
      world.recv(1, 0, CollectiveTag(n), into, n, PrintOf(1));
      ASSERT_EQ(world[1].failure(), nullptr) << n;
    }
    world.recv(1, 0, CollectiveTag(differs, 5), into, differs, PrintOf(2));
    ASSERT_NE(world[1].failure(), nullptr) << differs;
    EXPECT_EQ(world[1].failure()->status.code(), StatusCode::kMismatch);
  }
}

// One rank lags, and the first that it says goes to a rank that has dealt with others until now.
TEST(FingerprintMismatch, AnOperationThatWasSharedWithOthersOnly) {
  WorldOptions options = SmallWorld();
  options.ranks = 3;
  options.messenger.eager_credits = 64;
  World world(options);
  Payload ahead(8), into(8), late(8);
  world.recv(2, 0, PointToPointTag(1), into, 99);
  world.recv(0, 1, PointToPointTag(1), into, 99);
  for (uint64_t n = 1; n <= 60; ++n) world.send(0, 2, CollectiveTag(n), ahead, n, PrintOf(1));
  world.settle();
  world.send(1, 0, CollectiveTag(20, 5), late, 1, PrintOf(2));
  ASSERT_TRUE(world.run_until_failure(0));
  EXPECT_EQ(world[0].failure()->status.code(), StatusCode::kMismatch);
}

}  // namespace
}  // namespace rocecoll
