// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/fast_paths/switching/switching_options.h"

namespace rocecoll {

struct RcOptions : SwitchingOptions {
  static constexpr size_t kMaxFrameBytes = 4088;
  // Each fits into a block of registered memory, whatever else can be registered.
  static constexpr size_t kMaxWriteBytes = size_t{256} << 10;
  // What one pair of ranks has registered before any tensor: a slab of each pool, and scratch.
  static constexpr uint64_t kLeastLockedBytes = uint64_t{4} << 20;

  RcOptions()
      : SwitchingOptions{.words = {"RoCE", "queue pair", "memory cannot be registered", "UDP"},
                         .returns = true,
                         .max_frame_bytes = kMaxFrameBytes,
                         .max_write_bytes = kMaxWriteBytes} {}

  // Large writes are cut into as many contiguous parts, one queue pair each. More than one helps
  // where a bond or ECMP spreads flows.
  uint32_t queue_pairs_per_connection = 1;
  // The immediate of a part goes in a request of its own, behind all of the data. Networks route
  // writes adaptively, so that a flow takes all ways at once, but nothing that has an immediate.
  bool adaptive_routing = false;
  // Messages per queue pair that the receiver keeps receive requests for.
  uint32_t credits = 16;
};

}  // namespace rocecoll
