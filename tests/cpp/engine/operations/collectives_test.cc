// SPDX-License-Identifier: Apache-2.0
// Every collective and algorithm, run by engines over simulated links, against direct computation.
#include "collectives/selector.h"
#include "engine/many_calls.h"

namespace rocecoll {
namespace {

// Lanes of 4 KiB, frames of 512 bytes: 40000 elements are dozens of lanes of several messages.
ClusterOptions SmallLanes(uint32_t ranks) {
  ClusterOptions options;
  options.ranks = ranks;
  options.engine.lane_bytes = 4096;
  options.engine.max_lanes_in_flight = 3;
  options.fabric.max_frame_bytes = 512;
  options.fabric.max_jitter = std::chrono::microseconds(20);
  options.fabric.seed = ranks;
  return options;
}

class EveryCollective : public testing::TestWithParam<uint32_t> {};

TEST_P(EveryCollective, BySize) {
  Cluster cluster(SmallLanes(GetParam()));
  const uint32_t ranks = GetParam();
  for (const Collective collective : kCollectives) {
    for (const uint64_t elements : {0u, 1u, ranks - 1, 101u, 3001u, 20011u}) {
      CallSpec spec{.collective = collective,
                    .elements = elements,
                    .root = static_cast<Rank>(elements % ranks)};
      RunCall(cluster, spec);
      if (!MayBeInPlace(collective)) continue;
      spec.in_place = true;
      RunCall(cluster, spec);
    }
  }
}

TEST_P(EveryCollective, ByAlgorithm) {
  Cluster cluster(SmallLanes(GetParam()));
  const uint32_t ranks = GetParam();
  for (const Collective collective : kCollectives) {
    for (const std::string_view name : AlgorithmNames(collective)) {
      if (!MakeProgram({.collective = collective, .ranks = ranks}, name).ok()) continue;
      for (const uint64_t elements : {1u, 101u, 7001u}) {
        RunCall(
            cluster,
            {.collective = collective, .elements = elements, .root = ranks / 2, .algorithm = name});
      }
    }
  }
}

TEST_P(EveryCollective, BlocksOfDifferentSizes) {
  Cluster cluster(SmallLanes(GetParam()));
  for (const Collective collective :
       {Collective::kAlltoall, Collective::kGather, Collective::kScatter}) {
    for (const uint64_t elements : {0u, 1u, 2u, 6u}) {
      RunCall(cluster, {.collective = collective, .elements = elements, .uniform = false});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryCollective, testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 16));

TEST(Collectives, TinyEagerLimitAndQueues) {
  ClusterOptions options = SmallLanes(5);
  options.fabric.max_frame_bytes = 256;
  options.fabric.max_queued_frames = 2;
  options.fabric.max_queued_writes = 1;
  options.messenger.eager_bytes = 8;
  options.messenger.eager_credits = 1;
  Cluster cluster(options);
  for (const Collective collective : kCollectives) {
    for (const uint64_t elements : {1u, 101u, 7001u}) {
      RunCall(cluster, {.collective = collective, .elements = elements});
    }
  }
}

// Less scratch than one lane needs: every operation still runs, lane by lane.
TEST(Collectives, HardlyAnyScratch) {
  ClusterOptions options = SmallLanes(7);
  options.engine.scratch_bytes = 1;
  Cluster cluster(options);
  std::vector<std::unique_ptr<Call>> calls;
  for (const Collective collective : kCollectives) {
    for (const uint64_t elements : {1u, 101u, 2001u}) {
      calls.push_back(std::make_unique<Call>(
          cluster, CallSpec{.collective = collective, .elements = elements}));
      calls.back()->submit_all();
    }
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->run());
    call->check();
  }
}

TEST(Collectives, ManyInFlightOfSeveralGroups) {
  Cluster cluster(SmallLanes(4));
  RunManyCalls(cluster, 3000);
}

}  // namespace
}  // namespace rocecoll
