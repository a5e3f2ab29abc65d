// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace rocecoll {

// Detects that this process was kept from running: stopped, frozen by its container, or suspended
// with its virtual machine during a migration. That time may not count as anybody else's silence.
//
// Code that is called at deadlines says when it expects the next call; a call much later than that
// ends a pause. A sleep until the deadline is no pause. While a whole machine sleeps, its monotonic
// clock stands still (CLOCK_MONOTONIC, unlike CLOCK_BOOTTIME), and there is nothing to detect.
class PauseDetector {
 public:
  // Longer than the scheduler of a loaded machine lets a thread wait, and much shorter than any
  // timeout.
  static constexpr Duration kLeast = std::chrono::milliseconds(250);

  // The length of the pause that this call ends; zero if there was none.
  Duration on_call(Instant now) const {
    return due_ != kNever && now - due_ >= kLeast ? now - due_ : Duration{0};
  }
  // At the end of a call: the next one is expected at `deadline`.
  void expect(Instant now, Instant deadline) { due_ = std::max(now, deadline); }

 private:
  Instant due_ = kNever;
};

}  // namespace rocecoll
