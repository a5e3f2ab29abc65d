// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_bottleneck.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kPacket = 1000;
constexpr SimQueue kBucket{.bytes_per_second = 1e6, .buffer_bytes = 5000, .burst_bytes = 10'000};

TEST(SimBottleneck, QueuesWhatExceedsItsRateAndDropsWhatExceedsItsBuffer) {
  SimBottleneck port({.bytes_per_second = 1e6, .buffer_bytes = 3000, .mark_above_bytes = 1000});
  const Instant start = Instant{} + seconds(1);
  for (int i = 1; i <= 3; ++i) {
    const auto passage = port.admit(0, start, kPacket);
    ASSERT_TRUE(passage);
    EXPECT_EQ(passage->left_at, start + milliseconds(i));
    EXPECT_EQ(passage->marked, i == 3);
  }
  EXPECT_FALSE(port.admit(0, start, kPacket));
  EXPECT_TRUE(port.admit(1, start + milliseconds(1), kPacket));
  EXPECT_EQ(port.passed_bytes(0), 3 * kPacket);
  EXPECT_EQ(port.passed_bytes(1), kPacket);
}

TEST(SimBottleneck, LetsABurstPassAtOnceWhenItHasRested) {
  SimBottleneck bucket(kBucket);
  for (const Instant start : {Instant{} + seconds(1), Instant{} + seconds(2)}) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(bucket.admit(0, start, kPacket)->left_at, start);
    // No tokens are left, so from now on it is a queue with its rate.
    for (int i = 1; i <= 5; ++i) {
      EXPECT_EQ(bucket.admit(0, start, kPacket)->left_at, start + milliseconds(i));
    }
    EXPECT_FALSE(bucket.admit(0, start, kPacket));
  }
  const uint64_t passed = bucket.passed_bytes();
  const Instant idle = Instant{} + seconds(3);
  for (int i = 0; i < 1000; ++i) bucket.admit(0, idle + microseconds(100) * i, kPacket);
  EXPECT_LE(bucket.passed_bytes() - passed, 1e6 * 0.1 + 10'000 + 5000);
}

TEST(SimBottleneck, ABurstTakesTheTimeOfItsLine) {
  SimQueue queue = kBucket;
  queue.line_bytes_per_second = 1e7;
  SimBottleneck bucket(queue);
  const Instant start = Instant{} + seconds(1);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(bucket.admit(0, start, kPacket)->left_at, start + microseconds(100) * i);
  }
}

}  // namespace
}  // namespace rocecoll
