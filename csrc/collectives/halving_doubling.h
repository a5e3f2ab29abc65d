// SPDX-License-Identifier: Apache-2.0
// Rabenseifner's allreduce (Thakur, Rabenseifner, Gropp, IJHPCA 2005): reduce-scatter by recursive
// halving, then allgather by recursive doubling. 2 log2 p steps, 2 (p - 1) blocks. Powers of two.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> HalvingDoublingAllreduce(uint32_t ranks);

}  // namespace rocecoll
