// SPDX-License-Identifier: Apache-2.0
// Far more calls than may be in flight, of every collective and in two groups, by ranks that start
// at different times: what engines have to do over links of any kind.
#pragma once

#include <memory>
#include <vector>

#include "engine/call.h"

namespace rocecoll {

constexpr Collective kCollectives[] = {
    Collective::kAllreduce, Collective::kReduce,    Collective::kReduceScatter,
    Collective::kBroadcast, Collective::kAllgather, Collective::kGather,
    Collective::kScatter,   Collective::kAlltoall,  Collective::kBarrier};

// Of 0 to `most_elements` elements.
inline void RunManyCalls(EngineCluster& cluster, uint64_t most_elements) {
  const GroupId other = cluster.add_group("other", 7);
  std::vector<std::unique_ptr<Call>> calls;
  for (uint64_t i = 0; i < 100; ++i) {
    calls.push_back(
        std::make_unique<Call>(cluster,
                               CallSpec{.collective = kCollectives[i % std::size(kCollectives)],
                                        .elements = i * 371 % (most_elements + 1)},
                               i % 3 == 0 ? other : cluster.group()));
  }
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    for (auto& call : calls) call->submit(rank);
    cluster.settle(std::chrono::microseconds(100));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->run());
    call->check();
  }
}

}  // namespace rocecoll
