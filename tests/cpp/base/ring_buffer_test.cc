// SPDX-License-Identifier: Apache-2.0
#include "base/ring_buffer.h"

#include <gtest/gtest.h>

#include <memory>

namespace rocecoll {
namespace {

TEST(RingBuffer, ElementsKeepTheirIndexThroughWrappingAndGrowth) {
  RingBuffer<uint64_t> ring;
  uint64_t next = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 7; ++i) ring.push_back(next++ * 3);
    for (int i = 0; i < (round < 50 ? 3 : 9) && !ring.empty(); ++i) ring.pop_front();
    ASSERT_EQ(ring.end_index(), next);
    for (uint64_t i = ring.begin_index(); i < ring.end_index(); ++i) ASSERT_EQ(ring[i], i * 3);
  }
  ring.clear();
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.end_index(), next);
}

TEST(RingBuffer, ChecksItsBounds) {
  RingBuffer<std::unique_ptr<int>> ring;
  EXPECT_THROW(ring[0], CheckFailure);
  EXPECT_THROW(ring.pop_front(), CheckFailure);
  ring.push_back(std::make_unique<int>(1));
  EXPECT_EQ(*ring.front(), 1);
  EXPECT_EQ(*ring.back(), 1);
  ring.pop_front();
  EXPECT_THROW(ring[0], CheckFailure);
  EXPECT_FALSE(ring.contains(0));
}

}  // namespace
}  // namespace rocecoll
