// SPDX-License-Identifier: Apache-2.0
#include "collectives/point_to_point.h"

#include "collectives/function_program.h"

namespace rocecoll {
namespace {

Step SendStep(const ProgramFacts& facts, Rank rank, uint32_t) {
  ROCECOLL_CHECK(rank != facts.root);
  Step step;
  step.send(facts.root, Blocks::Run(Buffer::kInput, 0, 1));
  return step;
}

Step RecvStep(const ProgramFacts& facts, Rank rank, uint32_t) {
  ROCECOLL_CHECK(rank != facts.root);
  Step step;
  step.recv(facts.root, Blocks::Run(Buffer::kOutput, 0, 1));
  return step;
}

}  // namespace

std::unique_ptr<Program> DirectSend(uint32_t ranks, Rank peer) {
  ROCECOLL_CHECK(ranks >= 2 && peer < ranks);
  return FunctionProgram::Make({.name = "direct", .ranks = ranks, .root = peer, .steps = 1},
                               SendStep);
}

std::unique_ptr<Program> DirectRecv(uint32_t ranks, Rank peer) {
  ROCECOLL_CHECK(ranks >= 2 && peer < ranks);
  return FunctionProgram::Make({.name = "direct", .ranks = ranks, .root = peer, .steps = 1},
                               RecvStep);
}

}  // namespace rocecoll
