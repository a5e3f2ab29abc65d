// SPDX-License-Identifier: Apache-2.0
// Transfers over two paths: UD is proven, carries data, fails and comes back, and every byte
// arrives.
#include <gtest/gtest.h>

#include "datagram/failover_world.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kPart = 1 << 20;

TEST(FailoverTransfer, UdIsProvenSoonAndCarriesTheData) {
  FailoverWorld world({});
  ASSERT_TRUE(world.prove());
  EXPECT_LT(world.now(), Instant(milliseconds(20)));
  const uint64_t over_udp = world.ports[0]->counts().datagrams_over_udp;
  world.transfer(0, 1, kPart);
  world.transfer(1, 0, kPart);
  EXPECT_EQ(world.ports[0]->counts().datagrams_over_udp, over_udp);
  EXPECT_GT(world.ports[0]->counts().datagrams_over_ud, 8 * kPart / 4096);
  EXPECT_EQ(world.nodes[0].transport->stats().packets_dropped_invalid, 0u);
  EXPECT_EQ(world.nodes[0].transport->stats().packets_retransmitted, 0u);
}

TEST(FailoverTransfer, DataSentBeforeTheProofGoesOverUdpAndArrives) {
  FailoverWorld world({});
  world.open_all();
  world.transfer(0, 1, kPart, [&] {});
  EXPECT_TRUE(world.uses_ud(0, 1));
  EXPECT_GT(world.ports[0]->counts().datagrams_over_udp, 0u);
}

TEST(FailoverTransfer, TheSmallerOfBothMtusHolds) {
  for (const std::vector<size_t>& mtus : {std::vector<size_t>{1024, 4096}, {4096, 1024}}) {
    FailoverWorld world({.ud_mtus = mtus});
    ASSERT_TRUE(world.prove());
    EXPECT_EQ(world.ports[0]->peer_limit(world.peer(0, 1)), 1024u);
    EXPECT_EQ(world.ports[1]->peer_limit(world.peer(1, 0)), 1024u);
    world.transfer(0, 1, kPart);
    world.transfer(1, 0, kPart);
  }
}

