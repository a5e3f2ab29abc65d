// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rocecoll {

// Startup is over when the rate has grown by less than a quarter for three rounds
// (draft-ietf-ccwg-bbr-06 section 5.3.1.2), or sooner if more meets a full queue. A probe ends in
// the same way where there is too little to send to fill the path.
class StartupGrowth {
 public:
  // After each round. `rate`: the delivered bytes per second at its end.
  bool over(double rate, bool limited, bool queue) {
    if (rate >= full_rate_ * kGrowth) {
      full_rate_ = rate;
      full_rounds_ = 0;
      return false;
    }
    if (!limited) return false;
    ++full_rounds_;
    return full_rounds_ >= kRounds || queue;
  }

 private:
  static constexpr double kGrowth = 1.25;
  static constexpr uint32_t kRounds = 3;
  double full_rate_ = 0;
  uint32_t full_rounds_ = 0;
};

}  // namespace rocecoll
