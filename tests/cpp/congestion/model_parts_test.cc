// SPDX-License-Identifier: Apache-2.0
// The parts of the model's controller, each alone.
#include <gtest/gtest.h>

#include "congestion/lone_sender.h"
#include "transport/congestion/catch_up.h"
#include "transport/congestion/delivery_rate.h"

namespace rocecoll {
namespace {

TEST(CatchUp, GrowsUntilQueuesOverflowAndThenCarefully) {
  constexpr uint64_t kKept = 7;
  CatchUp catch_up;
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast);
  catch_up.on_round(false, false, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast) << "grew although nobody was late";
  for (int i = 0; i < 10; ++i) catch_up.on_round(true, false, kPacketBytes);
  const uint64_t grown = catch_up.bytes();
  EXPECT_GT(grown, 8 * CatchUp::kLeast);
  catch_up.on_round(false, false, kPacketBytes);
  catch_up.on_round(false, true, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), grown / 10 * kKept)
      << "a loss shows a round after what has caused it";
  catch_up.on_round(true, false, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), grown / 10 * kKept + kPacketBytes);
  for (int i = 0; i < 4; ++i) catch_up.on_round(false, false, kPacketBytes);
  catch_up.on_round(false, true, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), grown / 10 * kKept + kPacketBytes)
      << "that loss was something else's";
  for (int i = 0; i < 100; ++i) catch_up.on_round(true, true, kPacketBytes);
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast);
  for (int i = 0; i < 1'000'000; ++i) catch_up.on_round(true, false, kPacketBytes);
  EXPECT_LE(catch_up.bytes(), CatchUp::kMost);
}

// What went through a queue is the path's rate, once there is enough of it.
TEST(DeliveryRate, OfABucketIsWhatQueuesPass) {
  DeliveryRate rate;
  rate.take(500e6);
  for (size_t i = 0; i < DeliveryRate::kRounds - 1; ++i) rate.take_queued(125e6, true);
  EXPECT_EQ(rate.most(), 500e6);
  rate.take_queued(120e6, false);
  EXPECT_EQ(rate.most(), 500e6) << "bounded although nothing has rested";
  rate.take_queued(110e6, true);
  EXPECT_EQ(rate.most(), 125e6);
  EXPECT_EQ(rate.recent(), 125e6);
  for (size_t i = 0; i < DeliveryRate::kRounds; ++i) rate.take(100e6);
  EXPECT_EQ(rate.most(), 100e6);
}

}  // namespace
}  // namespace rocecoll
