// SPDX-License-Identifier: Apache-2.0
// A peer that has not opened its end: while its process lives, the connection waits for it; any
// other peer is lost.
#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

using std::chrono::hours;

ConnectionOptions Patient(Duration peer_timeout = seconds(10)) {
  ConnectionOptions options;
  options.connect_timeout = hours(24 * 365);
  options.peer_timeout = peer_timeout;
  return options;
}

TEST(FirstContact, AProcessThatAnswersNothingIsGivenUp) {
  for (const auto& [peer_timeout, expected] :
       {std::pair(seconds(10), seconds(10)), std::pair(seconds(1), seconds(3))}) {
    ConnectionPair pair(1, {}, Patient(peer_timeout), false);
    pair.answer_not_open = false;
    const Instant start = pair.now;
    ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
    EXPECT_EQ(pair.at(0).status().code(), StatusCode::kNoContact);
    EXPECT_GE(pair.now - start, expected);
    EXPECT_LE(pair.now - start, expected + milliseconds(100));
    EXPECT_FALSE(pair.at(0).contact().ever_heard);
  }
}

TEST(FirstContact, WhatTheNetworkSaidIsTold) {
  ConnectionPair pair(1, {}, Patient(), false);
  pair.answer_not_open = false;
  pair.on_sent = [&](int, std::span<const std::byte>) {
    pair.at(0).on_unreachable_hint(pair.now, Obstacle::kNetworkUnreachable);
  };
  pair.run_for(seconds(1));
  EXPECT_EQ(pair.at(0).contact().obstacle, Obstacle::kNetworkUnreachable);
  EXPECT_FALSE(pair.at(0).down());
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_EQ(pair.at(0).status().code(), StatusCode::kNoContact);
  const std::string text = pair.at(0).status().message();
  EXPECT_NE(text.find(Describe(Obstacle::kNetworkUnreachable)), std::string::npos) << text;
}

TEST(FirstContact, AProcessThatLivesIsWaitedForUntilItDies) {
  ConnectionPair pair(1, ChannelFaults::Lossy(0.2), Patient(), false);
  pair.run_for(hours(5));
  ASSERT_EQ(pair.end(0).downs, 0);
  EXPECT_TRUE(pair.at(0).contact().ever_heard);
  EXPECT_FALSE(pair.at(0).contact().established);
  pair.answer_not_open = false;
  const Instant died = pair.now;
  ASSERT_TRUE(pair.run_until([&] { return pair.end(0).downs == 1; }));
  EXPECT_EQ(pair.at(0).status().code(), StatusCode::kPeerLost);
  EXPECT_LE(pair.now - died, milliseconds(10100));
  EXPECT_GE(pair.now - died, seconds(5));
}

}  // namespace
}  // namespace rocecoll
