// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/pause_detector.h"
#include "base/time.h"

namespace rocecoll {

// The time that a wait may take. Pauses of this process do not count: a process that was stopped
// for longer than its timeout has not waited.
class Patience {
 public:
  Patience(Instant now, Duration timeout)
      : timeout_(timeout), limit_(After(now, timeout)), looked_(now) {
    pauses_.expect(now, now);
  }

  Duration timeout() const { return timeout_; }
  // Call each time that the condition is checked: whether there is time left.
  bool lasts(Instant now) {
    limit_ = After(limit_, pauses_.on_call(now));
    pauses_.expect(now, now);
    looked_ = now;
    return now < limit_;
  }
  // For a caller that sleeps right after lasts(now): for how long, until it checks again.
  Duration nap(Instant now) { return std::min(nap_until(now, kNever) - now, kLongestSleep); }
  // The same for a caller that wants to wake up at `wish` at the latest: until when. kNever: no
  // limit.
  Instant nap_until(Instant now, Instant wish) {
    if (limit_ == kNever) return wish;
    const Instant until = std::min({wish, limit_, now + kLongestNap});
    pauses_.expect(now, until);
    return until;
  }
  // For a caller that does something else in between: the next part of the wait, at most `longest`
  // from the last check, or from the beginning.
  Patience turn(Duration longest) {
    return Patience(looked_, nap_until(looked_, After(looked_, longest)) - looked_);
  }

 private:
  // A longer nap could not be told from a pause.
  static constexpr Duration kLongestNap = PauseDetector::kLeast;
  static constexpr Duration kLongestSleep = std::chrono::hours(1);  // overflows no clock

  Duration timeout_;
  Instant limit_;
  Instant looked_;
  PauseDetector pauses_;
};

}  // namespace rocecoll
