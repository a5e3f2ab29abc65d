// SPDX-License-Identifier: Apache-2.0
// Rooted collectives of large vectors in two halves, so that no rank sends the vector more than
// about twice: broadcast as binomial scatter and circulant allgather, reduce as circulant
// reduce-scatter and binomial gather (Rabenseifner). 2 ceil(log2 p) steps, any number of ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> ScatterAllgatherBroadcast(uint32_t ranks, Rank root);
std::unique_ptr<Program> ReduceScatterGatherReduce(uint32_t ranks, Rank root);

}  // namespace rocecoll
