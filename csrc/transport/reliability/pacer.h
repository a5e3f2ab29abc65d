// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"

namespace rocecoll {

// Spreads what a window allows over the round trip (RFC 9002 section 7.7), in bursts: a sender that
// got up for each packet would do nothing else, and segmentation offload lives from runs. A burst
// is sent ahead, then nothing goes until the rate has paid for it.
class Pacer {
 public:
  // Bursts: timers of a process that sleeps come 50 us and more after their time.
  static constexpr int kMostLate = 2;

  // Until the first rate, nothing is paced. What was sent ahead is paid for at the new rate.
  void set_rate(Instant now, double bytes_per_second, uint64_t burst_bytes) {
    ROCECOLL_CHECK(bytes_per_second > 0);
    if (paid_at_ > now) {
      const double ahead = Seconds(paid_at_ - now) * rate_;
      rate_ = bytes_per_second;
      paid_at_ = now + Time(ahead);
      release_at_ = std::min(release_at_, paid_at_);
    }
    rate_ = bytes_per_second;
    burst_ = Time(static_cast<double>(burst_bytes));
  }
  // When more may be sent; any instant that has passed if it may now.
  Instant release_at() const { return release_at_; }
  bool ready(Instant now) const { return now >= release_at_; }
  void on_sent(Instant now, uint64_t bytes) {
    if (rate_ == 0) {
      paid_at_ = release_at_ = now;
      return;
    }
    // A sender that got up late by a few bursts makes up for it.
    paid_at_ = std::max(paid_at_, now - kMostLate * burst_) + Time(static_cast<double>(bytes));
    if (paid_at_ - now >= burst_) release_at_ = paid_at_;
  }

 private:
  Duration Time(double bytes) const { return Duration(static_cast<int64_t>(bytes / rate_ * 1e9)); }

  double rate_ = 0;
  Duration burst_{};
  Instant paid_at_{};  // when the rate has paid for all that was sent
  Instant release_at_{};
};

}  // namespace rocecoll
