// SPDX-License-Identifier: Apache-2.0
// The controller on a path of its own. What several make of one is in datagram/bottleneck_test.cc.
#include "transport/reliability/congestion.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/check.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kPacket = 1500;
constexpr uint64_t kMaxWindow = 64 * 1024 * 1024;

// A sender that always has something to send, and the path that it has for itself.
struct Sender {
  explicit Sender(double bytes_per_second = 1.25e8) : rate(bytes_per_second) {}

  struct Packet {
    Instant sent_at, arrived_at, acknowledged_at;
    uint64_t delivered_before;
    bool lost;
  };

  void send_all() {
    while (congestion.paced(now) && (flight.empty() || congestion.has_room(kPacket))) {
      free_at = std::max(free_at, now) +
                Duration(static_cast<int64_t>(static_cast<double>(kPacket) / rate * 1e9));
      const bool lost = lose_every > 0 && ++sent % lose_every == 0;
      const Instant arrived_at = free_at + base;
      flight.push_back({now, arrived_at, arrived_at + (sent % 64 < 32 ? host_delay : Duration{0}),
                        congestion.on_sent(now, kPacket), lost});
      if (lose_every == 0) ++sent;
    }
    congestion.on_held_back(now);
  }
  void run_for(Duration duration) {
    const Instant end = now + duration;
    delivered = 0;
    while (now < end) {
      send_all();
      const Instant acknowledged = flight.empty() ? kNever : flight.front().acknowledged_at;
      Instant next = std::min(acknowledged, end);
      if (congestion.release_at() > now) {
        next = std::min(next, congestion.release_at() + timer_delay);
      }
      if (next > now) now = next + core_delay;
      while (!flight.empty() && flight.front().acknowledged_at <= now) take(flight.front());
    }
  }
  void take(Packet packet) {
    flight.pop_front();
    if (packet.lost) return congestion.on_lost(kPacket);
    delivered += kPacket;
    congestion.on_acked(kPacket, packet.sent_at, packet.delivered_before);
    const Duration host = packet.acknowledged_at - packet.arrived_at;
    congestion.end_acknowledgement(now, packet.arrived_at,
                                   {{packet.arrived_at - packet.sent_at, host}});
  }
  double share(Duration duration) {
    run_for(duration);
    return static_cast<double>(delivered) / (rate * Seconds(duration));
  }

  CongestionController congestion{kMaxWindow};
  Instant now = Instant{} + seconds(100);
  Instant free_at{};
  std::deque<Packet> flight;
  uint64_t sent = 0;
  uint64_t delivered = 0;
  double rate;
  Duration base = milliseconds(1);
  Duration host_delay{};
  // Until this process has the core that its timer woke it for, and whatever woke it.
  Duration timer_delay{};
  Duration core_delay{};
  uint64_t lose_every = 0;
};

TEST(Congestion, FillsThePathAndKeepsItsQueueShort) {
  Sender sender;
  EXPECT_EQ(sender.congestion.window(), CongestionController::kInitialWindow);
  sender.run_for(milliseconds(100));
  EXPECT_GT(sender.share(milliseconds(200)), 0.95);
  EXPECT_NEAR(sender.congestion.delivery_rate(), sender.rate, 0.05 * sender.rate);
  EXPECT_LT(sender.free_at - sender.now, milliseconds(1));
  EXPECT_EQ(CongestionController(1000).window(), 1000u);
}

// The peer's process gets a core late for every other burst: its socket holds what came meanwhile.
TEST(Congestion, ABusyPeerIsNoQueue) {
  Sender sender;
  sender.host_delay = milliseconds(4);
  sender.run_for(milliseconds(200));
  EXPECT_GT(sender.share(milliseconds(400)), 0.7);
}

// Own timers that come late make bursts, whose time in the bottleneck is no standing queue: a path
// of 9 us that takes 1 Gbit/s is that of two hosts with nothing but a cable between.
TEST(Congestion, LateTimersAreNoQueue) {
  Sender sender;
  sender.base = microseconds(9);
  sender.host_delay = microseconds(200);
  sender.timer_delay = microseconds(120);
  sender.run_for(milliseconds(100));
  EXPECT_GT(sender.share(milliseconds(400)), 0.85);
}

// A process that other processes keep from its core, for a time slice or a tick of a slow clock,
// makes up for it, and does not take its own pace for the path's: that would make it slower and
// slower.
TEST(Congestion, ALateSenderDoesNotSlowDown) {
  for (const int base_us : {1, 100, 1000}) {
    for (const double rate : {1.25e7, 1.25e8, 1.25e9}) {
      for (const int late_us : {120, 1000, 4000, 10000}) {
        for (const bool timers_alone : {true, false}) {
          Sender sender(rate);
          sender.base = microseconds(base_us);
          (timers_alone ? sender.timer_delay : sender.core_delay) = microseconds(late_us);
          // Whoever gets a core only a hundred times a second finds out as slowly how much fits.
          sender.run_for(milliseconds(late_us < 10000 ? 1500 : 4000));
          EXPECT_GT(sender.share(milliseconds(500)), late_us == 120 ? 0.9 : 0.3)
              << base_us << " us, " << rate << " bytes per second, late by " << late_us << " us";
        }
      }
    }
  }
}

