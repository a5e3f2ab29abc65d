// SPDX-License-Identifier: Apache-2.0
// Partners at distance 1, 2, 4, ...: about log2 p rounds, in each of which every rank sends one
// message and receives one. For small data and, if the number of ranks is a power of two, also for
// large data.
#pragma once

#include <cstdint>

#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Recursive doubling: in every round, partners exchange all they have. There are as many rounds as
// powers of two below the number of ranks, whatever it is. The inner numbers, the largest power of
// two of them, double; the outer numbers, which follow them, take part in the first round and in
// the last. In the first round, an outer number gives its vector to both members of a pair of
// partners; in the last, both members of a pair give it what they give each other. So it waits for
// no more messages than the others do, whereas folding it onto a partner before and after would
// cost two. (With three ranks, the first round is also the last, and the third rank is told the
// sum.)
struct Doubling {
  explicit Doubling(uint32_t numbers) : count(numbers), rounds(FloorLog2(numbers)) {}

  uint32_t steps() const { return count == 3 ? 2 : rounds; }
  uint32_t inner() const { return 1u << rounds; }
  uint32_t pairs() const { return inner() / 2; }
  // The outer numbers that a pair deals with. There are at most two, because there are more inner
  // numbers than outer ones.
  template <typename Visit>
  void for_each_outer(uint32_t pair, Visit&& visit) const {
    for (uint32_t outer = inner() + pair; outer < count; outer += pairs()) visit(outer);
  }

  uint32_t count;
  uint32_t rounds;
};

// What an outer number does: its pair is (2 pair, 2 pair + 1) in the first round and (pair, pair +
// pairs) in the last.
template <typename RankOf>
void AddOuterDoublingStep(const Doubling& doubling, uint32_t own, uint32_t index,
                          const Blocks& given, const Blocks& all, RankOf&& rank_of, Step& step) {
  const uint32_t pair = own % doubling.pairs();
  if (index == 0) {
    step.send(rank_of(2 * pair), given);
    step.send(rank_of(2 * pair + 1), given);
  }
  if (index + 1 < doubling.steps()) return;
  if (doubling.pairs() == 1) {
    step.recv(rank_of(0), all);
  } else {
    step.recv(rank_of(pair + doubling.pairs()), all);
    step.recv_reduce(rank_of(pair), all);
  }
}

// One step, seen from the number `own`; rank_of(number) is the rank with that number, and it
// increases with the number. `given` is the place of the vector that an outer number gives.
//
// Results are bit-identical: before round k an inner number holds the sum over an aligned group of
// 2^k inner numbers, followed by the outer ones that were given to the group. Both partners combine
// the same two sums in the same order, because every rank of one group is below every rank of the
// other, and outer ranks are above all of them.
template <typename RankOf>
void AddDoublingStep(const Doubling& doubling, uint32_t own, uint32_t index, const Blocks& given,
                     const Blocks& all, RankOf&& rank_of, Step& step) {
  if (own >= doubling.inner()) {
    AddOuterDoublingStep(doubling, own, index, given, all, rank_of, step);
    return;
  }
  if (index < doubling.rounds) {
    const Rank partner = rank_of(own ^ (1u << index));
    step.send(partner, all);
    step.recv_reduce(partner, all);
  } else if (own > 0) {
    return;  // with three ranks, number 0 tells the third
  }
  if (index == 0) {
    doubling.for_each_outer(own / 2,
                            [&](uint32_t outer) { step.recv_reduce(rank_of(outer), all); });
  }
  if (index + 1 == doubling.steps()) {
    doubling.for_each_outer(own % doubling.pairs(),
                            [&](uint32_t outer) { step.send(rank_of(outer), all); });
  }
}

// Allreduce with the whole vector in each message, for small vectors. With two ranks it is the
// direct exchange.
inline Step RecursiveDoublingStep(const Program& program, Rank rank, uint32_t index) {
  const Doubling doubling(program.ranks);
  const Blocks input = Blocks::Run(Buffer::kInput, 0, program.ranks);
  const Blocks all = Blocks::Run(Buffer::kOutput, 0, program.ranks);
  Step step;
  if (index == 0 && rank < doubling.inner()) step.copy(all, input);
  AddDoublingStep(
      doubling, rank, index, input, all, [](uint32_t number) { return Rank{number}; }, step);
  return step;
}

inline Program RecursiveDoublingAllreduce(const ProgramRequest& request) {
  return {.steps = Doubling(request.ranks).steps(), .step_function = RecursiveDoublingStep};
}

// Rabenseifner's allreduce (Thakur, Rabenseifner, Gropp, IJHPCA 2005): reduce-scatter by recursive
// halving, then allgather by recursive doubling. It takes 2 log2 p steps and 2 (p - 1) blocks, and
// works for powers of two only.
//
// At distance d, partners own two neighbouring aligned groups of d blocks: group(rank) and
// group(partner). Halving (d = p/2 .. 1) sends the partner's group away and adds to the rank's own
// group; doubling (d = 1 .. p/2) sends the rank's own group and receives the partner's. After the
// halving, a rank is the only owner of block `rank`, so all ranks get the owner's bits.
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
// about p / 2 blocks, and a final step that only copies. It sends few messages, and log2 p / 2
// times the bytes.
//
// Work block j < p holds the block that travels j ranks in all. Round k moves the blocks whose j
// has bit k set by 2^k ranks. What arrives goes into the work blocks from p on, because a step may
// not receive what it sends, and the next step puts it into place.
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
    // Work block j came from the rank j places before this one: a stride of p - 1 counts down,
    // modulo p.
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

// Dissemination barrier (Hensgen, Finkel, Manber, 1988): ceil(log2 p) rounds of one byte. After
// round k a rank knows that the 2^(k+1) ranks up to itself have entered. This is one round, seen
// from `own`, one of `count` numbers; rank_of(number) is the rank with that number.
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
