// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "transport/dual/dual_options.h"

namespace rocecoll {

struct ShmOptions : DualOptions {
  // A message of 32 KiB, copied twice, beats what asking the receiver costs.
  static constexpr size_t kMaxFrameBytes = (size_t{32} << 10) + 256;

  ShmOptions()
      : DualOptions{
            .words = {"shared memory", "shared ring", "memory cannot be shared", "the network"},
            .expected = false,
            .max_frame_bytes = kMaxFrameBytes} {}

  // Read large messages out of the sender's memory where the system permits it.
  bool fetch = true;
};

}  // namespace rocecoll
