// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/ack_tracker.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Instant kFirst = Instant{} + milliseconds(1);

AckFrame Build(const AckTracker& tracker, Instant now, size_t ranges = kMaxAckRanges) {
  AckFrame ack;
  tracker.build(now, ranges, ack);
  return ack;
}

TEST(AckTracker, WaitsForTheDelayWhenAllIsInOrder) {
  AckTracker tracker(milliseconds(1));
  EXPECT_FALSE(tracker.any());
  tracker.on_received(kFirst, 0, 100, true, false);
  tracker.on_received(kFirst + microseconds(500), 1, 100, true, false);
  EXPECT_FALSE(tracker.due(kFirst + microseconds(999)));
  EXPECT_EQ(tracker.deadline(), kFirst + milliseconds(1));
  EXPECT_TRUE(tracker.due(kFirst + milliseconds(1)));
  const AckFrame ack = Build(tracker, kFirst + milliseconds(1));
  EXPECT_EQ(ack.delay, microseconds(500));
  EXPECT_EQ(ack.largest(), 1u);
  tracker.on_ack_sent();
  EXPECT_FALSE(tracker.pending());
  EXPECT_EQ(tracker.deadline(), kNever);
}

TEST(AckTracker, AnswersAGapALatecomerAndARequestAtOnce) {
  AckTracker tracker(milliseconds(1));
  tracker.on_received(kFirst, 5, 100, true, false);
  EXPECT_FALSE(tracker.due(kFirst));
  tracker.on_received(kFirst, 7, 100, true, false);
  EXPECT_TRUE(tracker.due(kFirst));
  tracker.on_ack_sent();
  tracker.on_received(kFirst, 6, 100, true, false);
  EXPECT_TRUE(tracker.due(kFirst));
  tracker.on_ack_sent();
  tracker.on_received(kFirst, 8, 100, true, true);
  EXPECT_TRUE(tracker.due(kFirst));
}

TEST(AckTracker, CountsMarksAndTellsTheFirstOfARow) {
  AckTracker tracker(milliseconds(1), UINT32_MAX);
  EXPECT_FALSE(tracker.on_mark(false));
  EXPECT_TRUE(tracker.on_mark(true));
  EXPECT_FALSE(tracker.on_mark(true));
  EXPECT_FALSE(tracker.on_mark(false));
  EXPECT_TRUE(tracker.on_mark(true));
  tracker.on_received(kFirst, 0, 100, true, true);
  EXPECT_EQ(Build(tracker, kFirst).marked_packets, 2u);
}

TEST(AckTracker, AnswersEverySoManyPacketsAndBytes) {
  AckTracker tracker(milliseconds(1));
  uint64_t number = 0;
  for (; number < AckTracker::kPacketsPerAck - 1; ++number) {
    tracker.on_received(kFirst, number, 10, true, false);
    ASSERT_FALSE(tracker.due(kFirst));
  }
  tracker.on_received(kFirst, number++, 10, true, false);
  EXPECT_TRUE(tracker.due(kFirst));
  tracker.on_ack_sent();
  tracker.on_received(kFirst, number++, 40000, true, false);
  EXPECT_FALSE(tracker.due(kFirst));
  tracker.on_received(kFirst, number++, 40000, true, false);
  EXPECT_TRUE(tracker.due(kFirst));
}

TEST(AckTracker, AcknowledgementsAreNotAcknowledged) {
  AckTracker tracker(milliseconds(1));
  tracker.on_received(kFirst, 3, 66, false, false);
  tracker.on_received(kFirst, 9, 66, false, false);
  EXPECT_FALSE(tracker.pending());
  EXPECT_TRUE(tracker.is_duplicate(9));
}

TEST(AckTracker, ReportsTheNewestRangesFirst) {
  AckTracker tracker(milliseconds(1));
  for (uint64_t number = 0; number < 100; number += 2) {
    tracker.on_received(kFirst, number, 10, true, false);
  }
  const AckFrame ack = Build(tracker, kFirst, 3);
  ASSERT_EQ(ack.range_count, 3u);
  EXPECT_EQ(ack.ranges[0], (RangeSet::Range{98, 99}));
  EXPECT_EQ(ack.ranges[2], (RangeSet::Range{94, 95}));
}

TEST(AckTracker, ForgetsOldHolesAndTakesTheirPacketsForDuplicates) {
  AckTracker tracker(milliseconds(1));
  for (uint64_t number = 0; number < 4 * AckTracker::kMaxRanges; number += 2) {
    tracker.on_received(kFirst, number, 10, true, false);
  }
  EXPECT_TRUE(tracker.is_duplicate(1));
  EXPECT_FALSE(tracker.is_duplicate(4 * AckTracker::kMaxRanges - 3));
  EXPECT_THROW(tracker.on_received(kFirst, 1, 10, true, false), CheckFailure);
  tracker.on_received(kFirst, 3 * AckTracker::kMaxSpan, 10, true, false);
  EXPECT_TRUE(tracker.is_duplicate(2 * AckTracker::kMaxSpan - 1));
  EXPECT_EQ(Build(tracker, kFirst).range_count, 1u);
}

TEST(AckTracker, ForgetsWhatTheSenderHasSettled) {
  AckTracker tracker(milliseconds(1));
  for (uint64_t number = 0; number < 100; number += 2) {
    tracker.on_received(kFirst, number, 10, true, false);
  }
  tracker.on_settled(91);
  EXPECT_TRUE(tracker.is_duplicate(89));
  EXPECT_FALSE(tracker.is_duplicate(91));
  const AckFrame ack = Build(tracker, kFirst);
  EXPECT_EQ(ack.range_count, 4u);
  // What was never received is never acknowledged.
  EXPECT_EQ(ack.ranges[3], (RangeSet::Range{92, 93}));
}

}  // namespace
}  // namespace rocecoll
