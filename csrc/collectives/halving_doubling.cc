// SPDX-License-Identifier: Apache-2.0
#include "collectives/halving_doubling.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// At distance d, partners own two neighbouring aligned groups of d blocks: group(rank) and
// group(partner). Halving (d = p/2 .. 1) sends the partner's group away and adds to the own one;
// doubling (d = 1 .. p/2) sends the own group and receives the partner's. A rank ends the halving
// as the only owner of block `rank`, so all ranks get the owner's bits.
Step AllreduceStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t rounds = facts.steps / 2;
  const bool halving = index < rounds;
  const uint32_t distance = 1u << (halving ? rounds - 1 - index : index - rounds);
  const Rank partner = rank ^ distance;
  const Blocks own = Blocks::Run(Buffer::kOutput, rank & ~(distance - 1), distance);
  const Blocks other = Blocks::Run(Buffer::kOutput, partner & ~(distance - 1), distance);
  Step step;
  if (index == 0) CopyWholeInput(facts.ranks, step);
  if (halving) {
    step.send(partner, other);
    step.recv_reduce(partner, own);
  } else {
    step.send(partner, own);
    step.recv(partner, other);
  }
  return step;
}

}  // namespace

std::unique_ptr<Program> HalvingDoublingAllreduce(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2 && IsPowerOfTwo(ranks));
  return FunctionProgram::Make({.name = "halving_doubling",
                                .ranks = ranks,
                                .steps = 2 * CeilLog2(ranks),
                                .max_reduce_blocks = ranks / 2},
                               AllreduceStep);
}

}  // namespace rocecoll
