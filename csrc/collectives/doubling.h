// SPDX-License-Identifier: Apache-2.0
// Partners at distance 1, 2, 4, ...: about log2 p rounds, in each of which every rank sends one
// message and gets one. For small data, and for powers of two also for large.
#pragma once

#include <cstdint>

#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Allreduce by recursive doubling: in every round, partners exchange all they have. ceil(log2 p)
// rounds for powers of two, two more for other counts (ranks are folded onto a power of two first),
// but the whole vector in each: for small vectors. Of two ranks it is the direct exchange.
//
// Bit-identical results: before round k a rank holds the sum over an aligned group of 2^k
// positions, and positions follow ranks. Both partners combine the same two group sums, and every
// rank of the one group is below every rank of the other, so both take the same sum as the left
// operand.
//
// Folding p = 2^m + e ranks: of the first 2e ranks, odd ones give their vector to the even rank
// below and get the result back at the end. Position of an even rank below 2e: rank / 2; of a rank
// from 2e on: rank - e.
struct Fold {
  explicit Fold(uint32_t numbers)
      : rounds(FloorLog2(numbers)), folded(2 * (numbers - (1u << FloorLog2(numbers)))) {}

  bool folds() const { return folded > 0; }
  uint32_t steps() const { return rounds + (folds() ? 2 : 0); }
  uint32_t number_at(uint32_t position) const {
    return position < folded / 2 ? 2 * position : position + folded / 2;
  }
  uint32_t position_of(uint32_t number) const {
    return number < folded ? number / 2 : number - folded / 2;
  }

  uint32_t rounds;
  uint32_t folded;  // how many take part in the fold
};

// One step, seen from `own`, one of the numbers that the fold is of; rank_of(number) is the rank
// that has it, and goes up with it. `given`: where the vector lies that a folded one gives away.
template <typename RankOf>
void AddDoublingStep(const Fold& fold, uint32_t own, uint32_t index, const Blocks& given,
                     const Blocks& all, RankOf&& rank_of, Step& step) {
  const bool is_folded = own < fold.folded;
  const bool gives = is_folded && own % 2 == 1;
  if (fold.folds() && index == 0) {
    if (gives) {
      step.send(rank_of(own - 1), given);
    } else if (is_folded) {
      step.recv_reduce(rank_of(own + 1), all);
    }
    return;
  }
  if (fold.folds() && index + 1 == fold.steps()) {
    if (gives) {
      step.recv(rank_of(own - 1), all);
    } else if (is_folded) {
      step.send(rank_of(own + 1), all);
    }
    return;
  }
  if (gives) return;
  const uint32_t round = index - (fold.folds() ? 1 : 0);
  const Rank partner = rank_of(fold.number_at(fold.position_of(own) ^ (1u << round)));
  step.send(partner, all);
  step.recv_reduce(partner, all);
}

inline Step RecursiveDoublingStep(const Program& program, Rank rank, uint32_t index) {
  const Fold fold(program.ranks);
  const Blocks input = Blocks::Run(Buffer::kInput, 0, program.ranks);
  const Blocks all = Blocks::Run(Buffer::kOutput, 0, program.ranks);
  const bool gives = rank < fold.folded && rank % 2 == 1;
  Step step;
  if (index == 0 && !gives) step.copy(all, input);
  AddDoublingStep(
      fold, rank, index, input, all, [](uint32_t number) { return Rank{number}; }, step);
  return step;
}

inline Program RecursiveDoublingAllreduce(const ProgramRequest& request) {
  return {.steps = Fold(request.ranks).steps(), .step_function = RecursiveDoublingStep};
}

