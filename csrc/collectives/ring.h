// SPDX-License-Identifier: Apache-2.0
// Ring algorithms: p - 1 steps a pass, one block a step, only neighbours talk. The fewest bytes,
// and any number of ranks; for blocks so large that latency does not count.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> RingAllreduce(uint32_t ranks);
std::unique_ptr<Program> RingReduceScatter(uint32_t ranks);
std::unique_ptr<Program> RingAllgather(uint32_t ranks);

}  // namespace rocecoll
