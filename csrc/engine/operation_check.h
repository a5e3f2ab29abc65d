// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/rank.h"
#include "base/status.h"
#include "engine/operation.h"

namespace rocecoll {

struct BlockCounts {
  uint32_t input = 0;  // 0: this rank has no such buffer
  uint32_t output = 0;
};

// The table in collectives/program.h, for callers' buffers.
BlockCounts ExpectedBlocks(Collective collective, bool is_root, uint32_t ranks);

// What can be wrong with an operation without asking any other rank:
// kInvalidArgument or kUnsupported, saying what is wrong, before anything is sent.
Status CheckOperation(const OperationSpec& spec, Rank rank, uint32_t ranks);

}  // namespace rocecoll
