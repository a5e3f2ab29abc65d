// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// Tells a path that drops all packets above some size from one that loses packets (RFC 8899 section
// 4.3): no packet of several rounds of large ones is acknowledged, while smaller ones sent
// meanwhile are. With a full queue or a bad cable some large packet gets through; in a blackout no
// small one does.
class BlackHoleDetector {
 public:
  // Rounds of large packets, each sent at least a round trip after the previous one. A wrong
  // verdict costs a round trip at the base size, so it need not be certain.
  static constexpr uint32_t kRounds = 3;
  // If no packet of the size ever got through: the first flight and its probe.
  static constexpr uint32_t kUnprovenRounds = 2;
  // A loss that comes this much later has another cause, such as an outage.
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
    // A sender on a path that takes no large packets tries again and again.
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
  // Detected, and for `patience`, until lately, large packets were lost while small ones got
  // through. Losses before the first small one do not count: they may be those of an outage.
  bool lasts(Instant now, Duration patience) const {
    return detected() && last_lost_ - small_since_ >= patience && now - last_lost_ < patience;
  }
  // When the last of the lost packets was sent. Valid while detected().
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
  // The size of the largest packet that got through, and when one of that size was last sent.
  size_t passed_bytes_ = 0;
  Instant large_passed_{};
  Instant small_passed_{};
  Instant small_since_ = kNever;  // the first small packet after first_lost_
};

}  // namespace rocecoll
