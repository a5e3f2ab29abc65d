// SPDX-License-Identifier: Apache-2.0
// Gather and scatter: along a binomial tree for small blocks of one size (ceil(log2 p) steps, inner
// ranks hold their subtree's blocks in scratch), or straight from and to the root for any blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> BinomialGather(uint32_t ranks, Rank root);
std::unique_ptr<Program> BinomialScatter(uint32_t ranks, Rank root);
std::unique_ptr<Program> LinearGather(uint32_t ranks, Rank root);
std::unique_ptr<Program> LinearScatter(uint32_t ranks, Rank root);

}  // namespace rocecoll
