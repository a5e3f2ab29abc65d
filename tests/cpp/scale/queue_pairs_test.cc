// SPDX-License-Identifier: Apache-2.0
// What many links over rc cost one rank: queue pairs, receive requests and registered memory, and
// what happens to links that a device has nothing left for. The figures of docs/roce.md are what
// this prints.
#include <cstdio>
#include <string>
#include <vector>

#include "base/run_choice.h"
#include "conformance/world_cluster.h"
#include "engine/call.h"
#include "rc/rc_world.h"
#include "scale/peers_of_programs.h"

namespace rocecoll {
namespace {

constexpr uint32_t kGroups = 8;
constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;
// Of a link: 16 credits, 4 bare ones and one for the probe, each with a buffer.
constexpr size_t kReceivesPerLink = 21;
constexpr size_t kMostLinks = ReceivePool::kMaxBuffers / kReceivesPerLink;

// As verbs_device.cc has them on a large NIC.
RcWorldOptions LargeNic(bool shared_receives) {
  RcWorldOptions options;
  options.limits.shared_receives = shared_receives;
  options.limits.max_receive_requests = shared_receives ? 16384 : 32;
  return options;
}

struct Cost {
  size_t queue_pairs = 0;
  size_t receive_requests = 0;
  size_t registered_bytes = 0;
};

// Of a rank with so many links, each of a group of its own; which peer is at the other end is no
// matter. All links come up and bring a frame, whatever carries them.
Cost CostOf(uint32_t links, bool shared_receives) {
  RcWorld world(2, LargeNic(shared_receives));
  std::vector<Link*> here, there;
  for (uint64_t group = 1; group <= links; ++group) {
    here.push_back(world.open(0, 1, group));
    there.push_back(world.open(1, 0, group));
    EXPECT_TRUE(here.back()->send_frame(Text("hello")));
  }
  EXPECT_TRUE(world.run([&] {
    return std::ranges::all_of(there,
                               [&](Link* link) { return world.record(link).frames.size() == 1; });
  }));
  const size_t carried = std::min<size_t>(links, kMostLinks);
  EXPECT_TRUE(world.run([&] { return world.transports[0]->links_on_path() == carried; }));
  for (Link* link : here) EXPECT_FALSE(world.is_down(link));
  return {world.fabric.queue_pairs(0).size(), world.fabric.receive_requests(0),
          world.fabric.registrations(0).bytes};
}

void Print(const std::string& what, uint32_t links, const Cost& cost) {
  std::printf("| %s | %u | %zu | %zu | %zu | %.1f MiB |\n", what.c_str(), links, cost.queue_pairs,
              links - cost.queue_pairs, cost.receive_requests,
              static_cast<double>(cost.registered_bytes) / kMiB);
}

void Check(uint32_t links, const Cost& cost) {
  EXPECT_EQ(cost.queue_pairs, std::min<size_t>(links, kMostLinks));
  EXPECT_EQ(cost.receive_requests, kReceivesPerLink * cost.queue_pairs);
  // Receive buffers and a block for messages without a frame of each link, perhaps one for its
  // frame, and one of all links to send from: three pools, whose slabs are of 1 MiB.
  constexpr size_t kBlockBytes = 4 * kKiB;
  const size_t needed = (kReceivesPerLink + 1) * kBlockBytes * cost.queue_pairs + 256 * kKiB;
  EXPECT_GE(cost.registered_bytes, needed);
  EXPECT_LE(cost.registered_bytes, needed + kBlockBytes * cost.queue_pairs + 3 * kMiB);
}

TEST(QueuePairs, OfEightGroups) {
  std::printf(
      "| ranks | links of 8 groups | over rc | over UDP | receive requests | registered |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  const auto count = [](const std::string& what, uint32_t links_of_a_group) {
    const uint32_t links = kGroups * links_of_a_group;
    const Cost cost = CostOf(links, true);
    Print(what, links, cost);
    Check(links, cost);
  };
  for (const uint32_t ranks : {512u, 4096u, 16384u}) {
    count(std::to_string(ranks), static_cast<uint32_t>(PeersOfPrograms(ranks).size()));
  }
  count("512, with all_to_all", 511);
}

TEST(QueuePairs, WithReceiveQueuesOfTheirOwnTakeAsMuch) {
  const Cost shared = CostOf(40, true);
  const Cost own = CostOf(40, false);
  EXPECT_EQ(own.queue_pairs, shared.queue_pairs);
  EXPECT_EQ(own.receive_requests, shared.receive_requests);
  EXPECT_EQ(own.registered_bytes, shared.registered_bytes);
}

// All ranks talk to all, over devices with a queue pair for few of them.
void AllToAllWith(size_t queue_pairs, std::string_view algorithm) {
  constexpr size_t kRanks = 12;
  auto made = std::make_unique<RcWorld>(kRanks, LargeNic(true));
  RcWorld& world = *made;
  for (uint32_t i = 0; i < kRanks; ++i) world.fabric.refusals(i).queue_pairs_beyond = queue_pairs;
  WorldCluster cluster(std::move(made));
  const size_t many = IsNightly() ? 200'000 : 50'000;
  for (const uint64_t elements : {kRanks * 1, kRanks * 5000, kRanks * many}) {
    RunCall(cluster,
            {.collective = Collective::kAlltoall, .elements = elements, .algorithm = algorithm});
  }
  size_t carried = 0;
  for (uint32_t i = 0; i < kRanks; ++i) carried += world.transports[i]->links_on_path();
  // With one each, two ranks may never have theirs left for each other.
  if (queue_pairs > 1) {
    EXPECT_GT(carried, 0u);
  }
  const auto log = RcWorld::log();
  EXPECT_EQ(Contains(log, "has no queue pair left"), queue_pairs < kRanks - 1);
}

TEST(QueuePairs, AllToAllGoesOnWhereTheyEnd) {
  for (const size_t queue_pairs : {0u, 1u, 5u, 11u}) {
    SCOPED_TRACE(queue_pairs);
    AllToAllWith(queue_pairs, "pairwise");
    AllToAllWith(queue_pairs, "bruck");
  }
}

}  // namespace
}  // namespace rocecoll
