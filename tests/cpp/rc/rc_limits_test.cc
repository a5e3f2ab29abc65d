// SPDX-License-Identifier: Apache-2.0
// Devices with room for few links, or for few messages of each.
#include "rc/rc_world.h"

namespace rocecoll {
namespace {

constexpr uint32_t kPeers = 5;
constexpr int kFrames = 40;

// Rank 0 has a link to each of the others. Returns how many of them RoCE carries; each of the
// others is told of once, and all bring their frames.
size_t LinksCarried(bool shared, uint32_t max_receive_requests) {
  RcWorldOptions options;
  options.limits.shared_receives = shared;
  options.limits.max_receive_requests = max_receive_requests;
  RcWorld world(1 + kPeers, options);
  std::vector<Link*> links, back;
  for (uint32_t peer = 1; peer <= kPeers; ++peer) {
    links.push_back(world.open(0, peer));
    back.push_back(world.open(peer, 0));
  }
  for (Link* link : links) {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(link->send_frame(RandomBytes(100, i)));
  }
  EXPECT_TRUE(world.run([&] {
    return std::ranges::all_of(
        back, [&](Link* link) { return world.record(link).frames.size() == kFrames; });
  }));
  for (Link* link : links) EXPECT_FALSE(world.is_down(link));
  const size_t carried = world.transports[0]->links_on_path();
  const auto log = RcWorld::log();
  const auto told = std::ranges::count_if(log, [](const std::string& text) {
    return text.starts_with("warning: ranks 0 and ") && text.find("): UDP: ") != std::string::npos;
  });
  EXPECT_EQ(static_cast<size_t>(told), kPeers - carried);
  return carried;
}

// A link takes 21 receive requests.
TEST(RcLimits, LinksBeyondASharedReceiveQueueGoOverUdp) {
  EXPECT_EQ(LinksCarried(true, 5 * 21), 5u);
  EXPECT_EQ(LinksCarried(true, 70), 3u);
  EXPECT_EQ(LinksCarried(true, 20), 1u) << "with fewer credits";
  EXPECT_EQ(LinksCarried(true, 5), 0u);
}

// Or completions would have no room.
TEST(RcLimits, NoLinkTakesMoreReceiveRequestsThanADeviceCountsWith) {
  RcWorldOptions options;
  options.rc.credits = 1000;
  RcWorld world(2, options);
  Link* const link = world.open(0, 1);
  Link* const back = world.open(1, 0);
  EXPECT_TRUE(link->send_frame(Text("hello")));
  EXPECT_TRUE(world.run([&] { return world.record(back).frames.size() == 1; }));
  EXPECT_TRUE(world.run([&] { return world.transports[0]->links_on_path() == 1; }));
  EXPECT_EQ(world.fabric.receive_requests(0), kMaxReceivesPerQueuePair);
}

TEST(RcLimits, ShortReceiveQueuesGiveFewCredits) {
  EXPECT_EQ(LinksCarried(false, 32), 5u);
  EXPECT_EQ(LinksCarried(false, 8), 5u);
  EXPECT_EQ(LinksCarried(false, 6), 5u);
  EXPECT_EQ(LinksCarried(false, 5), 0u) << "no credit is left";
}

}  // namespace
}  // namespace rocecoll
