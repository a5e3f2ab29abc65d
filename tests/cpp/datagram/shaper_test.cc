// SPDX-License-Identifier: Apache-2.0
// How the congestion control handles token buckets between busy hosts, in virtual time. The bars
// are shares of the packets sent and of the rate, and none of them depends on this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "base/run_choice.h"
#include "base/take_log.h"
#include "datagram/shaper_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;

constexpr std::array<size_t, 5> kBursts{16 * kKiB, 64 * kKiB, 128 * kKiB, 512 * kKiB, 1024 * kKiB};
constexpr std::array<size_t, 4> kLimits{50'000, 100'000, 500'000, 2'000'000};
constexpr uint64_t kCases = kBursts.size() * kLimits.size() * 8;

// The test matrix of a rate: bursts, limits, one direction or both, one pair of processes or four,
// hosts that are busy or not.
ShaperCase CaseOf(double megabits, uint64_t number) {
  ShaperCase c;
  c.shaper.bytes_per_second = megabits * 1e6 / 8;
  c.shaper.line_bytes_per_second = 10e9 / 8;
  c.busy = number % 2 == 1;
  c.pairs = number / 2 % 2 == 1 ? 4 : 1;
  c.both_ways = number / 4 % 2 == 1;
  c.shaper.buffer_bytes = kLimits[number / 8 % kLimits.size()];
  c.shaper.burst_bytes = kBursts[number / 8 / kLimits.size()];
  if (megabits <= 100) {
    c.write_bytes = 128 * kKiB;
    c.warm_up = c.measured = milliseconds(1500);
  }
  return c;
}

class TokenBuckets : public testing::TestWithParam<int> {};

// CUBIC runs in the same place for comparison. If a queue is smaller than what a sender makes up
// for after a time slice of others, or than the smallest windows of all senders, any sender that
// fills the path loses packets.
TEST_P(TokenBuckets, AreFilledAndHardlyOverrun) {
  const int megabits = GetParam();
  for (const uint64_t number : ChooseForRun(6, 0, kCases)) {
    ShaperCase c = CaseOf(megabits, number);
    const ShaperReport report = ShaperWorld(c).measure();
    c.control = CongestionControl::kCubic;
    const ShaperReport cubic = ShaperWorld(c).measure();
    const auto figures = [](const ShaperReport& one) {
      char text[96];
      std::snprintf(text, sizeof text, "goodput %.3f again %.4f rtt %5lld us", one.goodput,
                    one.retransmitted, static_cast<long long>(one.rtt.count() / 1000));
      return std::string(text);
    };
    char name[96];
    std::snprintf(name, sizeof name, "%4d Mbit/s %3llu: burst %4zu KiB limit %4zu KB %s x%u %s",
                  megabits, static_cast<unsigned long long>(number), c.shaper.burst_bytes / kKiB,
                  c.shaper.buffer_bytes / 1000, c.both_ways ? "both" : "one ", c.pairs,
                  c.busy ? "busy" : "idle");
    const std::string text =
        std::string(name) + ": " + figures(report) + " (cubic " + figures(cubic) + ")";
    std::puts(text.c_str());
    // After a time slice of others, a sender makes up for more than the smallest of these hold.
    const double most_again = c.shaper.buffer_bytes <= 50'000    ? 0.06
                              : c.shaper.buffer_bytes <= 100'000 ? 0.03
                                                                 : 0.02;
    EXPECT_LE(report.retransmitted, most_again) << text;
    EXPECT_GE(report.goodput, c.busy ? 0.7 : 0.92) << text;
    // The queue of a single sender of ours does not stand, however deep it could be; in both
    // directions there are two senders. But now and then a sender takes the queue for that of
    // others for a second, and then makes one as TCP does. At 100 Mbit/s, what a busy host sends at
    // once takes that long.
    if (c.pairs == 1 && megabits >= 1000) {
      EXPECT_LE(report.rtt,
                std::max<Duration>(c.round_trip + milliseconds(c.both_ways ? 4 : 2), cubic.rtt))
          << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MegabitsPerSecond, TokenBuckets, testing::Values(100, 1000, 2500),
                         testing::PrintToStringParamName());

// Packets that overtake each other make round trips vary, but they are no queue.
TEST(Jitter, OfAQuarterOfTheRoundTripIsNoQueue) {
  ShaperCase c{.shaper = {.bytes_per_second = 125e6, .buffer_bytes = 500'000}};
  c.shaper.line_bytes_per_second = 10e9 / 8;
  c.round_trip = milliseconds(5);
  c.jitter = c.round_trip / 4;
  c.write_bytes = 500'000;
  const ShaperReport report = ShaperWorld(c).measure();
  std::printf("goodput %.3f again %.4f\n", report.goodput, report.retransmitted);
  EXPECT_GE(report.goodput, 0.85);
  EXPECT_LE(report.retransmitted, 0.01);
}

// If acknowledgements wait behind traffic in the other direction, this says nothing about the way
// there.
TEST(Shaper, AFullWayBackIsNoQueueOfOurs) {
  ShaperCase c{.shaper = {.bytes_per_second = 125e6, .buffer_bytes = 500'000}};
  c.shaper.line_bytes_per_second = 10e9 / 8;
  c.back_full = true;
  const ShaperReport report = ShaperWorld(c).measure();
  std::printf("goodput %.3f again %.4f\n", report.goodput, report.retransmitted);
  EXPECT_GE(report.goodput, 0.9);
  EXPECT_LE(report.retransmitted, 0.01);
}

// RFC 8084: whatever the model estimates, a path that loses this much gets less.
TEST(CircuitBreakers, SlowDownWhereFarTooMuchGetsLost) {
  ShaperCase c{.shaper = {.bytes_per_second = 12.5e6, .buffer_bytes = 500'000}, .loss = 0.45};
  c.warm_up = milliseconds(500);
  c.measured = milliseconds(2000);
  const double before = ShaperWorld(c).measure().goodput;
  c.warm_up = milliseconds(15'000);
  TakeLog();
  EXPECT_LT(ShaperWorld(c).measure().goodput, 0.7 * before);
  const auto log = TakeLog();
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].severity, Severity::kWarning);
  EXPECT_NE(log[0].text.find("% of what was sent to sim:1 in 3 seconds got lost"),
            std::string::npos)
      << log[0].text;
}

}  // namespace
}  // namespace rocecoll
