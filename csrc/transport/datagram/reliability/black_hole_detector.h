// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// Tells a path that swallows all packets above some size from one that loses packets (RFC 8899
// section 4.3): of several rounds of large packets none is acknowledged, while smaller ones sent
// meanwhile are. A full queue, a bad cable and a blackout let some large one through, or no small.
class BlackHoleDetector {
 public:
  // Of large packets, each sent a round trip after the one before or later. Being wrong costs a
  // round trip at the base size, so it need not be certain.
  static constexpr uint32_t kRounds = 3;
  // Where no packet of the size ever got through: the first flight and its probe.
  static constexpr uint32_t kUnprovenRounds = 2;
  // What is lost so long after has another cause, such as an outage.
  static constexpr Duration kForgottenAfter = std::chrono::seconds(2);

  // Packets up to `small_bytes` are never suspected.
  explicit BlackHoleDetector(size_t small_bytes) : small_bytes_(small_bytes) {}

  void on_acknowledged(size_t bytes, Instant sent_at) {
    if (bytes <= small_bytes_ || (rounds_ > 0 && bytes < least_lost_)) {
      small_passed_ = std::max(small_passed_, sent_at);
      if (rounds_ > 0 && sent_at > first_lost_) small_since_ = std::min(small_since_, sent_at);
      return;
    }
    if (bytes >= passed_bytes_) {
      passed_bytes_ = bytes;
      large_passed_ = std::max(large_passed_, sent_at);
    }
    if (rounds_ > 0 && sent_at >= first_lost_) rounds_ = 0;
  }

  void on_lost(size_t bytes, Instant sent_at, Duration round_trip) {
    if (bytes <= small_bytes_) return;
    if (bytes <= passed_bytes_ && sent_at <= large_passed_) return;
    // Whoever finds a path that takes no large packets tries again and again.
    if (rounds_ > 0 && sent_at > last_lost_ + kForgottenAfter + 8 * round_trip) rounds_ = 0;
    if (rounds_ == 0) {
      rounds_ = 1;
      least_lost_ = bytes;
      first_lost_ = last_round_ = last_lost_ = sent_at;
      small_since_ = kNever;
      return;
    }
    least_lost_ = std::min(least_lost_, bytes);
    last_lost_ = std::max(last_lost_, sent_at);
    if (sent_at < last_round_ + round_trip) return;
    ++rounds_;
    last_round_ = sent_at;
  }

  bool detected(uint32_t rounds = kRounds) const {
    return rounds_ >= rounds && small_passed_ > first_lost_;
  }
  // Detected, and large packets were sent in vain over this long, and lately, while small ones got
  // through: what is lost before the first of them may be lost in an outage.
  bool lasts(Instant now, Duration patience) const {
    return detected() && last_lost_ - small_since_ >= patience && now - last_lost_ < patience;
  }
  // When the last of those lost was sent. Valid while detected().
  Instant last_lost() const { return last_lost_; }
  void reset() {
    rounds_ = 0;
    passed_bytes_ = 0;
  }

 private:
  size_t small_bytes_;
  uint32_t rounds_ = 0;
  size_t least_lost_ = 0;
  Instant first_lost_{};
  Instant last_round_{};
  Instant last_lost_{};
  // The largest packet that got through, and when such a one was last sent.
  size_t passed_bytes_ = 0;
  Instant large_passed_{};
  Instant small_passed_{};
  Instant small_since_ = kNever;  // the first since first_lost_
};

}  // namespace rocecoll
