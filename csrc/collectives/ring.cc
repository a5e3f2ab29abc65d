// SPDX-License-Identifier: Apache-2.0
#include "collectives/ring.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// Reduce-scatter pass: in step k a rank sends block rank - 1 - k to its right, and adds what comes
// from its left to block rank - 2 - k. The last block it adds to is its own.
uint32_t ReducedBlock(Rank rank, uint32_t index, uint32_t ranks) {
  return Before(rank, (index + 2) % ranks, ranks);
}
uint32_t PassedOnBlock(Rank rank, uint32_t index, uint32_t ranks) {
  return Before(rank, index + 1, ranks);
}

// Allgather pass: in step k a rank sends block rank - k and receives block rank - 1 - k, in place.
void GatherStep(Rank rank, uint32_t index, uint32_t ranks, Step& step) {
  step.send(After(rank, 1, ranks), Blocks::Run(Buffer::kOutput, Before(rank, index, ranks), 1));
  step.recv(Before(rank, 1, ranks),
            Blocks::Run(Buffer::kOutput, Before(rank, index + 1, ranks), 1));
}

Step AllreduceStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t ranks = facts.ranks;
  Step step;
  if (index >= ranks - 1) {
    GatherStep(rank, index - (ranks - 1), ranks, step);
    return step;
  }
  if (index == 0) CopyWholeInput(ranks, step);
  step.send(After(rank, 1, ranks),
            Blocks::Run(Buffer::kOutput, PassedOnBlock(rank, index, ranks), 1));
  step.recv_reduce(Before(rank, 1, ranks),
                   Blocks::Run(Buffer::kOutput, ReducedBlock(rank, index, ranks), 1));
  return step;
}

// A block is copied to where it is added up in the step that does so, while it is in the cache.
Step ReduceScatterStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t ranks = facts.ranks;
  const uint32_t block = ReducedBlock(rank, index, ranks);
  const bool last = index + 1 == facts.steps;
  const Blocks sum =
      last ? Blocks::Run(Buffer::kOutput, 0, 1) : Blocks::Run(Buffer::kWork, block, 1);
  Step step;
  step.copy(sum, Blocks::Run(Buffer::kInput, block, 1));
  step.send(After(rank, 1, ranks), Blocks::Run(index == 0 ? Buffer::kInput : Buffer::kWork,
                                               PassedOnBlock(rank, index, ranks), 1));
  step.recv_reduce(Before(rank, 1, ranks), sum);
  return step;
}

Step AllgatherStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  Step step;
  if (index == 0) {
    step.copy(Blocks::Run(Buffer::kOutput, rank, 1), Blocks::Run(Buffer::kInput, 0, 1));
  }
  GatherStep(rank, index, facts.ranks, step);
  return step;
}

}  // namespace

std::unique_ptr<Program> RingAllreduce(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make(
      {.name = "ring", .ranks = ranks, .steps = 2 * (ranks - 1), .max_reduce_blocks = 1},
      AllreduceStep);
}

std::unique_ptr<Program> RingReduceScatter(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "ring",
                                .ranks = ranks,
                                .steps = ranks - 1,
                                .work_blocks = ranks > 2 ? ranks : 0,
                                .max_reduce_blocks = 1},
                               ReduceScatterStep);
}

std::unique_ptr<Program> RingAllgather(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "ring", .ranks = ranks, .steps = ranks - 1}, AllgatherStep);
}

}  // namespace rocecoll
