// SPDX-License-Identifier: Apache-2.0
// Broadcast and reduce of whole vectors along a binomial tree: ceil(log2 p) steps, for small
// vectors.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> BinomialBroadcast(uint32_t ranks, Rank root);
std::unique_ptr<Program> BinomialReduce(uint32_t ranks, Rank root);

}  // namespace rocecoll
