// SPDX-License-Identifier: Apache-2.0
// For the progress thread and the ports only; everything between them is told the time
// (base/time.h).
#pragma once

#include <chrono>

#include "base/time.h"

namespace rocecoll {

inline Instant MonotonicNow() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace rocecoll
