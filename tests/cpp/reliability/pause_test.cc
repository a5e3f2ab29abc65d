// SPDX-License-Identifier: Apache-2.0
// How a process that does not run all the time measures round trips.
#include <gtest/gtest.h>

#include "reliability/connection_pair.h"

namespace rocecoll {
namespace {

void Pause(ConnectionPair& pair, int which, Duration length) {
  pair.now += length;
  pair.end(which).path.on_pause(pair.now, length);
  pair.at(which).on_pause(length);
}

void SendFrame(ConnectionPair& pair) { ASSERT_TRUE(pair.at(0).send_frame(TestBytes(100, 1))); }

TEST(Pauses, OneThatComesIntoARoundTripIsNoPartOfIt) {
  ConnectionPair pair(1);
  ASSERT_TRUE(pair.establish());
  for (int i = 0; i < 20; ++i) {
    SendFrame(pair);
    pair.run_for(milliseconds(10));
    Pause(pair, 0, milliseconds(300));
    SendFrame(pair);
    pair.run_for(microseconds(10));
    Pause(pair, 0, seconds(5));
    pair.run_for(milliseconds(10));
    EXPECT_LE(pair.end(0).path.rtt.smoothed(), milliseconds(2)) << i;
  }
}

// When the receiver of the answers runs again, answers to packets that overtook each other wait
// there together, and a later answer may report what an earlier one leaves out.
TEST(Pauses, AnswersThatWaitedAreReadBeforeAnythingCountsAsLost) {
  ChannelFaults faults;
  faults.reorder = 0.2;
  ConnectionPair pair(1, faults, {.max_datagram_bytes = 1280});
  pair.end(1).faults.reorder = 0;
  ASSERT_TRUE(pair.establish());
  const auto send = [&] {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.at(0).send_frame(TestBytes(1000, 1)));
  };
  // Counts how often, in 300 rounds, a packet that is only late is taken for lost.
  const auto wrong_verdicts = [&](Duration asleep) {
    const uint64_t before = pair.at(0).retransmitted_packets();
    for (int i = 0; i < 300; ++i) {
      send();
      pair.run_for(microseconds(70));
      pair.oversleep(0, asleep);
      pair.run_for(milliseconds(10));
    }
    return pair.at(0).retransmitted_packets() - before;
  };
  wrong_verdicts(Duration{0});  // until the end knows how late packets may be
  const uint64_t awake = wrong_verdicts(Duration{0});
  EXPECT_LE(wrong_verdicts(milliseconds(4)), awake);
}

// On a busy host, processes wait for a core, and answers come late because of that. Probes that
// were sent as often as answers came before would keep the host busy for good.
TEST(Pauses, ThatComeMoreOftenThanAnswersArePartOfTheirRoundTrips) {
  ConnectionPair pair(1, {}, {.heartbeat_interval = seconds(15), .peer_timeout = seconds(300)});
  ASSERT_TRUE(pair.establish());
  for (int i = 0; i < 2; ++i) pair.end(i).faults.delay = seconds(3);
  const auto go_on = [&](int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      if (turn % 10 == 0) SendFrame(pair);
      pair.run_for(milliseconds(20));
      Pause(pair, 0, milliseconds(280));
    }
  };
  go_on(200);
  const uint64_t before = pair.end(0).sent;
  go_on(200);  // a minute
  EXPECT_EQ(pair.end(0).downs + pair.end(1).downs, 0);
  EXPECT_GE(pair.end(1).frames.size(), 36u);
  EXPECT_LE(pair.end(0).sent - before, 120u);
}

}  // namespace
}  // namespace rocecoll
