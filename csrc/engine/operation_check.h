// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/rank.h"
#include "base/status.h"
#include "engine/operation.h"

namespace rocecoll {

// What can be wrong with an operation without asking any other rank:
// kInvalidArgument or kUnsupported, saying what is wrong, before anything is sent.
Status CheckOperation(const OperationSpec& spec, Rank rank, uint32_t ranks);

}  // namespace rocecoll
