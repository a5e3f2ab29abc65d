// SPDX-License-Identifier: Apache-2.0
// Which path carries an RC link, and what survives when it changes.
#include "rc/rc_pair.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Over devices that share one receive queue, and over those that have one for each queue pair.
class RcPath : public testing::TestWithParam<bool> {
 protected:
  static RcWorldOptions defaults() {
    RcWorldOptions options;
    if (!GetParam()) options.limits = SimRdmaFabric::OwnReceiveLimits();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(ReceiveQueues, RcPath, testing::Bool(),
                         [](const auto& info) { return info.param ? "Shared" : "Own"; });

TEST_P(RcPath, RoceCarriesWhatBothHave) {
  Pair pair(defaults());
  CheckedTraffic traffic(pair);
  traffic.start();
  EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
  traffic.check();
  EXPECT_TRUE(Contains(RcWorld::log(), "info: ranks 0 and 1"));
}

TEST_P(RcPath, SeveralQueuePairsShareTheWrites) {
  for (const uint32_t count : {2u, 3u, 8u}) {
    RcWorldOptions options = defaults();
    options.rc.queue_pairs_per_connection = count;
    Pair pair(options);
    CheckedTraffic traffic(pair, 3'000'001, 3);
    traffic.start();
    EXPECT_TRUE(pair.run([&] { return traffic.done(); })) << count;
    traffic.check();
    EXPECT_EQ(pair.fabric.queue_pairs(0).size(), count);
  }
}

TEST_P(RcPath, ImmediatesGoApartFromTheDataOfAdaptiveNetworks) {
  for (const bool apart : {false, true}) {
    RcWorldOptions options = defaults();
    options.rc.adaptive_routing = apart;
    options.rc.queue_pairs_per_connection = 2;
    Pair pair(options);
    CheckedTraffic traffic(pair, 300'001, 5);
    traffic.start();
    EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
    traffic.check();
    EXPECT_EQ(pair.fabric.data_with_immediates(), apart ? 0u : 10u);
  }
}

// More writes than credits in one direction, and frames in both.
TEST_P(RcPath, FewCreditsAreEnough) {
  for (const uint32_t credits : {1u, 2u, 3u, 4u, 5u, 7u}) {
    RcWorldOptions options = defaults();
    options.rc.credits = credits;
    Pair pair(options);
    CheckedTraffic traffic(pair, 100, 100);
    traffic.start();
    EXPECT_TRUE(pair.run([&] { return traffic.done(); })) << credits;
    traffic.check();
    EXPECT_EQ(pair.transports[0]->stats().packets_retransmitted, 0u);
    EXPECT_EQ(pair.transports[0]->links_on_path(), 1u);
  }
}

TEST_P(RcPath, PeerWithoutDeviceIsReachedOverUdp) {
  for (const uint32_t without : {0u, 1u}) {
    RcWorldOptions options = defaults();
    options.rc.first_number = FirstNumber(4);
    options.rc.expected = false;
    options.without_device = {without};
    Pair pair(options);
    CheckedTraffic traffic(pair);
    traffic.start();
    EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
    traffic.check();
    EXPECT_TRUE(Contains(RcWorld::log(), "): UDP: the peer says: no RDMA device"));
  }
}

TEST_P(RcPath, UnprovenPathIsNotUsed) {
  RcWorldOptions options = defaults();
  Pair pair(options);
  pair.fabric.cut(0, 1);
  CheckedTraffic traffic(pair);
  traffic.start();
  EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
  traffic.check();
  EXPECT_TRUE(Contains(RcWorld::log(), "warning: ranks 0 and 1"));
}

TEST_P(RcPath, UnprovenPathIsAnErrorWithoutFailover) {
  RcWorldOptions options = defaults();
  options.rc.failover = false;
  Pair pair(options);
  pair.fabric.cut(0, 1);
  EXPECT_TRUE(pair.run([&] { return !pair.at_a().down.empty(); }));
  EXPECT_EQ(pair.at_a().down.front().code(), StatusCode::kNetwork);
  const std::string& why = pair.at_a().down.front().message();
  EXPECT_TRUE(why.starts_with("RoCE does not carry ranks 0 and 1 (")) << why;
  EXPECT_TRUE(why.ends_with("; UDP would, but failover is switched off")) << why;
}

TEST_P(RcPath, BrokenQueuePairIsReplaced) {
  for (int step = 0; step < 40; ++step) {
    RcWorldOptions options = defaults();
    options.rdma.bytes_per_second = 1e9;
    options.rc.queue_pairs_per_connection = 1 + step % 3;
    options.rc.adaptive_routing = step % 4 == 1;
    options.rc.first_number = FirstNumber(step);
    Pair pair(options);
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    CheckedTraffic traffic(pair);
    traffic.start();
    pair.run([&] { return traffic.done(); }, std::chrono::microseconds(3 + 20 * step));
    pair.fabric.break_queue_pair(step % 2, pair.queue_pair(step % 2));
    EXPECT_TRUE(pair.run([&] { return traffic.done(); })) << step;
    traffic.check();
    pair.run_for(milliseconds(1));
    EXPECT_EQ(pair.transports[0]->links_on_path(), 1u) << step;
  }
}

TEST_P(RcPath, LostPathGoesOnOverUdp) {
  for (int step = 0; step < 40; ++step) {
    RcWorldOptions options = defaults();
    options.rdma.bytes_per_second = 1e9;
    options.rc.queue_pairs_per_connection = 1 + step % 3;
    options.rc.first_number = FirstNumber(step);
    options.wire.loss = step % 2 == 0 ? 0 : 0.02;
    Pair pair(options);
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    CheckedTraffic traffic(pair);
    traffic.start();
    pair.run([&] { return traffic.done(); }, std::chrono::microseconds(3 + 20 * step));
    if (step % 4 < 2) {
      pair.fabric.cut(0, 1);
    } else {
      pair.fabric.set_port(step % 2, false);
    }
    EXPECT_TRUE(pair.run([&] { return traffic.done(); })) << step;
    traffic.check();
  }
  EXPECT_TRUE(Contains(RcWorld::log(), "): goes on over UDP: "));
}

TEST_P(RcPath, ForeverFailingQueuePairsEndInUdp) {
  RcWorldOptions options = defaults();
  options.rc.max_recoveries = 3;
  Pair pair(options);
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  for (size_t i = 1; i <= 4; ++i) {
    pair.fabric.break_queue_pair(0, pair.queue_pair(0));
    ASSERT_TRUE(pair.a->send_frame(RandomBytes(10, i)));
    EXPECT_TRUE(pair.run([&] { return pair.at_b().frames.size() == i; })) << i;
    EXPECT_EQ(pair.transports[0]->links_on_path(), i < 4 ? 1u : 0u) << i;
    EXPECT_EQ(pair.at_b().frames.back(), RandomBytes(10, i));
  }
}

// Nothing says then when the last of their requests is done.
TEST_P(RcPath, DevicesThatRefuseRequestsOfFailedQueuePairsRecover) {
  Pair pair(defaults());
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  for (const uint32_t end : {0u, 1u}) pair.fabric.refusals(end).posts_after_failure = true;
  CheckedTraffic traffic(pair, 100'000, 20);
  traffic.start();
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; })) << i;
    pair.fabric.break_queue_pair(i % 2, pair.queue_pair(i % 2));
    pair.run_for(std::chrono::microseconds(30));
  }
  EXPECT_TRUE(pair.run([&] { return traffic.done(); }));
  traffic.check();
  EXPECT_EQ(pair.transports[0]->links_on_path(), 1u);
}

