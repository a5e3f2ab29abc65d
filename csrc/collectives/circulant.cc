// SPDX-License-Identifier: Apache-2.0
#include "collectives/circulant.h"

#include "collectives/function_program.h"
#include "collectives/topology.h"

namespace rocecoll {
namespace {

// s(0) = p, s(k + 1) = ceil(s(k) / 2): so s(k) = ceil(p / 2^k), and s(ceil(log2 p)) = 1.
uint32_t Skip(uint32_t ranks, uint32_t k) { return CeilDivide(ranks, 1u << k); }

// Round k of the reduce-scatter, seen from a rank whose blocks are numbered from its own one: the
// partial sums of blocks s .. s' - 1 (s = s(k + 1), s' = s(k)) go to the rank s further, for which
// they are blocks 0 .. s' - s - 1. As s' <= 2 s, what is sent and what is added to are disjoint.
struct Round {
  Round(Rank rank, uint32_t ranks, uint32_t k)
      : skip(Skip(ranks, k + 1)),
        count(Skip(ranks, k) - skip),
        near(rank),
        far(After(rank, skip, ranks)),
        behind(Before(rank, skip, ranks)) {}

  Blocks near_blocks(Buffer buffer) const { return Blocks::Run(buffer, near, count); }
  Blocks far_blocks(Buffer buffer) const { return Blocks::Run(buffer, far, count); }

  uint32_t skip;
  uint32_t count;
  Rank near;    // this rank: its blocks 0 .. count - 1 start here
  Rank far;     // the rank that skip blocks further
  Rank behind;  // the rank for which this one is `far`
};

Step AllreduceStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const uint32_t rounds = facts.steps / 2;
  Step step;
  if (index == 0) CopyWholeInput(facts.ranks, step);
  if (index < rounds) {
    AddCirculantReduceRound(rank, facts.ranks, index, step);
  } else {
    AddCirculantGatherRound(rank, facts.ranks, index - rounds, step);
  }
  return step;
}

// The first round sends from the input, so that only the other half has to be copied. The last one
// adds to the rank's own block alone, in the output.
Step ReduceScatterStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  const Round round(rank, facts.ranks, index);
  const bool first = index == 0;
  const bool last = index + 1 == facts.steps;
  const Buffer held = first ? Buffer::kInput : Buffer::kWork;
  const Blocks output = Blocks::Run(Buffer::kOutput, 0, 1);
  Step step;
  if (last) {
    step.copy(output, Blocks::Run(held, rank, 1));
  } else if (first) {
    step.copy(Blocks::Run(Buffer::kWork, rank, round.skip),
              Blocks::Run(Buffer::kInput, rank, round.skip));
  }
  step.send(round.far, round.far_blocks(held));
  step.recv_reduce(round.behind, last ? output : round.near_blocks(Buffer::kWork));
  return step;
}

Step AllgatherStep(const ProgramFacts& facts, Rank rank, uint32_t index) {
  Step step;
  if (index == 0) {
    step.copy(Blocks::Run(Buffer::kOutput, rank, 1), Blocks::Run(Buffer::kInput, 0, 1));
  }
  AddCirculantGatherRound(rank, facts.ranks, index, step);
  return step;
}

}  // namespace

void AddCirculantReduceRound(Rank rank, uint32_t ranks, uint32_t round, Step& step) {
  const Round at(rank, ranks, round);
  step.send(at.far, at.far_blocks(Buffer::kOutput));
  step.recv_reduce(at.behind, at.near_blocks(Buffer::kOutput));
}

// The allgather is the reduce-scatter run backwards, each transfer in the other direction.
void AddCirculantGatherRound(Rank rank, uint32_t ranks, uint32_t round, Step& step) {
  const Round at(rank, ranks, CeilLog2(ranks) - 1 - round);
  step.send(at.behind, at.near_blocks(Buffer::kOutput));
  step.recv(at.far, at.far_blocks(Buffer::kOutput));
}

std::unique_ptr<Program> CirculantAllreduce(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "circulant",
                                .ranks = ranks,
                                .steps = 2 * CeilLog2(ranks),
                                .max_reduce_blocks = ranks / 2},
                               AllreduceStep);
}

std::unique_ptr<Program> CirculantReduceScatter(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "circulant",
                                .ranks = ranks,
                                .steps = CeilLog2(ranks),
                                .work_blocks = ranks > 2 ? ranks : 0,
                                .max_reduce_blocks = ranks / 2},
                               ReduceScatterStep);
}

std::unique_ptr<Program> CirculantAllgather(uint32_t ranks) {
  ROCECOLL_CHECK(ranks >= 2);
  return FunctionProgram::Make({.name = "circulant", .ranks = ranks, .steps = CeilLog2(ranks)},
                               AllgatherStep);
}

}  // namespace rocecoll
