// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "transport/fast_paths/switching/switching_options.h"

namespace rocecoll {

struct ShmOptions : SwitchingOptions {
  // A message of 32 KiB, copied twice, beats what asking the receiver costs.
  static constexpr size_t kMaxFrameBytes = (size_t{32} << 10) + 256;
  // Nothing is on the way for long, and what more messages touch leaves the caches before it is
  // touched again: eight of 252 KiB took 1.4 to 1.7 times as long.
  static constexpr uint32_t kMessagesInFlight = 3;
  // A word to the other end costs next to nothing: with four ranks on two cores overlapping steps
  // took 1.02 to 1.13 times as long.
  static constexpr uint32_t kOverlappingLanes = 0;

  ShmOptions()
      : SwitchingOptions{
            .words = {"shared memory", "shared ring", "memory cannot be shared", "the network"},
            .expected = false,
            .max_frame_bytes = kMaxFrameBytes,
            .messages_in_flight = kMessagesInFlight,
            .overlapping_lanes = kOverlappingLanes} {}

  // Read large messages out of the sender's memory where the system permits it.
  bool fetch = true;
};

}  // namespace rocecoll
