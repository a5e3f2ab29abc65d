// SPDX-License-Identifier: Apache-2.0
// Thousands of ranks in one process: nothing on the way may cost time or memory by their square.
#include "engine/call.h"

namespace rocecoll {
namespace {

void RunAllReduces(uint32_t ranks, std::initializer_list<CallSpec> specs) {
  ClusterOptions options;
  options.ranks = ranks;
  Cluster cluster(options);
  for (const CallSpec& spec : specs) RunCall(cluster, spec);
}

TEST(Scale, ThousandRanks) {
  RunAllReduces(1000, {{.elements = 1},
                       {.elements = 2000, .algorithm = "recursive_doubling"},
                       {.elements = 2000, .algorithm = "circulant"}});
}

TEST(Scale, FourThousandRanks) {
  RunAllReduces(4096, {{.elements = 2, .algorithm = "recursive_doubling"},
                       {.elements = 100, .algorithm = "halving_doubling"},
                       {.elements = 100, .algorithm = "circulant"}});
}

}  // namespace
}  // namespace rocecoll
