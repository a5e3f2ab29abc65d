// SPDX-License-Identifier: Apache-2.0
// When a link that the control path carries tries the faster path again: a second after it has
// failed, then after twice the time each, in which neither end need be told. What is known to have
// changed is tried at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/random.h"
#include "base/time.h"

namespace rocecoll {

class SwitchingRetry {
 public:
  static constexpr Duration kFirstDelay = std::chrono::seconds(1);
  static constexpr Duration kLongestDelay = std::chrono::seconds(40);
  // A path that has carried for so long is taken for a sound one when it fails.
  static constexpr Duration kSoundAfter = std::chrono::seconds(60);

  explicit SwitchingRetry(uint64_t seed) : random_(seed) {}

  // An attempt begins, of whichever end.
  void on_attempt(Instant now) { attempted_at_ = now; }
  // The faster path carries from now on.
  void on_carried(Instant now) { carried_since_ = now; }
  void on_broken(Instant now) {
    if (now - carried_since_ >= kSoundAfter) delay_ = kFirstDelay;
  }
  // The control path carries: the next attempt. Both ends' times differ, so that one of them asks
  // and the other one answers.
  Instant next_after(Instant now) {
    const auto quarter = static_cast<uint64_t>(delay_.count()) / 4;
    const Duration jittered =
        delay_ * 3 / 4 + Duration(static_cast<int64_t>(random_.below(2 * quarter)));
    delay_ = std::min(delay_ * 2, kLongestDelay);
    return now + jittered;
  }
  // Of several links that wait for one moment, each time another one is the first.
  Instant some_time_after(Instant at) {
    return at + Duration(static_cast<int64_t>(random_.below(kFirstDelay.count())));
  }
  // The device works again. Not more often than this: it may do so many times a second.
  Instant soon(Instant now) const { return std::max(now, attempted_at_ + kFirstDelay); }

 private:
  Random random_;
  Duration delay_ = kFirstDelay;
  Instant attempted_at_{};
  Instant carried_since_{};
};

}  // namespace rocecoll
