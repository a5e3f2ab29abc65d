// SPDX-License-Identifier: Apache-2.0
// Sent packets, loss detection and probe timeouts, each tested separately.
#include <gtest/gtest.h>

#include "transport/datagram/reliability/loss_detector.h"
#include "transport/datagram/reliability/probe_timeout.h"
#include "transport/datagram/reliability/sent_packets.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Instant kStart = Instant{} + std::chrono::seconds(1);

SentPacket InFlight(Instant at, uint32_t bytes = 1000) {
  SentPacket packet;
  packet.sent_at = at;
  packet.bytes = bytes;
  packet.state = SentPacket::State::kInFlight;
  return packet;
}

RttEstimator RttOf(Duration rtt) {
  RttEstimator estimator;
  for (int i = 0; i < 50; ++i) estimator.on_sample(kStart, rtt, Duration{0}, true);
  return estimator;
}

TEST(SentPackets, VisitsEachAcknowledgedPacketOnce) {
  SentPackets sent;
  for (int i = 0; i < 10; ++i) sent.add(InFlight(kStart));
  std::vector<uint64_t> seen;
  const auto visit = [&](uint64_t number, const SentPacket&) { seen.push_back(number); };
  sent.acknowledge(2, 4, visit);
  sent.acknowledge(1, 6, visit);
  sent.acknowledge(0, 6, visit);
  EXPECT_EQ(seen, (std::vector<uint64_t>{2, 3, 1, 4, 5, 0}));
  EXPECT_EQ(sent.bytes_in_flight(), 4000u);
  EXPECT_EQ(sent.oldest_in_flight(), 6u);
  EXPECT_FALSE(sent.trim(kNever));
  EXPECT_EQ(sent.settled_below(), 6u);
  sent.acknowledge(0, 6, visit);
  EXPECT_EQ(seen.size(), 6u);
}

TEST(SentPackets, KeepsLostOnesForALateAcknowledgement) {
  SentPackets sent;
  sent.add(InFlight(kStart));
  sent.add(SentPacket{});  // not tracked
  sent.add(InFlight(kStart + milliseconds(1)));
  sent.mark_lost(0);
  EXPECT_EQ(sent.bytes_in_flight(), 1000u);
  EXPECT_FALSE(sent.trim(kStart));
  EXPECT_TRUE(sent.contains(0));
  EXPECT_TRUE(sent.trim(kStart + microseconds(1)));
  EXPECT_EQ(sent.settled_below(), 2u);
  sent.clear();
  EXPECT_FALSE(sent.any_in_flight());
  EXPECT_EQ(sent.next_number(), 3u);
}

struct LossFixture {
  SentPackets sent;
  LossDetector detector;
  RttEstimator rtt = RttOf(microseconds(100));
  std::vector<uint64_t> lost;

  void acknowledge(Instant now, uint64_t number) {
    sent.acknowledge(number, number + 1, [&](uint64_t n, const SentPacket& packet) {
      detector.on_acknowledged(now, n, packet, rtt);
    });
    detect(now);
  }
  void detect(Instant now) {
    detector.detect(now, rtt, sent, [&](uint64_t n, const SentPacket&) { lost.push_back(n); });
  }
};

TEST(LossDetector, ThreeLaterPacketsProveALossWhileTheOrderHolds) {
  LossFixture f;
  for (int i = 0; i < 6; ++i) f.sent.add(InFlight(kStart));
  f.acknowledge(kStart + microseconds(100), 2);
  EXPECT_TRUE(f.lost.empty());
  f.acknowledge(kStart + microseconds(100), 3);
  EXPECT_EQ(f.lost, std::vector<uint64_t>{0});
  f.acknowledge(kStart + microseconds(100), 4);
  EXPECT_EQ(f.lost, (std::vector<uint64_t>{0, 1}));
}

TEST(LossDetector, TimeProvesALossBeforeAnAcknowledgedPacketOnly) {
  LossFixture f;
  f.sent.add(InFlight(kStart));
  f.sent.add(InFlight(kStart + microseconds(10)));
  f.sent.add(InFlight(kStart + microseconds(20)));
  f.acknowledge(kStart + microseconds(110), 1);
  EXPECT_TRUE(f.lost.empty());
  const Instant deadline = f.detector.deadline();
  EXPECT_EQ(deadline, kStart + microseconds(100) + f.detector.reordering_window(f.rtt));
  f.detect(deadline - Duration{1});
  EXPECT_TRUE(f.lost.empty());
  f.detect(deadline);
  EXPECT_EQ(f.lost, std::vector<uint64_t>{0});
  EXPECT_EQ(f.detector.deadline(), kNever);  // nothing proves packet 2 lost
}

TEST(LossDetector, AWrongVerdictEndsThePacketThresholdAndWidensTheWindow) {
  LossFixture f;
  for (int i = 0; i < 20; ++i) f.sent.add(InFlight(kStart));
  const Duration before = f.detector.reordering_window(f.rtt);
  f.acknowledge(kStart + microseconds(100), 3);
  ASSERT_EQ(f.lost.size(), 1u);
  f.acknowledge(kStart + microseconds(110), 0);  // the packet had only been late
  EXPECT_TRUE(f.detector.reordering_seen());
  EXPECT_GT(f.detector.reordering_window(f.rtt), before);
  f.acknowledge(kStart + microseconds(120), 19);
  EXPECT_EQ(f.lost.size(), 1u);
}