TEST(FailoverTransfer, WhoHasNoUdPortIsReachedOverUdp) {
  FailoverWorld world({.count = 3, .without_ud = {false, true, false}});
  const auto both_have = [](uint32_t a, uint32_t b) { return a != 1 && b != 1; };
  ASSERT_TRUE(world.prove(both_have));
  for (uint32_t a = 0; a < 3; ++a) {
    for (uint32_t b = 0; b < 3; ++b) {
      if (a != b) world.transfer(a, b, 100'000);
    }
  }
  world.run_for(seconds(5));
  EXPECT_FALSE(world.uses_ud(0, 1));
  EXPECT_TRUE(world.uses_ud(0, 2));
  EXPECT_EQ(world.nodes[1].transport->limits().max_frame_bytes,
            world.nodes[0].transport->limits().max_frame_bytes);
}

struct Loss {
  const char* name;
  double udp;
  double ud;
};
class FailoverLoss : public testing::TestWithParam<Loss> {};

TEST_P(FailoverLoss, EverythingArrivesBitForBit) {
  for (const uint64_t seed : {1, 2, 3}) {
    FailoverWorldOptions options{.seed = seed};
    options.udp_wire.loss = GetParam().udp;
    options.ud_wire.loss = GetParam().ud;
    FailoverWorld world(options);
    ASSERT_TRUE(world.prove());
    world.transfer(0, 1, kPart);
    world.transfer(1, 0, kPart);
    EXPECT_TRUE(world.uses_ud(0, 1)) << "loss alone is no reason to leave UD";
    EXPECT_EQ(world.ports[0]->counts().failed, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailoverLoss,
                         testing::Values(Loss{"udp", 0.2, 0}, Loss{"ud", 0, 0.05},
                                         Loss{"both", 0.1, 0.2}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FailoverTransfer, UdDuplicatesReordersAndCorrupts) {
  FailoverWorldOptions options;
  options.ud_wire.duplicate = 0.05;
  options.ud_wire.reorder = 0.1;
  options.ud_wire.corrupt = 0.02;
  FailoverWorld world(options);
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, kPart);
  world.transfer(1, 0, kPart);
  EXPECT_TRUE(world.uses_ud(0, 1));
}

TEST(FailoverTransfer, ACutInTheMiddleIsSurvivedAndUdComesBackOnceItIsMended) {
  FailoverWorld world({});
  ASSERT_TRUE(world.prove());
  const Instant begin = world.now();
  world.transfer(0, 1, kPart, [&] { world.cut_both(); });
  EXPECT_LT(world.now() - begin, seconds(2));
  EXPECT_FALSE(world.uses_ud(0, 1));
  EXPECT_EQ(world.ports[0]->counts().failed, 1u);
  world.transfer(1, 0, kPart);
  EXPECT_FALSE(world.uses_ud(1, 0));
  world.cut_both(false);
  EXPECT_TRUE(world.run([&] { return world.uses_ud(0, 1) && world.uses_ud(1, 0); }));
  const uint64_t over_udp = world.ports[0]->counts().datagrams_over_udp;
  world.transfer(0, 1, kPart);
  EXPECT_EQ(world.ports[0]->counts().datagrams_over_udp, over_udp);
}

TEST(FailoverTransfer, OneDirectionOfUdGone) {
  for (const uint32_t from : {0u, 1u}) {
    FailoverWorld world({});
    ASSERT_TRUE(world.prove());
    const Instant begin = world.now();
    world.transfer(0, 1, kPart, [&] { world.cut(from, 1 - from); });
    EXPECT_LT(world.now() - begin, seconds(4));
    world.transfer(1, 0, kPart);
    EXPECT_TRUE(world.run([&] { return !world.uses_ud(0, 1) && !world.uses_ud(1, 0); }));
  }
}

TEST(FailoverTransfer, UdLostWhileUdpIsLossy) {
  for (const uint64_t seed : {1, 2, 3}) {
    FailoverWorldOptions options{.seed = seed};
    options.udp_wire.loss = 0.1;
    FailoverWorld world(options);
    ASSERT_TRUE(world.prove());
    world.transfer(0, 1, kPart, [&] { world.cut_both(); });
    EXPECT_FALSE(world.uses_ud(0, 1));
  }
}

TEST(FailoverTransfer, APortThatGoesDownIsLeftAtOnceByBothEnds) {
  FailoverWorld world({});
  ASSERT_TRUE(world.prove());
  const Instant begin = world.now();
  world.transfer(0, 1, kPart, [&] {
    world.cut_both();
    world.ud_ports[0]->set_health({StatusCode::kNetwork, "port down"});
  });
  EXPECT_LT(world.now() - begin, milliseconds(400));
  world.run_for(milliseconds(100));
  EXPECT_FALSE(world.uses_ud(0, 1));
  EXPECT_FALSE(world.uses_ud(1, 0));
  world.cut_both(false);
  world.ud_ports[0]->set_health({});
  EXPECT_TRUE(world.run([&] { return world.uses_ud(0, 1) && world.uses_ud(1, 0); }));
  world.transfer(0, 1, kPart);
}

TEST(FailoverTransfer, AUdPortThatAcceptsNothingIsLeft) {
  FailoverWorld world({.count = 3});
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, kPart, [&] { world.ud_ports[0]->set_send_room(0); });
  EXPECT_FALSE(world.uses_ud(0, 1));
  world.transfer(0, 2, kPart);
  world.transfer(2, 0, kPart);
}

TEST(FailoverTransfer, AFewAcceptedAtATimeAreEnough) {
  FailoverWorld world({});
  ASSERT_TRUE(world.prove());
  world.ud_ports[0]->set_send_room(3);
  world.transfer(0, 1, kPart);
  EXPECT_TRUE(world.uses_ud(0, 1));
}

TEST(FailoverTransfer, WithoutFailoverNothingButQuestionsTakesUdp) {
  FailoverWorld world({.failover = {.failover = false}});
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, kPart);
  EXPECT_EQ(world.ports[0]->counts().datagrams_over_udp, 0u);
  Link* const link = world.links.at({0, 1});
  world.cut_both();
  ASSERT_TRUE(link->send_frame(Bytes(10)));
  LinkRecord& record = world.nodes[0].links[link];
  ASSERT_TRUE(world.run([&] { return !record.down.empty(); }));
  EXPECT_EQ(record.down[0].code(), StatusCode::kPeerLost);
  EXPECT_EQ(world.ports[0]->counts().datagrams_over_udp, 0u);
}

TEST(FailoverTransfer, WithoutFailoverUdSizesHoldFromTheStart) {
  FailoverWorld world({.udp_port = {.max_datagram_bytes = 1452}, .failover = {.failover = false}});
  EXPECT_EQ(world.ports[0]->peer_limit(world.peer(0, 1)), 4096u);
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, kPart);
}