TEST_P(RcPath, UnregistrableMemoryGoesOverUdp) {
  Pair pair(defaults());
  CarryWhatCannotBeRegistered(pair);
  EXPECT_TRUE(Contains(RcWorld::log(),
                       "): memory cannot be registered, so that large messages go over UDP: "));
}

// The network of the control path fails for longer than the silence that is death.
TEST_P(RcPath, WhatComesOverRoceShowsThatThePeerLives) {
  Pair pair(defaults());
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  pair.network.set_partition(1, true);
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(pair.a->send_frame(RandomBytes(10, i)) && pair.b->send_frame(RandomBytes(10, i)));
    ASSERT_TRUE(pair.run([&] { return pair.at_b().frames.size() == i + 1; })) << i;
    pair.run_for(seconds(1));
    ASSERT_TRUE(pair.at_a().down.empty() && pair.at_b().down.empty()) << i;
  }
  const auto contact = pair.a->contact();
  ASSERT_TRUE(contact.has_value());
  EXPECT_LE(pair.queue.now() - contact->heard_at, seconds(1));
  // What its device does by itself is no sign: the peer takes nothing any more.
  pair.run([] { return false; }, seconds(15), {1});
  EXPECT_FALSE(pair.at_a().down.empty());
}

// As most pairs of a ring are: their ranks send heartbeats over RoCE.
TEST_P(RcPath, RanksWithNothingToSayAreNotLostWhereOnlyTheControlPathIsSilent) {
  Pair pair(defaults());
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  pair.network.wire(0, 1).blocked = true;  // one way first: the other end hears, this one does not
  pair.run_for(seconds(40));
  pair.network.set_partition(1, true);
  pair.run_for(seconds(40));
  EXPECT_TRUE(pair.at_a().down.empty() && pair.at_b().down.empty());
  pair.run([] { return false; }, seconds(15), {1});
  EXPECT_FALSE(pair.at_a().down.empty()) << "its device sends no heartbeats";
}

