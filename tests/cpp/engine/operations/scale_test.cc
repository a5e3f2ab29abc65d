// SPDX-License-Identifier: Apache-2.0
// Thousands of ranks in one process: nothing on the way may cost time or memory by their square.
#include "engine/call.h"

namespace rocecoll {
namespace {

void RunCalls(uint32_t ranks, std::initializer_list<CallSpec> specs) {
  ClusterOptions options;
  options.ranks = ranks;
  Cluster cluster(options);
  for (const CallSpec& spec : specs) RunCall(cluster, spec);
}

TEST(Scale, ThousandRanks) {
  RunCalls(1000, {{.elements = 1},
                  {.elements = 2000, .algorithm = "recursive_doubling"},
                  {.elements = 2000, .algorithm = "circulant"}});
}

TEST(Scale, ThousandRanksInABarrier) {
  RunCalls(1000, {{.collective = Collective::kBarrier}, {.collective = Collective::kBarrier}});
}

TEST(Scale, ThousandRanksOfABroadcast) {
  const Collective broadcast = Collective::kBroadcast;
  RunCalls(1000, {{.collective = broadcast, .elements = 1},
                  {.collective = broadcast, .elements = 2000, .root = 999, .algorithm = "binomial"},
                  {.collective = broadcast, .elements = 2000, .algorithm = "scatter_allgather"}});
}

// The ring takes as many steps as there are ranks: a million messages, which only costs time here.
TEST(Scale, ThousandRanksOfAReduceScatter) {
  const Collective reduce_scatter = Collective::kReduceScatter;
  RunCalls(1000, {{.collective = reduce_scatter, .elements = 999, .algorithm = "circulant"},
                  {.collective = reduce_scatter, .elements = 2000, .algorithm = "circulant"}});
}

TEST(Scale, FourThousandRanks) {
  RunCalls(4096, {{.elements = 2, .algorithm = "recursive_doubling"},
                  {.elements = 100, .algorithm = "halving_doubling"},
                  {.elements = 100, .algorithm = "circulant"}});
}

}  // namespace
}  // namespace rocecoll
