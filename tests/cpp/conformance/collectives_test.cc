// SPDX-License-Identifier: Apache-2.0
// Every collective, run by engines over every transport, against direct computation.
#include <gtest/gtest.h>

#include "base/run_choice.h"
#include "collectives/selector.h"
#include "conformance/world_cluster.h"
#include "engine/many_calls.h"

namespace rocecoll {
namespace {

// Lanes of 16 KiB: 30011 elements are several lanes, each of frames or of writes.
WorldClusterOptions SmallLanes() {
  WorldClusterOptions options;
  options.engine.lane_bytes = 16 * 1024;
  return options;
}

class Collectives : public Conformance {};
INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(AllWorlds()), NameOf);

TEST_P(Collectives, EachOneOfManySizes) {
  for (const uint32_t ranks : {2u, 3u, 5u}) {
    WorldCluster cluster(make(ranks), SmallLanes());
    for (const Collective collective : kCollectives) {
      for (const uint64_t elements : {0u, 1u, 101u, 30011u}) {
        RunCall(cluster, {.collective = collective,
                          .elements = elements,
                          .root = static_cast<Rank>(elements % ranks)});
      }
    }
  }
}

TEST_P(Collectives, EachAlgorithm) {
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    WorldCluster cluster(make(ranks), SmallLanes());
    for (const Collective collective : kCollectives) {
      for (const std::string_view name : AlgorithmNames(collective)) {
        if (!MakeProgram({.collective = collective, .ranks = ranks}, name).ok()) continue;
        for (const uint64_t elements : {1u, 7001u}) {
          RunCall(cluster, {.collective = collective,
                            .elements = elements,
                            .root = ranks / 2,
                            .algorithm = name});
        }
      }
    }
  }
}

TEST_P(Collectives, BlocksOfDifferentSizes) {
  WorldCluster cluster(make(3));
  for (const Collective collective :
       {Collective::kAlltoall, Collective::kGather, Collective::kScatter}) {
    for (const uint64_t elements : {0u, 1u, 6u}) {
      RunCall(cluster, {.collective = collective, .elements = elements, .uniform = false});
    }
  }
}

TEST_P(Collectives, OneCreditAndTheSmallestQueues) {
  WorldClusterOptions options = SmallLanes();
  options.messenger.eager_bytes = 8;
  options.messenger.eager_credits = 1;
  WorldCluster cluster(make_tight(3), options);
  for (const Collective collective : kCollectives) {
    for (const uint64_t elements : {1u, 101u, 7001u}) {
      RunCall(cluster, {.collective = collective, .elements = elements});
    }
  }
}

TEST_P(Collectives, ManyInFlightOfSeveralGroups) {
  WorldCluster cluster(make(3), SmallLanes());
  RunManyCalls(cluster, 9000);
}

TEST_P(Collectives, WhatLinksHaveToSurviveChangesNoResult) {
  WorldCluster cluster(make(3), SmallLanes());
  for (uint32_t i = 0; i < 6; ++i) {
    Call call(cluster, {.collective = kCollectives[i % 9], .elements = 200003});
    call.submit_all();
    cluster.settle(std::chrono::microseconds(50));
    cluster.world().disturb(2 * i);
    cluster.settle(std::chrono::milliseconds(10));
    cluster.world().disturb(2 * i + 1);
    ASSERT_TRUE(call.run());
    call.check();
  }
}

TEST_P(Collectives, ManyMebibytesSlow) {
  WorldCluster cluster(make(2));
  const uint64_t mebibytes = IsNightly() ? 64 : 16;
  RunCall(cluster, {.collective = Collective::kAllreduce, .elements = mebibytes << 18});
}

}  // namespace
}  // namespace rocecoll
