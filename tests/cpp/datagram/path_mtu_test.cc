// SPDX-License-Identifier: Apache-2.0
// Transports on paths whose MTU changes, or is smaller than that of their routes, in virtual time.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "conformance/exchange.h"
#include "datagram/transport_world.h"

namespace rocecoll {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr SimPortOptions kPort{.max_datagram_bytes = 8192, .min_datagram_bytes = 1200};
constexpr size_t kEthernet = 1472;
constexpr size_t kBulk = 4 << 20;

SimWire Wire(size_t mtu_bytes = 0, bool reported = false) {
  return {.latency = microseconds(50),
          .bytes_per_second = 1e9,
          .mtu_bytes = mtu_bytes,
          .mtu_reported = reported};
}

// Two nodes with a link, and transfers in both directions at once.
struct Pair {
  explicit Pair(const SimWire& wire = Wire(), const SimPortOptions& port = kPort)
      : world(2, wire, 1, port) {
    std::tie(a, b) = world.connect(0, 1);
  }
  // Returns how long `bytes` take in each direction.
  Duration transfer(size_t bytes, Duration limit = seconds(20)) {
    const Instant start = world.now();
    RandomWrite there(bytes, ++token), back(bytes, ++token);
    const size_t done_a = world.record(a).written.size() + 1;
    const size_t done_b = world.record(b).written.size() + 1;
    EXPECT_TRUE(there.start(a, b, token) && back.start(b, a, token));
    EXPECT_TRUE(world.run(
        [&] {
          return world.record(a).written.size() == done_a &&
                 world.record(b).written.size() == done_b;
        },
        limit));
    EXPECT_TRUE(there.source == there.target && back.source == back.target);
    return world.now() - start;
  }
  // The size of the largest datagrams, as the share of headers in a transfer suggests.
  double bytes_per_packet(size_t node) {
    const TransportStats before = world[node].transport->stats();
    transfer(kBulk);
    const TransportStats after = world[node].transport->stats();
    return static_cast<double>(after.bytes_sent - before.bytes_sent) /
           static_cast<double>(after.packets_sent - before.packets_sent);
  }
  void set_mtu(size_t bytes, bool reported = false) {
    for (const auto& [from, to] : {std::pair(0, 1), {1, 0}}) {
      world.network.wire(from, to).mtu_bytes = bytes;
      world.network.wire(from, to).mtu_reported = reported;
    }
  }
  // The time for a pair whose routes have had this MTU from the start.
  static Duration Usual(size_t mtu_bytes) {
    Pair pair;
    for (uint32_t end : {0, 1}) pair.world.ports[end]->set_peer_limit(1 - end, mtu_bytes);
    pair.transfer(kBulk);
    return pair.transfer(kBulk);
  }

