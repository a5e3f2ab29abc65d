// SPDX-License-Identifier: Apache-2.0
// Proves a program, for its number of ranks, by executing it on symbols:
//   - every transfer names valid blocks of buffers that the rank has, and never writes the input;
//   - rule 1: sends and receives match, in order and in size. With global step numbers and all
//     transfers of a step under way at once, this also excludes deadlock: a step depends on nothing
//     but earlier steps;
//   - rule 3: nothing in flight overlaps what is received, and nothing undefined is sent;
//   - work_blocks is the number of work blocks that are used;
//   - the result: every contribution exactly once, in its place, and sums with the same operands in
//     the same order on all ranks.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "collectives/program.h"

namespace rocecoll {

struct CheckReport {
  uint32_t steps = 0;            // the steps in which some rank sends
  uint32_t reduced_at_once = 0;  // the most blocks that one step reduces, which wait in scratch
  // The largest values over all ranks, each summed over all steps.
  uint64_t blocks_sent = 0;
  uint32_t messages_sent = 0;
  uint32_t peers = 0;  // the ranks that a rank sends to or receives from
};

// Returns kInternal with what is wrong and where. `in_place`: the output shares the input's memory.
Result<CheckReport> CheckProgram(const Program& program, Collective collective, Rank root = 0,
                                 bool in_place = false);

}  // namespace rocecoll
