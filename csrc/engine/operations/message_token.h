// SPDX-License-Identifier: Apache-2.0
// Names a message of a running operation to the messenger, whose completions bring it back.
#pragma once

#include <cstdint>

namespace rocecoll {

struct MessageToken {
  uint32_t operation = 0;  // its place among those that run in the group
  uint32_t lane = 0;       // the slot of its lane, below 2^30
  bool sends = false;      // else it is received
  bool odd_step = false;   // of the two steps of a lane that may overlap

  static MessageToken Of(uint64_t packed) {
    const auto low = static_cast<uint32_t>(packed);
    return {static_cast<uint32_t>(packed >> 32), low >> 2, (low & 2) != 0, (low & 1) != 0};
  }
  uint64_t packed() const {
    return uint64_t{operation} << 32 | uint64_t{lane} << 2 | uint64_t{sends} << 1 | odd_step;
  }
  friend bool operator==(const MessageToken&, const MessageToken&) = default;
};

}  // namespace rocecoll
