// SPDX-License-Identifier: Apache-2.0
// Paths that change while they are full, in virtual time: their rate, their length, and whether
// anything gets through. The bars are shares of the rate and of the packets sent.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "datagram/shaper_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kRate = 125e6;

ShaperCase GigabitPort() {
  ShaperCase c{.shaper = {.bytes_per_second = kRate, .buffer_bytes = 500'000}};
  c.round_trip = milliseconds(1);
  return c;
}

void Print(const char* what, const ShaperReport& report) {
  std::printf("%-24s goodput %.3f again %.4f rtt %lld us\n", what, report.goodput,
              report.retransmitted, static_cast<long long>(report.rtt.count() / 1000));
}

void ExpectFilled(const char* what, const ShaperReport& report, double least_goodput) {
  Print(what, report);
  EXPECT_GE(report.goodput, least_goodput);
  EXPECT_LE(report.retransmitted, 0.02);
}

TEST(ChangingPath, IsFollowedWhenItsRateHalvesAndDoubles) {
  ShaperWorld world(GigabitPort());
  world.measure();
  for (int change = 0; change < 4; ++change) {
    const bool halves = change % 2 == 0;
    world.set_rate(halves ? kRate / 2 : kRate);
    Print(halves ? "halved, 10 ms" : "doubled, 10 ms", world.measure(milliseconds(10)));
    Print("then 10 ms", world.measure(milliseconds(10)));
    Print("then 20 ms", world.measure(milliseconds(20)));
    ExpectFilled("then 2 s", world.measure(milliseconds(1960)), 0.85);
  }
}

TEST(ChangingPath, IsUsedAgainAfterASecondWithoutAny) {
  ShaperWorld world(GigabitPort());
  world.measure();
  world.set_loss(1);
  world.measure(seconds(1));
  world.set_loss(0);
  Print("after an outage, 100 ms", world.measure(milliseconds(100)));
  ExpectFilled("then 1 s", world.measure(seconds(1)), 0.9);
}

TEST(ChangingPath, IsFilledWhenItBecomesLonger) {
  ShaperCase c = GigabitPort();
  c.write_bytes = 2'000'000;
  ShaperWorld world(c);
  world.measure();
  world.set_round_trip(milliseconds(20));
  Print("longer, 100 ms", world.measure(milliseconds(100)));
  Print("then 400 ms", world.measure(milliseconds(400)));
  Print("then 4 s", world.measure(seconds(4)));
  ExpectFilled("then 4 s", world.measure(seconds(4)), 0.9);
}

}  // namespace
}  // namespace rocecoll
