// SPDX-License-Identifier: Apache-2.0
// How the engine of a process runs operations. Ranks must agree on what lanes are cut by:
// lane_bytes and scratch_bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rocecoll {

struct EngineOptions {
  // An operation is cut into lanes of about this size. The largest message is half of it: four
  // datagrams of 65,000 bytes, headers included.
  size_t lane_bytes = 504 * 1024;
  uint32_t max_lanes_in_flight = 8;         // per operation
  uint32_t max_operations_in_flight = 8;    // collectives per group; further ones wait in order
  size_t scratch_bytes = 64 * 1024 * 1024;  // bound of all scratch of the process
  uint32_t max_pending_operations = 65536;  // per group, submitted and not complete
  size_t max_idle_tag_runs = 1024;          // to each peer of a group: see TagRetirement
  // The number before the first collective and, modulo 2^32, of the first message with each tag;
  // the same on all ranks. Tests begin at numbers that only a long run would reach.
  uint64_t first_number = 0;
};

}  // namespace rocecoll
