// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace rocecoll {

// Tells a path that has become longer from a queue: its round trips stay the same to the
// hundredth, while a queue that others fill grows and shrinks, and one of ours is drained. A queue
// that is full stays the same, too, but loses packets, and one that many least windows make is
// short.
class LongerPath {
 public:
  // After each round that lost nothing: how long a queue it seemed to meet, and its least round
  // trip. True once the path must be longer.
  bool on_round(Instant now, Duration queue, Duration least_rtt) {
    const Duration shortest = std::min(shortest_, least_rtt);
    const Duration longest = std::max(longest_, least_rtt);
    if (queue < kLeast || longest - shortest > std::max(kJitter, least_rtt / kParts)) {
      begin(least_rtt);
      return false;
    }
    shortest_ = shortest;
    longest_ = longest;
    if (++rounds_ < kRounds || now < not_before_) return false;
    rounds_ = 0;
    not_before_ = now + kBetween;
    return true;
  }
  void on_loss() { begin(Duration::max()); }

 private:
  void begin(Duration least_rtt) {
    rounds_ = 0;
    shortest_ = longest_ = least_rtt;
  }

  static constexpr Duration kLeast = std::chrono::milliseconds(5);
  static constexpr uint32_t kRounds = 30;
  static constexpr Duration kJitter = std::chrono::microseconds(50);
  static constexpr int kParts = 128;
  // If it was wrong after all, it starts up into others' queue no more often.
  static constexpr Duration kBetween = std::chrono::seconds(5);

  uint32_t rounds_ = 0;
  Duration shortest_{};
  Duration longest_{};
  Instant not_before_{};
};

}  // namespace rocecoll
