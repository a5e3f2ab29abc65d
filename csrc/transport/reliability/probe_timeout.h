// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "transport/reliability/rtt_estimator.h"

namespace rocecoll {

// When silence after the last packet calls for a probe, so that the loss of a tail is noticed: a
// tail-loss probe after 2 smoothed round trips (RFC 8985 section 7.2), then probe timeouts (RFC
// 9002 section 6.2) that double up to a cap, so that a path that comes back is noticed soon.
class ProbeTimeout {
 public:
  // Of the tail-loss probe: being wrong costs one packet, being late stalls whoever waits.
  static constexpr Duration kTailProbeFloor = std::chrono::milliseconds(1);

  struct Limits {
    Duration floor;
    Duration cap;  // of the back-off; a round trip that is longer counts all the same
    Duration max_ack_delay;
  };

  explicit ProbeTimeout(const Limits& limits) : limits_(limits) {
    ROCECOLL_CHECK(limits.floor > Duration{0});
    ROCECOLL_CHECK(limits.cap >= limits.floor);
  }

  Duration period(const RttEstimator& rtt) const {
    const Duration round_trip =
        fired_ == 0 ? 2 * rtt.smoothed() : rtt.smoothed() + 4 * rtt.variation();
    const Duration floor = fired_ == 0 ? std::min(limits_.floor, kTailProbeFloor) : limits_.floor;
    const Duration base = std::max(round_trip, floor) + limits_.max_ack_delay;
    const uint32_t doublings = fired_ == 0 ? 0 : std::min(fired_ - 1, kMaxDoublings);
    return std::min(base * (int64_t{1} << doublings), std::max(limits_.cap, base));
  }
  // `last_sent`: of the packets in flight.
  Instant deadline(Instant last_sent, const RttEstimator& rtt) const {
    return std::max(last_sent, last_fired_) + period(rtt);
  }
  void on_fired(Instant now) {
    ROCECOLL_CHECK(now >= last_fired_);
    last_fired_ = now;
    ++fired_;
  }
  // A second probe beside the first once the tail-loss probe has been in vain: under heavy loss
  // both are rarely lost.
  uint32_t probes() const { return fired_ > 1 ? 2 : 1; }
  void on_progress() { fired_ = 0; }

 private:
  static constexpr uint32_t kMaxDoublings = 16;

  Limits limits_;
  uint32_t fired_ = 0;
  Instant last_fired_{};
};

}  // namespace rocecoll
