// SPDX-License-Identifier: Apache-2.0
// How many blocks the buffers of an operation have: the table of program.h.
#pragma once

#include <cstdint>

#include "collectives/program.h"

namespace rocecoll {

// Blocks of the caller's buffer on `rank`; 0 where the rank has no such buffer. (kWork is the
// program's own business: Program::work_blocks().)
constexpr uint32_t BlocksIn(Buffer buffer, Collective collective, uint32_t ranks, Rank rank,
                            Rank root) {
  const bool input = buffer == Buffer::kInput;
  switch (collective) {
    case Collective::kAllreduce:
    case Collective::kReduce:  // away from the root, the output is scratch
    case Collective::kAlltoall:
      return ranks;
    case Collective::kReduceScatter:
      return input ? ranks : 1;
    case Collective::kBroadcast:
      return input ? 0 : ranks;
    case Collective::kAllgather:
      return input ? 1 : ranks;
    case Collective::kGather:
      return input ? 1 : rank == root ? ranks : 0;
    case Collective::kScatter:
      return input ? (rank == root ? ranks : 0) : 1;
    case Collective::kBarrier:
      return 1;
    case Collective::kSend:
      return input ? 1 : 0;
    case Collective::kRecv:
      return input ? 0 : 1;
  }
  return 0;
}

}  // namespace rocecoll
