// SPDX-License-Identifier: Apache-2.0
// The model's controller on a path of its own. datagram/bottleneck_test.cc tests several senders on
// one path, and datagram/shaper_test.cc tests hosts and shapers.
#include "transport/datagram/congestion/model.h"

#include <gtest/gtest.h>

#include "congestion/lone_sender.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

using Sender = LoneSender<ModelController>;

TEST(Model, FillsThePathAndKeepsItsQueueShort) {
  Sender sender;
  EXPECT_EQ(sender.congestion.window(), CongestionController::kInitialWindow);
  sender.run_for(milliseconds(100));
  EXPECT_GT(sender.share(milliseconds(200)), 0.95);
  EXPECT_NEAR(sender.congestion.delivery_rate(), sender.rate, 0.05 * sender.rate);
  EXPECT_LT(sender.free_at - sender.now, milliseconds(1));
  EXPECT_EQ(ModelController(1000).window(), 1000u);
}

// The peer's process gets a core late for every other burst, and its socket holds what arrives
// meanwhile.
TEST(Model, ABusyPeerIsNoQueue) {
  Sender sender;
  sender.host_delay = milliseconds(4);
  sender.run_for(milliseconds(200));
  EXPECT_GT(sender.share(milliseconds(400)), 0.7);
}

// If the sender's own timers are late, packets leave in bursts, and the time of a burst in the
// bottleneck is not a standing queue. A path of 9 us at 1 Gbit/s is that of two hosts joined by a
// cable.
TEST(Model, LateTimersAreNoQueue) {
  Sender sender;
  sender.base = microseconds(9);
  sender.host_delay = microseconds(200);
  sender.timer_delay = microseconds(120);
  sender.run_for(milliseconds(100));
  EXPECT_GT(sender.share(milliseconds(400)), 0.85);
}

// A process that other processes keep from its core, for a time slice or a tick of a slow clock,
// catches up afterwards, and does not take its own pace for that of the path, which would make it
// slower and slower.
TEST(Model, ALateSenderDoesNotSlowDown) {
  for (const int base_us : {1, 100, 1000}) {
    for (const double rate : {1.25e7, 1.25e8, 1.25e9}) {
      for (const int late_us : {120, 1000, 4000, 10000}) {
        for (const bool timers_alone : {true, false}) {
          Sender sender(rate);
          sender.base = microseconds(base_us);
          (timers_alone ? sender.timer_delay : sender.core_delay) = microseconds(late_us);
          // A sender that gets a core only a hundred times a second finds out just as slowly how
          // much fits.
          sender.run_for(milliseconds(late_us < 10000 ? 1500 : 4000));
          EXPECT_GT(sender.share(milliseconds(500)), late_us == 120 ? 0.9 : 0.3)
              << base_us << " us, " << rate << " bytes per second, late by " << late_us << " us";
        }
      }
    }
  }
}

// If a program sends little at first, this says nothing about the path.
TEST(Model, LittleToSendDoesNotShrinkTheInitialWindow) {
  Sender sender;
  sender.congestion.take_timing(sender.now, {sender.base});
  for (int i = 0; i < 20; ++i) {
    const auto stamp = sender.congestion.on_sent(sender.now, 100);
    sender.now += sender.base;
    sender.congestion.on_acked(100, sender.now - sender.base, stamp);
    sender.congestion.end_acknowledgement(sender.now, sender.now, {{sender.base}});
    sender.now += milliseconds(10);
  }
  EXPECT_GE(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Model, RandomLossDoesNotSlowDown) {
  for (const uint64_t lose_every : {100u, 20u, 10u}) {
    Sender sender;
    sender.lose_every = lose_every;
    sender.run_for(milliseconds(300));
    EXPECT_GT(sender.share(milliseconds(300)), 0.8) << "one of " << lose_every;
  }
}

// A queue of our own never becomes the path's round trip; a longer way does.
TEST(Model, TheEmptyRoundTripIsLookedForEveryFewSeconds) {
  Sender sender(1.25e7);
  sender.run_for(seconds(12));
  EXPECT_LT(sender.congestion.base_rtt(), milliseconds(1) + microseconds(130));
  sender.base = milliseconds(3);
  sender.run_for(seconds(12));
  EXPECT_GE(sender.congestion.base_rtt(), milliseconds(3));
  EXPECT_GT(sender.share(seconds(1)), 0.9);
}

TEST(Model, FollowsAPathThatGetsSlowerAndFasterAgain) {
  Sender sender;
  sender.run_for(milliseconds(100));
  sender.rate /= 10;
  sender.run_for(seconds(1));
  EXPECT_LT(sender.congestion.delivery_rate(), 2 * sender.rate);
  EXPECT_LT(sender.free_at - sender.now, milliseconds(10));
  sender.rate *= 10;
  sender.run_for(milliseconds(500));
  EXPECT_GT(sender.share(milliseconds(200)), 0.9);
}

}  // namespace
}  // namespace rocecoll
