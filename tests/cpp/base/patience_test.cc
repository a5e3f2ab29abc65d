// SPDX-License-Identifier: Apache-2.0
#include "base/patience.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{seconds(100)};

// Naps until `end` or until patience runs out, and returns the time then.
Instant NapUntil(Patience& patience, Instant now, Instant end) {
  while (now < end && patience.lasts(now)) now = std::min(end, patience.nap_until(now, kNever));
  return now;
}

TEST(Patience, EndsAfterItsTime) {
  Patience patience(kStart, seconds(5));
  EXPECT_EQ(NapUntil(patience, kStart, kStart + seconds(60)), kStart + seconds(5));
  Patience none(kStart, Duration{0});
  EXPECT_FALSE(none.lasts(kStart));
}

TEST(Patience, APauseIsNoPartOfItAndANapIs) {
  Patience patience(kStart, seconds(5));
  const Instant stopped = NapUntil(patience, kStart, kStart + seconds(3));
  const Instant resumed = stopped + seconds(60);
  EXPECT_TRUE(patience.lasts(resumed));
  const Instant end = NapUntil(patience, resumed, resumed + seconds(60));
  EXPECT_GE(end, resumed + seconds(2) - milliseconds(250));
  EXPECT_LE(end, resumed + seconds(2));
}

TEST(Patience, ATurnEndsItsTimeAfterTheLastLook) {
  Patience patience(kStart, seconds(5));
  Patience first = patience.turn(milliseconds(50));
  EXPECT_TRUE(first.lasts(kStart + milliseconds(49)));
  EXPECT_FALSE(first.lasts(kStart + milliseconds(50)));
  const Instant late = kStart + milliseconds(4980);
  EXPECT_EQ(NapUntil(patience, kStart, late), late);
  EXPECT_TRUE(patience.lasts(late));
  EXPECT_FALSE(patience.turn(milliseconds(50)).lasts(kStart + seconds(5))) << "no longer than all";
  Patience endless(kStart, Duration::max());
  EXPECT_FALSE(endless.turn(milliseconds(50)).lasts(kStart + milliseconds(50)));
}

TEST(Patience, WithoutALimitSleepsAsLongAsItLikes) {
  Patience patience(kStart, Duration::max());
  EXPECT_EQ(patience.nap_until(kStart, kNever), kNever);
  EXPECT_EQ(patience.nap_until(kStart, kStart + seconds(9)), kStart + seconds(9));
  EXPECT_TRUE(patience.lasts(kStart + seconds(1'000'000)));
  EXPECT_GE(patience.nap(kStart), seconds(60));
}

}  // namespace
}  // namespace rocecoll
