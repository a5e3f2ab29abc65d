// SPDX-License-Identifier: Apache-2.0
// How long a copy takes is the machine's time, whatever time the caller is told.
#pragma once

#include "base/monotonic_clock.h"
#include "base/time.h"

namespace rocecoll {

// From here on.
class CopyTimer {
 public:
  Duration took() const { return MonotonicNow() - begun_; }

 private:
  Instant begun_ = MonotonicNow();
};

}  // namespace rocecoll
