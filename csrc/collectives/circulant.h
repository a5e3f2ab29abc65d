// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter, allgather and allreduce on a circulant graph (J. L. Traeff, "Optimal,
// non-pipelined reduce-scatter and allreduce algorithms",
// repositum.tuwien.at/handle/20.500.12708/219280): for any number of ranks ceil(log2 p) rounds and
// exactly p - 1 blocks each. Reductions must commute.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/program.h"

namespace rocecoll {

std::unique_ptr<Program> CirculantAllreduce(uint32_t ranks);
std::unique_ptr<Program> CirculantReduceScatter(uint32_t ranks);
std::unique_ptr<Program> CirculantAllgather(uint32_t ranks);

// One round of the allgather within kOutput, for programs that end with one: every rank starts with
// its own block, and after ceil(log2 p) rounds has all.
void AddCirculantGatherRound(Rank rank, uint32_t ranks, uint32_t round, Step& step);
// One round of the reduce-scatter within kOutput: after ceil(log2 p) rounds block `rank` is the
// sum.
void AddCirculantReduceRound(Rank rank, uint32_t ranks, uint32_t round, Step& step);

}  // namespace rocecoll
