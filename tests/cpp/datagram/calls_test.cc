// SPDX-License-Identifier: Apache-2.0
// Calls one after another over long paths, in virtual time: each sends in both directions less than
// the path holds, or hardly more, and the next one begins when all of it has arrived. The bars are
// shares of the packets sent, and of what calls at the rate of the path could achieve.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "datagram/shaper_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kPathRate = 125e6;

ShaperCase Calls(size_t bytes, Duration round_trip) {
  ShaperCase c{.shaper = {.bytes_per_second = kPathRate, .buffer_bytes = 1'000'000}};
  c.shaper.line_bytes_per_second = 10 * kPathRate;
  c.both_ways = true;
  c.round_trip = round_trip;
  c.write_bytes = bytes;
  c.warm_up = c.measured = seconds(3);
  return c;
}

// The number of calls in a second at the rate of the path.
double PossibleRate(const ShaperCase& c) {
  const double bytes = static_cast<double>(c.write_bytes);
  return bytes / (bytes / kPathRate + Seconds(c.round_trip) / 2);
}

void ExpectFastCalls(const ShaperCase& c, double least) {
  const ShaperReport report = ShaperWorld(c).measure();
  const double share = report.goodput * kPathRate / PossibleRate(c);
  std::printf("%7zu bytes, %3lld ms, limit %7zu, burst %7zu: %.3f again %.4f rtt %lld us\n",
              c.write_bytes, static_cast<long long>(c.round_trip / milliseconds(1)),
              c.shaper.buffer_bytes, c.shaper.burst_bytes, share, report.retransmitted,
              static_cast<long long>(report.rtt.count() / 1000));
  EXPECT_GE(share, least);
  EXPECT_LE(report.retransmitted, 0.01);
}

TEST(Calls, GoAtTheRateOfALongPath) {
  ExpectFastCalls(Calls(200'000, milliseconds(2)), 0.92);
  ExpectFastCalls(Calls(1'000'000, milliseconds(20)), 0.92);
  ExpectFastCalls(Calls(1'000'000, milliseconds(100)), 0.92);
  ExpectFastCalls(Calls(4'000'000, milliseconds(20)), 0.92);
  ExpectFastCalls(Calls(4'000'000, milliseconds(100)), 0.92);
}

// The queues hold a small part of a call.
TEST(Calls, KeepToTheRateWhereMoreOverflows) {
  for (const size_t limit : {100'000, 300'000}) {
    ShaperCase c = Calls(4'000'000, milliseconds(100));
    c.shaper.buffer_bytes = limit;
    ExpectFastCalls(c, 0.8);
    c.round_trip = milliseconds(20);
    ExpectFastCalls(c, 0.85);
  }
}

TEST(Calls, GoAtTheRateOfABucketThatRestsBetweenThem) {
  for (const int ms : {20, 100}) {
    ShaperCase c = Calls(4'000'000, milliseconds(ms));
    c.shaper.burst_bytes = 1024 * kKiB;
    ExpectFastCalls(c, 0.92);
  }
}

// Small calls have learned the rate of a bucket without using more than its burst. A large call
// then tries twice as much at a time, and not everything that such a rate allows in a round trip:
// three quarters of what is sent in a second would get lost.
TEST(Calls, BecomeLargerStepByStep) {
  ShaperCase c = Calls(64'000'000, milliseconds(100));
  c.shaper.buffer_bytes = 500'000;
  c.shaper.burst_bytes = 1024 * kKiB;
  ShaperWorld world(c);
  world.set_write_bytes(1'000'000);
  EXPECT_EQ(world.measure().retransmitted, 0);
  world.set_write_bytes(c.write_bytes);
  const double first = world.measure(seconds(1)).retransmitted;
  const double second = world.measure(seconds(1)).retransmitted;
  std::printf("again %.4f, then %.4f\n", first, second);
  EXPECT_LE(first, 0.3);
  EXPECT_LE(second, 0.05);
}

}  // namespace
}  // namespace rocecoll
