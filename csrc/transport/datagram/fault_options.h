// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// What the fault-injecting port does to each datagram that it sends, independently of others. The
// same seed and traffic give the same faults.
struct FaultOptions {
  double loss = 0;       // probability of dropping
  double duplicate = 0;  // probability of sending twice
  double reorder = 0;    // probability of holding back until a few later datagrams have gone
  double corrupt = 0;    // probability of flipping one bit
  Duration delay{0};     // added to every datagram
  uint64_t seed = 1;

  bool any() const {
    return loss > 0 || duplicate > 0 || reorder > 0 || corrupt > 0 || delay > Duration{0};
  }
};

}  // namespace rocecoll
