// SPDX-License-Identifier: Apache-2.0
// The options of rc. One of them, `adaptive_routing`, no NIC has run yet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/fast_paths/switching/switching_options.h"

namespace rocecoll {

struct RcOptions : SwitchingOptions {
  static constexpr size_t kMaxFrameBytes = 4088;
  // A write of this size fits into a block of registered memory, so it can go out even where
  // nothing else can be registered.
  static constexpr size_t kMaxWriteBytes = size_t{256} << 10;
  // What a pair of ranks has registered before any tensor: one slab of each pool, and scratch.
  static constexpr uint64_t kLeastLockedBytes = uint64_t{4} << 20;

  RcOptions()
      : SwitchingOptions{.words = {"RoCE", "queue pair", "memory cannot be registered", "UDP"},
                         .returns = true,
                         .max_frame_bytes = kMaxFrameBytes,
                         .max_write_bytes = kMaxWriteBytes} {}

  // A large write is cut into this many contiguous parts, and each has its own queue pair. More
  // than one helps where a bond or ECMP spreads flows.
  uint32_t queue_pairs_per_connection = 1;
  // Sends the immediate of a part in a request of its own, after all of the data. A network that
  // routes adaptively spreads the packets of a flow over all its ways, but not those of a write
  // that has an immediate. No NIC and no switch has run this yet: only Soft-RoCE and simulated
  // devices have.
  bool adaptive_routing = false;
  // Messages per queue pair that the receiver keeps receive requests for (stream_credits.h).
  uint32_t credits = 16;
};

}  // namespace rocecoll
