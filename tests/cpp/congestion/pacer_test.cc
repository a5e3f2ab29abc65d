// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/pacer.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Pacer, LetsABurstGoAndThenKeepsTheRate) {
  Pacer pacer;
  const Instant start = Instant{} + seconds(1);
  EXPECT_TRUE(pacer.ready(start));
  pacer.set_rate(start, 1e9, 10'000, 4'000'000);
  Instant now = start;
  uint64_t sent = 0;
  while (now < start + milliseconds(1)) {
    while (pacer.ready(now)) {
      pacer.on_sent(now, 1000, false);
      sent += 1000;
    }
    EXPECT_GT(pacer.release_at(), now);
    now = pacer.release_at();
  }
  EXPECT_GE(sent, 1'000'000u);
  EXPECT_LE(sent, 1'000'000u + 5 * 10'000u);
}

TEST(Pacer, MakesUpForALateReleaseButNotForIdleTime) {
  for (const bool waited : {true, false}) {
    Pacer pacer;
    Instant now = Instant{} + seconds(1);
    pacer.set_rate(now, 1e9, 10'000, 4'000'000);
    while (pacer.ready(now)) pacer.on_sent(now, 1000, false);
    now = pacer.release_at() + milliseconds(4);
    uint64_t sent = 0;
    for (; pacer.ready(now); sent += 1000) pacer.on_sent(now, 1000, waited && sent == 0);
    EXPECT_GE(sent, waited ? 4'000'000u : 10'000u);
    EXPECT_LE(sent, (waited ? 4'000'000u : 0u) + 3 * 10'000u);
  }
}

TEST(Pacer, MakesUpForNoMoreThanItsBounds) {
  for (const uint64_t catch_up_bytes : {100'000u, 1'000'000'000u}) {
    Pacer pacer;
    Instant now = Instant{} + seconds(1);
    pacer.set_rate(now, 1e9, 10'000, catch_up_bytes);
    while (pacer.ready(now)) pacer.on_sent(now, 1000, false);
    EXPECT_FALSE(pacer.take_used_up());
    now += seconds(10);
    uint64_t sent = 0;
    for (; pacer.ready(now); sent += 1000) pacer.on_sent(now, 1000, sent == 0);
    EXPECT_TRUE(pacer.take_used_up());
    EXPECT_FALSE(pacer.take_used_up());
    const uint64_t most = 1'000'000'000u * Pacer::kMostLate / seconds(1);
    EXPECT_LE(sent, std::min(catch_up_bytes, most) + 2 * 10'000u);
  }
}

}  // namespace
}  // namespace rocecoll
