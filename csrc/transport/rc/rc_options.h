// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

struct RcOptions {
  // Large writes are cut into as many contiguous parts, one queue pair each. More than one helps
  // where a bond or ECMP spreads flows.
  uint32_t queue_pairs_per_connection = 1;
  // Messages per queue pair that the receiver keeps receive requests for.
  uint32_t credits = 16;
  // Pairs that RoCE does not (or no longer) carry go on over the control path. Else they fail.
  bool failover = true;
  // RoCE was asked for by name: that a pair does without it is worth a warning, not only a note.
  bool expected = true;
  // For both ends to prove the RoCE path, from when both have opened the link.
  Duration proof_timeout = std::chrono::seconds(3);
  // How often one link's queue pairs are made anew after an error before it counts as broken.
  uint32_t max_recoveries = 8;
  // Of messages and, modulo 2^32, of writes and slices, at both ends: the protocol says 0. Tests
  // begin where a long life would lead.
  uint64_t first_number = 0;
};

}  // namespace rocecoll
