// SPDX-License-Identifier: Apache-2.0
#include "collectives/recursive_doubling.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// Bit-identical results: before round k a rank holds the sum over an aligned group of 2^k
// positions, and positions follow ranks. Both partners combine the same two group sums, and every
// rank of the one group is below every rank of the other, so both take the same sum as the left
// operand.
//
// Folding p = 2^m + e ranks: of the first 2e ranks, odd ones give their vector to the even rank
// below and get the result back at the end. Position of an even rank below 2e: rank / 2; of a rank
// from 2e on: rank - e.
struct Fold {
  explicit Fold(uint32_t ranks)
      : rounds(FloorLog2(ranks)), folded(2 * (ranks - (1u << FloorLog2(ranks)))) {}

  bool folds() const { return folded > 0; }
  Rank rank_at(uint32_t position) const {
    return position < folded / 2 ? 2 * position : position + folded / 2;
  }
  uint32_t position_of(Rank rank) const { return rank < folded ? rank / 2 : rank - folded / 2; }

  uint32_t rounds;
  uint32_t folded;  // ranks that take part in the fold
};

Step AllreduceStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t ranks = facts.ranks;
  const Fold fold(ranks);
  const Blocks all = Blocks::Run(Buffer::kOutput, 0, ranks);
  const bool is_folded = rank < fold.folded;
  const bool gives = is_folded && rank % 2 == 1;
  Step step;
  if (index == 0 && !gives) step.copy(all, Blocks::Run(Buffer::kInput, 0, ranks));
  if (fold.folds() && index == 0) {
    if (gives) {
      step.send(rank - 1, Blocks::Run(Buffer::kInput, 0, ranks));
    } else if (is_folded) {
      step.recv_reduce(rank + 1, all);
    }
    return step;
  }
  if (fold.folds() && index + 1 == facts.steps) {
    if (gives) {
      step.recv(rank - 1, all);
    } else if (is_folded) {
      step.send(rank + 1, all);
    }
    return step;
  }
  if (gives) return step;
  const uint32_t round = index - (fold.folds() ? 1 : 0);
  const Rank partner = fold.rank_at(fold.position_of(rank) ^ (1u << round));
  step.send(partner, all);
  step.recv_reduce(partner, all);
  return step;
}

}  // namespace

std::unique_ptr<Program> RecursiveDoublingAllreduce(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  const Fold fold(ranks);
  return FunctionProgram::Make({.name = "recursive_doubling",
                                .ranks = ranks,
                                .steps = fold.rounds + (fold.folds() ? 2 : 0),
                                .max_reduce_blocks = ranks},
                               AllreduceStep);
}

}  // namespace rocecoll
