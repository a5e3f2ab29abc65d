// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram/reliability/path_mtu.h"

#include <gtest/gtest.h>

#include <chrono>

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kBase = 1200;
constexpr size_t kRoute = 8192;
constexpr Duration kRoundTrip = milliseconds(1);

// A path that carries packets up to a given size, and a clock.
struct Network {
  explicit Network(size_t carried) : carried(carried) { mtu.open(kBase, kRoute, now); }

  // Sends a packet of any size, whose fate is known a round trip later.
  void send(size_t bytes) { settle(bytes, now, bytes <= carried); }
  void settle(size_t bytes, Instant sent_at, bool arrives) {
    now = std::max(now, sent_at + kRoundTrip);
    if (arrives) {
      mtu.on_acknowledged(bytes, sent_at);
    } else {
      mtu.on_lost(bytes, sent_at, kRoundTrip);
    }
    mtu.check(now);
  }
  // Sends full packets, each followed by a small one, until `rounds` pairs were sent.
  void use(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      send(mtu.size());
      send(100);
    }
  }
  // Sends all probes that the search asks for, and returns their number.
  int search() {
    int probes = 0;
    while (const size_t bytes = mtu.probe_due()) {
      ++probes;
      mtu.on_probe_sent(bytes);
      now += kRoundTrip;
      if (bytes <= carried) {
        mtu.on_probe_acknowledged(now, bytes);
      } else {
        mtu.on_probe_lost(now, bytes);
      }
    }
    return probes;
  }

  size_t carried;
  Instant now = Instant{} + seconds(1);
  PathMtu mtu;
};

TEST(PathMtu, StartsWithAllThatTheRouteTakes) {
  Network network(kRoute);
  EXPECT_EQ(network.mtu.size(), kRoute);
  EXPECT_FALSE(network.mtu.carries(kRoute));
  network.use(10);
  EXPECT_EQ(network.mtu.size(), kRoute);
  EXPECT_TRUE(network.mtu.carries(kRoute));
  EXPECT_EQ(network.mtu.probe_due(), 0u);
}

TEST(PathMtu, FallsBackFromABlackHoleAndFindsWhatThePathCarries) {
  for (const size_t carried : {1200, 1250, 1400, 1452, 1472, 1600, 4050, 8000, 8150}) {
    Network network(carried);
    network.use(3);
    EXPECT_EQ(network.mtu.size(), kBase);
    EXPECT_FALSE(network.mtu.take_news());
    EXPECT_LE(network.search(), 60) << carried;
    EXPECT_LE(network.mtu.size(), carried);
    EXPECT_GE(network.mtu.size() + network.mtu.size() / 50, carried);
    EXPECT_TRUE(network.mtu.take_news());
    EXPECT_FALSE(network.mtu.take_news());
    network.use(20);
    EXPECT_FALSE(network.mtu.searching());
  }
}

TEST(PathMtu, PacketsOfAllSizesBetweenDoNotHideABlackHole) {
  Network network(1472);
  for (int i = 0; i < 4; ++i) {
    network.send(kRoute);
    network.send(1400);
  }
  EXPECT_LE(network.mtu.size(), 1400u);
  EXPECT_TRUE(network.mtu.searching());
  Network medium(1472);  // carries no packet of full size at all
  for (int i = 0; i < 4; ++i) {
    medium.send(1400);
    medium.send(4000);
  }
  EXPECT_LE(medium.mtu.size(), 1400u);
  EXPECT_TRUE(medium.mtu.searching());
}

TEST(PathMtu, ASizeThatNeverGotThroughIsGivenUpSooner) {
  Network unproven(1472);
  unproven.use(2);
  EXPECT_EQ(unproven.mtu.size(), kBase);
  Network proven(kRoute);
  proven.use(1);
  proven.carried = 1472;
  proven.use(2);
  EXPECT_EQ(proven.mtu.size(), kRoute);
  proven.use(1);
  EXPECT_EQ(proven.mtu.size(), kBase);
}

TEST(PathMtu, LossIsNoBlackHole) {
  Network network(kRoute);
  for (int i = 0; i < 100; ++i) {  // every third large packet arrives
    network.settle(kRoute, network.now, i % 3 == 0);
    network.send(100);
  }
  EXPECT_EQ(network.mtu.size(), kRoute);
  // One train of large packets is lost: whatever its length, that is one loss.
  const Instant train = network.now;
  for (int i = 0; i < 100; ++i) network.settle(kRoute, train, false);
  network.send(100);
  EXPECT_EQ(network.mtu.size(), kRoute);
  // Nothing gets through.
  for (int i = 0; i < 100; ++i) {
    network.settle(kRoute, network.now, false);
    network.settle(100, network.now, false);
  }
  network.send(kRoute);
  network.send(100);
  EXPECT_EQ(network.mtu.size(), kRoute);
}

