// SPDX-License-Identifier: Apache-2.0
#include "transport/reliability/congestion.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr uint64_t kPacket = 8192;
constexpr uint64_t kMaxWindow = 4 * 1024 * 1024;

// Round trips of full windows with a given delay and every n-th packet lost.
struct Sender {
  CongestionController congestion{kMaxWindow};
  RttEstimator rtt;
  Instant now = Instant{} + std::chrono::seconds(1);
  uint64_t packets = 0;

  void round_trip(Duration delay, uint64_t lose_every = 0) {
    const Instant sent_at = now;
    uint64_t count = 0;
    for (; congestion.has_room(kPacket); ++count) congestion.on_sent(kPacket);
    now += delay;
    rtt.on_sample(now, delay, Duration{0});
    for (; count > 0; --count) {
      if (lose_every > 0 && ++packets % lose_every == 0) {
        congestion.on_lost(now, kPacket, sent_at, rtt);
      } else {
        congestion.on_acked(now, kPacket, sent_at, rtt);
      }
    }
  }
};

TEST(Congestion, StartsWithTheInitialWindowAndGrowsToTheMaximumWhenUsed) {
  Sender sender;
  EXPECT_EQ(sender.congestion.window(), CongestionController::kInitialWindow);
  for (int i = 0; i < 1000; ++i) sender.round_trip(microseconds(100));
  EXPECT_EQ(sender.congestion.window(), kMaxWindow);
  EXPECT_EQ(sender.congestion.bytes_in_flight(), 0u);
  EXPECT_EQ(CongestionController(1000).window(), 1000u);
}

TEST(Congestion, AnUnusedWindowDoesNotGrow) {
  Sender sender;
  for (int i = 0; i < 1000; ++i) {
    sender.congestion.on_sent(kPacket);
    sender.rtt.on_sample(sender.now, microseconds(100), Duration{0});
    sender.congestion.on_acked(sender.now, kPacket, sender.now, sender.rtt);
  }
  EXPECT_EQ(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, ADelayRiseCutsAtMostByHalfARoundTripAndNotBelowTheFloor) {
  Sender sender;
  for (int i = 0; i < 5; ++i) sender.round_trip(microseconds(100));
  const uint64_t before = sender.congestion.window();
  sender.round_trip(milliseconds(20));
  EXPECT_LT(sender.congestion.window(), before);
  EXPECT_GE(sender.congestion.window(), before / 2 - 1);
  for (int i = 0; i < 50; ++i) sender.round_trip(milliseconds(20));
  EXPECT_EQ(sender.congestion.window(), CongestionController::kSingleSignalFloor);
}

TEST(Congestion, TolerableLossWithoutDelayDoesNotCut) {
  Sender sender;
  for (int i = 0; i < 200; ++i) sender.round_trip(microseconds(100), 100);
  EXPECT_GT(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, HeavyLossAloneStopsAtTheFloor) {
  Sender sender;
  for (int i = 0; i < 200; ++i) sender.round_trip(microseconds(100), 5);
  EXPECT_GE(sender.congestion.window(), CongestionController::kSingleSignalFloor);
  EXPECT_LT(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, LossWithDelayCutsDownToTwoPackets) {
  Sender sender;
  for (int i = 0; i < 5; ++i) sender.round_trip(microseconds(100));
  for (int i = 0; i < 50; ++i) sender.round_trip(milliseconds(20), 2);
  EXPECT_EQ(sender.congestion.window(), 2 * kPacket);
  // And recovers.
  for (int i = 0; i < 200; ++i) sender.round_trip(microseconds(100));
  EXPECT_GT(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, WithoutANetworkNothingSteers) {
  Sender sender;
  sender.congestion = CongestionController(kMaxWindow, false);
  for (int i = 0; i < 5; ++i) sender.round_trip(microseconds(100));
  for (int i = 0; i < 50; ++i) sender.round_trip(milliseconds(20), 2);
  EXPECT_EQ(sender.congestion.window(), kMaxWindow);
  EXPECT_EQ(sender.congestion.bytes_in_flight(), 0u);
}

TEST(Congestion, FlightCannotBecomeNegative) {
  CongestionController congestion(kMaxWindow);
  congestion.on_sent(100);
  EXPECT_THROW(congestion.on_discarded(101), CheckFailure);
}

}  // namespace
}  // namespace rocecoll
