// SPDX-License-Identifier: Apache-2.0
// How the congestion control handles many senders to one port of a switch, in virtual time. The
// bars are shares of the datagrams sent to the port, and multiples of the time that the port needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/run_choice.h"
#include "datagram/incast_world.h"

namespace rocecoll {
namespace {

// The course of a run depends on every nanosecond of it: a run takes one of these seeds, and the
// nightly run takes all of them.
constexpr uint64_t kIncastSeeds = 12;

struct IncastBars {
  double gigabits;
  uint32_t senders;
  size_t write_kib;  // for each sender
  // For the calls after the first one: the share dropped and the time, for the model and for CUBIC.
  double model_dropped;
  double model_time;
  double cubic_dropped;
  double cubic_time;
};

class Incast : public testing::TestWithParam<IncastBars> {};

IncastReport MeasureIncast(const IncastBars& bars, CongestionControl control, uint64_t seed) {
  IncastCase c{.gigabits = bars.gigabits,
               .senders = bars.senders,
               .write_bytes = bars.write_kib * kKiB,
               .control = control,
               .seed = seed};
  if (bars.gigabits >= 10) c.round_trip = std::chrono::microseconds(50);
  IncastWorld world(c);
  // The first call knows nothing of the path. Its first flights alone are more than the queue
  // holds, if 32 senders send 16 KiB each.
  const IncastReport first = world.measure(1);
  const size_t kib_of_all = bars.gigabits >= 10 ? 96 * 1024 : 32 * 1024;
  const size_t calls = kib_of_all / bars.write_kib / bars.senders;
  const IncastReport report = world.measure(static_cast<int>(std::max<size_t>(calls, 1)));
  std::printf(
      "%2.0f Gbit/s %2u x %4zu KiB %s %2llu: first dropped %.4f time %.3f, then %.4f %.3f\n",
      bars.gigabits, bars.senders, bars.write_kib,
      control == CongestionControl::kModel ? "model" : "cubic",
      static_cast<unsigned long long>(seed), first.dropped, first.time, report.dropped,
      report.time);
  return report;
}

TEST_P(Incast, LosesLittleAndTakesHardlyLongerThanThePort) {
  const IncastBars& bars = GetParam();
  for (const uint64_t seed : ChooseForRun(1, 1, 1 + kIncastSeeds)) {
    const IncastReport model = MeasureIncast(bars, CongestionControl::kModel, seed);
    EXPECT_LE(model.dropped, bars.model_dropped) << seed;
    EXPECT_LE(model.time, bars.model_time) << seed;
    const IncastReport cubic = MeasureIncast(bars, CongestionControl::kCubic, seed);
    EXPECT_LE(cubic.dropped, bars.cubic_dropped) << seed;
    EXPECT_LE(cubic.time, bars.cubic_time) << seed;
  }
}

// The goal is at most 3 % dropped, and 1.05 of the time. If a call is short, its probes and last
// losses take longer than that allows; if 32 senders share a queue of 256 KiB, five packets from
// each fill it.
INSTANTIATE_TEST_SUITE_P(Ports, Incast,
                         testing::Values(IncastBars{1, 4, 256, 0.03, 1.05, 0.03, 1.05},
                                         IncastBars{1, 4, 1024, 0.03, 1.05, 0.03, 1.05},
                                         IncastBars{1, 8, 256, 0.03, 1.08, 0.03, 1.05},
                                         IncastBars{1, 8, 1024, 0.03, 1.05, 0.03, 1.05},
                                         IncastBars{1, 32, 256, 0.06, 1.1, 0.08, 1.05},
                                         IncastBars{1, 32, 1024, 0.03, 1.05, 0.07, 1.05},
                                         IncastBars{10, 4, 256, 0.03, 1.16, 0.035, 1.18},
                                         IncastBars{10, 4, 1024, 0.03, 1.08, 0.03, 1.05},
                                         IncastBars{10, 8, 256, 0.03, 1.24, 0.035, 1.13},
                                         IncastBars{10, 8, 1024, 0.03, 1.13, 0.03, 1.05},
                                         IncastBars{10, 32, 256, 0.045, 1.14, 0.1, 1.05},
                                         IncastBars{10, 32, 1024, 0.03, 1.09, 0.065, 1.05}),
                         [](const testing::TestParamInfo<IncastBars>& bars) {
                           return std::to_string(static_cast<int>(bars.param.gigabits)) + "G" +
                                  std::to_string(bars.param.senders) + "x" +
                                  std::to_string(bars.param.write_kib) + "KiB";
                         });

}  // namespace
}  // namespace rocecoll
