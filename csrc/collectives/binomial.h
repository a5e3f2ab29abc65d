// SPDX-License-Identifier: Apache-2.0
// Collectives with a root, along the binomial tree around it (topology.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/circulant.h"
#include "collectives/program.h"
#include "collectives/topology.h"

namespace rocecoll {

// Broadcast and reduce of whole vectors in ceil(log2 p) steps, for small vectors.
inline void AddBroadcastEdge(const BinomialEdge& edge, const Blocks& all, Step& step) {
  if (edge.role == BinomialEdge::Role::kParent) step.send(edge.peer, all);
  if (edge.role == BinomialEdge::Role::kChild) step.recv(edge.peer, all);
}

inline Step BinomialBroadcastStep(const Program& program, Rank rank, uint32_t index) {
  Step step;
  AddBroadcastEdge(BinomialEdgeAt(rank, program.root, program.ranks, program.steps - 1 - index),
                   Blocks::Run(Buffer::kOutput, 0, program.ranks), step);
  return step;
}

inline Program BinomialBroadcast(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks), .step_function = BinomialBroadcastStep};
}

// A leaf sends its input as it is. Every other rank is a parent at level 0, or has nothing to do
// there, and adds up in its output.
inline void AddReduceEdge(const BinomialEdge& edge, bool first, uint32_t blocks, Step& step) {
  const Blocks sum = Blocks::Run(Buffer::kOutput, 0, blocks);
  const Blocks held = first ? Blocks::Run(Buffer::kInput, 0, blocks) : sum;
  switch (edge.role) {
    case BinomialEdge::Role::kNone:
      if (first) step.copy(sum, held);
      break;
    case BinomialEdge::Role::kChild:
      step.send(edge.peer, held);
      break;
    case BinomialEdge::Role::kParent:
      step.recv_reduce(edge.peer, sum, held);
      break;
  }
}

inline Step BinomialReduceStep(const Program& program, Rank rank, uint32_t index) {
  Step step;
  AddReduceEdge(BinomialEdgeAt(rank, program.root, program.ranks, index), index == 0, program.ranks,
                step);
  return step;
}

inline Program BinomialReduce(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks), .step_function = BinomialReduceStep};
}

// Gather and scatter of small blocks of one size take ceil(log2 p) steps, and inner ranks hold the
// blocks of their subtree in scratch. Work block i of a rank is the block of the rank i places
// further on: first its own block, then those of its subtree.
inline Blocks BinomialWork(const BinomialEdge& edge, Rank rank, uint32_t ranks) {
  return Blocks::Run(Buffer::kWork, Before(edge.child, rank, ranks), edge.subtree_size);
}

// Scratch has room for the largest subtree below the root: the one that starts half way round the
// circle, which may be cut off, or the complete one at a quarter. With two ranks there is only a
// leaf.
inline uint32_t BinomialWorkBlocks(uint32_t ranks) {
  if (ranks <= 2) return 0;
  const uint32_t half = 1u << (CeilLog2(ranks) - 1);
  return std::max(half / 2, ranks - half);
}

inline Step BinomialGatherStep(const Program& program, Rank rank, uint32_t index) {
  const BinomialEdge edge = BinomialEdgeAt(rank, program.root, program.ranks, index);
  const bool is_root = rank == program.root;
  const bool is_leaf = index == 0 && edge.role == BinomialEdge::Role::kChild;
  const Blocks input = Blocks::Run(Buffer::kInput, 0, 1);
  Step step;
  if (index == 0 && is_root) CopyOwnBlock(rank, step);
  if (index == 0 && !is_root && !is_leaf) step.copy(Blocks::Run(Buffer::kWork, 0, 1), input);
  if (edge.role == BinomialEdge::Role::kChild) {
    step.send(edge.peer, is_leaf ? input : BinomialWork(edge, rank, program.ranks));
  } else if (edge.role == BinomialEdge::Role::kParent) {
    step.recv(edge.peer, is_root ? Blocks::Run(Buffer::kOutput, edge.child, edge.subtree_size)
                                 : BinomialWork(edge, rank, program.ranks));
  }
  return step;
}

