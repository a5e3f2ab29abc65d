// SPDX-License-Identifier: Apache-2.0
// Where all have RoCE but its packets do not pass, as with a VLAN or a firewall in between: under
// auto that is found out once, and costs no further link a wait.
#include <chrono>

#include "rc/rc_pair.h"

namespace rocecoll {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

RcWorldOptions Auto() {
  RcWorldOptions options;
  options.rc.expected = false;
  options.rdma.retry_timeout = seconds(10);  // so that the links give up first
  return options;
}

class Unreached : public RcWorld {
 public:
  explicit Unreached(uint32_t count, const RcWorldOptions& options = Auto())
      : RcWorld(count, options) {
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = a + 1; b < count; ++b) fabric.cut(a, b);
    }
  }
  // How long a frame takes over a new link of this group, from when both ends have opened it.
  Duration first_frame(uint32_t from, uint32_t to, uint64_t group) {
    const auto [a, b] = connect(from, to, group);
    const Instant begin = now();
    EXPECT_TRUE(a->send_frame(Text("first")));
    EXPECT_TRUE(run([&] { return record(b).frames.size() == 1; }));
    return now() - begin;
  }
};

TEST(RcUnreached, AGroupWaitsOnceForWhatDoesNotCarry) {
  Unreached world(4);
  EXPECT_GE(world.first_frame(0, 1, 1), SwitchingOptions().proof_timeout);
  for (uint64_t group = 2; group < 6; ++group) {
    EXPECT_LT(world.first_frame(0, 1, group), milliseconds(10)) << group;
    EXPECT_LT(world.first_frame(1, 0, group + 10), milliseconds(10)) << group;
  }
  // Nor for peers with whom nothing was tried yet.
  EXPECT_LT(world.first_frame(0, 2, 1), milliseconds(10));
  EXPECT_LT(world.first_frame(3, 0, 1), milliseconds(10));
}

TEST(RcUnreached, WhoAsksForRoceByNameWaitsForIt) {
  RcWorldOptions options = Auto();
  options.rc.expected = true;
  Unreached world(2, options);
  for (uint64_t group = 1; group < 3; ++group) {
    EXPECT_GE(world.first_frame(0, 1, group), SwitchingOptions().proof_timeout);
  }
  EXPECT_TRUE(Contains(RcWorld::log(), "warning: ranks 0 and 1 ("));
}

TEST(RcUnreached, APairIsToldOfOnceAtEachEndSlow) {
  Unreached world(2);
  for (uint64_t group = 1; group < 4; ++group) world.first_frame(0, 1, group);
  world.run_for(hours(1));
  const std::vector<std::string> log = RcWorld::log();
  EXPECT_EQ(log.size(), 2u);
  for (const std::string& line : log) {
    EXPECT_TRUE(line.starts_with("info: ranks ")) << line;
    EXPECT_NE(line.find("no answer over RoCE within 3000 ms"), line.npos) << line;
  }
}

// But for the first of each, which all make at once. One may keep a device for a second, in which
// it connects nobody else.
TEST(RcUnreached, ConnectionsAreTriedOneAfterTheOther) {
  constexpr uint32_t kPeers = 12;
  RcWorld world(kPeers + 1, Auto());
  SimRdmaRefusals& refusals = world.fabric.refusals(0);
  refusals.connections = true;
  for (uint32_t peer = 1; peer <= kPeers; ++peer) world.connect(0, peer);
  world.run_for(milliseconds(500));
  EXPECT_LE(refusals.connections_refused, kPeers);
  world.run_for(hours(1));
  const uint64_t own = 2 * (hours(1) / SwitchingRetry::kLongestDelay);
  const uint64_t answers = hours(1) / UnreachedPeers::kAnswerInterval;
  EXPECT_GE(refusals.connections_refused, 10u);
  EXPECT_LE(refusals.connections_refused, own + answers + kPeers);
  refusals.connections_refused = 0;
  for (uint64_t group = 2; group < 6; ++group) world.connect(0, 1, group);
  world.run_for(milliseconds(500));
  EXPECT_EQ(refusals.connections_refused, 0u);
}

TEST(RcUnreached, AllAreReachedOnceRoceCarries) {
  constexpr uint32_t kPeers = 6;
  Unreached world(kPeers + 1);
  for (uint32_t peer = 1; peer <= kPeers; ++peer) world.connect(0, peer);
  world.run_for(hours(1));
  EXPECT_EQ(world.transports[0]->links_on_path(), 0u);
  for (uint32_t peer = 1; peer <= kPeers; ++peer) world.fabric.mend(0, peer);
  const auto all = [&] { return world.transports[0]->links_on_path() == kPeers; };
  EXPECT_TRUE(world.run(all, SwitchingRetry::kLongestDelay * 4));
}

TEST(RcUnreached, OnePeerIsNoDoubtAboutTheOthers) {
  RcWorld world(4, Auto());
  world.fabric.cut(0, 1);
  world.connect(0, 1);
  world.run_for(seconds(4));
  world.connect(0, 2);  // who may be like the first
  const auto carried = [&](size_t links) {
    return [&world, links] { return world.transports[0]->links_on_path() == links; };
  };
  EXPECT_TRUE(world.run(carried(1), seconds(4)));
  world.connect(0, 3);
  EXPECT_TRUE(world.run(carried(2), milliseconds(10)));
  // And the first one's port, which comes back, is tried at once.
  world.fabric.mend(0, 1);
  world.fabric.set_port(0, false);
  world.run_for(seconds(2));
  world.fabric.set_port(0, true);
  EXPECT_TRUE(world.run(carried(3), seconds(3)));
}

}  // namespace
}  // namespace rocecoll
