// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/time.h"
#include "transport/datagram/congestion/congestion_controller.h"

namespace rocecoll {

// Estimates three things: the smoothed round-trip time (RFC 6298 section 2 with the acknowledgement
// delay of RFC 9002 section 5.3), for loss detection; how long answers take that are requested at
// once, for timers; and the network's part of the round trip, for judging queues: the latest, and
// the smallest of the last 5 to 10 seconds.
class RttEstimator {
 public:
  // Before the first sample: typical of a cluster's network, unlike the 333 ms of RFC 9002.
  static constexpr Duration kInitialRtt = std::chrono::milliseconds(1);
  static constexpr Duration kMinRttWindow = std::chrono::seconds(5);

  // `sample`: from sending until this host received the acknowledgement. `ack_delay`: the part of
  // it that passed on the peer's host, from the arrival of the packet to the acknowledgement.
  // `asked`: the packet asked for an immediate acknowledgement, so that this part is the time that
  // the peer's process waited for a core.
  void on_sample(Instant now, Duration sample, Duration ack_delay, bool asked) {
    ROCECOLL_CHECK(sample >= Duration{0});
    ROCECOLL_CHECK(ack_delay >= Duration{0});
    // The clocks' granularity may make it zero; a round trip of zero would make every timer zero.
    sample = std::max(sample, Duration{1000});
    if (ack_delay >= sample) ack_delay = Duration{0};  // impossible: not believed
    network_ = sample - ack_delay;
    update_min(now, network_);
    latest_ = sample - std::min(ack_delay, CongestionController::kMostIntended);
    smoothed_ = has_sample_ ? (smoothed_ * 7 + latest_) / 8 : latest_;
    has_sample_ = true;
    if (asked) update_answer(sample);
  }

  bool has_sample() const { return has_sample_; }
  Duration smoothed() const { return smoothed_; }
  Duration latest() const { return latest_; }
  Duration network() const { return network_; }
  Duration min_rtt() const { return std::min(min_previous_, min_current_); }
  // How long to wait until an immediate answer is overdue: twice its usual time (RFC 8985 section
  // 7.2), or more if that varies (RFC 6298).
  Duration answer_timeout() const { return answer_ + std::max(answer_, 4 * answer_variation_); }

 private:
  void update_answer(Duration sample) {
    if (!has_answer_) {
      has_answer_ = true;
      answer_ = sample;
      answer_variation_ = sample / 2;
      return;
    }
    const Duration error = answer_ > sample ? answer_ - sample : sample - answer_;
    answer_variation_ = (answer_variation_ * 3 + error) / 4;
    answer_ = (answer_ * 7 + sample) / 8;
  }
  // The minimum of the current window and of the previous one.
  void update_min(Instant now, Duration sample) {
    if (!has_sample_ || now - window_start_ >= kMinRttWindow) {
      min_previous_ = has_sample_ ? min_current_ : sample;
      min_current_ = sample;
      window_start_ = now;
    }
    min_current_ = std::min(min_current_, sample);
  }

  bool has_sample_ = false;
  bool has_answer_ = false;
  Duration smoothed_ = kInitialRtt;
  Duration answer_ = kInitialRtt;
  Duration answer_variation_ = kInitialRtt / 2;
  Duration latest_ = kInitialRtt;
  Duration network_ = kInitialRtt;
  Duration min_previous_ = kInitialRtt;
  Duration min_current_ = kInitialRtt;
  Instant window_start_{};
};

}  // namespace rocecoll