// Rabenseifner's allreduce (Thakur, Rabenseifner, Gropp, IJHPCA 2005): reduce-scatter by recursive
// halving, then allgather by recursive doubling. 2 log2 p steps, 2 (p - 1) blocks. Powers of two.
//
// At distance d, partners own two neighbouring aligned groups of d blocks: group(rank) and
// group(partner). Halving (d = p/2 .. 1) sends the partner's group away and adds to the own one;
// doubling (d = 1 .. p/2) sends the own group and receives the partner's. A rank ends the halving
// as the only owner of block `rank`, so all ranks get the owner's bits.
inline Step HalvingDoublingStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t rounds = program.steps / 2;
  const bool halving = index < rounds;
  const uint32_t distance = 1u << (halving ? rounds - 1 - index : index - rounds);
  const Rank partner = rank ^ distance;
  const auto group = [distance](Buffer buffer, Rank of) {
    return Blocks::Run(buffer, of & ~(distance - 1), distance);
  };
  Step step;
  if (halving) {
    step.send(partner, group(HeldIn(index), partner));
    step.recv_reduce(partner, group(Buffer::kOutput, rank), group(HeldIn(index), rank));
  } else {
    step.send(partner, group(Buffer::kOutput, rank));
    step.recv(partner, group(Buffer::kOutput, partner));
  }
  return step;
}

inline Program HalvingDoublingAllreduce(const ProgramRequest& request) {
  return {.steps = 2 * CeilLog2(request.ranks), .step_function = HalvingDoublingStep};
}

// Alltoall of small equal blocks (Bruck et al., IEEE TPDS 8(11), 1997): ceil(log2 p) rounds of
// about p / 2 blocks, and a final step that only copies. Few messages, log2 p / 2 times the bytes.
//
// Work block j < p holds the block that has j ranks to go, in all; round k moves those with bit k
// of j set 2^k ranks on. Work blocks from p on take what arrives, as a step may not receive what it
// sends; the next step puts it into place.
inline Blocks BruckMovingBlocks(uint32_t ranks, uint32_t round) {
  const uint32_t distance = 1u << round;
  const uint32_t whole = ranks / (2 * distance) * distance;
  const uint32_t rest = ranks % (2 * distance);
  return {Buffer::kWork, distance, whole + (rest > distance ? rest - distance : 0), distance,
          2 * distance};
}
inline Blocks BruckArrivedBlocks(uint32_t ranks, uint32_t round) {
  return Blocks::Run(Buffer::kWork, ranks, BruckMovingBlocks(ranks, round).count);
}

inline Step BruckStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t ranks = program.ranks;
  Step step;
  if (index == 0) {
    step.copy(Blocks::Run(Buffer::kWork, 0, ranks), Blocks::Run(Buffer::kInput, rank, ranks));
  } else {
    step.copy(BruckMovingBlocks(ranks, index - 1), BruckArrivedBlocks(ranks, index - 1));
  }
  if (index + 1 == program.steps) {
    // Work block j came from the rank j before this one: a stride of p - 1 counts down, modulo p.
    step.copy({Buffer::kOutput, rank, ranks, 1, ranks - 1}, Blocks::Run(Buffer::kWork, 0, ranks));
    return step;
  }
  const uint32_t distance = 1u << index;
  step.send(After(rank, distance, ranks), BruckMovingBlocks(ranks, index));
  step.recv(Before(rank, distance, ranks), BruckArrivedBlocks(ranks, index));
  return step;
}

inline Program BruckAlltoall(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks) + 1,
          .work_blocks = request.ranks + request.ranks / 2,
          .step_function = BruckStep};
}

// Dissemination barrier (Hensgen, Finkel, Manber, 1988): ceil(log2 p) rounds of one byte; after
// round k a rank knows that the 2^(k+1) ranks up to itself have entered. One round, seen from `own`
// of `count` numbers; rank_of(number) is the rank that has it.
template <typename RankOf>
void AddDisseminationRound(uint32_t own, uint32_t count, uint32_t round, RankOf&& rank_of,
                           Step& step) {
  const uint32_t distance = 1u << round;
  step.send(rank_of(After(own, distance, count)), Blocks::Run(Buffer::kInput, 0, 1));
  step.recv(rank_of(Before(own, distance, count)), Blocks::Run(Buffer::kOutput, 0, 1));
}

inline Step DisseminationStep(const Program& program, Rank rank, uint32_t index) {
  Step step;
  AddDisseminationRound(
      rank, program.ranks, index, [](uint32_t number) { return Rank{number}; }, step);
  return step;
}

inline Program DisseminationBarrier(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks), .step_function = DisseminationStep};
}

}  // namespace rocecoll
