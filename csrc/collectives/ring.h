// SPDX-License-Identifier: Apache-2.0
// Ring algorithms: each pass takes p - 1 steps of one block, and only neighbours talk. They send
// the fewest bytes, for any number of ranks; for blocks so large that latency does not matter.
#pragma once

#include <cstdint>

#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Reduce-scatter pass: in step k a rank sends block rank - 1 - k to its right, and adds what
// arrives from its left to block rank - 2 - k. The last block to which it adds is its own.
inline uint32_t RingReducedBlock(Rank rank, uint32_t index, uint32_t ranks) {
  return Before(rank, (index + 2) % ranks, ranks);
}
inline uint32_t RingPassedOnBlock(Rank rank, uint32_t index, uint32_t ranks) {
  return Before(rank, index + 1, ranks);
}

// Allgather pass: in step k a rank sends block rank - k and receives block rank - 1 - k, in place.
inline void AddRingGatherRound(Rank rank, uint32_t ranks, uint32_t round, Step& step) {
  step.send(After(rank, 1, ranks), Blocks::Run(Buffer::kOutput, Before(rank, round, ranks), 1));
  step.recv(Before(rank, 1, ranks),
            Blocks::Run(Buffer::kOutput, Before(rank, round + 1, ranks), 1));
}

inline Step RingAllreduceStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t ranks = program.ranks;
  Step step;
  if (index >= ranks - 1) {
    AddRingGatherRound(rank, ranks, index - (ranks - 1), step);
    return step;
  }
  const uint32_t block = RingReducedBlock(rank, index, ranks);
  step.send(After(rank, 1, ranks),
            Blocks::Run(HeldIn(index), RingPassedOnBlock(rank, index, ranks), 1));
  step.recv_reduce(Before(rank, 1, ranks), Blocks::Run(Buffer::kOutput, block, 1),
                   Blocks::Run(Buffer::kInput, block, 1));
  return step;
}

inline Program RingAllreduce(const ProgramRequest& request) {
  return {.steps = 2 * (request.ranks - 1), .step_function = RingAllreduceStep};
}

inline Step RingReduceScatterStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t ranks = program.ranks;
  const uint32_t block = RingReducedBlock(rank, index, ranks);
  const bool last = index + 1 == program.steps;
  const Blocks sum =
      last ? Blocks::Run(Buffer::kOutput, 0, 1) : Blocks::Run(Buffer::kWork, block, 1);
  Step step;
  step.send(After(rank, 1, ranks), Blocks::Run(index == 0 ? Buffer::kInput : Buffer::kWork,
                                               RingPassedOnBlock(rank, index, ranks), 1));
  step.recv_reduce(Before(rank, 1, ranks), sum, Blocks::Run(Buffer::kInput, block, 1));
  return step;
}

inline Program RingReduceScatter(const ProgramRequest& request) {
  return {.steps = request.ranks - 1,
          .work_blocks = request.ranks > 2 ? request.ranks : 0,
          .step_function = RingReduceScatterStep};
}

inline Step RingAllgatherStep(const Program& program, Rank rank, uint32_t index) {
  Step step;
  if (index == 0) CopyOwnBlock(rank, step);
  AddRingGatherRound(rank, program.ranks, index, step);
  return step;
}

inline Program RingAllgather(const ProgramRequest& request) {
  return {.steps = request.ranks - 1, .step_function = RingAllgatherStep};
}

// Broadcast along the ring, from the root to the rank before it: every rank but the last sends the
// whole vector once, so all links carry the fewest bytes. A single lane takes p - 1 whole vectors
// one after another; the lanes of a large operation follow each other, and it takes about one.
inline Step ChainBroadcastStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t ranks = program.ranks;
  const uint32_t distance = Before(rank, program.root, ranks);
  const Blocks all = Blocks::Run(Buffer::kOutput, 0, ranks);
  Step step;
  if (distance == index) step.send(After(rank, 1, ranks), all);
  if (distance == index + 1) step.recv(Before(rank, 1, ranks), all);
  return step;
}

inline Program ChainBroadcast(const ProgramRequest& request) {
  return {.steps = request.ranks - 1, .step_function = ChainBroadcastStep};
}

}  // namespace rocecoll
