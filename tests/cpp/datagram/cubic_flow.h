// SPDX-License-Identifier: Apache-2.0
// A TCP flow beside ours, as a bottleneck sees it: CUBIC (RFC 9438) with selective
// acknowledgements, three acknowledged later packets as the proof of a loss, and always something
// to send.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>

#include "base/random.h"
#include "transport/sim/event_queue.h"
#include "transport/sim/sim_bottleneck.h"

namespace rocecoll {

class CubicFlow {
 public:
  static constexpr size_t kPacketBytes = 1500;

  // Starts at once and stops with the queue. It must outlive the run of the queue. Others have the
  // cores of its hosts half of the time, for `slice` on average; if `slice` is 0, never.
  CubicFlow(EventQueue& queue, SimBottleneck& bottleneck, uint32_t flow, Duration round_trip,
            Duration slice = Duration{0})
      : queue_(queue),
        bottleneck_(bottleneck),
        flow_(flow),
        round_trip_(round_trip),
        slice_(slice) {
    pump();
    if (slice > Duration{0}) lose_core();
  }
  double window() const { return window_; }

 private:
  struct Sent {
    Instant at;
    bool acknowledged = false;
  };

  void pump() {
    while (in_flight_ + 1 <= static_cast<uint64_t>(std::max(window_, 1.0))) {
      const uint64_t number = first_ + sent_.size();
      const Instant now = queue_.now();
      sent_.push_back({now});
      ++in_flight_;
      if (const auto passage = bottleneck_.admit(flow_, now, kPacketBytes)) {
        queue_.schedule(passage->left_at + round_trip_,
                        [this, number, marked = passage->marked] { on_ack(number, marked); });
      }
    }
    arm_timeout();
  }

  // What arrives while others have the core is read when the core is back.
  void lose_core() {
    free_at_ = queue_.now() + some_time();
    queue_.schedule(free_at_ + some_time(), [this] { lose_core(); });
  }
  Duration some_time() {
    return Duration(static_cast<int64_t>(random_.below(2 * static_cast<uint64_t>(slice_.count()))));
  }

  void on_ack(uint64_t number, bool marked) {
    if (number < first_) return;  // already declared lost
    const Instant now = queue_.now();
    if (now < free_at_) {
      queue_.schedule(free_at_, [this, number, marked] { on_ack(number, marked); });
      return;
    }
    Sent& sent = sent_[number - first_];
    sent.acknowledged = true;
    --in_flight_;
    const double rtt = Seconds(now - sent.at);
    smoothed_rtt_ = smoothed_rtt_ == 0 ? rtt : smoothed_rtt_ * 7 / 8 + rtt / 8;
    if (marked) cut(now, sent.at);
    grow(now);
    progress_at_ = now;
    while (!sent_.empty() && (sent_.front().acknowledged || first_ + 3 <= number)) {
      if (!sent_.front().acknowledged) on_lost(now, sent_.front().at);
      sent_.pop_front();
      ++first_;
    }
    pump();
  }

  void on_lost(Instant now, Instant sent_at) {
    --in_flight_;
    cut(now, sent_at);
  }

  // Runs at most once each round trip.
  void cut(Instant now, Instant sent_at) {
    if (sent_at < last_cut_) return;
    last_cut_ = now;
    window_max_ = window_ < window_max_ ? window_ * (1 + kBeta) / 2 : window_;
    window_ = std::max(window_ * kBeta, 2.0);
    threshold_ = window_;
    reno_window_ = window_;
    epoch_ = now;
  }

  void grow(Instant now) {
    if (window_ < threshold_) {
      window_ += 1;
      return;
    }
    constexpr double kScale = 0.4;
    const double time = Seconds(now - epoch_) + smoothed_rtt_;
    const double offset = std::cbrt(window_max_ * (1 - kBeta) / kScale);
    const double target = kScale * std::pow(time - offset, 3) + window_max_;
    reno_window_ += 3 * (1 - kBeta) / (1 + kBeta) / window_;
    if (target > window_) window_ += std::min((target - window_) / window_, 0.5);
    window_ = std::max(window_, reno_window_);
  }

  // If everything in flight has been lost, nothing else would wake the flow.
  void arm_timeout() {
    if (timeout_armed_) return;
    timeout_armed_ = true;
    const Duration timeout = std::max<Duration>(2 * round_trip_, std::chrono::milliseconds(10));
    queue_.schedule(queue_.now() + timeout, [this, timeout] {
      timeout_armed_ = false;
      if (queue_.now() - progress_at_ >= timeout) {
        on_lost(queue_.now(), queue_.now());
        ++in_flight_;  // everything in flight is lost, not one packet
        first_ += sent_.size();
        sent_.clear();
        in_flight_ = 0;
        window_ = 2;
      }
      pump();
    });
  }

  static constexpr double kBeta = 0.7;
  EventQueue& queue_;
  SimBottleneck& bottleneck_;
  const uint32_t flow_;
  const Duration round_trip_;
  const Duration slice_;
  Random random_{7};
  Instant free_at_{};
  std::deque<Sent> sent_;
  uint64_t first_ = 0;  // number of sent_.front()
  uint64_t in_flight_ = 0;
  double window_ = 10;
  double threshold_ = 1e9;
  double window_max_ = 0;
  double reno_window_ = 0;
  double smoothed_rtt_ = 0;
  Instant epoch_{};
  Instant last_cut_{};
  Instant progress_at_{};
  bool timeout_armed_ = false;
};

}  // namespace rocecoll
