// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/reliability/rtt_estimator.h"

namespace rocecoll {

// Window of bytes in flight on a path, steered by delay (Swift, SIGCOMM 2020, section 3.2) and
// sparingly by loss. The receiver's advertised window, which each connection keeps by itself, is
// the first control; this one is for queues in between.
//
// One signal alone, a delay that may be the peer's scheduler or a loss that may be a bad cable,
// never shrinks the window below kSingleSignalFloor; both together may, down to two packets.
class CongestionController {
 public:
  static constexpr uint64_t kInitialWindow = 512 * 1024;
  static constexpr uint64_t kSingleSignalFloor = 256 * 1024;
  // Queueing above the smallest round trip that is called a delay rise. A data centre's switches
  // queue tens of microseconds, a user-space receiver's scheduler about a millisecond.
  static constexpr Duration kTargetQueueing = std::chrono::microseconds(1000);
  static constexpr double kTolerableLoss = 0.02;  // as BBRv3
  static constexpr double kMaxCut = 0.5;          // per round trip
  static constexpr double kDelayGain = 0.8;       // Swift's beta
  static constexpr uint64_t kIncreasePerRtt = 16 * 1024;

  // Not `steered`: no network lies between, and the window is max_window_bytes for good. What looks
  // like queueing on one host is a process that waits for a core.
  explicit CongestionController(uint64_t max_window_bytes, bool steered = true);

  uint64_t window() const { return window_; }
  uint64_t bytes_in_flight() const { return in_flight_; }
  bool has_room(uint64_t bytes) const { return in_flight_ + bytes <= window_; }

  void on_sent(uint64_t bytes);
  // A packet of `bytes` sent at `sent_at` was acknowledged; `rtt` already has this round trip.
  void on_acked(Instant now, uint64_t bytes, Instant sent_at, const RttEstimator& rtt);
  void on_lost(Instant now, uint64_t bytes, Instant sent_at, const RttEstimator& rtt);
  // Neither acknowledged nor lost: its connection is gone.
  void on_discarded(uint64_t bytes);

 private:
  void leave_flight(uint64_t bytes);
  void cut(Instant now, double factor, uint64_t floor);
  double loss_share() const;
  bool delay_rose(const RttEstimator& rtt) const;

  uint64_t max_window_;
  bool steered_;
  uint64_t window_;
  uint64_t in_flight_ = 0;
  uint64_t largest_packet_ = 1;
  Instant last_cut_{};        // packets sent before it say nothing about the window after it
  Instant last_joint_cut_{};  // the last by delay and loss together
  uint64_t window_before_cut_ = 0;
  // Decaying byte counts behind loss_share().
  uint64_t recent_lost_ = 0;
  uint64_t recent_total_;
};

}  // namespace rocecoll
