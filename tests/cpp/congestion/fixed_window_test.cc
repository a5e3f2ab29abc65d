// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/fixed_window.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "congestion/lone_sender.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FixedWindow, NothingSteers) {
  FixedWindow congestion(CongestionController::kMaxWindow);
  const Instant start = Instant{} + seconds(1);
  for (int i = 0; i < 1000; ++i) {
    const auto stamp = congestion.on_sent(start, kPacketBytes);
    if (i % 2 == 0) {
      congestion.on_lost(start, kPacketBytes, start);
    } else {
      congestion.on_acked(kPacketBytes, start, stamp);
      congestion.end_acknowledgement(start + milliseconds(20), start, {{milliseconds(20)}});
    }
    EXPECT_TRUE(congestion.paced(start));
  }
  EXPECT_EQ(congestion.window(), CongestionController::kMaxWindow);
  EXPECT_EQ(congestion.bytes_in_flight(), 0u);
}

TEST(FixedWindow, FlightCannotBecomeNegative) {
  FixedWindow congestion(CongestionController::kMaxWindow);
  congestion.on_sent(Instant{}, 100);
  EXPECT_THROW(congestion.on_discarded(101), CheckFailure);
}

}  // namespace
}  // namespace rocecoll
