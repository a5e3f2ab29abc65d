// SPDX-License-Identifier: Apache-2.0
// How the congestion control handles simulated bottlenecks, in virtual time. The bars are shares of
// the link and of the packets sent, Jain's index over our senders, and TCP's share of what passed.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "datagram/bottleneck_world.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Bottleneck : public testing::TestWithParam<BottleneckCase> {};

TEST_P(Bottleneck, IsFilledFairlyAndWithLittleLoss) {
  const BottleneckCase& c = GetParam();
  BottleneckWorld world(c);
  const BottleneckReport report = world.measure();
  std::printf("%-24s used %.3f  retransmitted %.4f  marked %.3f  jain %.3f  tcp %.3f\n", c.name,
              report.utilisation, report.retransmitted, report.marked, report.jain,
              report.tcp_share);
  EXPECT_GE(report.utilisation, c.least_used);
  EXPECT_LE(report.retransmitted, c.most_retransmitted);
  EXPECT_GE(report.jain, c.least_jain);
  EXPECT_GE(report.tcp_share, c.least_tcp);
  EXPECT_LE(report.tcp_share, c.most_tcp);
}

std::string Name(const testing::TestParamInfo<BottleneckCase>& info) { return info.param.name; }

// A single CUBIC flow fills each of these. Two cases are worse than the bars of the others: eight
// senders that share a queue of 50 us, and so many senders that each has less than one packet of
// what the path holds.
//
// The course of a run depends on every nanosecond of it. Where that matters, the bar is below the
// worst result of twelve runs whose round trips differ by 137 ns. Half of the runs of 32 senders
// are fair by 150 ms.
INSTANTIATE_TEST_SUITE_P(OneGigabit, Bottleneck,
                         testing::Values(BottleneckCase{.name = "OneSender", .least_used = 0.9},
                                         BottleneckCase{.name = "OneSenderOneMillisecond",
                                                        .round_trip = milliseconds(1)},
                                         BottleneckCase{.name = "TwoSenders", .senders = 2},
                                         BottleneckCase{.name = "EightSenders",
                                                        .buffer_bytes = 256 * kKiB,
                                                        .senders = 8,
                                                        .measured = milliseconds(400)},
                                         // The path is filled within 3 s.
                                         BottleneckCase{.name = "FiftyMilliseconds",
                                                        .round_trip = milliseconds(50),
                                                        .buffer_bytes = 1024 * kKiB,
                                                        .warm_up = milliseconds(2500),
                                                        .measured = milliseconds(500),
                                                        .writes_ahead = 48,
                                                        .least_used = 0.9},
                                         BottleneckCase{.name = "FiveInHundredLost",
                                                        .round_trip = milliseconds(1),
                                                        .buffer_bytes = 256 * kKiB,
                                                        .measured = milliseconds(400),
                                                        .loss = 0.05,
                                                        .least_used = 0.75,
                                                        .most_retransmitted = 0.06}),
                         Name);

INSTANTIATE_TEST_SUITE_P(TenGigabit, Bottleneck,
                         testing::Values(BottleneckCase{.name = "OneSender",
                                                        .gigabits = 10,
                                                        .round_trip = microseconds(50),
                                                        .warm_up = milliseconds(50),
                                                        .measured = milliseconds(100)},
                                         BottleneckCase{.name = "EightSenders",
                                                        .gigabits = 10,
                                                        .round_trip = microseconds(50),
                                                        .senders = 8,
                                                        .warm_up = milliseconds(50),
                                                        .measured = milliseconds(150),
                                                        .most_retransmitted = 0.2,
                                                        .least_jain = 0.85},
                                         BottleneckCase{.name = "ThirtyTwoSenders",
                                                        .gigabits = 10,
                                                        .round_trip = microseconds(50),
                                                        .buffer_bytes = 512 * kKiB,
                                                        .senders = 32,
                                                        .warm_up = milliseconds(50),
                                                        .measured = milliseconds(150),
                                                        .most_retransmitted = 0.03,
                                                        .least_jain = 0.25},
                                         BottleneckCase{.name = "SixtyFourSenders",
                                                        .gigabits = 10,
                                                        .round_trip = microseconds(50),
                                                        .buffer_bytes = 512 * kKiB,
                                                        .senders = 64,
                                                        .warm_up = milliseconds(50),
                                                        .measured = milliseconds(150),
                                                        .most_retransmitted = 0.1,
                                                        .least_jain = 0.8}),
                         Name);

INSTANTIATE_TEST_SUITE_P(HundredGigabit, Bottleneck,
                         testing::Values(BottleneckCase{.name = "OneSender",
                                                        .gigabits = 100,
                                                        .round_trip = microseconds(20),
                                                        .buffer_bytes = 512 * kKiB,
                                                        .warm_up = milliseconds(10),
                                                        .measured = milliseconds(40),
                                                        .datagram_bytes = 8192},
                                         BottleneckCase{.name = "EightSenders",
                                                        .gigabits = 100,
                                                        .round_trip = microseconds(20),
                                                        .buffer_bytes = 512 * kKiB,
                                                        .senders = 8,
                                                        .warm_up = milliseconds(10),
                                                        .measured = milliseconds(40),
                                                        .datagram_bytes = 8192,
                                                        .most_retransmitted = 0.2,
                                                        .least_jain = 0.5}),
                         Name);