TEST(FailoverTransfer, AProcessThatDiesIsNamedSoonThoughUdCarriedIt) {
  FailoverWorld world({.count = 3});
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, 10'000);
  world.kill(1);
  const Instant died = world.now();
  LinkRecord& record = world.nodes[0].links[world.links.at({0, 1})];
  ASSERT_TRUE(world.run([&] { return !record.down.empty(); }));
  EXPECT_EQ(record.down[0].code(), StatusCode::kPeerLost);
  EXPECT_LT(world.now() - died, seconds(2));
  world.transfer(0, 2, 10'000);
  EXPECT_TRUE(world.uses_ud(0, 2));
}

TEST(FailoverTransfer, ARestartedPeerIsFoundAtItsNewUdAddress) {
  FailoverWorld world({});
  ASSERT_TRUE(world.prove());
  world.transfer(0, 1, 10'000);
  world.kill(1);
  world.restart(1);
  LinkRecord& old = world.nodes[0].links[world.links.at({0, 1})];
  ASSERT_TRUE(world.run([&] { return !old.down.empty(); }));
  world.links.at({0, 1})->close({});
  world.links[{0, 1}] = world.open(0, 1, 2);
  world.links[{1, 0}] = world.open(1, 0, 2);
  ASSERT_TRUE(world.run([&] { return world.uses_ud(0, 1) && world.uses_ud(1, 0); }));
  world.transfer(0, 1, kPart);
  world.transfer(1, 0, kPart);
}

TEST(FailoverTransfer, AStopOfEitherProcessIsNoReasonToLeaveUd) {
  FailoverWorld world({});
  ASSERT_TRUE(world.prove());
  Transport* stopped = nullptr;
  ASSERT_TRUE(world.links.at({0, 1})->send_frame(Bytes(10)));
  // Node 1 does nothing for longer than any verdict takes.
  std::swap(stopped, world.nodes[1].transport);
  world.run_for(seconds(5));
  EXPECT_TRUE(world.uses_ud(0, 1));
  std::swap(stopped, world.nodes[1].transport);
  world.run_for(seconds(2));
  EXPECT_TRUE(world.uses_ud(0, 1));
  EXPECT_TRUE(world.uses_ud(1, 0));
  EXPECT_EQ(world.ports[0]->counts().failed + world.ports[1]->counts().failed, 0u);
  world.transfer(0, 1, kPart);
}

TEST(FailoverTransfer, ManyRanksAndSeveralCuts) {
  FailoverWorld world({.count = 5});
  ASSERT_TRUE(world.prove());
  world.cut(0, 3);
  world.cut(3, 0);
  world.cut(1, 4);
  for (uint32_t a = 0; a < 5; ++a) {
    for (uint32_t b = 0; b < 5; ++b) {
      if (a != b) world.transfer(a, b, 50'000);
    }
  }
  EXPECT_FALSE(world.uses_ud(0, 3));
  EXPECT_FALSE(world.uses_ud(3, 0));
  EXPECT_FALSE(world.uses_ud(1, 4));
  EXPECT_TRUE(world.uses_ud(0, 1));
  EXPECT_TRUE(world.uses_ud(2, 3));
}

}  // namespace
}  // namespace rocecoll
