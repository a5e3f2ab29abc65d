// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "transport/datagram/congestion/pacer.h"
#include "transport/datagram/congestion/round_meter.h"

namespace rocecoll {

// How this host sends, as far as it shows in what is measured: what held packets back, how late the
// timers are, how long a burst takes, and whether the path has rested.
class OwnSending {
 public:
  // What the time before a packet says.
  struct Gap {
    bool waited = false;   // the packet waited for the pacer
    bool goes_on = false;  // with a flight that the window, or a late timer, has kept waiting
    bool idle = false;     // there was nothing to send for a while
  };

  void on_held_back(bool by_window) {
    held_back_ = by_window ? HeldBack::kByWindow : HeldBack::kByPacer;
  }
  // `release_at`: when the pacer let the packet go. `network`: a usual round trip.
  Gap on_sent(Instant now, Instant release_at, Duration network) {
    const bool waited = held_back_ == HeldBack::kByPacer;
    const Duration late = waited ? now - release_at : Duration{0};
    // Since it could have sent.
    const Duration rest = now - std::max(last_sent_at_, release_at);
    if (last_sent_at_ != Instant{} && rest > RoundMeter::kLeastRound + network) rested_ = true;
    const Gap gap{.waited = waited,
                  .goes_on = held_back_ == HeldBack::kByWindow || late > RoundMeter::kLeastRound,
                  .idle = held_back_ == HeldBack::kNot && rest > RoundMeter::kLeastRound};
    held_back_ = HeldBack::kNot;
    last_sent_at_ = now;
    if (waited) {
      lateness_ += (std::clamp(late, Duration{0}, Pacer::kMostLate) - lateness_) / 8;
    }
    return gap;
  }
  void on_queue() { rested_ = false; }
  void set_burst_time(Duration time) { burst_time_ = time; }

  // A token bucket may have filled, and no queue has shown it empty since.
  bool rested() const { return rested_; }
  // That a burst takes at the bottleneck.
  Duration burst_time() const { return burst_time_; }
  // That bursts and late timers add to a round trip.
  Duration jitter() const { return burst_time_ + lateness_; }

 private:
  enum class HeldBack : uint8_t { kNot, kByWindow, kByPacer };

  HeldBack held_back_ = HeldBack::kNot;  // since the last packet
  Instant last_sent_at_{};
  bool rested_ = false;
  Duration burst_time_{};
  Duration lateness_{};  // of timers, smoothed
};

}  // namespace rocecoll