// One TCP flow beside one of ours, or a single flow of either kind among eight of the other, gets
// its share within a factor of two.
BottleneckCase BesideTcp(const char* name, uint32_t ours, uint32_t tcp, size_t buffer_kib,
                         double least_tcp, double most_tcp) {
  BottleneckCase c{.name = name, .round_trip = milliseconds(1)};
  c.buffer_bytes = buffer_kib * kKiB;
  c.senders = ours;
  c.tcp_flows = tcp;
  c.warm_up = milliseconds(500);
  c.measured = milliseconds(1000);
  c.least_tcp = least_tcp;
  c.most_tcp = most_tcp;
  return c;
}

// A queue eight times as large as what the path holds overflows so rarely that only a standing
// queue is a sign of contention.
BottleneckCase BesideTcpInADeepQueue() {
  BottleneckCase c = BesideTcp("DeepQueue", 1, 1, 1024, 0.25, 0.75);
  c.warm_up = milliseconds(4000);
  c.measured = milliseconds(4000);
  return c;
}

// Two processes on few cores: whenever others have the cores of TCP, the queue runs empty and then
// fills again at once.
BottleneckCase BesideBusyTcp() {
  BottleneckCase c = BesideTcp("Busy", 1, 1, 0, 0.25, 0.6);
  c.buffer_bytes = 500'000;
  c.round_trip = microseconds(60);
  c.tcp_slice = milliseconds(1);
  c.warm_up = milliseconds(3000);
  c.measured = milliseconds(4000);
  return c;
}

INSTANTIATE_TEST_SUITE_P(BesideTcp, Bottleneck,
                         testing::Values(BesideTcp("OneToOne", 1, 1, 256, 0.25, 0.75),
                                         BesideTcp("EightOfOurs", 8, 1, 256, 0.5 / 9, 2.0 / 9),
                                         BesideTcp("EightOfTheirs", 1, 8, 256, 1 - 2.0 / 9,
                                                   1 - 0.5 / 9),
                                         BesideTcp("ShallowQueue", 1, 1, 96, 0.25, 0.75),
                                         BesideTcpInADeepQueue(), BesideBusyTcp()),
                         Name);

// If the bottleneck marks from a quarter or half of its buffer on (ECN), almost nothing is lost,
// however many flows share it.
BottleneckCase Marking(const char* name, double gigabits, size_t buffer_kib, size_t mark_kib,
                       uint32_t senders) {
  const bool fast = gigabits > 1;
  BottleneckCase c{.name = name, .gigabits = gigabits};
  c.round_trip = microseconds(fast ? 50 : 100);
  c.buffer_bytes = buffer_kib * kKiB;
  c.mark_above_bytes = mark_kib * kKiB;
  c.senders = senders;
  c.warm_up = milliseconds(fast ? 50 : 100);
  c.measured = milliseconds(fast ? 150 : 300);
  c.most_retransmitted = 0.005;
  if (fast) c.least_jain = 0.85;
  return c;
}

BottleneckCase MarkingHundredGigabit() {
  BottleneckCase c = Marking("HundredGigabitEightSenders", 100, 512, 128, 8);
  c.round_trip = microseconds(20);
  c.warm_up = milliseconds(40);
  c.measured = milliseconds(40);
  c.datagram_bytes = 8192;
  return c;
}

// Fewer packets than a window must hold fill the path, so what one sender leaves unused is not in a
// queue.
BottleneckCase MarkingOneGigabitOneSender() {
  BottleneckCase c = Marking("GigabitOneSender", 1, 64, 16, 1);
  c.least_used = 0.9;
  return c;
}

// TCP takes a mark for a loss (RFC 3168). A single TCP flow beside one of ours gets the larger
// part: as its queue does not overflow, ours drains what it sees of it.
BottleneckCase MarkingBesideTcp(const char* name, uint32_t senders, double least, double most) {
  BottleneckCase c = Marking(name, 1, 256, 128, senders);
  c.round_trip = milliseconds(1);
  c.warm_up = milliseconds(500);
  c.measured = milliseconds(1000);
  c.tcp_flows = 1;
  c.least_used = 0.9;
  c.least_tcp = least;
  c.most_tcp = most;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Marks, Bottleneck,
    testing::Values(
        MarkingOneGigabitOneSender(), Marking("GigabitTwoSenders", 1, 64, 16, 2),
        Marking("GigabitEightSenders", 1, 64, 32, 8), Marking("OneSenderQuarter", 10, 64, 16, 1),
        Marking("OneSenderHalf", 10, 64, 32, 1), Marking("EightSendersQuarter", 10, 64, 16, 8),
        Marking("EightSendersHalf", 10, 64, 32, 8), Marking("ThirtyTwoSenders", 10, 512, 128, 32),
        Marking("SixtyFourSenders", 10, 512, 128, 64), MarkingHundredGigabit(),
        MarkingBesideTcp("OneToOneTcp", 1, 0.25, 0.75),
        MarkingBesideTcp("EightBesideOneTcp", 8, 0.5 / 9, 2.0 / 9)),
    Name);

// Checks the measurement itself with TCP alone.
TEST(BottleneckWorld, IsFilledByTcpAlone) {
  BottleneckWorld world(BottleneckCase{.name = "", .senders = 0, .tcp_flows = 1});
  EXPECT_GE(world.measure().utilisation, 0.95);
}

}  // namespace
}  // namespace rocecoll
