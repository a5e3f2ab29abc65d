// SPDX-License-Identifier: Apache-2.0
// Times copies by the machine's clock, whatever time the caller is given: it is the speed of this
// machine that CopyChoice asks about.
#pragma once

#include "base/monotonic_clock.h"
#include "base/time.h"

namespace rocecoll {

// Starts when it is made.
class CopyTimer {
 public:
  Duration took() const { return MonotonicNow() - begun_; }

 private:
  Instant begun_ = MonotonicNow();
};

}  // namespace rocecoll
