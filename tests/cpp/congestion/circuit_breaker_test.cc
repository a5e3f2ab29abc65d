// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/circuit_breaker.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Runs this many rounds of 100 ms, and sends 1 MB in each.
void RunRounds(CircuitBreaker& breaker, Instant& now, int rounds, double lost_share) {
  for (int i = 0; i < rounds; ++i) {
    now += milliseconds(100);
    const auto lost = static_cast<uint64_t>(1e6 * lost_share);
    breaker.on_round(now, 1'000'000 - lost, lost, milliseconds(100));
  }
}

TEST(CircuitBreaker, BreaksWhenAQuarterIsLostUntilATenthIs) {
  CircuitBreaker breaker;
  Instant now = Instant{} + seconds(100);
  RunRounds(breaker, now, 100, 0.24);
  EXPECT_EQ(breaker.bound(), 0);
  RunRounds(breaker, now, 100, 0.4);
  EXPECT_GT(breaker.bound(), 0);
  EXPECT_LT(breaker.bound(), 6e6) << "not below what was delivered";
  EXPECT_TRUE(breaker.take_news());
  EXPECT_FALSE(breaker.take_news());
  EXPECT_NEAR(breaker.lost_share(), 0.4, 0.05);
  const double before = breaker.bound();
  RunRounds(breaker, now, 100, 0.12);
  EXPECT_LT(breaker.bound(), before);
  RunRounds(breaker, now, 100'000, 0.12);
  EXPECT_GT(breaker.bound(), 6e6 / 20) << "a path that loses at random was given up";
  RunRounds(breaker, now, 100, 0.05);
  EXPECT_EQ(breaker.bound(), 0);
  EXPECT_FALSE(breaker.take_news());
}

TEST(CircuitBreaker, LeavesAloneWhoSendsLittle) {
  CircuitBreaker breaker;
  Instant now = Instant{} + seconds(100);
  for (int i = 0; i < 1000; ++i) {
    now += milliseconds(100);
    breaker.on_round(now, 2000, 2000, milliseconds(100));
  }
  EXPECT_EQ(breaker.bound(), 0);
}

}  // namespace
}  // namespace rocecoll
