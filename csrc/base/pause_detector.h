// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace rocecoll {

// Whether this process was kept from running: stopped, frozen by its container, or with its machine
// while a virtual one migrated. Nobody else's silence may be counted in that time.
//
// What is called on deadlines tells when it asked to be called next; being called much later than
// that is a pause. A sleep until the deadline is none. While a whole machine sleeps its monotonic
// clock stands still (CLOCK_MONOTONIC, unlike CLOCK_BOOTTIME), and there is nothing to detect.
class PauseDetector {
 public:
  // Longer than a loaded machine's scheduler lets a thread wait, short against every timeout.
  static constexpr Duration kLeast = std::chrono::milliseconds(250);

  // How long the pause was that this call ends; zero if there was none.
  Duration on_call(Instant now) const {
    return due_ != kNever && now - due_ >= kLeast ? now - due_ : Duration{0};
  }
  // At the end of the call: it wants the next one at `deadline`.
  void expect(Instant now, Instant deadline) { due_ = std::max(now, deadline); }

 private:
  Instant due_ = kNever;
};

}  // namespace rocecoll
