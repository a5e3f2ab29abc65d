// SPDX-License-Identifier: Apache-2.0
#include "collectives/gather_scatter.h"

#include <algorithm>

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// The root's own block is copied in the first step, beside these peers.
constexpr uint32_t kPeersPerStep = Step::kMaxTransfers - 1;

// Work block i of a rank is the block of the rank i further: its own one, then its subtree's.
Blocks WorkBlocks(const BinomialEdge& edge, Rank rank, uint32_t ranks) {
  return Blocks::Run(Buffer::kWork, Before(edge.child, rank, ranks), edge.subtree_size);
}

Step BinomialGatherStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const BinomialEdge edge = BinomialEdgeAt(rank, facts.root, facts.ranks, index);
  const bool is_root = rank == facts.root;
  const bool is_leaf = index == 0 && edge.role == BinomialEdge::Role::kChild;
  const Blocks input = Blocks::Run(Buffer::kInput, 0, 1);
  Step step;
  if (index == 0 && is_root) step.copy(Blocks::Run(Buffer::kOutput, rank, 1), input);
  if (index == 0 && !is_root && !is_leaf) step.copy(Blocks::Run(Buffer::kWork, 0, 1), input);
  if (edge.role == BinomialEdge::Role::kChild) {
    step.send(edge.peer, is_leaf ? input : WorkBlocks(edge, rank, facts.ranks));
  } else if (edge.role == BinomialEdge::Role::kParent) {
    step.recv(edge.peer, is_root ? Blocks::Run(Buffer::kOutput, edge.child, edge.subtree_size)
                                 : WorkBlocks(edge, rank, facts.ranks));
  }
  return step;
}

// The last edges (level 0) lead to leaves, which receive straight into their output. Other ranks
// copy their own block out of scratch while they send the last one on.
Step BinomialScatterStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const bool last = index + 1 == facts.steps;
  const BinomialEdge edge = BinomialEdgeAt(rank, facts.root, facts.ranks, facts.steps - 1 - index);
  const bool is_root = rank == facts.root;
  const bool is_leaf = last && edge.role == BinomialEdge::Role::kChild;
  const Blocks output = Blocks::Run(Buffer::kOutput, 0, 1);
  Step step;
  if (index == 0 && is_root) step.copy(output, Blocks::Run(Buffer::kInput, rank, 1));
  if (last && !is_root && !is_leaf) step.copy(output, Blocks::Run(Buffer::kWork, 0, 1));
  if (edge.role == BinomialEdge::Role::kChild) {
    step.recv(edge.peer, is_leaf ? output : WorkBlocks(edge, rank, facts.ranks));
  } else if (edge.role == BinomialEdge::Role::kParent) {
    step.send(edge.peer, is_root ? Blocks::Run(Buffer::kInput, edge.child, edge.subtree_size)
                                 : WorkBlocks(edge, rank, facts.ranks));
  }
  return step;
}

// Scratch for the largest subtree below the root: the one at half the circle, which may be cut off,
// or the whole one at a quarter. Two ranks have a leaf only.
uint32_t BinomialWorkBlocks(uint32_t ranks) {
  if (ranks <= 2) return 0;
  const uint32_t half = 1u << (CeilLog2(ranks) - 1);
  return std::max(half / 2, ranks - half);
}

uint32_t LinearSteps(uint32_t ranks) { return CeilDivide(ranks - 1, kPeersPerStep); }

// In step k the root deals with the ranks at distance 1 + k * kPeersPerStep and up.
Step LinearGatherStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t first = 1 + index * kPeersPerStep;
  const uint32_t end = std::min(first + kPeersPerStep, facts.ranks);
  const Blocks input = Blocks::Run(Buffer::kInput, 0, 1);
  Step step;
  if (rank == facts.root) {
    if (index == 0) step.copy(Blocks::Run(Buffer::kOutput, rank, 1), input);
    for (uint32_t distance = first; distance < end; ++distance) {
      const Rank peer = After(rank, distance, facts.ranks);
      step.recv(peer, Blocks::Run(Buffer::kOutput, peer, 1));
    }
    return step;
  }
  const uint32_t distance = Before(rank, facts.root, facts.ranks);
  if (distance >= first && distance < end) step.send(facts.root, input);
  return step;
}

Step LinearScatterStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t first = 1 + index * kPeersPerStep;
  const uint32_t end = std::min(first + kPeersPerStep, facts.ranks);
  const Blocks output = Blocks::Run(Buffer::kOutput, 0, 1);
  Step step;
  if (rank == facts.root) {
    if (index == 0) step.copy(output, Blocks::Run(Buffer::kInput, rank, 1));
    for (uint32_t distance = first; distance < end; ++distance) {
      const Rank peer = After(rank, distance, facts.ranks);
      step.send(peer, Blocks::Run(Buffer::kInput, peer, 1));
    }
    return step;
  }
  const uint32_t distance = Before(rank, facts.root, facts.ranks);
  if (distance >= first && distance < end) step.recv(facts.root, output);
  return step;
}

std::unique_ptr<Program> MakeBinomial(uint32_t ranks, Rank root, StepFunction step_function) {
  ROCECOLL_CHECK(ranks >= 2 && root < ranks);
  return FunctionProgram::Make({.name = "binomial",
                                .ranks = ranks,
                                .root = root,
                                .steps = CeilLog2(ranks),
                                .work_blocks = BinomialWorkBlocks(ranks)},
                               step_function);
}

std::unique_ptr<Program> MakeLinear(uint32_t ranks, Rank root, StepFunction step_function) {
  ROCECOLL_CHECK(ranks >= 2 && root < ranks);
  return FunctionProgram::Make(
      {.name = "linear", .ranks = ranks, .root = root, .steps = LinearSteps(ranks)}, step_function);
}

}  // namespace

std::unique_ptr<Program> BinomialGather(uint32_t ranks, Rank root) {
  return MakeBinomial(ranks, root, BinomialGatherStep);
}

std::unique_ptr<Program> BinomialScatter(uint32_t ranks, Rank root) {
  return MakeBinomial(ranks, root, BinomialScatterStep);
}

std::unique_ptr<Program> LinearGather(uint32_t ranks, Rank root) {
  return MakeLinear(ranks, root, LinearGatherStep);
}

std::unique_ptr<Program> LinearScatter(uint32_t ranks, Rank root) {
  return MakeLinear(ranks, root, LinearScatterStep);
}

}  // namespace rocecoll
