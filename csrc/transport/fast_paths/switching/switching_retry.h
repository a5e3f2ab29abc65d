// SPDX-License-Identifier: Apache-2.0
// When a link that the control path carries tries the fast path again: a second after the failure,
// then after exponentially growing delays. Neither end has to tell the other. An end that knows of
// a change tries at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/backoff.h"
#include "base/random.h"
#include "base/time.h"

namespace rocecoll {

class SwitchingRetry {
 public:
  static constexpr Duration kFirstDelay = std::chrono::seconds(1);
  static constexpr Duration kLongestDelay = std::chrono::seconds(40);
  // A path that carried for at least this long before it failed counts as sound.
  static constexpr Duration kSoundAfter = std::chrono::seconds(60);

  explicit SwitchingRetry(uint64_t seed) : random_(seed) {}

  // An attempt begins, at either end.
  void on_attempt(Instant now) { attempted_at_ = now; }
  // The fast path carries from now on.
  void on_carried(Instant now) { carried_since_ = now; }
  void on_broken(Instant now) {
    if (now - carried_since_ >= kSoundAfter) delay_.reset();
  }
  // The control path carries: when to make the next attempt. A jitter of a quarter each way makes
  // the times of the two ends differ, so that one of them asks and the other one answers.
  Instant next_after(Instant now) {
    const Duration delay = delay_.next();
    const auto quarter = static_cast<uint64_t>(delay.count()) / 4;
    return now + delay * 3 / 4 + Duration(static_cast<int64_t>(random_.below(2 * quarter)));
  }
  // Spreads links that wait for the same moment, so that a different one is first each time.
  Instant some_time_after(Instant at) {
    return at + Duration(static_cast<int64_t>(random_.below(kFirstDelay.count())));
  }
  // When to try because the device works again. A delay of kFirstDelay between attempts bounds them
  // where a device comes and goes many times a second.
  Instant soon(Instant now) const { return std::max(now, attempted_at_ + kFirstDelay); }

 private:
  Random random_;
  Backoff delay_{kFirstDelay, kLongestDelay};
  Instant attempted_at_{};
  Instant carried_since_{};
};

}  // namespace rocecoll