// What a program said little with at first is no measure of the path.
TEST(Congestion, LittleToSendDoesNotShrinkTheInitialWindow) {
  Sender sender;
  sender.congestion.take_timing(sender.now, {sender.base, Duration{0}});
  for (int i = 0; i < 20; ++i) {
    const auto stamp = sender.congestion.on_sent(sender.now, 100);
    sender.now += sender.base;
    sender.congestion.on_acked(100, sender.now - sender.base, stamp);
    sender.congestion.end_acknowledgement(sender.now, sender.now, {{sender.base, Duration{0}}});
    sender.now += milliseconds(10);
  }
  EXPECT_GE(sender.congestion.window(), CongestionController::kInitialWindow);
}

TEST(Congestion, RandomLossDoesNotSlowDown) {
  for (const uint64_t lose_every : {100u, 20u, 10u}) {
    Sender sender;
    sender.lose_every = lose_every;
    sender.run_for(milliseconds(300));
    EXPECT_GT(sender.share(milliseconds(300)), 0.8) << "one of " << lose_every;
  }
}

// A queue of ours never becomes the round trip of the path, a longer way does.
TEST(Congestion, TheEmptyRoundTripIsLookedForEveryFewSeconds) {
  Sender sender(1.25e7);
  sender.run_for(seconds(12));
  EXPECT_LT(sender.congestion.base_rtt(), milliseconds(1) + microseconds(130));
  sender.base = milliseconds(3);
  sender.run_for(seconds(12));
  EXPECT_GE(sender.congestion.base_rtt(), milliseconds(3));
  EXPECT_GT(sender.share(seconds(1)), 0.9);
}

TEST(Congestion, FollowsAPathThatGetsSlowerAndFasterAgain) {
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

TEST(Congestion, WithoutANetworkNothingSteers) {
  CongestionController congestion(kMaxWindow, false);
  const Instant start = Instant{} + seconds(1);
  for (int i = 0; i < 1000; ++i) {
    const auto stamp = congestion.on_sent(start, kPacket);
    if (i % 2 == 0) {
      congestion.on_lost(kPacket);
    } else {
      congestion.on_acked(kPacket, start, stamp);
      congestion.end_acknowledgement(start + milliseconds(20), start, {{milliseconds(20), {}}});
    }
    EXPECT_TRUE(congestion.paced(start));
  }
  EXPECT_EQ(congestion.window(), kMaxWindow);
  EXPECT_EQ(congestion.bytes_in_flight(), 0u);
}

TEST(Congestion, FlightCannotBecomeNegative) {
  CongestionController congestion(kMaxWindow);
  congestion.on_sent(Instant{}, 100);
  EXPECT_THROW(congestion.on_discarded(101), CheckFailure);
}

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

TEST(CatchUp, GrowsUntilQueuesOverflowAndThenCarefully) {
  constexpr uint64_t kKept = 7;
  CatchUp catch_up;
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast);
  catch_up.on_round(false, false, kPacket);
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast) << "grew although nobody was late";
  for (int i = 0; i < 10; ++i) catch_up.on_round(true, false, kPacket);
  const uint64_t grown = catch_up.bytes();
  EXPECT_GT(grown, 8 * CatchUp::kLeast);
  catch_up.on_round(false, false, kPacket);
  catch_up.on_round(false, true, kPacket);
  EXPECT_EQ(catch_up.bytes(), grown / 10 * kKept)
      << "a loss shows a round after what has caused it";
  catch_up.on_round(true, false, kPacket);
  EXPECT_EQ(catch_up.bytes(), grown / 10 * kKept + kPacket);
  for (int i = 0; i < 4; ++i) catch_up.on_round(false, false, kPacket);
  catch_up.on_round(false, true, kPacket);
  EXPECT_EQ(catch_up.bytes(), grown / 10 * kKept + kPacket) << "that loss was something else's";
  for (int i = 0; i < 100; ++i) catch_up.on_round(true, true, kPacket);
  EXPECT_EQ(catch_up.bytes(), CatchUp::kLeast);
  for (int i = 0; i < 1'000'000; ++i) catch_up.on_round(true, false, kPacket);
  EXPECT_LE(catch_up.bytes(), CatchUp::kMost);
}

// What went through a queue is the path's rate, once there is enough of it.
TEST(DeliveryRate, OfABucketIsWhatQueuesPass) {
  DeliveryRate rate;
  rate.take(500e6);
  for (size_t i = 0; i < DeliveryRate::kRounds - 1; ++i) rate.take_queued(125e6, true);
  EXPECT_EQ(rate.most(), 500e6);
  rate.take_queued(120e6, false);
  EXPECT_EQ(rate.most(), 500e6) << "bounded although nothing has rested";
  rate.take_queued(110e6, true);
  EXPECT_EQ(rate.most(), 125e6);
  EXPECT_EQ(rate.recent(), 125e6);
  for (size_t i = 0; i < DeliveryRate::kRounds; ++i) rate.take(100e6);
  EXPECT_EQ(rate.most(), 100e6);
}

// So many rounds of 100 ms, in each of which 1 MB was sent.
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
