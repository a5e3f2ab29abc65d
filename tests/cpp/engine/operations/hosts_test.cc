// SPDX-License-Identifier: Apache-2.0
// Programs that know hosts, run by engines over simulated links, against direct computation.
#include <gtest/gtest.h>

#include <string>

#include "collectives/host_layouts.h"
#include "collectives/selector.h"
#include "engine/call.h"
#include "engine/cluster.h"

namespace rocecoll {
namespace {

// Lanes of 4 KiB, frames of 512 bytes: thousands of elements are several lanes of several messages.
ClusterOptions On(const HostsOfRanks& hosts) {
  ClusterOptions options;
  options.ranks = static_cast<uint32_t>(hosts.size());
  options.hosts = hosts;
  options.engine.lane_bytes = 4096;
  options.engine.max_lanes_in_flight = 3;
  options.fabric.max_frame_bytes = 512;
  options.fabric.max_jitter = std::chrono::microseconds(20);
  options.fabric.seed = options.ranks;
  return options;
}

constexpr Collective kOfHosts[] = {Collective::kAllreduce,     Collective::kReduce,
                                   Collective::kReduceScatter, Collective::kBroadcast,
                                   Collective::kAllgather,     Collective::kAlltoall,
                                   Collective::kBarrier};

class HostPrograms : public testing::TestWithParam<uint32_t> {};

// Fewer elements than ranks, as many as do not divide, several lanes.
TEST_P(HostPrograms, AreRightOnAnyLayout) {
  const uint32_t ranks = GetParam();
  for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
    SCOPED_TRACE(Text(hosts));
    const HostLayout layout(hosts);
    Cluster cluster(On(hosts));
    for (const Collective collective : kOfHosts) {
      for (const std::string_view name : AlgorithmNames(collective)) {
        if (!name.starts_with("host_")) continue;
        const ProgramRequest request{.collective = collective, .ranks = ranks, .hosts = &layout};
        if (!MakeProgram(request, name).ok()) continue;
        for (const uint64_t elements : {0u, 1u, ranks - 1, 101u, 5003u}) {
          CallSpec spec{.collective = collective,
                        .elements = elements,
                        .root = static_cast<Rank>((elements + 1) % ranks),
                        .algorithm = name};
          RunCall(cluster, spec);
          if (HasFatalFailure()) return;
          if (!MayBeInPlace(collective)) continue;
          spec.in_place = true;
          RunCall(cluster, spec);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Whatever is chosen there, of all collectives.
TEST_P(HostPrograms, AreChosenRightly) {
  const uint32_t ranks = GetParam();
  for (const HostsOfRanks& hosts : LayoutsOf(ranks)) {
    SCOPED_TRACE(Text(hosts));
    Cluster cluster(On(hosts));
    for (const CollectiveTraits& traits : kCollectiveTraits) {
      if (IsPointToPoint(traits.collective)) continue;
      for (const uint64_t elements : {1u, 101u, 40009u}) {
        RunCall(cluster, {.collective = traits.collective,
                          .elements = elements,
                          .root = static_cast<Rank>(elements % ranks)});
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostPrograms, testing::Values(1, 2, 3, 4, 5, 8, 9, 17));

// Blocks of nothing, of one element, and of so many that they are cut into lanes.
TEST(HostProgram, PacksAnAlltoallOfHostsOfVeryDifferentSizes) {
  for (const std::vector<uint32_t>& sizes : UnevenSizes()) {
    const HostsOfRanks hosts = OfSizes(sizes);
    if (hosts.size() > 34) continue;  // each pair of ranks is a connection
    for (const HostsOfRanks& layout : {hosts, Shuffled(hosts, 3)}) {
      SCOPED_TRACE(Text(layout));
      const uint64_t ranks = layout.size();
      Cluster cluster(On(layout));
      for (const uint64_t in_a_block : {0u, 1u, 3u, 1031u}) {
        RunCall(cluster, {.collective = Collective::kAlltoall,
                          .elements = in_a_block * ranks,
                          .algorithm = "host_columns"});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Scratch for a part of a lane at a time.
TEST(HostProgram, NeedsNoMoreScratchThanThereIs) {
  ClusterOptions options = On({0, 1, 0, 1, 1, 2, 2});
  options.engine.scratch_bytes = 1;
  Cluster cluster(options);
  for (const Collective collective :
       {Collective::kAllreduce, Collective::kReduceScatter, Collective::kAlltoall}) {
    RunCall(cluster, {.collective = collective, .elements = 20011, .algorithm = "host_columns"});
  }
}

// Ranks that were told of different hosts say so, and do not wait for each other for ever.
TEST(HostProgram, RanksThatDisagreeAboutHostsFail) {
  Cluster cluster(On({0, 0, 1, 1}));
  std::vector<OperationPtr> operations;
  std::vector<int32_t> data(4000);
  std::vector<GroupId> groups;
  for (Rank rank = 0; rank < 4; ++rank) {
    groups.push_back(cluster.add_member(
        "torn", 9, rank, rank == 3 ? HostsOfRanks{0, 1, 0, 1} : HostsOfRanks{0, 0, 1, 1}));
  }
  for (Rank rank = 0; rank < 4; ++rank) {
    OperationSpec spec;
    spec.collective = Collective::kAllreduce;
    spec.type = DataType::kInt32;
    spec.algorithm = "host_columns";
    spec.input = {&data[rank * 1000], Partition::Even(1000, 4)};
    spec.output = spec.input;
    operations.push_back(cluster.submit(rank, std::move(spec), groups[rank]));
  }
  ASSERT_TRUE(cluster.run_until_done(operations));
  for (const OperationPtr& operation : operations) {
    EXPECT_EQ(operation->status().code(), StatusCode::kMismatch) << operation->status().message();
  }
}

}  // namespace
}  // namespace rocecoll
