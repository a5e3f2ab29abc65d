// SPDX-License-Identifier: Apache-2.0
// How an operation will run: its program, and into how many lanes it is cut. A
// pure function of the call and of options that all ranks share.
#pragma once

#include <cstdint>
#include <memory>

#include "base/rank.h"
#include "base/status.h"
#include "collectives/program.h"
#include "engine/operation.h"

namespace rocecoll {

struct EngineOptions;

struct Plan {
  std::unique_ptr<Program> program;
  uint32_t lanes = 1;
  uint64_t elements = 0;     // in one rank's whole vector, as far as all ranks know it; else 0
  uint32_t layout_hash = 0;  // lanes, program and block sizes
};

// Whether each rank scales what it has before it is added (PREMUL_SUM, and AVG of some types).
bool ScalesInput(const OperationSpec& spec, uint32_t ranks);
// And that as a copy in scratch, as its output cannot hold the vector.
bool ScalesInScratch(const OperationSpec& spec, uint32_t ranks);

// For a checked operation; refuses algorithms that do not exist or do not fit. `root` is the
// spec's, or the peer that a receive from any source turned out to have.
Result<Plan> MakePlan(const OperationSpec& spec, Rank root, uint32_t ranks,
                      const EngineOptions& options);

}  // namespace rocecoll
