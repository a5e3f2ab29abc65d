// SPDX-License-Identifier: Apache-2.0
#include "collectives/pairwise.h"

#include <algorithm>

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// A send and a receive each, beside the copy of the rank's own block in the first step. Every rank
// sends to and hears from as many peers at once, so the window also bounds incast.
constexpr uint32_t kPeersPerStep = (Step::kMaxTransfers - 1) / 2;

Step AlltoallStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t ranks = facts.ranks;
  const uint32_t first = 1 + index * kPeersPerStep;
  const uint32_t end = std::min(first + kPeersPerStep, ranks);
  Step step;
  if (index == 0) {
    step.copy(Blocks::Run(Buffer::kOutput, rank, 1), Blocks::Run(Buffer::kInput, rank, 1));
  }
  for (uint32_t distance = first; distance < end; ++distance) {
    const Rank to = After(rank, distance, ranks);
    const Rank from = Before(rank, distance, ranks);
    step.send(to, Blocks::Run(Buffer::kInput, to, 1));
    step.recv(from, Blocks::Run(Buffer::kOutput, from, 1));
  }
  return step;
}

}  // namespace

std::unique_ptr<Program> PairwiseAlltoall(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make(
      {.name = "pairwise", .ranks = ranks, .steps = CeilDivide(ranks - 1, kPeersPerStep)},
      AlltoallStep);
}

}  // namespace rocecoll
