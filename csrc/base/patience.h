// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/pause_detector.h"
#include "base/time.h"

namespace rocecoll {

// The time that a wait may take, of which a pause of this process is no part: whoever was stopped
// for longer than it was ready to wait has not waited.
class Patience {
 public:
  Patience(Instant now, Duration timeout)
      : timeout_(timeout), limit_(After(now, timeout)), looked_(now) {
    pauses_.expect(now, now);
  }

  Duration timeout() const { return timeout_; }
  // At each look at what is waited for: whether there is time left.
  bool lasts(Instant now) {
    limit_ = After(limit_, pauses_.on_call(now));
    pauses_.expect(now, now);
    looked_ = now;
    return now < limit_;
  }
  // For whoever goes to sleep right after lasts(now): for how long, to look again.
  Duration nap(Instant now) { return std::min(nap_until(now, kNever) - now, kLongestSleep); }
  // The same for those who want to get up at `wish` at the latest: until when. kNever: no limit.
  Instant nap_until(Instant now, Instant wish) {
    if (limit_ == kNever) return wish;
    const Instant until = std::min({wish, limit_, now + kLongestNap});
    pauses_.expect(now, until);
    return until;
  }
  // For whoever sees to something else in between: the next part of the wait, no longer than
  // `longest` from the last look, or from the beginning.
  Patience turn(Duration longest) {
    return Patience(looked_, nap_until(looked_, After(looked_, longest)) - looked_);
  }

 private:
  // So that a pause is told from sleep.
  static constexpr Duration kLongestNap = PauseDetector::kLeast;
  static constexpr Duration kLongestSleep = std::chrono::hours(1);  // that any clock can add

  Duration timeout_;
  Instant limit_;
  Instant looked_;
  PauseDetector pauses_;
};

}  // namespace rocecoll
