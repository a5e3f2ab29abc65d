// SPDX-License-Identifier: Apache-2.0
// What many links cost one rank: memory for each, and no work for those that are idle. The figures
// of docs/scaling.md are what this prints.
#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/run_choice.h"
#include "scale/peers_of_programs.h"
#include "scale/scale_world.h"
#include "transport/datagram/udp/udp_address.h"
#include "transport/datagram/udp/udp_port.h"

namespace rocecoll {
namespace {

constexpr uint32_t kMostRanks = 16384;
// Each event lets all processes step: with four times as many a test takes sixteen times as long.
const uint32_t kManyLinks = IsNightly() ? 1024 : 256;
// Of a rank with as many links as a group of kMostRanks needs.
constexpr size_t kMostBytes = 8 << 20;
constexpr auto kQuiet = std::chrono::milliseconds(200);

class Links : public testing::Test {
 protected:
  void SetUp() override {
    if (!TrackedHeap::works()) GTEST_SKIP() << "a sanitizer has the heap";
  }
};

// Rank 0 and each process from `first` to `last` send each other `bytes`.
void Exchange(ScaleWorld& world, size_t bytes, Rank first, Rank last) {
  std::vector<std::byte> from(bytes), into(bytes);
  OperationSpec send, receive;
  send.collective = Collective::kSend;
  send.type = DataType::kUint8;
  send.input = {from.data(), Partition::Even(bytes, 1)};
  receive.collective = Collective::kRecv;
  receive.type = DataType::kUint8;
  receive.output = {into.data(), Partition::Even(bytes, 1)};
  for (Rank peer = first; peer <= last; ++peer) {
    send.root = receive.root = peer;
    world.submit(0, receive);
    world.submit(0, send);
    send.root = receive.root = 0;
    world.submit(peer, receive);
    world.submit(peer, send);
  }
  EXPECT_TRUE(world.run_until_done());
}
// With two at a time: what is in flight is no link's, but the simulated wire holds a copy of it.
void ExchangeWithAll(ScaleWorld& world, size_t bytes) {
  constexpr Rank kAtOnce = 2;
  for (Rank peer = 1; peer < world.processes(); peer += kAtOnce) {
    Exchange(world, bytes, peer, std::min(peer + kAtOnce, world.processes()) - 1);
  }
}

size_t PagesTouched(const std::function<void()>& body) {
  TrackedHeap::instance().fence();
  body();
  return TrackedHeap::instance().lift_fence();
}

// A step at a time at which nothing is due.
size_t PagesOfALook(ScaleWorld& world) {
  world.as(0, [&] { world.engine(0).step(world.now()); });
  return PagesTouched([&] { world.as(0, [&] { world.engine(0).step(world.now()); }); });
}

TEST_F(Links, AreNotLookedAtWhileTheyAreIdle) {
  std::printf("| links | pages touched by a look | by a small message |\n| --- | --- | --- |\n");
  std::vector<std::pair<size_t, size_t>> touched;
  for (const uint32_t processes : {65u, 257u, 1025u}) {
    ScaleWorld world(processes, processes);
    Exchange(world, 8, 1, processes - 1);  // all at once: so are their heartbeats, later
    world.idle(kQuiet);
    const size_t look = PagesOfALook(world);
    const size_t message = PagesTouched([&] { Exchange(world, 8, 1, 1); });
    std::printf("| %u | %zu | %zu |\n", processes - 1, look, message);
    touched.push_back({look, message});
  }
  // 16 times as many links: deadlines are a heap, which got 4 levels higher.
  EXPECT_LE(touched.back().first, touched.front().first + 8);
  EXPECT_LE(touched.back().second, touched.front().second + 4 * 4);
}

// The links of a group that has ended linger until the peers have taken leave.
TEST_F(Links, AreNotLookedAtWhileTheyLinger) {
  ScaleWorld world(1 + kManyLinks, 1 + kManyLinks);
  ExchangeWithAll(world, 8);
  world.idle(kQuiet);
  world.freeze_all_but_first();
  world.as(0, [&] { world.engine(0).remove_all_groups(); });
  world.idle(kQuiet);
  EXPECT_TRUE(world.transport(0).lingering());
  EXPECT_LE(PagesOfALook(world), 16u);
}

TEST_F(Links, AreEachToldOfOnce) {
  ScaleWorld world(1 + kManyLinks, 1 + kManyLinks);
  ExchangeWithAll(world, 8);
  const std::vector<PeerStats> peers = world.engine(0).peer_stats(world.now());
  ASSERT_EQ(peers.size(), kManyLinks);
  for (Rank rank = 1; rank <= peers.size(); ++rank) {
    const PeerStats& peer = peers[rank - 1];
    EXPECT_EQ(peer.rank, rank);
    EXPECT_TRUE(peer.age.has_value());
    ASSERT_EQ(peer.paths.size(), 1u);
    EXPECT_GT(peer.paths[0].traffic.packets_sent, 0u);
    EXPECT_GT(peer.paths[0].traffic.packets_received, 0u);
  }
}

TEST_F(Links, OfTheLargestGroupFitIntoEightMebibytes) {
  const auto peers = static_cast<uint32_t>(PeersOfPrograms(kMostRanks).size());
  const size_t before = TrackedHeap::instance().live_bytes();
  TrackedHeap::instance().reset_peak();
  ScaleWorld world(kMostRanks, 1 + peers);
  const size_t start = TrackedHeap::instance().live_bytes() - before;
  for (const size_t bytes : {size_t{8}, 16 * size_t{1024}, size_t{1} << 20})
    ExchangeWithAll(world, bytes);
  const size_t peak = TrackedHeap::instance().peak_bytes() - before;
  std::printf("%u ranks: %zu bytes after the start, at most %zu with links to %u ranks\n",
              kMostRanks, start, peak, peers);
  EXPECT_LE(peers, 2 * 14 + 2);
  EXPECT_LE(peak, kMostBytes);
}

TEST_F(Links, TakeTheSameMemoryEach) {
  const auto live_with = [](uint32_t processes) {
    const size_t before = TrackedHeap::instance().live_bytes();
    ScaleWorld world(kMostRanks, processes);
    ExchangeWithAll(world, 8);
    return TrackedHeap::instance().live_bytes() - before;
  };
  const size_t few = live_with(129);
  const size_t many = live_with(129 + kManyLinks);
  const size_t a_link = (many - few) / kManyLinks;
  std::printf("%zu bytes a link that has been used\n", a_link);
  EXPECT_LE(a_link, 16 * 1024u);
}

// What a socket remembers of each peer, which simulated ports do not.
TEST_F(Links, TakeLittleOfTheSocket) {
  auto port = UdpPort::Open({}).take();
  constexpr uint32_t kPeers = 1000;
  const size_t before = TrackedHeap::instance().live_bytes();
  {
    const TrackedHeap::Scope scope;
    for (uint32_t i = 0; i < kPeers; ++i) {
      ASSERT_TRUE(
          port->add_peer(ParseUdpAddress("127.0.0.1:" + std::to_string(10000 + i)).value()).ok());
    }
  }
  const size_t a_peer = (TrackedHeap::instance().live_bytes() - before) / kPeers;
  std::printf("%zu bytes a peer of a UDP port\n", a_peer);
  EXPECT_LE(a_peer, 1024u);
}

}  // namespace
}  // namespace rocecoll
