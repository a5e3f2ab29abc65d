// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/liveness.h"

#include <gtest/gtest.h>

#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

void GoDark(ConnectionPair& pair, Duration length) {
  for (int i = 0; i < 2; ++i) {
    pair.end(i).faults.dark_from = pair.now;
    pair.end(i).faults.dark_until = length == Duration::max() ? kNever : pair.now + length;
  }
}

TEST(Blackout, ShorterThanThePeerTimeoutIsSurvivedAndResumesSoon) {
  for (int length = 1; length <= 8; ++length) {
    ConnectionPair pair(static_cast<uint64_t>(length));
    auto source = TestBytes(4000000, 3);
    std::vector<std::byte> target(source.size());
    const auto remote = pair.at(1).expose(SliceOf(target), 1);
    ASSERT_TRUE(pair.at(0).write(remote, SliceOf(source), 1));
    pair.run_for(microseconds(400));
    ASSERT_TRUE(pair.end(0).written.empty());
    GoDark(pair, seconds(length));
    pair.run_for(seconds(length));
    const Instant healed = pair.now;
    EXPECT_TRUE(pair.end(1).landed.empty());
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
    EXPECT_LE(pair.now - healed, milliseconds(100));
    EXPECT_TRUE(source == target);
    EXPECT_EQ(pair.end(0).downs + pair.end(1).downs, 0);
  }
}

TEST(Blackout, IdleConnectionsSurviveToo) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(2));
  GoDark(pair, seconds(8));
  pair.run_for(seconds(30));
  EXPECT_EQ(pair.end(0).downs + pair.end(1).downs, 0);
}

TEST(Liveness, AnIdleConnectionCostsAFewPacketsASecond) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  const uint64_t before = pair.end(0).sent + pair.end(1).sent;
  pair.run_for(seconds(10));
  const uint64_t packets = pair.end(0).sent + pair.end(1).sent - before;
  EXPECT_GE(packets, 20u);
  EXPECT_LE(packets, 100u);
}

TEST(Liveness, ASilentPeerIsLostAfterThePeerTimeout) {
  for (bool busy : {false, true}) {
    ConnectionPair pair(1);
    ASSERT_TRUE(pair.establish());
    pair.run_for(seconds(1));
    auto source = TestBytes(4000000, 3);
    std::vector<std::byte> target(source.size());
    const auto remote = pair.at(1).expose(SliceOf(target), 1);
    if (busy) {
      ASSERT_TRUE(pair.at(0).write(remote, SliceOf(source), 1));
    }
    GoDark(pair, Duration::max());
    const Instant start = pair.end(0).path.last_heard;
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
    EXPECT_EQ(pair.at(0).status().code(), StatusCode::kPeerLost);
    EXPECT_GE(pair.now - start, seconds(10));
    EXPECT_LE(pair.now - start, milliseconds(10100));
    EXPECT_EQ(pair.at(0).next_deadline(), kNever);
    EXPECT_EQ(pair.end(0).path.congestion->bytes_in_flight(), 0u);
  }
}

TEST(Liveness, AResetMeansThePeerIsLost) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  pair.destroy(1);  // its process died, and another one took over the port
  ASSERT_TRUE(pair.at(0).send_frame(TestBytes(10, 1)));
  const Instant start = pair.now;
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_EQ(pair.at(0).status().code(), StatusCode::kPeerLost);
  EXPECT_LE(pair.now - start, milliseconds(1));
}

TEST(UnreachableHint, IsAVerdictOnlyWhenSilenceFollows) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  for (int i = 0; i < 20; ++i) {
    pair.at(0).on_unreachable_hint(pair.now, Obstacle::kPortRefused);
    pair.run_for(milliseconds(7));
  }
  EXPECT_EQ(pair.end(0).downs, 0);
}

TEST(UnreachableHint, RepeatedAndUnansweredMeansLostWithinMilliseconds) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  GoDark(pair, Duration::max());
  const Instant start = pair.now;
  uint64_t probes = 0;
  pair.on_sent = [&](int from, std::span<const std::byte>) {
    if (from == 0) ++probes;
  };
  pair.at(0).on_unreachable_hint(pair.now, Obstacle::kPortRefused);
  pair.run_for(milliseconds(1));
  pair.at(0).on_unreachable_hint(pair.now, Obstacle::kPortRefused);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_EQ(pair.at(0).status().code(), StatusCode::kPeerLost);
  EXPECT_NE(pair.at(0).status().message().find("no process listens"), std::string::npos);
  EXPECT_GE(pair.now - start, milliseconds(30));
  EXPECT_LE(pair.now - start, milliseconds(40));
  EXPECT_GE(probes, 3u);
}

