// SPDX-License-Identifier: Apache-2.0
// Alltoall(v) straight between all pairs, a few peers a step: no extra bytes, blocks of any sizes.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> PairwiseAlltoall(uint32_t ranks);

}  // namespace rocecoll
