// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rocecoll {
namespace {

TEST(TimeTest, ConvertsToFractionsOfAUnit) {
  EXPECT_DOUBLE_EQ(Microseconds(std::chrono::nanoseconds(1500)), 1.5);
  EXPECT_DOUBLE_EQ(Seconds(std::chrono::milliseconds(-250)), -0.25);
}

TEST(TimeTest, SecondsBecomeADuration) {
  EXPECT_EQ(FromSeconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_EQ(FromSeconds(-0.25), std::chrono::milliseconds(-250));
  EXPECT_EQ(FromSeconds(2.9e-9), std::chrono::nanoseconds(2));
}

TEST(TimeTest, WhatIsBeyondTheLongestIsTheLongest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLongest = 9223372036.854775;
  for (const double seconds : {kLongest * 1.01, 1e300, kInfinity}) {
    EXPECT_EQ(FromSeconds(seconds), Duration::max()) << seconds;
    EXPECT_EQ(FromSeconds(-seconds), Duration::min()) << seconds;
  }
  EXPECT_LT(FromSeconds(std::nextafter(kLongest, 0)), Duration::max());
  EXPECT_EQ(FromSeconds(std::numeric_limits<double>::quiet_NaN()), Duration{0});
  using std::chrono::milliseconds;
  EXPECT_EQ(Saturated(milliseconds(250)), milliseconds(250));
  EXPECT_EQ(Saturated(milliseconds(-250)), milliseconds(-250));
  EXPECT_EQ(Saturated(milliseconds(INT64_MAX)), Duration::max());
  EXPECT_EQ(Saturated(milliseconds(INT64_MIN)), Duration::min());
}

TEST(TimeTest, NeverIsBehindEveryInstant) {
  const Instant start{};
  EXPECT_LT(start + std::chrono::hours(24 * 365 * 200), kNever);
}

}  // namespace
}  // namespace rocecoll
