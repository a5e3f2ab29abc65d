// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// A token bucket that bounds answers to packets which any host may have sent, even with a forged
// address.
class AnswerLimiter {
 public:
  // `interval`: the time per answer beyond bursts.
  AnswerLimiter(int64_t burst, Duration interval)
      : burst_(burst), interval_(interval), tokens_(burst) {}

  bool allow(Instant now) {
    const int64_t earned = std::max<int64_t>((now - counted_at_) / interval_, 0);
    if (earned > 0) {
      tokens_ = std::min(burst_, tokens_ + std::min(earned, burst_));
      counted_at_ = now;
    }
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  const int64_t burst_;
  const Duration interval_;
  int64_t tokens_;
  Instant counted_at_{};
};

}  // namespace rocecoll
