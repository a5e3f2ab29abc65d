// SPDX-License-Identifier: Apache-2.0
// The window's answers to single signs. What they add up to is in datagram/bottleneck_test.cc.
#include "transport/reliability/congestion.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr uint64_t kPacket = 1500;
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
    for (; count == 0 || congestion.has_room(kPacket); ++count) congestion.on_sent(now, kPacket);
    now += delay;
    rtt.on_sample(now, delay, Duration{0});
    congestion.on_rtt_sample(now, rtt);
    for (; count > 0; --count) {
      if (lose_every > 0 && ++packets % lose_every == 0) {
        congestion.on_lost(now, kPacket, sent_at, rtt);
      } else {
        congestion.on_acked(now, kPacket, sent_at, rtt);
      }
    }
  }
  void round_trips(int count, Duration delay, uint64_t lose_every = 0) {
    for (int i = 0; i < count; ++i) round_trip(delay, lose_every);
  }
};

TEST(Congestion, StartsSmallAndGrowsEachRoundTripUntilTheMaximum) {
  Sender sender;
  EXPECT_EQ(sender.congestion.window(), CongestionController::kInitialWindow);
  sender.round_trip(microseconds(100));
  const uint64_t before = sender.congestion.window();
  sender.round_trip(microseconds(100));
  EXPECT_GT(sender.congestion.window(), before * 11 / 10);
  EXPECT_LE(sender.congestion.window(), before * 3 / 2 + kPacket);
  sender.round_trips(40, microseconds(100));
  EXPECT_EQ(sender.congestion.window(), kMaxWindow);
  EXPECT_EQ(sender.congestion.bytes_in_flight(), 0u);
  EXPECT_EQ(CongestionController(1000).window(), 1000u);
}

TEST(Congestion, AnUnusedWindowDoesNotGrow) {
  Sender sender;
  for (int i = 0; i < 1000; ++i) {
    sender.congestion.on_sent(sender.now, kPacket);
    sender.rtt.on_sample(sender.now, microseconds(100), Duration{0});
    sender.congestion.on_rtt_sample(sender.now, sender.rtt);
    sender.congestion.on_acked(sender.now, kPacket, sender.now, sender.rtt);
  }
  EXPECT_EQ(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, AQueueEndsSlowStartAndIsDrained) {
  Sender sender;
  sender.round_trips(8, microseconds(100));
  const uint64_t before = sender.congestion.window();
  sender.round_trip(milliseconds(1));
  EXPECT_FALSE(sender.congestion.slow_start());
  EXPECT_LT(sender.congestion.window(), before / 2);
  EXPECT_EQ(sender.congestion.base_rtt(), microseconds(100));
}

TEST(Congestion, AQueueThatDoesNotShrinkIsOthersAndCompetedWith) {
  Sender sender;
  sender.round_trips(8, microseconds(100));
  sender.round_trips(20, milliseconds(5));
  EXPECT_TRUE(sender.congestion.contested());
  const uint64_t before = sender.congestion.window();
  sender.round_trips(50, milliseconds(5));
  EXPECT_GT(sender.congestion.window(), before + 40 * kPacket);
  // As TCP: a loss is a cut, also a single one.
  const uint64_t grown = sender.congestion.window();
  sender.congestion.on_sent(sender.now, kPacket);
  sender.congestion.on_lost(sender.now, kPacket, sender.now, sender.rtt);
  EXPECT_LT(sender.congestion.window(), grown * 3 / 4);
  // Until the queue is gone.
  sender.round_trips(2, microseconds(100));
  EXPECT_FALSE(sender.congestion.contested());
}

// However long it stands: the smallest round trip ever is the path's, not that of some seconds.
TEST(Congestion, AStandingQueueNeverBecomesTheRoundTripOfThePath) {
  Sender sender;
  sender.round_trips(8, microseconds(100));
  sender.round_trips(30'000, milliseconds(1));  // 30 s
  EXPECT_EQ(sender.congestion.base_rtt(), microseconds(100));
}

TEST(Congestion, RandomLossDoesNotCutForLong) {
  for (const uint64_t lose_every : {100u, 50u, 20u}) {
    Sender sender;
    sender.round_trips(300, microseconds(100), lose_every);
    EXPECT_GT(sender.congestion.window(), 64 * kPacket) << "one of " << lose_every;
  }
}

TEST(Congestion, PersistentLossCutsWithoutAFloorAndTheWindowRecovers) {
  Sender sender;
  sender.round_trips(8, microseconds(100));
  sender.round_trips(200, microseconds(100), 2);
  EXPECT_LT(sender.congestion.window(), kPacket);
  EXPECT_GT(sender.congestion.window(), 0u);
  sender.round_trips(3000, microseconds(100));
  EXPECT_GT(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, WithoutANetworkNothingSteers) {
  Sender sender;
  sender.congestion = CongestionController(kMaxWindow, false);
  sender.round_trips(5, microseconds(100));
  sender.round_trips(50, milliseconds(20), 2);
  EXPECT_EQ(sender.congestion.window(), kMaxWindow);
  EXPECT_EQ(sender.congestion.bytes_in_flight(), 0u);
  EXPECT_TRUE(sender.congestion.paced(sender.now));
}

TEST(Congestion, FlightCannotBecomeNegative) {
  CongestionController congestion(kMaxWindow);
  congestion.on_sent(Instant{}, 100);
  EXPECT_THROW(congestion.on_discarded(101), CheckFailure);
}

TEST(Pacer, LetsABurstGoAndThenKeepsTheRate) {
  Pacer pacer;
  const Instant start = Instant{} + std::chrono::seconds(1);
  EXPECT_TRUE(pacer.ready(start));
  pacer.set_rate(1e9, 10'000);
  Instant now = start;
  uint64_t sent = 0;
  while (now < start + milliseconds(1)) {
    while (pacer.ready(now)) {
      pacer.on_sent(now, 1000);
      sent += 1000;
    }
    EXPECT_GT(pacer.release_at(), now);
    now = pacer.release_at();
  }
  EXPECT_GE(sent, 1'000'000u);
  EXPECT_LE(sent, 1'000'000u + 2 * 10'000u);
}

}  // namespace
}  // namespace rocecoll
