// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/congestion/cubic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "congestion/lone_sender.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using CubicSender = LoneSender<CubicController>;

// A path of 10 ms that carries one flight after another, each acknowledged in full at its end.
class Flights {
 public:
  explicit Flights(double window_bytes) {
    while (static_cast<double>(cubic.window()) < window_bytes) fly(0, 0);
  }
  // Sends a flight in which `lost` packets are lost and `marked` are marked.
  void fly(int lost, uint64_t marked, bool held_back = true) {
    const Instant sent_at = now_;
    std::vector<SendStamp> stamps;
    while (cubic.has_room(kPacketBytes) && (held_back || stamps.size() < 4)) {
      stamps.push_back(cubic.on_sent(now_, kPacketBytes));
    }
    if (held_back) cubic.on_held_back(now_);
    now_ += kRoundTrip;
    for (const SendStamp& stamp : stamps) {
      if (lost-- > 0) {
        cubic.on_lost(now_, kPacketBytes, sent_at);
      } else {
        cubic.on_acked(kPacketBytes, sent_at, stamp);
      }
    }
    cubic.on_marked(marked);
    cubic.end_acknowledgement(now_, now_, {{kRoundTrip}});
  }
  void rest(Duration duration) { now_ += duration; }
  Instant now() const { return now_; }
  double window() const { return static_cast<double>(cubic.window()); }

  static constexpr Duration kRoundTrip = milliseconds(10);
  CubicController cubic{CongestionController::kMaxWindow};

 private:
  Instant now_ = Instant{} + seconds(100);
};

TEST(Cubic, DoublesItsWindowUntilTheFirstLoss) {
  Flights path(0);
  double before = path.window();
  EXPECT_EQ(before, CongestionController::kInitialWindow);
  for (int i = 0; i < 6; ++i) {
    path.fly(0, 0);
    EXPECT_NEAR(path.window(), 2 * before, 2 * kPacketBytes);
    before = path.window();
  }
}

TEST(Cubic, CutsOnceForAllThatOneFlightLoses) {
  for (const int lost : {1, 10}) {
    Flights path(1e6);
    const double before = path.window();
    path.fly(lost, 0);
    EXPECT_NEAR(path.window(), 0.7 * before, 0.02 * before) << lost;
  }
}

TEST(Cubic, AMarkCostsLessThanALoss) {
  Flights path(1e6);
  const double before = path.window();
  path.fly(0, 5);
  EXPECT_NEAR(path.window(), 0.85 * before, 0.02 * before);
}

// RFC 9438 section 4.2: K seconds after the cut the window has its former size.
TEST(Cubic, ComesBackToItsLastMostAtTheTimeOfTheFormula) {
  Flights path(3e6);
  const double most = path.window();
  path.fly(1, 0);
  const double seconds_until = std::cbrt(most / kPacketBytes * 0.3 / 0.4);
  const int flights = static_cast<int>(seconds_until / Seconds(Flights::kRoundTrip));
  for (int i = 0; i < flights / 2; ++i) path.fly(0, 0);
  EXPECT_GT(path.window(), 0.9 * most) << "a cubic grows first";
  EXPECT_LT(path.window(), most);
  for (int i = flights / 2; i < flights; ++i) path.fly(0, 0);
  EXPECT_NEAR(path.window(), most, 0.02 * most);
  for (int i = 0; i < flights; ++i) path.fly(0, 0);
  EXPECT_GT(path.window(), 1.1 * most);
}

TEST(Cubic, WhoSendsLittleLearnsNothing) {
  Flights path(1e6);
  path.fly(1, 0);
  const double before = path.window();
  for (int i = 0; i < 1000; ++i) path.fly(0, 0, false);
  EXPECT_EQ(path.window(), before);
  path.fly(0, 0);
  path.fly(0, 0);
  EXPECT_LT(path.window(), 1.05 * before) << "the time of silence counted";
}

TEST(Cubic, SilenceIsNoTimeToGrowNorToLose) {
  Flights path(1e6);
  path.fly(1, 0);
  path.fly(0, 0);
  path.fly(0, 0);
  const double before = path.window();
  path.rest(seconds(60));
  path.fly(0, 0);
  path.fly(0, 0);
  EXPECT_LT(path.window(), 1.1 * before);
}

TEST(Cubic, ManyLossesLeaveAWindowThatGrows) {
  Flights path(0);
  for (int i = 0; i < 20; ++i) path.fly(1, 0);
  const double least = path.window();
  EXPECT_GE(least, CongestionController::kLeastPackets * kPacketBytes);
  EXPECT_LT(least, 2 * CongestionController::kLeastPackets * kPacketBytes);
  for (int i = 0; i < 10; ++i) path.fly(0, 0);
  EXPECT_GT(path.window(), least + 3 * kPacketBytes);
}

TEST(Cubic, BeginsAnewAfterARestart) {
  Flights path(1e6);
  const Instant before = path.now();
  const SendStamp stamp = path.cubic.on_sent(before, kPacketBytes);
  EXPECT_EQ(stamp.delivered, 0u);
  path.rest(milliseconds(1));
  path.cubic.restart(path.now());
  EXPECT_EQ(path.window(), CongestionController::kInitialWindow);
  path.cubic.on_lost(path.now(), kPacketBytes, before);
  path.fly(0, 0);
  EXPECT_GE(path.window(), 1.8 * CongestionController::kInitialWindow);
}

TEST(Cubic, FillsAPathThatHoldsAsMuchInItsQueue) {
  CubicSender sender;
  sender.queue_bytes = 125e3;
  sender.run_for(seconds(2));
  EXPECT_GT(sender.share(seconds(2)), 0.9);
}

// This is why the model exists: CUBIC takes every loss for that of a full queue.
TEST(Cubic, RandomLossSlowsItDown) {
  CubicSender sender;
  sender.base = milliseconds(10);
  sender.lose_every = 100;
  sender.run_for(seconds(2));
  EXPECT_LT(sender.share(seconds(2)), 0.3);
}

}  // namespace
}  // namespace rocecoll
