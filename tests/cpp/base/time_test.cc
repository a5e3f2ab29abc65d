// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

TEST(TimeTest, ConvertsToFractionsOfAUnit) {
  EXPECT_DOUBLE_EQ(Microseconds(std::chrono::nanoseconds(1500)), 1.5);
  EXPECT_DOUBLE_EQ(Seconds(std::chrono::milliseconds(-250)), -0.25);
}

TEST(TimeTest, NeverIsBehindEveryInstant) {
  const Instant start{};
  EXPECT_LT(start + std::chrono::hours(24 * 365 * 200), kNever);
}

}  // namespace
}  // namespace rocecoll
