// SPDX-License-Identifier: Apache-2.0
// How the congestion control handles policers, in virtual time: token buckets that drop what they
// have no tokens for and queue nothing. The bars are shares of the packets sent and of the rate.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/take_log.h"
#include "datagram/shaper_world.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kLargestFrame = 1514;  // the least that lets a single frame pass

struct PolicedPath {
  double megabits;
  Duration round_trip;
  double most_again;  // in one direction and in both
};

ShaperCase PolicedCase(const PolicedPath& path, size_t burst_bytes, bool both_ways,
                       CongestionControl control) {
  ShaperCase c{.shaper = {.bytes_per_second = path.megabits * 1e6 / 8,
                          .buffer_bytes = kLargestFrame,
                          .burst_bytes = burst_bytes,
                          .line_bytes_per_second = 10e9 / 8},
               .both_ways = both_ways,
               .round_trip = path.round_trip,
               .control = control};
  c.write_bytes = path.megabits > 100 ? 512 * kKiB : 128 * kKiB;
  c.warm_up = milliseconds(path.megabits > 100 ? 500 : 1000);
  c.measured = milliseconds(path.megabits > 100 ? 500 : 2000);
  return c;
}

class Policers : public testing::TestWithParam<PolicedPath> {};

// CUBIC runs in the same place for comparison, with bars beyond the worst of twelve runs whose
// round trips differ by 137 ns. If the path holds less than a packet, CUBIC's smallest window loses
// half of what it sends.
TEST_P(Policers, AreFilledAndNotOverrun) {
  const PolicedPath& path = GetParam();
  for (const size_t burst : {16 * kKiB, 1024 * kKiB}) {
    for (const bool both_ways : {false, true}) {
      const auto measure = [&](CongestionControl control) {
        return ShaperWorld(PolicedCase(path, burst, both_ways, control)).measure();
      };
      const ShaperReport model = measure(CongestionControl::kModel);
      const ShaperReport cubic = measure(CongestionControl::kCubic);
      char text[160];
      std::snprintf(text, sizeof text,
                    "%4.0f Mbit/s, %5.0f us, burst %4zu KiB, %s: goodput %.3f again %.4f (cubic "
                    "%.3f, %.4f)",
                    path.megabits, Seconds(path.round_trip) * 1e6, burst / kKiB,
                    both_ways ? "both" : "one ", model.goodput, model.retransmitted, cubic.goodput,
                    cubic.retransmitted);
      std::puts(text);
      EXPECT_LE(model.retransmitted, path.most_again) << text;
      EXPECT_GE(model.goodput, 0.85 * cubic.goodput) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Policers,
                         testing::Values(PolicedPath{100, microseconds(60), 0.3},
                                         PolicedPath{100, milliseconds(1), 0.1},
                                         PolicedPath{1000, microseconds(60), 0.075},
                                         PolicedPath{1000, milliseconds(1), 0.02}),
                         [](const testing::TestParamInfo<PolicedPath>& path) {
                           return std::to_string(static_cast<int>(path.param.megabits)) + "At" +
                                  std::to_string(path.param.round_trip / microseconds(1)) + "Us";
                         });

// RFC 8084: even there, the sender does not go on losing half of what it sends.
TEST(Policer, BreakTheCircuitOfWhoLosesHalf) {
  const PolicedPath path{100, microseconds(60), 0};
  ShaperWorld world(PolicedCase(path, 16 * kKiB, false, CongestionControl::kCubic));
  TakeLog();
  EXPECT_GT(world.measure(seconds(3)).retransmitted, 0.4);
  const ShaperReport broken = world.measure(milliseconds(900));
  std::printf("goodput %.3f again %.4f\n", broken.goodput, broken.retransmitted);
  EXPECT_LT(broken.retransmitted, 0.05);
  EXPECT_GT(broken.goodput, 0.6);
  EXPECT_EQ(TakeLog().size(), 1u);
}

}  // namespace
}  // namespace rocecoll
