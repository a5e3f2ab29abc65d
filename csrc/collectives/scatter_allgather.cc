// SPDX-License-Identifier: Apache-2.0
#include "collectives/scatter_allgather.h"

#include "collectives/circulant.h"
#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// The blocks of a subtree's ranks, which lie side by side on the circle.
Blocks SubtreeBlocks(const BinomialEdge& edge) {
  return Blocks::Run(Buffer::kOutput, edge.child, edge.subtree_size);
}

Step BroadcastStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t rounds = facts.steps / 2;
  Step step;
  if (index >= rounds) {
    AddCirculantGatherRound(rank, facts.ranks, index - rounds, step);
    return step;
  }
  const BinomialEdge edge = BinomialEdgeAt(rank, facts.root, facts.ranks, rounds - 1 - index);
  if (edge.role == BinomialEdge::Role::kParent) step.send(edge.peer, SubtreeBlocks(edge));
  if (edge.role == BinomialEdge::Role::kChild) step.recv(edge.peer, SubtreeBlocks(edge));
  return step;
}

// Works in the output on every rank: away from the root that is scratch, so no input is modified.
Step ReduceStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t rounds = facts.steps / 2;
  Step step;
  if (index == 0) CopyWholeInput(facts.ranks, step);
  if (index < rounds) {
    AddCirculantReduceRound(rank, facts.ranks, index, step);
    return step;
  }
  const BinomialEdge edge = BinomialEdgeAt(rank, facts.root, facts.ranks, index - rounds);
  if (edge.role == BinomialEdge::Role::kChild) step.send(edge.peer, SubtreeBlocks(edge));
  if (edge.role == BinomialEdge::Role::kParent) step.recv(edge.peer, SubtreeBlocks(edge));
  return step;
}

}  // namespace

std::unique_ptr<Program> ScatterAllgatherBroadcast(uint32_t ranks, Rank root) {
  ROCECOLL_CHECK(ranks >= 2 && root < ranks);
  return FunctionProgram::Make(
      {.name = "scatter_allgather", .ranks = ranks, .root = root, .steps = 2 * CeilLog2(ranks)},
      BroadcastStep);
}

std::unique_ptr<Program> ReduceScatterGatherReduce(uint32_t ranks, Rank root) {
  ROCECOLL_CHECK(ranks >= 2 && root < ranks);
  return FunctionProgram::Make({.name = "reduce_scatter_gather",
                                .ranks = ranks,
                                .root = root,
                                .steps = 2 * CeilLog2(ranks),
                                .max_reduce_blocks = ranks / 2},
                               ReduceStep);
}

}  // namespace rocecoll
