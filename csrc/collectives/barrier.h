// SPDX-License-Identifier: Apache-2.0
// Dissemination barrier (Hensgen, Finkel, Manber, 1988): ceil(log2 p) rounds of one byte; after
// round k a rank knows that the 2^(k+1) ranks up to itself have entered.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> DisseminationBarrier(uint32_t ranks);

}  // namespace rocecoll