// Otherwise a path that reorders only occasionally would meet a narrow window each time.
TEST(LossDetector, OnlyRightVerdictsNarrowTheWindow) {
  LossFixture f;
  auto send_and_answer = [&f, now = kStart, number = uint64_t{0}](bool late) mutable {
    now += milliseconds(10);
    f.sent.add(InFlight(now));
    f.sent.add(InFlight(now));
    f.acknowledge(now + microseconds(100), number + 1);
    f.detect(now + milliseconds(5));
    if (late) f.acknowledge(now + milliseconds(5), number);
    number += 2;
  };
  const Duration narrow = f.detector.reordering_window(f.rtt);
  for (int i = 0; i < 3; ++i) send_and_answer(true);
  const Duration wide = f.detector.reordering_window(f.rtt);
  EXPECT_GE(wide, 3 * narrow);
  for (uint32_t i = 0; i < LossDetector::kRecoveriesToNarrow; ++i) {
    send_and_answer(false);
    EXPECT_EQ(f.detector.reordering_window(f.rtt), wide) << i;
  }
  send_and_answer(false);
  EXPECT_EQ(f.detector.reordering_window(f.rtt), narrow);
  EXPECT_EQ(f.lost.size(), 4u + LossDetector::kRecoveriesToNarrow);
}

TEST(ProbeTimeout, DoublesFromTwoRoundTripsUpToTheCap) {
  ProbeTimeout timeout({microseconds(250), milliseconds(50), milliseconds(1)});
  const RttEstimator rtt = RttOf(microseconds(400));
  EXPECT_EQ(timeout.period(rtt, true), microseconds(800));
  EXPECT_EQ(timeout.deadline(kStart, rtt, true), kStart + microseconds(800));
  EXPECT_FALSE(timeout.in_vain());
  const int64_t expected[] = {1600, 3200, 6400, 12800, 25600, 50000, 50000};
  Instant now = kStart;
  for (int64_t period : expected) {
    now += milliseconds(100);
    timeout.on_fired(now);
    EXPECT_EQ(timeout.deadline(kStart, rtt, true), now + microseconds(period));
  }
  EXPECT_TRUE(timeout.in_vain());
  for (int i = 0; i < 100; ++i) timeout.on_fired(now);
  EXPECT_EQ(timeout.period(rtt, true), milliseconds(50));
  timeout.on_progress();
  EXPECT_EQ(timeout.period(rtt, true), microseconds(800));
}

TEST(ProbeTimeout, WaitsLongerForAnAnswerThatWasNotAskedForAtOnce) {
  ProbeTimeout timeout({microseconds(250), milliseconds(50), milliseconds(1)});
  const RttEstimator rtt = RttOf(microseconds(400));
  EXPECT_EQ(timeout.period(rtt, false), microseconds(1800));
  timeout.on_fired(kStart);  // probes ask for answers
  EXPECT_EQ(timeout.period(rtt, false), microseconds(1600));
}

TEST(ProbeTimeout, HasAFloorAndWaitsForARoundTripAboveTheCap) {
  ProbeTimeout timeout({microseconds(250), milliseconds(50), milliseconds(1)});
  EXPECT_EQ(timeout.period(RttOf(microseconds(40)), true), microseconds(250));
  EXPECT_EQ(timeout.period(RttOf(milliseconds(200)), true), milliseconds(400));
}

// A process that waits for a core answers late, and is not probed because of that.
TEST(RttEstimator, AnswersThatVaryTakeTimersLonger) {
  RttEstimator rtt;
  rtt.on_sample(kStart, microseconds(100), Duration{0}, true);
  const Duration before = rtt.answer_timeout();
  rtt.on_sample(kStart, milliseconds(4), microseconds(3900), true);
  EXPECT_GT(rtt.answer_timeout(), milliseconds(4));
  for (int i = 0; i < 100; ++i) rtt.on_sample(kStart, microseconds(100), Duration{0}, true);
  EXPECT_LE(rtt.answer_timeout(), before);
  // An answer that was not requested at once says nothing about those that were.
  const Duration steady = rtt.answer_timeout();
  rtt.on_sample(kStart, milliseconds(2), milliseconds(1), false);
  EXPECT_EQ(rtt.answer_timeout(), steady);
}

TEST(RttEstimator, TellsTheNetworkFromThePeersDelay) {
  RttEstimator rtt;
  EXPECT_FALSE(rtt.has_sample());
  rtt.on_sample(kStart, microseconds(100), microseconds(0), true);
  EXPECT_EQ(rtt.smoothed(), microseconds(100));
  rtt.on_sample(kStart, microseconds(600), microseconds(450), true);
  EXPECT_EQ(rtt.latest(), microseconds(150));
  EXPECT_EQ(rtt.network(), microseconds(150));
  EXPECT_EQ(rtt.min_rtt(), microseconds(100));
  // The peer waited for a core. This was no queue, but timers expect it.
  rtt.on_sample(kStart, microseconds(5100), microseconds(5000), true);
  EXPECT_EQ(rtt.latest(), microseconds(4100));
  EXPECT_EQ(rtt.network(), microseconds(100));
  // A reported delay that would leave no time for the path is not believed.
  rtt.on_sample(kStart, microseconds(200), microseconds(200), true);
  EXPECT_EQ(rtt.network(), microseconds(200));
  EXPECT_EQ(rtt.min_rtt(), microseconds(100));
}

TEST(RttEstimator, ForgetsAnOldMinimum) {
  RttEstimator rtt;
  rtt.on_sample(kStart, microseconds(100), Duration{0}, true);
  for (int i = 1; i <= 11; ++i) {
    rtt.on_sample(kStart + std::chrono::seconds(i), microseconds(500), Duration{0}, true);
  }
  EXPECT_EQ(rtt.min_rtt(), microseconds(500));
}

}  // namespace
}  // namespace rocecoll
