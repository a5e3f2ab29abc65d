// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter, allgather and allreduce on a circulant graph (J. L. Traeff, "Optimal,
// non-pipelined reduce-scatter and allreduce algorithms",
// repositum.tuwien.at/handle/20.500.12708/219280): ceil(log2 p) rounds and exactly p - 1 blocks
// each, for any number of ranks. Reductions must commute.
#pragma once

#include <cstdint>

#include "base/arithmetic.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Round k of the reduce-scatter, seen from a rank whose blocks are numbered from its own one: the
// partial sums of blocks s .. s' - 1 (s = s(k + 1), s' = s(k)) go to the rank s places further on,
// for which they are blocks 0 .. s' - s - 1. As s' <= 2 s, the blocks sent and the blocks added to
// are disjoint.
struct CirculantRound {
  CirculantRound(Rank rank, uint32_t ranks, uint32_t k)
      : skip(Skip(ranks, k + 1)),
        count(Skip(ranks, k) - skip),
        near(rank),
        far(After(rank, skip, ranks)),
        behind(Before(rank, skip, ranks)) {}

  // s(0) = p, s(k + 1) = ceil(s(k) / 2): so s(k) = ceil(p / 2^k), and s(ceil(log2 p)) = 1.
  static uint32_t Skip(uint32_t ranks, uint32_t k) { return CeilDivide(ranks, 1u << k); }

  // The number of blocks from block `count` on that are kept, although nothing is added to them in
  // this round.
  uint32_t idle() const { return skip - count; }
  Blocks near_blocks(Buffer buffer) const { return Blocks::Run(buffer, near, count); }
  Blocks far_blocks(Buffer buffer) const { return Blocks::Run(buffer, far, count); }

  uint32_t skip;
  uint32_t count;
  Rank near;    // this rank: its blocks 0 .. count - 1 start here
  Rank far;     // the rank that is skip places further on
  Rank behind;  // the rank for which this one is `far`
};

// One round of the reduce-scatter. The blocks that it sends and adds to are in `held`, and the sums
// go to `into`, which later rounds use as `held`. After ceil(log2 p) rounds block `rank` is the
// sum.
inline void AddCirculantReduceRound(Rank rank, uint32_t ranks, uint32_t round, Buffer held,
                                    Buffer into, Step& step) {
  const CirculantRound at(rank, ranks, round);
  if (held != into && at.idle() > 0) {
    const Rank idle = After(rank, at.count, ranks);
    step.copy(Blocks::Run(into, idle, at.idle()), Blocks::Run(held, idle, at.idle()));
  }
  step.send(at.far, at.far_blocks(held));
  step.recv_reduce(at.behind, at.near_blocks(into), at.near_blocks(held));
}

// One round of the allgather within kOutput: every rank starts with its own block and has all of
// them after ceil(log2 p) rounds. It is the reduce-scatter run backwards, with each transfer in the
// other direction.
inline void AddCirculantGatherRound(Rank rank, uint32_t ranks, uint32_t round, Step& step) {
  const CirculantRound at(rank, ranks, CeilLog2(ranks) - 1 - round);
  step.send(at.behind, at.near_blocks(Buffer::kOutput));
  step.recv(at.far, at.far_blocks(Buffer::kOutput));
}

inline Step CirculantAllreduceStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t rounds = program.steps / 2;
  Step step;
  if (index < rounds) {
    AddCirculantReduceRound(rank, program.ranks, index, HeldIn(index), Buffer::kOutput, step);
  } else {
    AddCirculantGatherRound(rank, program.ranks, index - rounds, step);
  }
  return step;
}

inline Program CirculantAllreduce(const ProgramRequest& request) {
  return {.steps = 2 * CeilLog2(request.ranks), .step_function = CirculantAllreduceStep};
}

// The last round adds only to the rank's own block, in the output.
inline Step CirculantReduceScatterStep(const Program& program, Rank rank, uint32_t index) {
  const Buffer held = index == 0 ? Buffer::kInput : Buffer::kWork;
  Step step;
  if (index + 1 < program.steps) {
    AddCirculantReduceRound(rank, program.ranks, index, held, Buffer::kWork, step);
    return step;
  }
  const CirculantRound round(rank, program.ranks, index);
  step.send(round.far, round.far_blocks(held));
  step.recv_reduce(round.behind, Blocks::Run(Buffer::kOutput, 0, 1), round.near_blocks(held));
  return step;
}

inline Program CirculantReduceScatter(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks),
          .work_blocks = request.ranks > 2 ? request.ranks : 0,
          .step_function = CirculantReduceScatterStep};
}

inline Step CirculantAllgatherStep(const Program& program, Rank rank, uint32_t index) {
  Step step;
  if (index == 0) CopyOwnBlock(rank, step);
  AddCirculantGatherRound(rank, program.ranks, index, step);
  return step;
}

inline Program CirculantAllgather(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks), .step_function = CirculantAllgatherStep};
}

}  // namespace rocecoll
