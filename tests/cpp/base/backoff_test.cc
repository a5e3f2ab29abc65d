// SPDX-License-Identifier: Apache-2.0
#include "base/backoff.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsCapUntilItIsReset) {
  Backoff backoff(milliseconds(1), milliseconds(5));
  EXPECT_EQ(backoff.next(), milliseconds(1));
  EXPECT_EQ(backoff.next(), milliseconds(2));
  EXPECT_FALSE(backoff.capped());
  EXPECT_EQ(backoff.next(), milliseconds(4));
  EXPECT_TRUE(backoff.capped());
  EXPECT_EQ(backoff.next(), milliseconds(5));
  EXPECT_EQ(backoff.next(), milliseconds(5));
  backoff.reset();
  EXPECT_FALSE(backoff.capped());
  EXPECT_EQ(backoff.next(), milliseconds(1));
}

TEST(Backoff, CanBeReadWithoutGrowing) {
  Backoff backoff(milliseconds(10), milliseconds(30));
  EXPECT_EQ(backoff.delay(), milliseconds(10));
  EXPECT_EQ(backoff.delay(), milliseconds(10));
  backoff.grow();
  EXPECT_EQ(backoff.delay(), milliseconds(20));
  backoff.grow();
  EXPECT_EQ(backoff.delay(), milliseconds(30));
}

}  // namespace
}  // namespace rocecoll
