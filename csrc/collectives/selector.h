// SPDX-License-Identifier: Apache-2.0
// Which program runs. A pure function of what every rank knows alike, so all ranks choose the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "collectives/program.h"

namespace rocecoll {

struct ProgramRequest {
  Collective collective = Collective::kBarrier;
  uint32_t ranks = 1;
  Rank root = 0;        // rooted collectives; the peer for send and recv
  uint64_t bytes = 0;   // size of one rank's whole vector (see docs/algorithms.md per collective)
  bool uniform = true;  // false: blocks differ in size (v-variants), so no program may assume equal
};

// Names as in docs/algorithms.md; empty picks by size. kInvalidArgument for a name that does not
// exist or cannot do this request.
Result<std::unique_ptr<Program>> MakeProgram(const ProgramRequest& request,
                                             std::string_view algorithm = {});
// Every algorithm name that MakeProgram takes for this collective (some for some numbers of ranks
// only).
std::span<const std::string_view> AlgorithmNames(Collective collective);

}  // namespace rocecoll
