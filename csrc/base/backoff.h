// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/time.h"

namespace rocecoll {

// Exponential back-off: each delay is twice the one before it, up to a cap, until reset(). Jitter
// and the moment of the attempt are up to the caller.
class Backoff {
 public:
  constexpr Backoff(Duration first, Duration cap) : first_(first), cap_(cap), delay_(first) {}

  Duration delay() const { return delay_; }
  bool capped() const { return delay_ == cap_; }
  void grow() { delay_ = std::min(2 * delay_, cap_); }
  // The delay before the coming attempt; doubles it for the one after that.
  Duration next() {
    const Duration current = delay_;
    grow();
    return current;
  }
  void reset() { delay_ = first_; }

 private:
  Duration first_;
  Duration cap_;
  Duration delay_;
};

}  // namespace rocecoll
