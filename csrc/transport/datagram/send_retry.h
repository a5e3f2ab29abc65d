// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace rocecoll {

// When to offer the port again what it had no room for: soon at first, then with a doubling
// interval, since a device that is paused may stay so for long.
class SendRetry {
 public:
  // About what a 10 Gbit/s device needs for half a batch.
  static constexpr Duration kFirst = std::chrono::microseconds(50);
  // A hundred wake-ups a second cost nothing, and this much later no timer is missed.
  static constexpr Duration kMost = std::chrono::milliseconds(10);
  // A full buffer empties within milliseconds. After this long somebody should be told, once.
  static constexpr Duration kWorthTelling = std::chrono::seconds(1);

  void on_refused(Instant now) {
    if (at_ == kNever) {
      since_ = now;
      told_ = false;
      interval_ = kFirst;
    } else if (now < at_) {
      return;  // tried before its time, because something else happened
    } else {
      interval_ = std::min(2 * interval_, kMost);
    }
    at_ = now + interval_;
  }
  // It took something.
  void on_accepted() { at_ = kNever; }
  // kNever while nothing waits.
  Instant at() const { return at_; }
  // True once for each refusal that lasts.
  bool poll_worth_telling(Instant now) {
    if (at_ == kNever || told_ || now < since_ + kWorthTelling) return false;
    return told_ = true;
  }

 private:
  Instant at_ = kNever;
  Duration interval_ = kFirst;
  Instant since_{};
  bool told_ = false;
};

}  // namespace rocecoll
