// SPDX-License-Identifier: Apache-2.0
// Whether an operation can run, and how it will: its program, and into how many lanes it is cut.
// Pure functions of the call and of options that all ranks share.
#pragma once

#include <cstdint>

#include "base/rank.h"
#include "base/status.h"
#include "collectives/program.h"
#include "engine/operations/operation.h"
#include "messenger/messenger.h"

namespace rocecoll {

struct EngineOptions;

// What can be wrong with an operation without asking any other rank:
// kInvalidArgument or kUnsupported, saying what is wrong, before anything is sent.
Status CheckOperation(const OperationSpec& spec, Rank rank, uint32_t ranks);

struct Plan {
  Program program;
  uint32_t lanes = 1;
  uint64_t elements = 0;     // in one rank's whole vector, if all ranks know it; else 0
  uint32_t layout_hash = 0;  // lanes, program and block sizes
};

// Whether each rank scales its input before the reduction (PREMUL_SUM, and AVG of some types).
bool ScalesInput(const OperationSpec& spec, uint32_t ranks);
// Whether it scales a copy in scratch, because its output cannot hold the vector.
bool ScalesInScratch(const OperationSpec& spec, uint32_t ranks);

// For a checked operation; refuses algorithms that do not exist or do not fit, unless they are only
// preferred. `root` is the spec's, or the peer that a receive from any source turned out to have.
Result<Plan> MakePlan(const OperationSpec& spec, Rank root, const HostLayout& hosts,
                      const EagerLimit& eager, const EngineOptions& options);

}  // namespace rocecoll