TEST(PathMtu, AVerdictInErrorIsTakenBackByTheFirstPacketOrProbeThatArrives) {
  Network late(kRoute);
  const Instant before = late.now;
  late.carried = 1472;
  late.use(3);
  EXPECT_EQ(late.mtu.size(), kBase);
  late.settle(kRoute, before, true);  // sent before the change, so it proves nothing
  EXPECT_EQ(late.mtu.size(), kBase);
  late.settle(kRoute, late.now, true);
  EXPECT_EQ(late.mtu.size(), kRoute);
  EXPECT_FALSE(late.mtu.searching());

  Network probed(1472);
  probed.use(3);
  probed.carried = kRoute;
  EXPECT_EQ(probed.search(), 1);
  EXPECT_EQ(probed.mtu.size(), kRoute);
  EXPECT_FALSE(probed.mtu.take_news());
}

// Under heavy loss a search may end at a size below what gets through later.
TEST(PathMtu, IsNoNewsOnceAllThatTheRouteTakesGetsThrough) {
  Network network(1460);
  network.mtu.set_route_limit(1472);
  network.use(2);
  network.search();
  EXPECT_EQ(network.mtu.size(), 1452u);
  EXPECT_FALSE(network.mtu.searching());
  network.carried = 1472;
  network.send(1472);
  EXPECT_EQ(network.mtu.size(), 1472u);
  EXPECT_FALSE(network.mtu.take_news());
}

TEST(PathMtu, TriesForMoreNowAndThenAndLessOftenInVain) {
  Network network(1472);
  network.use(3);
  network.search();
  Duration last{0};
  for (int i = 0; i < 10; ++i) {
    const Duration interval = network.mtu.raise_at() - network.now;
    EXPECT_GT(interval, last);
    EXPECT_LE(interval, PathMtu::kMaxRaiseInterval);
    last = interval - seconds(1);
    network.now = network.mtu.raise_at();
    network.mtu.raise(network.now);
    EXPECT_GT(network.search(), 0);
    EXPECT_EQ(network.mtu.size(), 1472u);
  }
  network.carried = kRoute;
  network.now = network.mtu.raise_at();
  network.mtu.raise(network.now);
  EXPECT_EQ(network.search(), 1);
  EXPECT_EQ(network.mtu.size(), kRoute);
  EXPECT_LE(network.mtu.raise_at() - network.now, PathMtu::kRaiseInterval);
}

TEST(PathMtu, FollowsTheRouteDownAtOnceAndUpByProbing) {
  Network network(kRoute);
  network.use(3);
  network.mtu.set_route_limit(1472);
  EXPECT_EQ(network.mtu.size(), 1472u);
  EXPECT_FALSE(network.mtu.carries(kRoute));  // what is still in flight is lost because of its size
  network.mtu.set_route_limit(kRoute);
  EXPECT_EQ(network.mtu.size(), 1472u);
  EXPECT_EQ(network.search(), 1);
  EXPECT_EQ(network.mtu.size(), kRoute);
  network.mtu.set_peer_limit(4000);
  EXPECT_EQ(network.mtu.size(), 4000u);
  network.mtu.set_peer_limit(300);  // a peer may take less than the base
  EXPECT_EQ(network.mtu.size(), 300u);
  network.use(10);
  EXPECT_EQ(network.mtu.size(), 300u);
}

TEST(PathMtu, AProbeThatNobodyTellsOfIsSentAgain) {
  Network network(1472);
  network.use(3);
  const size_t probe = network.mtu.probe_due();
  network.mtu.on_probe_sent(probe);
  EXPECT_EQ(network.mtu.probe_due(), 0u);
  network.mtu.on_probe_abandoned();
  EXPECT_EQ(network.mtu.probe_due(), probe);
}

TEST(PathMtu, SaysWhenThePathCarriesNotEvenTheBase) {
  Network network(900);
  network.use(3);
  EXPECT_EQ(network.mtu.size(), kBase);
  const Instant start = network.now;
  while (network.now < start + seconds(9)) {
    network.use(1);
    EXPECT_FALSE(network.mtu.refuses_base(network.now, seconds(10)));
  }
  while (network.now < start + seconds(11)) network.use(1);
  EXPECT_TRUE(network.mtu.refuses_base(network.now, seconds(10)));
  network.carried = kBase;
  network.use(1);
  EXPECT_FALSE(network.mtu.refuses_base(network.now, seconds(10)));
}

// In an outage nothing gets through. If small packets are the first to get through afterwards, this
// says nothing about the large ones before, and neither do observations of an earlier outage.
TEST(PathMtu, NoOutageIsAPathThatRefusesTheBase) {
  Network network(kBase);
  network.use(3);
  for (int outage = 0; outage < 2; ++outage) {
    const Instant end = network.now + seconds(12);
    while (network.now < end) {
      network.settle(kBase, network.now, false);
      network.now += milliseconds(50);
    }
    network.settle(100, network.now, true);
    EXPECT_FALSE(network.mtu.refuses_base(network.now, seconds(10)));
    // A full buffer drops a packet long afterwards.
    network.now += seconds(20);
    network.settle(kBase, network.now, false);
    EXPECT_FALSE(network.mtu.refuses_base(network.now, seconds(10)));
  }
}

}  // namespace
}  // namespace rocecoll
