// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/time.h"

namespace rocecoll {

// A network transport circuit breaker (RFC 8084 section 3), whatever the congestion control
// believes of a path. A sender that loses more than a quarter of what it sends for seconds harms
// others and itself; the breaker has it send less than what arrived until nearly everything
// arrives. An outage loses a single flight, however long it lasts, and breaks nothing.
//
// RFC 8084 leaves the numbers to the transport. These were chosen with circuit_breaker_test,
// policer_test and shaper_test.
class CircuitBreaker {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr int kIntervals = 3;  // in a row

  // After each round trip: what was acknowledged and lost in it. `time`: how long it took while the
  // sender sent all that the congestion control allowed; zero if there was less to send.
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

  // The bound of the rate, in bytes per second; 0: none.
  double bound() const { return bound_; }
  // The share that was lost when the circuit last broke.
  double lost_share() const { return lost_share_; }
  // True once for each time that the circuit breaks.
  bool take_news() { return std::exchange(news_, false); }

 private:
  // The shares of loss that break the circuit and close it again.
  static constexpr double kBreaks = 0.25;
  static constexpr double kCloses = 0.1;
  // What each interval leaves of the rate, and the least of what arrived when the circuit broke: a
  // path that loses at random is not given up.
  static constexpr double kKept = 0.7;
  static constexpr double kLeastKept = 1.0 / 16;
  // Less in an interval proves nothing and harms nobody: about 100 packets.
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
  // In the current interval.
  Instant began_{};
  double acked_ = 0;
  double lost_ = 0;
  double limited_acked_ = 0;
  double limited_seconds_ = 0;
};

}  // namespace rocecoll
