// SPDX-License-Identifier: Apache-2.0
// Alltoall of small equal blocks (Bruck et al., IEEE TPDS 8(11), 1997): ceil(log2 p) rounds of
// about p / 2 blocks, and a final step that only copies. Few messages, log2 p / 2 times the bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> BruckAlltoall(uint32_t ranks);

}  // namespace rocecoll