TEST(UnreachableHint, SingleAndUnansweredMeansLostBeforeLong) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  pair.run_for(seconds(1));
  GoDark(pair, Duration::max());
  const Instant start = pair.now;
  pair.at(0).on_unreachable_hint(pair.now, Obstacle::kPortRefused);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_LE(pair.now - start, milliseconds(310));
  EXPECT_GE(pair.now - start, milliseconds(250));
}

TEST(UnreachableHint, CountsWhileConnectingToo) {
  ConnectionPair pair(1, {}, {}, false);
  pair.answer_not_open = false;
  pair.run_for(milliseconds(10));
  pair.at(0).on_unreachable_hint(pair.now, Obstacle::kPortRefused);
  pair.run_for(milliseconds(15));
  pair.at(0).on_unreachable_hint(pair.now, Obstacle::kPortRefused);
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }, seconds(1)));
  // A process that died early cannot be told apart from one behind a firewall.
  EXPECT_EQ(pair.at(0).status().code(), StatusCode::kNoContact);
  EXPECT_EQ(pair.at(0).status().message(), Describe(Obstacle::kPortRefused));
}

constexpr Obstacle kSoftObstacles[] = {Obstacle::kHostUnreachable, Obstacle::kNetworkUnreachable,
                                       Obstacle::kProhibited, Obstacle::kProhibitedHere};

// RFC 1122, section 4.2.3.9: during a flap of the link, each packet comes back with such an error.
TEST(SoftObstacle, ThatPassesIsSurvivedAndTrafficResumesSoon) {
  for (const Obstacle obstacle : kSoftObstacles) {
    ConnectionPair pair(1);
    ASSERT_TRUE(pair.establish());
    auto source = TestBytes(4000000, 3);
    std::vector<std::byte> target(source.size());
    const auto remote = pair.at(1).expose(SliceOf(target), 1);
    ASSERT_TRUE(pair.at(0).write(remote, SliceOf(source), 1));
    GoDark(pair, seconds(8));
    pair.on_sent = [&](int from, std::span<const std::byte>) {
      if (pair.now < pair.end(from).faults.dark_until) {
        pair.at(from).on_unreachable_hint(pair.now, obstacle);
      }
    };
    pair.run_for(seconds(8));
    const Instant healed = pair.now;
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).written.size() == 1; }));
    EXPECT_LE(pair.now - healed, milliseconds(100));
    EXPECT_TRUE(source == target);
    EXPECT_EQ(pair.end(0).downs + pair.end(1).downs, 0);
  }
}

TEST(SoftObstacle, IsToldOnceThePeerTimeoutHasPassed) {
  for (const Obstacle obstacle : kSoftObstacles) {
    ConnectionPair pair(1);
    ASSERT_TRUE(pair.establish());
    GoDark(pair, Duration::max());
    const Instant start = pair.now;
    pair.on_sent = [&](int from, std::span<const std::byte>) {
      if (from == 0) pair.at(0).on_unreachable_hint(pair.now, obstacle);
    };
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
    EXPECT_GE(pair.now - start, milliseconds(9900));
    EXPECT_EQ(pair.at(0).status().code(), StatusCode::kPeerLost);
    const std::string text = pair.at(0).status().message();
    EXPECT_NE(text.find(Describe(obstacle)), std::string::npos) << text;
  }
}

TEST(Liveness, OnePingServesAllConnectionsOfAPath) {
  const Liveness::Limits limits{milliseconds(500), seconds(10)};
  Path path(1 << 20);
  const Instant start = Instant{} + seconds(5);
  Liveness first(limits, start);
  Liveness second(limits, start);
  path.last_heard = start;
  first.on_established(start);
  second.on_established(start);
  EXPECT_EQ(first.deadline(path), start + milliseconds(500));
  const Instant due = start + milliseconds(500);
  EXPECT_EQ(first.check(due, path), Liveness::Verdict::kProbe);
  EXPECT_EQ(second.check(due, path), Liveness::Verdict::kQuiet);
  path.last_heard = due + milliseconds(1);
  EXPECT_EQ(second.deadline(path), due + milliseconds(501));
}

}  // namespace
}  // namespace rocecoll