  SimWorld world;
  Link* a = nullptr;
  Link* b = nullptr;
  uint32_t token = 0;
};

TEST(PathMtuTransport, ABlackHoleIsFoundWithinTheFirstTransfer) {
  Pair pair(Wire(kEthernet));
  EXPECT_LT(pair.transfer(kBulk), milliseconds(200));
  EXPECT_LT(pair.transfer(kBulk), Pair::Usual(kEthernet) * 6 / 5);
  EXPECT_LE(pair.bytes_per_packet(0), kEthernet);
}

// Only small packets got through before, and hops drop the segments of one run together or one by
// one. What must be sent again, and at which rate, does not follow from packets that could not
// arrive.
TEST(PathMtuTransport, ABlackHoleFromTheStartCostsTheFirstTransferRoundTripsNotTimeouts) {
  for (const bool segments : {true, false}) {
    for (const Duration latency : {microseconds(50), microseconds(5000), microseconds(25000)}) {
      for (const size_t bytes : {size_t{9000}, size_t{65536}, kBulk}) {
        SimWire wire = Wire(kEthernet);
        wire.latency = latency;
        SimPortOptions port = kPort;
        port.segments = segments;
        Pair pair(wire, port);
        pair.world.run_for(seconds(1));
        EXPECT_LT(pair.transfer(bytes), milliseconds(20) + 2 * latency * 25)
            << segments << ", " << bytes << " bytes, " << Seconds(latency) << " s";
      }
    }
  }
}

// Everything there is to send fits into one packet, which is too large for the path after an
// outage. The second probe, which has nothing to carry, shows that smaller packets get through.
TEST(PathMtuTransport, ABlackHoleIsFoundWithASinglePacketAfterAnOutage) {
  Pair pair;
  pair.transfer(kBulk);
  SimWire& wire = pair.world.network.wire(1, 0);
  wire.mtu_bytes = kEthernet;
  wire.blocked = true;
  RandomWrite transfer(7000, 99);
  ASSERT_TRUE(transfer.start(pair.b, pair.a, 99));
  pair.world.run_for(seconds(2));
  wire.blocked = false;
  ASSERT_TRUE(
      pair.world.run([&] { return pair.world.record(pair.a).landed.size() == 2; }, seconds(1)));
  EXPECT_TRUE(transfer.source == transfer.target);
}

TEST(PathMtuTransport, APathThatShrinksInUseIsBackAtItsSpeedWithinASecondSlow) {
  const Duration usual = Pair::Usual(kEthernet);
  for (const bool reported : {true, false}) {
    Pair pair;
    pair.transfer(kBulk);
    const double large = pair.bytes_per_packet(0);
    EXPECT_GT(large, 4000);
    pair.world.run([] { return false; }, milliseconds(1));
    pair.set_mtu(kEthernet, reported);
    Duration since = pair.transfer(kBulk);
    EXPECT_LT(since, milliseconds(500)) << reported;
    while (since < milliseconds(900)) since += pair.transfer(kBulk);
    EXPECT_LT(pair.transfer(kBulk), usual * 6 / 5) << reported;
    EXPECT_LE(pair.bytes_per_packet(0), kEthernet);
  }
}

TEST(PathMtuTransport, AnInterfaceThatShrinksAndGrowsIsFollowedInTheMiddleOfATransfer) {
  Pair pair;
  RandomWrite transfer(64u << 20, 1);
  ASSERT_TRUE(transfer.start(pair.a, pair.b, 1));
  pair.world.run_for(milliseconds(10));
  pair.set_mtu(kEthernet);
  pair.world.ports[0]->set_peer_limit(1, kEthernet);
  pair.world.run_for(milliseconds(10));
  pair.set_mtu(0);
  pair.world.ports[0]->set_peer_limit(1, 8192);
  ASSERT_TRUE(pair.world.run([&] { return pair.world.transferred(pair.a, pair.b, 1); }));
  EXPECT_TRUE(transfer.source == transfer.target);
  EXPECT_GT(pair.bytes_per_packet(0), 4000);
}

TEST(PathMtuTransport, APathThatGrowsAgainIsUsedAgain) {
  Pair pair(Wire(kEthernet));
  pair.transfer(kBulk);
  EXPECT_LE(pair.bytes_per_packet(0), kEthernet);
  pair.set_mtu(0);
  pair.world.run_for(3 * PathMtu::kRaiseInterval);  // the first search continues for a while
  pair.transfer(kBulk);
  EXPECT_GT(pair.bytes_per_packet(0), 4000);
}

TEST(PathMtuTransport, EachDirectionHasItsOwn) {
  Pair pair;
  pair.world.network.wire(0, 1).mtu_bytes = 4000;
  pair.world.network.wire(1, 0).mtu_bytes = kEthernet;
  EXPECT_LT(pair.transfer(kBulk), milliseconds(500));
  const double there = pair.bytes_per_packet(0);
  EXPECT_GT(there, 2000);
  EXPECT_LE(there, 4000);
  EXPECT_LE(pair.bytes_per_packet(1), kEthernet);
}

TEST(PathMtuTransport, AllConnectionsOfAPathLearnFromOne) {
  constexpr size_t kLinks = 16;
  SimWorld world(2, Wire(kEthernet), 1, kPort);
  std::vector<std::pair<Link*, Link*>> links;
  std::vector<RandomWrite> transfers;
  for (size_t i = 0; i < kLinks; ++i) {
    links.push_back(world.connect(0, 1, i + 1));
    transfers.emplace_back(kBulk / kLinks, i);
  }
  const Instant start = world.now();
  for (size_t i = 0; i < kLinks; ++i) {
    ASSERT_TRUE(transfers[i].start(links[i].first, links[i].second, 1));
  }
  ASSERT_TRUE(world.run([&] {
    bool all = true;
    for (const auto& [out, in] : links) all = all && world.transferred(out, in, 1);
    return all;
  }));
  EXPECT_LT(world.now() - start, milliseconds(500));
  for (const RandomWrite& transfer : transfers) EXPECT_TRUE(transfer.source == transfer.target);
  // Another connection starts with what is known, and nothing is lost on the way.
  const auto [out, in] = world.connect(0, 1, 99);
  world.run_for(milliseconds(5));
  const uint64_t lost = world[0].transport->stats().packets_retransmitted;
  RandomWrite last(kBulk, 99);
  ASSERT_TRUE(last.start(out, in, 1));
  ASSERT_TRUE(world.run([&, o = out, i = in] { return world.transferred(o, i, 1); }));
  EXPECT_EQ(world[0].transport->stats().packets_retransmitted, lost);
}

TEST(PathMtuTransport, FramesAndWritesOfAllSizesSurviveChangesUnderLoss) {
  for (const uint64_t seed : {1, 2, 3}) {
    SimWire wire = Wire();
    wire.loss = 0.03;
    wire.reorder = 0.1;
    SimWorld world(3, wire, seed, kPort);
    Exchange exchange(world, {.write_sizes = {1, 1300, 5000, 3u << 20}, .frames = 200});
    for (size_t i = 0; i < 20; ++i) {
      const std::vector<size_t> sizes{0, 1472, 1200, 4000, 1300};
      world.queue.schedule(world.now() + milliseconds(10 * i), [&world, sizes, i] {
        for (uint32_t from = 0; from < 3; ++from) {
          for (uint32_t to = 0; to < 3; ++to) {
            world.network.wire(from, to).mtu_bytes = sizes[(from + 2 * to + i) % sizes.size()];
          }
        }
      });
    }
    exchange.run();
  }
}

TEST(PathMtuTransport, LossAndBlackoutsDoNotMakePacketsSmall) {
  SimWire wire = Wire();
  wire.loss = 0.05;
  Pair pair(wire);
  for (int i = 0; i < 5; ++i) {
    pair.transfer(kBulk);
    pair.world.network.set_partition(1, true);
    pair.world.run_for(milliseconds(300));
    pair.world.network.set_partition(1, false);
  }
  pair.transfer(kBulk);
  EXPECT_GT(pair.bytes_per_packet(0), 4000);
}

std::vector<std::string> Log() {
  std::vector<std::string> texts;
  while (const auto entry = TakeLogEntry(Duration{0})) texts.push_back(entry->text);
  return texts;
}

TEST(PathMtuTransport, AWarningNamesTwoSizesOnlyIfTheyDiffer) {
  Pair narrow(Wire(kEthernet));
  (void)Log();
  for (int i = 0; i < 20; ++i) narrow.transfer(kBulk);
  const std::vector<std::string> warned = Log();
  ASSERT_FALSE(warned.empty());
  EXPECT_NE(warned[0].find("1472 bytes long, not 8192"), std::string::npos) << warned[0];
  constexpr SimPortOptions kSmallPort{.max_datagram_bytes = kEthernet, .min_datagram_bytes = 1200};
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimWire wire = Wire();
    wire.loss = 0.35;
    wire.reorder = 0.3;
    SimWorld world(2, wire, seed, kSmallPort);
    const auto [a, b] = world.connect(0, 1);
    for (uint32_t i = 0; i < 20; ++i) {
      RandomWrite transfer(20'000, i);
      ASSERT_TRUE(transfer.start(a, b, i));
      ASSERT_TRUE(world.run([&, a = a, b = b] { return world.transferred(a, b, i + 1); }));
    }
    for (const std::string& text : Log()) {
      EXPECT_EQ(text.find("1472 bytes long, not 1472"), std::string::npos) << seed;
    }
  }
}

TEST(PathMtuTransport, APathBelowTheBaseIsReportedInsteadOfSilence) {
  Pair pair(Wire(900));
  RandomWrite transfer(kBulk, 1);
  ASSERT_TRUE(transfer.start(pair.a, pair.b, 1));
  ASSERT_TRUE(pair.world.run([&] { return pair.world.is_down(pair.a); }, seconds(30)));
  const Status status = pair.world.record(pair.a).down[0];
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_NE(status.message().find("1200 bytes"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("MTU"), std::string::npos);
}

}  // namespace
}  // namespace rocecoll
