// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// How many answers to packets that name no connection may be sent: a token bucket. Such packets
// come from peers that outlived us, or from anybody with a forged address.
class ResetLimiter {
 public:
  static constexpr int64_t kBurst = 32;
  static constexpr Duration kInterval = std::chrono::milliseconds(1);  // per answer, beyond bursts

  bool allow(Instant now) {
    const int64_t earned = std::max<int64_t>((now - counted_at_) / kInterval, 0);
    if (earned > 0) {
      tokens_ = std::min(kBurst, tokens_ + std::min(earned, kBurst));
      counted_at_ = now;
    }
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  int64_t tokens_ = kBurst;
  Instant counted_at_{};
};

}  // namespace rocecoll
