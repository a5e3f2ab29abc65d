// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/backoff.h"
#include "base/time.h"

namespace rocecoll {

// When to offer the port again what it had no room for. The first retry is soon; later ones back
// off, since flow control may pause a device for long.
class SendRetry {
 public:
  // About what a 10 Gbit/s device needs for half a batch.
  static constexpr Duration kFirst = std::chrono::microseconds(50);
  // A hundred wake-ups a second cost nothing, and no timer notices being this late.
  static constexpr Duration kMost = std::chrono::milliseconds(10);
  // A full buffer empties within milliseconds. A refusal that lasts this long is worth one message.
  static constexpr Duration kWorthTelling = std::chrono::seconds(1);

  void on_refused(Instant now) {
    if (at_ == kNever) {
      since_ = now;
      told_ = false;
      interval_.reset();
    } else if (now < at_) {
      return;  // tried before its time, because something else happened
    }
    at_ = now + interval_.next();
  }
  // The port took something.
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
  Backoff interval_{kFirst, kMost};
  Instant since_{};
  bool told_ = false;
};

}  // namespace rocecoll
