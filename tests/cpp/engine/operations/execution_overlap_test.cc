// SPDX-License-Identifier: Apache-2.0
// How far the steps of an operation overlap, by the time that it takes: all of it is latency. And
// that nothing is overwritten meanwhile: the simulator reads what is sent when it arrives.
#include <gtest/gtest.h>

#include <chrono>

#include "collectives/program_list.h"
#include "engine/call.h"
#include "engine/cluster.h"
#include "engine/many_calls.h"

namespace rocecoll {
namespace {

constexpr Duration kLatency = std::chrono::microseconds(5);
constexpr uint64_t kElements = 1024;  // of 4 bytes: one lane

struct Network {
  uint32_t overlapping_lanes = 3;
  size_t eager_bytes = 256;
  size_t lane_bytes = 1 << 16;
};

// How many times something had to cross the network before something else could, to the last word.
int64_t Hops(uint32_t ranks, const CallSpec& call, const Network& network = {}) {
  ClusterOptions options;
  options.ranks = ranks;
  options.engine.lane_bytes = network.lane_bytes;
  options.fabric.latency = kLatency;
  options.fabric.max_frame_bytes = 16384;
  options.fabric.preferred_eager_bytes = network.eager_bytes;
  options.fabric.ns_per_byte = 0;
  options.fabric.overlapping_lanes = network.overlapping_lanes;
  Cluster cluster(options);
  RunCall(cluster, call);  // opens the links
  const Instant begun = cluster.now();
  RunCall(cluster, call);
  return (cluster.now() - begun) / kLatency;
}

CallSpec Allreduce(std::string_view algorithm, bool in_place = false) {
  return {.elements = kElements, .in_place = in_place, .algorithm = algorithm};
}

// The word that asks, two messages, the word that the second has arrived. What each sends first
// lies where the other's second message goes.
TEST(StepOverlap, TwoRanksAskOnceForBothSteps) {
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(Hops(2, Allreduce("ring", in_place)), 4);
    EXPECT_EQ(Hops(2, Allreduce("halving_doubling", in_place)), 4);
  }
}

TEST(StepOverlap, ARingAsksOnce) {
  constexpr uint32_t kRanks = 5;
  const CallSpec gather{
      .collective = Collective::kAllgather, .elements = kElements, .algorithm = "ring"};
  EXPECT_EQ(Hops(kRanks, gather), 1 + (kRanks - 1) + 1);
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(Hops(kRanks, Allreduce("ring", in_place)), 1 + 2 * (kRanks - 1) + 1);
  }
}

// In every step the whole vector goes out, and is then added to.
TEST(StepOverlap, WhatIsSentIsNotReplacedBeforeItHasArrived) {
  EXPECT_EQ(Hops(4, Allreduce("recursive_doubling", true)), 1 + 2 * 2);
}

TEST(StepOverlap, SmallMessagesWaitForNobody) {
  EXPECT_EQ(Hops(2, Allreduce("ring"), {.eager_bytes = 8192}), 2);
}

TEST(StepOverlap, NotWithMoreLanesThanTheTransportSays) {
  EXPECT_EQ(Hops(2, Allreduce("ring"), {.overlapping_lanes = 0}), 6);
  EXPECT_EQ(Hops(2, Allreduce("ring"), {.lane_bytes = 2048}), 4);
  EXPECT_EQ(Hops(2, Allreduce("ring"), {.lane_bytes = 1024}), 6);
  EXPECT_EQ(Hops(2, Allreduce("ring"), {.overlapping_lanes = UINT32_MAX, .lane_bytes = 1024}), 4);
}

class StepOverlapOf : public testing::TestWithParam<uint32_t> {};

// By every program that knows no hosts or does, between hosts with a rank each and with several.
TEST_P(StepOverlapOf, EveryProgramGivesTheSameSums) {
  const uint32_t ranks = GetParam();
  for (const uint32_t hosts : {ranks, 2u}) {
    ClusterOptions options;
    options.ranks = ranks;
    for (Rank r = 0; r < ranks; ++r) options.hosts.push_back(r % hosts);
    options.fabric.max_frame_bytes = 512;
    options.fabric.max_jitter = std::chrono::microseconds(20);
    options.fabric.seed = ranks;
    const HostLayout layout(options.hosts);
    Cluster cluster(options);
    for (const Collective collective : kCollectives) {
      if (IsPointToPoint(collective)) continue;
      for (const std::string_view name : AlgorithmNames(collective)) {
        const ProgramRequest request{
            .collective = collective, .ranks = ranks, .root = ranks / 2, .hosts = &layout};
        if (!MakeProgram(request, name).ok()) continue;
        for (const uint64_t elements : {701u, 5003u}) {
          CallSpec spec{
              .collective = collective, .elements = elements, .root = ranks / 2, .algorithm = name};
          RunCall(cluster, spec);
          spec.in_place = true;
          if (collective == Collective::kAllreduce) RunCall(cluster, spec);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepOverlapOf, testing::Values(2, 3, 4, 5, 7, 8, 9));

}  // namespace
}  // namespace rocecoll
