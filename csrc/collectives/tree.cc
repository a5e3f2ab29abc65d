// SPDX-License-Identifier: Apache-2.0
#include "collectives/tree.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

Step BroadcastStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const BinomialEdge edge = BinomialEdgeAt(rank, facts.root, facts.ranks, facts.steps - 1 - index);
  const Blocks all = Blocks::Run(Buffer::kOutput, 0, facts.ranks);
  Step step;
  if (edge.role == BinomialEdge::Role::kParent) step.send(edge.peer, all);
  if (edge.role == BinomialEdge::Role::kChild) step.recv(edge.peer, all);
  return step;
}

// A leaf sends its input as it is. Every other rank is a parent at level 0 or has nothing to do
// there, and adds up in its output, which starts as a copy of its input.
Step ReduceStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const BinomialEdge edge = BinomialEdgeAt(rank, facts.root, facts.ranks, index);
  const Blocks input = Blocks::Run(Buffer::kInput, 0, facts.ranks);
  const Blocks sum = Blocks::Run(Buffer::kOutput, 0, facts.ranks);
  const bool is_child = edge.role == BinomialEdge::Role::kChild;
  Step step;
  if (index == 0 && !is_child) step.copy(sum, input);
  if (is_child) step.send(edge.peer, index == 0 ? input : sum);
  if (edge.role == BinomialEdge::Role::kParent) step.recv_reduce(edge.peer, sum);
  return step;
}

}  // namespace

std::unique_ptr<Program> BinomialBroadcast(uint32_t ranks, Rank root) {
  ROCECOLL_CHECK(ranks >= 2 && root < ranks);
  return FunctionProgram::Make(
      {.name = "binomial", .ranks = ranks, .root = root, .steps = CeilLog2(ranks)}, BroadcastStep);
}

std::unique_ptr<Program> BinomialReduce(uint32_t ranks, Rank root) {
  ROCECOLL_CHECK(ranks >= 2 && root < ranks);
  return FunctionProgram::Make({.name = "binomial",
                                .ranks = ranks,
                                .root = root,
                                .steps = CeilLog2(ranks),
                                .max_reduce_blocks = ranks},
                               ReduceStep);
}

}  // namespace rocecoll
