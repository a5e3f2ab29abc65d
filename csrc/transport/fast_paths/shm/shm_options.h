// SPDX-License-Identifier: Apache-2.0
// The options of shared memory.
#pragma once

#include <cstddef>

#include "transport/fast_paths/switching/switching_options.h"

namespace rocecoll {

struct ShmOptions : SwitchingOptions {
  // Copying a message of 32 KiB twice costs less than asking the receiver where to put it.
  static constexpr size_t kMaxFrameBytes = (size_t{32} << 10) + 256;
  // Nothing is on the way for long. The memory of more messages leaves the caches before it is
  // touched again: with eight of 252 KiB operations took 1.4 to 1.7 times as long.
  static constexpr uint32_t kMessagesInFlight = 3;
  // A message costs next to nothing, so overlapping steps gains nothing: with four ranks on two
  // cores operations took 1.02 to 1.13 times as long.
  static constexpr uint32_t kOverlappingLanes = 0;

  ShmOptions()
      : SwitchingOptions{
            .words = {"shared memory", "shared ring", "memory cannot be shared", "the network"},
            .expected = false,
            .max_frame_bytes = kMaxFrameBytes,
            .messages_in_flight = kMessagesInFlight,
            .overlapping_lanes = kOverlappingLanes} {}

  // Fetch large messages from the sender's memory where the system permits that.
  bool fetch = true;
};

}  // namespace rocecoll
