// SPDX-License-Identifier: Apache-2.0
// Systems that take seconds to find the hardware address of a peer, one after the other, as the
// kernel does where ARP goes unanswered for a while.
#include <chrono>
#include <string>

#include "rc/rc_flow.h"

namespace rocecoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kPoints = 4;
constexpr Duration kPeerTimeout = seconds(4);

RcWorldOptions SlowConnects(Duration time) {
  RcWorldOptions options;
  options.control.peer_timeout = kPeerTimeout;
  options.rdma.connect_time = time;
  return options;
}

// A rank with links to several peers.
struct Star : RcWorld {
  explicit Star(const RcWorldOptions& options) : RcWorld(kPoints + 1, options) {
    for (uint32_t peer = 1; peer <= kPoints; ++peer) links.push_back(connect(0, peer));
  }
  bool none_lost() {
    return std::ranges::none_of(
        links, [this](const auto& ends) { return is_down(ends.first) || is_down(ends.second); });
  }
  bool each_has(size_t frames) {
    return std::ranges::all_of(links, [&](const auto& ends) {
      return record(ends.first).frames.size() == frames &&
             record(ends.second).frames.size() == frames;
    });
  }
  void send_everywhere() {
    for (const auto& [centre, peer] : links) {
      EXPECT_TRUE(centre->send_frame(Text("to the peer")));
      EXPECT_TRUE(peer->send_frame(Text("to the centre")));
    }
  }
  std::vector<std::pair<Link*, Link*>> links;
};

TEST(RcConnect, FramesTakeUdpUntilTheWaysAreFound) {
  constexpr Duration kTime = seconds(4);  // longer than any link waits for it
  Star world(SlowConnects(kTime));
  const Instant begin = world.now();
  world.send_everywhere();
  ASSERT_TRUE(world.run([&] { return world.each_has(1); }, kTime));
  EXPECT_LT(world.now() - begin, kTime) << "before the first way was found";
  EXPECT_EQ(world.transports[0]->links_on_path(), 0u);
  size_t sent = 1;
  const auto all = [&] { return world.transports[0]->links_on_path() == kPoints; };
  while (!all() && world.now() - begin < seconds(60)) {
    world.send_everywhere();
    ++sent;
    ASSERT_TRUE(world.run([&] { return world.each_has(sent); }, milliseconds(100))) << sent;
    world.run_for(milliseconds(400));
  }
  EXPECT_TRUE(all());
  EXPECT_TRUE(world.none_lost());
  world.run_for(seconds(60));
  EXPECT_TRUE(all() && world.none_lost());
  const std::vector<std::string> log = RcWorld::log();
  EXPECT_TRUE(Contains(log, "still looking for the way to"));
  EXPECT_TRUE(Contains(log, "RoCE, reliable connection over"));
}

TEST(RcConnect, WhatIsFoundSoonIsWaitedFor) {
  RcWorldOptions options = SlowConnects(milliseconds(200));
  Star world(options);
  world.send_everywhere();
  ASSERT_TRUE(world.run([&] { return world.each_has(1); }));
  EXPECT_EQ(world.transports[0]->links_on_path(), kPoints);
  for (SwitchingTransport* transport : world.transports) {
    EXPECT_EQ(transport->stats().packets_retransmitted, 0u);
  }
  EXPECT_FALSE(Contains(RcWorld::log(), "warning"));
}

// Nothing else carries the link, so it waits for all of them.
TEST(RcConnect, WithoutFailoverLinksWait) {
  RcWorldOptions options = SlowConnects(seconds(2));
  options.rc.failover = false;
  Star world(options);
  world.send_everywhere();
  ASSERT_TRUE(world.run([&] { return world.each_has(1); }));
  EXPECT_EQ(world.transports[0]->links_on_path(), kPoints);
  EXPECT_TRUE(world.none_lost());
}

TEST(RcConnect, AWayThatIsNotFoundLeavesTheLinkOnUdp) {
  RcWorldOptions options = SlowConnects(milliseconds(500));
  Pair pair(options);
  pair.fabric.refusals(0).connections = true;
  EXPECT_TRUE(pair.a->send_frame(Text("over UDP")));
  EXPECT_TRUE(pair.run([&] { return pair.at_b().frames.size() == 1; }, seconds(1)));
  EXPECT_TRUE(Contains(RcWorld::log(), "): UDP: simulated RDMA device 0 cannot reach"));
  pair.fabric.refusals(0).connections = false;
  EXPECT_TRUE(pair.run([&] { return pair.transports[0]->links_on_path() == 1; }, seconds(60)));
}

// Traffic of all kinds, a queue pair that fails every few seconds, and slow connects each time.
TEST(RcConnect, WhateverFailsMeanwhileSlow) {
  for (uint32_t step = 0; step < 12; ++step) {
    RcWorldOptions options = SlowConnects(milliseconds(300 + 150 * step));
    options.rdma.seed = step + 1;
    SetWires(options);
    options.rc.queue_pairs_per_connection = 1 + step % 2;
    BusyPair pair(options);
    for (int breaks = 0; breaks < 4; ++breaks) {
      ASSERT_TRUE(pair.work_until([&] { return pair.on_path(); }, seconds(120))) << step;
      pair.work_for(milliseconds(100));
      pair.fabric.break_queue_pair(step % 2, pair.queue_pair(step % 2));
      pair.work_for(milliseconds(50 * step));
    }
    pair.settle();
  }
}

TEST(RcConnect, LinksMayLeaveWhileTheyConnect) {
  for (const bool orderly : {true, false}) {
    for (const int late : {0, 500, 1500, 2500, 4500}) {
      Pair pair(SlowConnects(seconds(2)));
      EXPECT_TRUE(pair.a->send_frame(Text("last words")));
      pair.run_for(milliseconds(late));
      pair.a->close(orderly ? Status() : Status(StatusCode::kAborted, "the test aborts"));
      ASSERT_TRUE(pair.run([&] { return !pair.at_b().down.empty(); }, seconds(30))) << late;
      EXPECT_TRUE(!orderly || pair.at_b().frames.size() == 1) << late;
      pair.b->close({});
      EXPECT_TRUE(pair.run([&] { return !pair.lingering(); }, seconds(30)));
    }
  }
}

}  // namespace
}  // namespace rocecoll