TEST_P(RcPath, HeartbeatsComeAsOftenAsTheSilenceThatIsDeathAsks) {
  for (const Duration heartbeat : {milliseconds(100), milliseconds(10'000)}) {
    SCOPED_TRACE(heartbeat / milliseconds(1));
    RcWorldOptions options = defaults();
    options.control.heartbeat_interval = options.rc.heartbeat_interval = heartbeat;
    options.control.peer_timeout = 4 * heartbeat;
    Pair pair(options);
    ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    pair.network.set_partition(1, true);
    const uint64_t before = pair.a->path_stats().back().traffic.packets_sent;
    pair.run_for(100 * heartbeat);
    EXPECT_TRUE(pair.at_a().down.empty() && pair.at_b().down.empty());
    // Those that answer return credits, too.
    EXPECT_LE(pair.a->path_stats().back().traffic.packets_sent - before, 200u);
  }
}

TEST_P(RcPath, RanksThatHearEachOtherSendNoHeartbeatsOverRoce) {
  Pair pair(defaults());
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  const auto sent_over_roce = [&] { return pair.a->path_stats().back().traffic.packets_sent; };
  ASSERT_TRUE(pair.a->path_stats().back().path == "rc");
  pair.run_for(seconds(1));
  const uint64_t before = sent_over_roce();
  pair.run_for(seconds(60));
  EXPECT_EQ(sent_over_roce(), before);
}

TEST_P(RcPath, DeadPeerIsNamedSoon) {
  Pair pair(defaults());
  ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
  const Instant died = pair.queue.now();
  pair.fabric.kill(1);
  pair.kill(1);
  EXPECT_TRUE(pair.a->send_frame(RandomBytes(8, 1)));
  EXPECT_TRUE(pair.run([&] { return !pair.at_a().down.empty(); }));
  EXPECT_EQ(pair.at_a().down.front().code(), StatusCode::kPeerLost);
  EXPECT_LT(pair.queue.now() - died, seconds(11));  // ConnectionOptions::peer_timeout and a little
}

// All ranks are frozen, at any moment of the handshake, for longer than the proof of RoCE may take.
TEST_P(RcPath, APauseOfAllRanksIsNoFailureOfRoce) {
  for (int step = 0; step < 60; ++step) {
    RcWorldOptions options = defaults();
    options.wire.latency = milliseconds(1);
    Pair pair(options);
    pair.run_for(std::chrono::microseconds(100) * step);
    pair.run([] { return false; }, seconds(8), {0, 1});
    EXPECT_TRUE(pair.run(
        [&] {
          return pair.transports[0]->links_on_path() == 1 &&
                 pair.transports[1]->links_on_path() == 1;
        },
        seconds(2)))
        << step;
  }
}

TEST_P(RcPath, LeavingDeliversWhatWasAccepted) {
  for (const bool early : {false, true}) {
    Pair pair(defaults());
    if (!early) {
      ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
    }
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(pair.a->send_frame(RandomBytes(3000, i)));
    pair.a->close({});
    EXPECT_TRUE(pair.run([&] { return !pair.at_b().down.empty(); })) << early;
    EXPECT_EQ(pair.at_b().down.front().code(), StatusCode::kPeerLeft);
    EXPECT_EQ(pair.at_b().frames.size(), 50u);
    EXPECT_TRUE(pair.run([&] { return !pair.transports[0]->lingering(); }));
    pair.b->close({});
    EXPECT_TRUE(pair.run([&] { return !pair.transports[1]->lingering(); }));
    EXPECT_TRUE(pair.fabric.queue_pairs(0).empty());
    EXPECT_TRUE(pair.fabric.queue_pairs(1).empty());
  }
}

TEST_P(RcPath, NothingTouchesMemoryAfterClose) {
  for (int step = 0; step < 30; ++step) {
    for (const bool in_order : {false, true}) {
      RcWorldOptions options = defaults();
      options.rdma.bytes_per_second = 1e9;
      Pair pair(options);
      ASSERT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }));
      Bytes source = RandomBytes(500'000, 1);
      Bytes target(500'000);
      const RemoteSlice slice = pair.b->expose({target.data(), target.size(), kUnregistered}, 1);
      ASSERT_TRUE(pair.a->write(slice, {source.data(), source.size(), kUnregistered}, 1));
      pair.run([] { return false; }, std::chrono::microseconds(20 * step));
      const bool landed = !pair.at_b().landed.empty();
      const Status why = in_order ? Status() : Status(StatusCode::kAborted, "enough");
      Link* closing = step % 2 == 0 ? pair.a : pair.b;
      closing->close(why);
      const Bytes then = target;
      std::ranges::fill(source, std::byte{0});
      if (closing == pair.b) std::ranges::fill(target, std::byte{7});
      pair.run_for(milliseconds(50));
      if (closing == pair.b) {
        EXPECT_TRUE(target == Bytes(500'000, std::byte{7})) << step;
        ASSERT_FALSE(pair.at_a().down.empty());
      } else if (!landed && pair.at_b().landed.empty()) {
        ASSERT_FALSE(pair.at_b().down.empty());
        EXPECT_EQ(pair.at_b().down.front().code(),
                  in_order ? StatusCode::kPeerLeft : StatusCode::kAborted);
      } else {
        EXPECT_TRUE(target == RandomBytes(500'000, 1)) << step;
      }
    }
  }
}

}  // namespace
}  // namespace rocecoll
