// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/way_back.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kWay = microseconds(30);

// A path between two hosts whose clocks differ by `offset`. The peer's clock runs `drift` fast.
struct TwoClocks {
  explicit TwoClocks(Duration clocks_differ = {}, double drifts = 0)
      : offset(clocks_differ), drift(drifts) {}
  const Duration offset;
  const double drift;
  Instant now = Instant{} + seconds(1000);
  WayBack way_back;

  // Returns the sample for a packet that waits for `there` on its way there and whose answer waits
  // for `back` on the way back.
  Duration sample(Duration there, Duration back) {
    now += milliseconds(1);
    const Instant arrived = now + kWay + there;
    const Duration shift =
        offset + FromSeconds(drift * Seconds(arrived.time_since_epoch() - seconds(1000)));
    return way_back.queue(there + back, WireMicroseconds(now), WireMicroseconds(arrived + shift));
  }
};

void ExpectNear(Duration found, Duration expected, Duration tolerance = microseconds(2)) {
  EXPECT_LE(std::max(found - expected, expected - found), tolerance)
      << Microseconds(found) << " us in place of " << Microseconds(expected);
}

TEST(WayBack, TellsTheTwoQueuesApartWhateverTheClocksSay) {
  for (const Duration offset : {Duration{0}, Duration{seconds(3000)}, Duration{-seconds(900)},
                                Duration{milliseconds(-5)}}) {
    TwoClocks path(offset);
    ExpectNear(path.sample({}, {}), {});
    ExpectNear(path.sample({}, milliseconds(4)), milliseconds(4));
    ExpectNear(path.sample(milliseconds(3), {}), {});
    ExpectNear(path.sample(milliseconds(3), milliseconds(2)), milliseconds(2));
  }
}

TEST(WayBack, TakesAQueueForOneOnTheWayThereUntilItIsKnown) {
  TwoClocks path;
  ExpectNear(path.sample({}, milliseconds(2)), {});
  ExpectNear(path.sample({}, milliseconds(3)), milliseconds(1));
  ExpectNear(path.sample({}, microseconds(200)), {});
  ExpectNear(path.sample({}, milliseconds(3)), microseconds(2800));
  ExpectNear(path.sample(milliseconds(1), milliseconds(3)), microseconds(2800));
}

// A bad crystal is off by a hundred millionths. There is a queue on either way and, now and then,
// none.
TEST(WayBack, FollowsClocksThatDrift) {
  for (const double drift : {1e-4, -1e-4}) {
    TwoClocks path(seconds(7), drift);
    for (int i = 0; i < 100'000; ++i) {
      const bool short_round_trip = i % 100 == 0;
      const Duration there = short_round_trip ? Duration{0} : Duration{microseconds(500)};
      const Duration back = short_round_trip ? Duration{0} : Duration{microseconds(300)};
      ExpectNear(path.sample(there, back), back, microseconds(13));
      if (testing::Test::HasFailure())
        FAIL() << "at sample " << i << " of a clock that drifts by " << drift;
    }
  }
}

// A report that no honest host would send changes only estimates of this path.
TEST(WayBack, StaysWithinTheRoundTripWhateverThePeerSays) {
  WayBack way_back;
  uint32_t arrived_us = 1;
  for (int i = 0; i < 1000; ++i) {
    arrived_us = arrived_us * 1664525u + 1013904223u;
    const Duration back = way_back.queue(microseconds(i), 0, arrived_us);
    EXPECT_GE(back, Duration{0});
    EXPECT_LE(back, microseconds(i));
  }
}

}  // namespace
}  // namespace rocecoll
