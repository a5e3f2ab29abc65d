// SPDX-License-Identifier: Apache-2.0
// How many links a group needs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "collectives/selector.h"

namespace rocecoll {

// Everybody whom rank 0 talks to in what is chosen, but for the operations in which everybody talks
// to everybody, or to the root.
inline std::set<Rank> PeersOfPrograms(uint32_t ranks) {
  using enum Collective;
  std::set<Rank> peers;
  for (const Collective collective :
       {kAllreduce, kBroadcast, kReduce, kReduceScatter, kAllgather, kBarrier}) {
    for (const uint64_t bytes : {uint64_t{8}, uint64_t{1} << 20, uint64_t{1} << 40}) {
      const Program program =
          MakeProgram({.collective = collective, .ranks = ranks, .bytes = bytes}).take();
      for (uint32_t index = 0; index < program.steps; ++index) {
        for (const Transfer& transfer : program.step(0, index)) {
          if (transfer.kind != Transfer::Kind::kCopy) peers.insert(transfer.peer);
        }
      }
    }
  }
  return peers;
}

}  // namespace rocecoll
