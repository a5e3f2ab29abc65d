// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/handshake.h"

#include <gtest/gtest.h>

#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

std::vector<std::byte> OneByte() { return {std::byte{42}}; }

// Both ends send one frame. Returns true once both have received the other's.
bool GreetEachOther(ConnectionPair& pair, Duration limit) {
  EXPECT_TRUE(pair.at(0).send_frame(OneByte()));
  EXPECT_TRUE(pair.at(1).send_frame(OneByte()));
  return pair.run_until(
      [&] { return pair.end(0).frames.size() == 1 && pair.end(1).frames.size() == 1; }, limit);
}

TEST(Handshake, SimultaneousOpenDeliversFramesWithinTwoRoundTripsWithoutATimer) {
  ConnectionPair pair(1);
  const Instant start = pair.now;
  ASSERT_TRUE(GreetEachOther(pair, seconds(1)));
  EXPECT_LE(pair.now - start, microseconds(200));
  EXPECT_TRUE(pair.at(0).established());
  EXPECT_TRUE(pair.at(1).established());
}

TEST(Handshake, OneSidedOpenWaitsForTheOther) {
  ConnectionPair pair(2, {}, {}, false);
  ASSERT_TRUE(pair.at(0).send_frame(OneByte()));
  pair.run_for(seconds(5));
  EXPECT_FALSE(pair.at(0).established());
  EXPECT_FALSE(pair.at(0).down());
  EXPECT_LT(pair.end(0).sent, 120u);  // the retries backed off
  pair.open(1);
  const Instant opened = pair.now;
  ASSERT_TRUE(pair.run_until([&] { return pair.end(1).frames.size() == 1; }, seconds(1)));
  EXPECT_LE(pair.now - opened, microseconds(200));
}

TEST(Handshake, NobodyThereIsATimeout) {
  ConnectionOptions options;
  options.connect_timeout = seconds(3);
  ConnectionPair pair(3, {}, options, false);
  const Instant start = pair.now;
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_EQ(pair.now - start, seconds(3));
  EXPECT_EQ(pair.at(0).status().code(), StatusCode::kTimeout);
  EXPECT_EQ(pair.at(0).next_deadline(), kNever);
}

TEST(Handshake, SurvivesEveryShortDropPattern) {
  for (uint64_t mask0 = 0; mask0 < 64; ++mask0) {
    for (uint64_t mask1 = 0; mask1 < 64; ++mask1) {
      ConnectionPair pair(4);
      pair.end(0).faults.drop_mask = mask0;
      pair.end(1).faults.drop_mask = mask1;
      ASSERT_TRUE(GreetEachOther(pair, seconds(2))) << mask0 << " " << mask1;
    }
  }
}

TEST(Handshake, SurvivesHeavyLossEachWay) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    ConnectionPair pair(seed, ChannelFaults::Everything(0.3));
    ASSERT_TRUE(GreetEachOther(pair, seconds(5))) << seed;
  }
}

TEST(Handshake, IgnoresAnotherIncarnationOfThePeer) {
  const LinkId link{1, 2, 3, 4};
  Handshake handshake(link, 10, Instant{});
  EXPECT_EQ(handshake.on_init(Instant{}, {link, 20, 0}), Handshake::Verdict::kIgnored);
  EXPECT_EQ(handshake.on_init(Instant{}, {link.mirrored(), 20, 11}), Handshake::Verdict::kIgnored);
  EXPECT_FALSE(handshake.established());
  EXPECT_EQ(handshake.on_init(Instant{}, {link.mirrored(), 20, 0}), Handshake::Verdict::kAccepted);
  EXPECT_EQ(handshake.on_init(Instant{}, {link.mirrored(), 21, 10}), Handshake::Verdict::kIgnored);
  EXPECT_EQ(handshake.peer_id(), 20u);
  EXPECT_FALSE(handshake.confirmed());
  EXPECT_EQ(handshake.on_init(Instant{}, {link.mirrored(), 20, 10}), Handshake::Verdict::kConfirm);
  EXPECT_TRUE(handshake.confirmed());
  EXPECT_EQ(handshake.deadline(), kNever);
}

// Clocks differ, and anybody may answer a packet that was never sent.
TEST(Handshake, AnAnswerBeforeTheQuestionMeasuresNothing) {
  const Instant start = Instant{} + seconds(1);
  Handshake handshake(LinkId{}, 10, start);
  EXPECT_FALSE(handshake.round_trip(start));
  handshake.on_init_sent(start);
  EXPECT_FALSE(handshake.round_trip(start - Duration{1}));
  EXPECT_EQ(handshake.round_trip(start + Duration{100}), Duration{100});
  EXPECT_FALSE(handshake.round_trip(start + Handshake::kFirstRetry));
}

}  // namespace
}  // namespace rocecoll
