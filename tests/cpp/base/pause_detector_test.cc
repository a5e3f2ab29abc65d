// SPDX-License-Identifier: Apache-2.0
#include "base/pause_detector.h"

#include <gtest/gtest.h>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PauseDetector, ASleepUntilTheDeadlineIsNoPause) {
  PauseDetector pauses;
  const Instant start{seconds(100)};
  EXPECT_EQ(pauses.on_call(start), Duration{0});  // expect() has announced nothing
  pauses.expect(start, start + seconds(10));
  EXPECT_EQ(pauses.on_call(start + seconds(10) + milliseconds(100)), Duration{0});
  EXPECT_EQ(pauses.on_call(start + seconds(13)), seconds(3));
  pauses.expect(start, kNever);
  EXPECT_EQ(pauses.on_call(start + seconds(1000)), Duration{0});
}

TEST(PauseDetector, ADeadlineInThePastIsDueAtOnce) {
  PauseDetector pauses;
  const Instant start{seconds(100)};
  pauses.expect(start, Instant::min());
  EXPECT_EQ(pauses.on_call(start + milliseconds(1)), Duration{0});
  EXPECT_EQ(pauses.on_call(start + seconds(1)), seconds(1));
}

}  // namespace
}  // namespace rocecoll
