// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.h"

namespace rocecoll {

// A round trip: from when its first packet was sent until all that was in flight then has been
// acknowledged or lost.
struct Round {
  Duration least_rtt = Duration::max();
  Duration most_rtt{};
  Instant began{};
  uint64_t acked = 0;  // bytes
  uint64_t lost = 0;   // bytes
  uint32_t losses = 0;
  bool limited = false;  // by the congestion control, not by what there is to send

  // The share of bytes that was lost; 0 if nothing was sent.
  double lost_share() const {
    const uint64_t total = acked + lost;
    return total == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(total);
  }
  // Zero if its beginning is not known.
  Duration time(Instant end) const { return began == Instant{} ? Duration{0} : end - began; }
  // Bytes per second that were delivered.
  double average(Instant end) const {
    const double seconds = Seconds(time(end));
    return seconds > 0 ? static_cast<double>(acked) / seconds : 0;
  }
};

// Counts rounds, by what had been delivered when a packet was sent.
class RoundMeter {
 public:
  void begin(Instant now) {
    round_ = {};
    round_.began = now;
    ends_at_ = delivered_;
  }
  void on_held_back(Instant now) { held_back_at_ = now; }
  void on_acked(uint64_t bytes, Instant sent_at, uint64_t delivered_before) {
    delivered_ += bytes;
    if (sent_at >= newest_at_) {
      newest_at_ = sent_at;
      newest_delivered_before_ = delivered_before;
    }
    round_.acked += bytes;
    oldest_at_ = std::min(oldest_at_, sent_at);
  }
  void on_lost(uint64_t bytes) {
    round_.lost += bytes;
    ++round_.losses;
  }
  void take_rtt(Duration network) {
    round_.least_rtt = std::min(round_.least_rtt, network);
    round_.most_rtt = std::max(round_.most_rtt, network);
  }
  // When the oldest packet of this acknowledgement was sent; kNever before the first. Once for each
  // acknowledgement.
  Instant take_oldest() { return std::exchange(oldest_at_, kNever); }
  // After the last packet of an acknowledgement: whether the newest of them was sent in this round.
  bool complete() {
    round_.limited = round_.limited || held_back_at_ >= newest_at_;
    return newest_delivered_before_ >= ends_at_;
  }

  const Round& round() const { return round_; }
  uint64_t delivered() const { return delivered_; }

 private:
  Round round_;
  uint64_t delivered_ = 0;
  uint64_t ends_at_ = 0;  // delivered
  Instant held_back_at_{};
  // Of the acknowledgement that is being read: when the oldest and newest of its packets were sent,
  // and what was delivered before the newest.
  Instant oldest_at_ = kNever;
  Instant newest_at_{};
  uint64_t newest_delivered_before_ = 0;
};

}  // namespace rocecoll
