// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/time.h"

namespace rocecoll {

// Whatever the congestion control believes of a path: who loses more than a quarter of what is sent
// for seconds harms others and himself, and goes slower than what arrived until the most of it does
// (a network transport circuit breaker, RFC 8084 section 3). An outage loses one flight, however
// long it takes, and breaks nothing.
class CircuitBreaker {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr int kIntervals = 3;  // in a row

  // After each round trip, in which so much was acknowledged and lost, within `time` of sending all
  // that the congestion control let go; zero if there was less to send.
  void on_round(Instant now, uint64_t acked_bytes, uint64_t lost_bytes, Duration time) {
    if (acked_ + lost_ == 0) began_ = now;
    acked_ += static_cast<double>(acked_bytes);
    lost_ += static_cast<double>(lost_bytes);
    if (time > Duration{0}) {
      limited_acked_ += static_cast<double>(acked_bytes);
      limited_seconds_ += Seconds(time);
    }
    if (now - began_ < kInterval) return;
    if (acked_ + lost_ >= kLeastBytes) judge();
    acked_ = lost_ = limited_acked_ = limited_seconds_ = 0;
  }

  // Of the rate, in bytes per second; 0: none.
  double bound() const { return bound_; }
  // The share that was lost when it last broke the circuit.
  double lost_share() const { return lost_share_; }
  // True once for each time that it did.
  bool take_news() { return std::exchange(news_, false); }

 private:
  static constexpr double kBreaks = 0.25;
  static constexpr double kCloses = 0.1;
  static constexpr double kKept = 0.7;
  // So that a path that loses at random is not given up.
  static constexpr double kLeastKept = 1.0 / 16;
  // Less proves nothing, and harms nobody: about 100 packets.
  static constexpr double kLeastBytes = 150'000;

  void judge() {
    const double share = lost_ / (acked_ + lost_);
    if (bound_ > 0) {
      bound_ = share < kCloses ? 0 : std::max(least_, bound_ * kKept);
      return;
    }
    bad_intervals_ = share > kBreaks ? bad_intervals_ + 1 : 0;
    if (bad_intervals_ >= kIntervals && limited_seconds_ > 0) {
      const double delivered = limited_acked_ / limited_seconds_;
      bound_ = delivered * kKept;
      least_ = delivered * kLeastKept;
      lost_share_ = share;
      news_ = true;
      bad_intervals_ = 0;
    }
  }

  double bound_ = 0;
  double least_ = 0;
  double lost_share_ = 0;
  bool news_ = false;
  int bad_intervals_ = 0;
  // Of the interval that has begun.
  Instant began_{};
  double acked_ = 0;
  double lost_ = 0;
  double limited_acked_ = 0;
  double limited_seconds_ = 0;
};

}  // namespace rocecoll
