// SPDX-License-Identifier: Apache-2.0
#include "collectives/bruck.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// Work block j < p holds the block that has j ranks to go, in all; round k moves those with bit k
// of j set 2^k ranks on. Work blocks from p on take what arrives, as a step may not receive what it
// sends; the next step puts it into place.
Blocks MovingBlocks(uint32_t ranks, uint32_t round) {
  const uint32_t distance = 1u << round;
  const uint32_t whole = ranks / (2 * distance) * distance;
  const uint32_t rest = ranks % (2 * distance);
  return {Buffer::kWork, distance, whole + (rest > distance ? rest - distance : 0), distance,
          2 * distance};
}

Blocks ArrivedBlocks(uint32_t ranks, uint32_t round) {
  return Blocks::Run(Buffer::kWork, ranks, MovingBlocks(ranks, round).count);
}

Step AlltoallStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t ranks = facts.ranks;
  Step step;
  if (index == 0) {
    step.copy(Blocks::Run(Buffer::kWork, 0, ranks), Blocks::Run(Buffer::kInput, rank, ranks));
  } else {
    step.copy(MovingBlocks(ranks, index - 1), ArrivedBlocks(ranks, index - 1));
  }
  if (index + 1 == facts.steps) {
    // Work block j came from the rank j before this one: a stride of p - 1 counts down, modulo p.
    step.copy({Buffer::kOutput, rank, ranks, 1, ranks - 1}, Blocks::Run(Buffer::kWork, 0, ranks));
    return step;
  }
  const uint32_t distance = 1u << index;
  step.send(After(rank, distance, ranks), MovingBlocks(ranks, index));
  step.recv(Before(rank, distance, ranks), ArrivedBlocks(ranks, index));
  return step;
}

}  // namespace

std::unique_ptr<Program> BruckAlltoall(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "bruck",
                                .ranks = ranks,
                                .steps = CeilLog2(ranks) + 1,
                                .work_blocks = ranks + ranks / 2},
                               AlltoallStep);
}

}  // namespace rocecoll