inline Program BinomialGather(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks),
          .work_blocks = BinomialWorkBlocks(request.ranks),
          .step_function = BinomialGatherStep};
}

// The last edges (level 0) lead to leaves, which receive straight into their output. Other ranks
// copy their own block out of scratch while they forward the last one.
inline Step BinomialScatterStep(const Program& program, Rank rank, uint32_t index) {
  const bool last = index + 1 == program.steps;
  const BinomialEdge edge =
      BinomialEdgeAt(rank, program.root, program.ranks, program.steps - 1 - index);
  const bool is_root = rank == program.root;
  const bool is_leaf = last && edge.role == BinomialEdge::Role::kChild;
  const Blocks output = Blocks::Run(Buffer::kOutput, 0, 1);
  Step step;
  if (index == 0 && is_root) step.copy(output, Blocks::Run(Buffer::kInput, rank, 1));
  if (last && !is_root && !is_leaf) step.copy(output, Blocks::Run(Buffer::kWork, 0, 1));
  if (edge.role == BinomialEdge::Role::kChild) {
    step.recv(edge.peer, is_leaf ? output : BinomialWork(edge, rank, program.ranks));
  } else if (edge.role == BinomialEdge::Role::kParent) {
    step.send(edge.peer, is_root ? Blocks::Run(Buffer::kInput, edge.child, edge.subtree_size)
                                 : BinomialWork(edge, rank, program.ranks));
  }
  return step;
}

inline Program BinomialScatter(const ProgramRequest& request) {
  return {.steps = CeilLog2(request.ranks),
          .work_blocks = BinomialWorkBlocks(request.ranks),
          .step_function = BinomialScatterStep};
}

// Large vectors are handled in two halves, so that no rank sends the vector more than about twice:
// broadcast as a binomial scatter and a circulant allgather, reduce as a circulant reduce-scatter
// and a binomial gather (Rabenseifner). This takes 2 ceil(log2 p) steps for any number of ranks.
//
// The blocks of a subtree's ranks lie side by side on the circle.
inline Blocks SubtreeBlocks(const BinomialEdge& edge) {
  return Blocks::Run(Buffer::kOutput, edge.child, edge.subtree_size);
}

inline Step ScatterAllgatherStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t rounds = program.steps / 2;
  Step step;
  if (index >= rounds) {
    AddCirculantGatherRound(rank, program.ranks, index - rounds, step);
    return step;
  }
  const BinomialEdge edge = BinomialEdgeAt(rank, program.root, program.ranks, rounds - 1 - index);
  if (edge.role == BinomialEdge::Role::kParent) step.send(edge.peer, SubtreeBlocks(edge));
  if (edge.role == BinomialEdge::Role::kChild) step.recv(edge.peer, SubtreeBlocks(edge));
  return step;
}

inline Program ScatterAllgatherBroadcast(const ProgramRequest& request) {
  return {.steps = 2 * CeilLog2(request.ranks), .step_function = ScatterAllgatherStep};
}

// Works in the output on every rank: on ranks other than the root the output is scratch, so no
// input is modified.
inline Step ReduceScatterGatherStep(const Program& program, Rank rank, uint32_t index) {
  const uint32_t rounds = program.steps / 2;
  Step step;
  if (index < rounds) {
    AddCirculantReduceRound(rank, program.ranks, index, HeldIn(index), Buffer::kOutput, step);
    return step;
  }
  const BinomialEdge edge = BinomialEdgeAt(rank, program.root, program.ranks, index - rounds);
  if (edge.role == BinomialEdge::Role::kChild) step.send(edge.peer, SubtreeBlocks(edge));
  if (edge.role == BinomialEdge::Role::kParent) step.recv(edge.peer, SubtreeBlocks(edge));
  return step;
}

inline Program ReduceScatterGatherReduce(const ProgramRequest& request) {
  return {.steps = 2 * CeilLog2(request.ranks), .step_function = ReduceScatterGatherStep};
}

}  // namespace rocecoll
