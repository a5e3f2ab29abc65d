// SPDX-License-Identifier: Apache-2.0
#include "collectives/barrier.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

Step BarrierStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t distance = 1u << index;
  Step step;
  step.send(After(rank, distance, facts.ranks), Blocks::Run(Buffer::kInput, 0, 1));
  step.recv(Before(rank, distance, facts.ranks), Blocks::Run(Buffer::kOutput, 0, 1));
  return step;
}

}  // namespace

std::unique_ptr<Program> DisseminationBarrier(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "dissemination", .ranks = ranks, .steps = CeilLog2(ranks)},
                               BarrierStep);
}

}  // namespace rocecoll
