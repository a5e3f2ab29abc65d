// SPDX-License-Identifier: Apache-2.0
// How many lanes of an operation run at once, by the time that they take: all of it is latency.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/call.h"
#include "engine/cluster.h"

namespace rocecoll {
namespace {

struct Bounds {
  uint32_t of_the_engine = 8;
  uint32_t of_the_transport = UINT32_MAX;
};

Duration TimeOf(uint64_t elements, const Bounds& bounds) {
  ClusterOptions options;
  options.ranks = 2;
  options.engine.lane_bytes = 4096;
  options.engine.max_lanes_in_flight = bounds.of_the_engine;
  options.fabric.max_frame_bytes = options.fabric.preferred_eager_bytes = 512;
  options.fabric.messages_in_flight = bounds.of_the_transport;
  options.fabric.overlapping_lanes = 0;
  options.fabric.ns_per_byte = 0;
  Cluster cluster(options);
  const Instant begun = cluster.now();
  RunCall(cluster, {.elements = elements, .algorithm = "ring"});
  return cluster.now() - begun;
}

// Of 4 bytes, in two blocks of which each is a message.
constexpr uint64_t kLaneElements = 1024;

TEST(LanesInFlight, TheSmallerBoundCounts) {
  constexpr uint64_t kLong = 64 * kLaneElements;
  const Duration three = TimeOf(kLong, {.of_the_engine = 3});
  EXPECT_GT(three, TimeOf(kLong, {.of_the_engine = 8}));
  EXPECT_EQ(three, TimeOf(kLong, {.of_the_transport = 3}));
  EXPECT_EQ(three, TimeOf(kLong, {.of_the_engine = 3, .of_the_transport = 8}));
}

TEST(LanesInFlight, ALastOneDoesNotRunAlone) {
  const Bounds three{.of_the_engine = 3};
  EXPECT_EQ(TimeOf(4 * kLaneElements, three), TimeOf(3 * kLaneElements, three));
  EXPECT_GT(TimeOf(5 * kLaneElements, three), TimeOf(4 * kLaneElements, three));
}

// Eight of them at each rank, where one is done with once it has been passed on: so 31 links are
// busy at once. And the rest of the way along the chain, and a word ahead of each message.
TEST(LanesInFlight, ThoseOfAChainKeepAllOfItsLinksBusy) {
  constexpr uint32_t kRanks = 32;
  constexpr uint64_t kLanes = 128;
  constexpr size_t kLaneBytes = 16 * 1024;
  ClusterOptions options;
  options.ranks = kRanks;
  options.engine.lane_bytes = kLaneBytes;
  options.fabric.ns_per_byte = 1;
  Cluster cluster(options);
  const CallSpec broadcast{.collective = Collective::kBroadcast,
                           .elements = kLanes * kLaneBytes / 4,
                           .algorithm = "chain"};
  RunCall(cluster, {.collective = Collective::kBroadcast, .elements = 1, .algorithm = "chain"});
  const Instant begun = cluster.now();
  RunCall(cluster, broadcast);
  const Duration message = Duration(kLaneBytes) + 3 * options.fabric.latency;
  EXPECT_LE(cluster.now() - begun, Duration(kLanes * kLaneBytes) + kRanks * message);
}

}  // namespace
}  // namespace rocecoll
