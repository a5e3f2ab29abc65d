// SPDX-License-Identifier: Apache-2.0
// Blocks that go straight from the rank that has them to the rank that needs them: no extra bytes,
// blocks of any sizes, and as many peers in each step as there is room for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Gather and scatter from and to the root: in step k the root deals with the ranks at distance 1 +
// k * kLinearPeers and beyond. Its own block is copied in the first step, beside these peers.
inline constexpr uint32_t kLinearPeers = Step::kMaxTransfers - 1;

struct LinearWindow {
  LinearWindow(uint32_t index, uint32_t ranks)
      : first(1 + index * kLinearPeers), end(std::min(first + kLinearPeers, ranks)) {}

  bool holds(uint32_t distance) const { return distance >= first && distance < end; }

  uint32_t first;
  uint32_t end;
};

inline Step LinearGatherStep(const Program& program, Rank rank, uint32_t index) {
  const LinearWindow window(index, program.ranks);
  const Blocks input = Blocks::Run(Buffer::kInput, 0, 1);
  Step step;
  if (rank == program.root) {
    if (index == 0) CopyOwnBlock(rank, step);
    for (uint32_t distance = window.first; distance < window.end; ++distance) {
      const Rank peer = After(rank, distance, program.ranks);
      step.recv(peer, Blocks::Run(Buffer::kOutput, peer, 1));
    }
    return step;
  }
  if (window.holds(Before(rank, program.root, program.ranks))) step.send(program.root, input);
  return step;
}

inline Program LinearGather(const ProgramRequest& request) {
  return {.steps = CeilDivide(request.ranks - 1, kLinearPeers), .step_function = LinearGatherStep};
}

inline Step LinearScatterStep(const Program& program, Rank rank, uint32_t index) {
  const LinearWindow window(index, program.ranks);
  const Blocks output = Blocks::Run(Buffer::kOutput, 0, 1);
  Step step;
  if (rank == program.root) {
    if (index == 0) step.copy(output, Blocks::Run(Buffer::kInput, rank, 1));
    for (uint32_t distance = window.first; distance < window.end; ++distance) {
      const Rank peer = After(rank, distance, program.ranks);
      step.send(peer, Blocks::Run(Buffer::kInput, peer, 1));
    }
    return step;
  }
  if (window.holds(Before(rank, program.root, program.ranks))) step.recv(program.root, output);
  return step;
}

inline Program LinearScatter(const ProgramRequest& request) {
  return {.steps = CeilDivide(request.ranks - 1, kLinearPeers), .step_function = LinearScatterStep};
}

// Alltoall between all pairs: a send and a receive for each pair, beside the copy of the rank's own
// block in the first step. Every rank sends to, and receives from, this many peers at once, so the
// window also bounds incast.
inline constexpr uint32_t kPairwisePeers = (Step::kMaxTransfers - 1) / 2;

inline Step PairwiseStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t ranks = program.ranks;
  const uint32_t first = 1 + index * kPairwisePeers;
  const uint32_t end = std::min(first + kPairwisePeers, ranks);
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

inline Program PairwiseAlltoall(const ProgramRequest& request) {
  return {.steps = CeilDivide(request.ranks - 1, kPairwisePeers), .step_function = PairwiseStep};
}

// Send and recv: one step with one transfer. Each side runs its own program, whose step is the same
// for every rank other than the peer.
inline Step DirectSendStep(const Program& program, Rank rank, uint32_t) {
  ROCECOLL_CHECK(rank != program.root);
  Step step;
  step.send(program.root, Blocks::Run(Buffer::kInput, 0, 1));
  return step;
}

inline Program DirectSend(const ProgramRequest&) {
  return {.steps = 1, .step_function = DirectSendStep};
}

inline Step DirectRecvStep(const Program& program, Rank rank, uint32_t) {
  ROCECOLL_CHECK(rank != program.root);
  Step step;
  step.recv(program.root, Blocks::Run(Buffer::kOutput, 0, 1));
  return step;
}

inline Program DirectRecv(const ProgramRequest&) {
  return {.steps = 1, .step_function = DirectRecvStep};
}

// Collectives of a single rank: a copy, or nothing.
inline Step LocalCopyStep(const Program&, Rank, uint32_t) {
  Step step;
  step.copy(Blocks::Run(Buffer::kOutput, 0, 1), Blocks::Run(Buffer::kInput, 0, 1));
  return step;
}
inline Step LocalEmptyStep(const Program&, Rank, uint32_t) { return {}; }

inline Program Local(const ProgramRequest& request) {
  const CollectiveTraits& traits = TraitsOf(request.collective);
  const bool copies = traits.input != Contents::kNothing && traits.output != Contents::kNothing;
  return {.steps = 1, .step_function = copies ? LocalCopyStep : LocalEmptyStep};
}

}  // namespace rocecoll
